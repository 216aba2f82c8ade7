---- MODULE Swim ----
EXTENDS Integers
CONSTANTS N, MaxCrashes, MaxPings
VARIABLES view, up, incarnation, waits, msgs, crashes, pings
vars == <<view, up, incarnation, waits, msgs, crashes, pings>>
M == 1..N
Init ==
  /\ view = [i \in M |-> [j \in M \ {i} |-> <<"alive", 0>>]] /\ up = [i \in M |-> TRUE]
  /\ incarnation = [i \in M |-> 0] /\ waits = [i \in M |-> 0] /\ msgs = {} /\ crashes = 0 /\ pings = 0
Newer(new, old) ==
  IF old[1] = "faulty" \/ new[1] = "faulty" THEN new[1] = "faulty" /\ old[1] # "faulty"
  ELSE IF new[2] # old[2] THEN new[2] > old[2] ELSE new[1] = "suspect" /\ old[1] = "alive"
Ping(i) ==
  /\ up[i] /\ waits[i] = 0 /\ pings < MaxPings /\ pings' = pings + 1
  /\ \E d, about \in M \ {i} :
       /\ view[i][d][1] # "faulty"
       /\ waits' = [waits EXCEPT ![i] = d]
       /\ msgs' = msgs \union {[type |-> "ping", about |-> about, opinion |-> view[i][about], source |-> i, dest |-> d]}
  /\ UNCHANGED <<view, up, incarnation, crashes>>
Answer(m) == LET i == m.dest
                 refutes == m.about = i /\ m.opinion[1] = "suspect" /\ m.opinion[2] = incarnation[i]
                 mine == IF refutes THEN incarnation[i] + 1 ELSE incarnation[i] IN
  /\ m.type = "ping" /\ up[i]
  /\ incarnation' = [incarnation EXCEPT ![i] = mine]
  /\ view' = IF m.about # i /\ Newer(m.opinion, view[i][m.about]) THEN [view EXCEPT ![i][m.about] = m.opinion] ELSE view
  /\ msgs' = (msgs \ {m}) \union {[type |-> "ack", incarnation |-> mine, source |-> i, dest |-> m.source]}
  /\ UNCHANGED <<up, waits, crashes, pings>>
Hear(m) == LET i == m.dest IN
  /\ m.type = "ack" /\ up[i] /\ msgs' = msgs \ {m}
  /\ waits' = [waits EXCEPT ![i] = IF @ = m.source THEN 0 ELSE @]
  /\ view' = IF Newer(<<"alive", m.incarnation>>, view[i][m.source])
             THEN [view EXCEPT ![i][m.source] = <<"alive", m.incarnation>>] ELSE view
  /\ UNCHANGED <<up, incarnation, crashes, pings>>
Suspect(i) ==
  /\ up[i] /\ waits[i] # 0 /\ waits' = [waits EXCEPT ![i] = 0]
  /\ view' = IF view[i][waits[i]][1] = "alive" THEN [view EXCEPT ![i][waits[i]][1] = "suspect"] ELSE view
  /\ UNCHANGED <<up, incarnation, msgs, crashes, pings>>
Confirm(i) ==
  /\ up[i]
  /\ \E j \in M \ {i} : view[i][j][1] = "suspect" /\ view' = [view EXCEPT ![i][j][1] = "faulty"]
  /\ UNCHANGED <<up, incarnation, waits, msgs, crashes, pings>>
Crash(i) ==
  /\ up[i] /\ crashes < MaxCrashes /\ crashes' = crashes + 1
  /\ up' = [up EXCEPT ![i] = FALSE] /\ waits' = [waits EXCEPT ![i] = 0]
  /\ UNCHANGED <<view, incarnation, msgs, pings>>
Next == \/ \E i \in M : Ping(i) \/ Suspect(i) \/ Confirm(i) \/ Crash(i)
        \/ \E m \in msgs : Answer(m) \/ Hear(m)
Spec == Init /\ [][Next]_vars
NoFuture == \A i, j \in M : i # j => view[i][j][2] <= incarnation[j]
====
