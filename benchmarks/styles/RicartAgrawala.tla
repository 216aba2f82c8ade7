---- MODULE RicartAgrawala ----
EXTENDS Naturals, Sequences, FiniteSets
CONSTANTS N, Rounds
VARIABLES clock, mode, stamp, replies, deferred, entries, entered, msgs
vars == <<clock, mode, stamp, replies, deferred, entries, entered, msgs>>
Node == 1..N
Add(B, S) == [m \in DOMAIN B \cup S |-> (IF m \in DOMAIN B THEN B[m] ELSE 0) + (IF m \in S THEN 1 ELSE 0)]
Del(B, x) == [m \in (IF B[x] = 1 THEN DOMAIN B \ {x} ELSE DOMAIN B) |-> IF m = x THEN B[m] - 1 ELSE B[m]]
Req(s, i, d) == [type |-> "Request", stamp |-> s, source |-> i, dest |-> d]
Rep(i, d) == [type |-> "Reply", source |-> i, dest |-> d]
Max(a, b) == IF a > b THEN a ELSE b
Init ==
  /\ clock = [i \in Node |-> 0] /\ mode = [i \in Node |-> "idle"] /\ stamp = [i \in Node |-> 0]
  /\ replies = [i \in Node |-> {}] /\ deferred = [i \in Node |-> {}] /\ entries = [i \in Node |-> 0]
  /\ entered = <<>> /\ msgs = [m \in {} |-> 0]
Request(i) ==
  /\ mode[i] = "idle" /\ entries[i] < Rounds
  /\ LET s == clock[i] + 1 IN
     /\ clock' = [clock EXCEPT ![i] = s] /\ mode' = [mode EXCEPT ![i] = "waiting"]
     /\ stamp' = [stamp EXCEPT ![i] = s] /\ replies' = [replies EXCEPT ![i] = {}]
     /\ msgs' = Add(msgs, {Req(s, i, d) : d \in Node \ {i}})
  /\ UNCHANGED <<deferred, entries, entered>>
OnRequest(m) ==
  LET i == m.dest
      mine == stamp[i] < m.stamp \/ (stamp[i] = m.stamp /\ i < m.source)
      defer == mode[i] = "holding" \/ (mode[i] = "waiting" /\ mine) IN
  /\ m.type = "Request"
  /\ clock' = [clock EXCEPT ![i] = Max(clock[i], m.stamp)]
  /\ IF defer THEN /\ deferred' = [deferred EXCEPT ![i] = @ \cup {m.source}] /\ msgs' = Del(msgs, m)
     ELSE /\ msgs' = Add(Del(msgs, m), {Rep(i, m.source)}) /\ UNCHANGED deferred
  /\ UNCHANGED <<mode, stamp, replies, entries, entered>>
OnReply(m) ==
  /\ m.type = "Reply"
  /\ replies' = [replies EXCEPT ![m.dest] = @ \cup {m.source}]
  /\ msgs' = Del(msgs, m)
  /\ UNCHANGED <<clock, mode, stamp, deferred, entries, entered>>
Enter(i) ==
  /\ mode[i] = "waiting" /\ Cardinality(replies[i]) = N - 1
  /\ mode' = [mode EXCEPT ![i] = "holding"] /\ entries' = [entries EXCEPT ![i] = @ + 1]
  /\ entered' = Append(entered, <<stamp[i], i>>)
  /\ UNCHANGED <<clock, stamp, replies, deferred, msgs>>
Leave(i) ==
  /\ mode[i] = "holding"
  /\ mode' = [mode EXCEPT ![i] = "idle"] /\ stamp' = [stamp EXCEPT ![i] = 0]
  /\ replies' = [replies EXCEPT ![i] = {}] /\ deferred' = [deferred EXCEPT ![i] = {}]
  /\ msgs' = Add(msgs, {Rep(i, d) : d \in deferred[i]})
  /\ UNCHANGED <<clock, entries, entered>>
Next == \/ \E i \in Node : Request(i) \/ Enter(i) \/ Leave(i)
        \/ \E m \in DOMAIN msgs : OnRequest(m) \/ OnReply(m)
Spec == Init /\ [][Next]_vars
MutualExclusion == \A i, j \in Node : mode[i] = "holding" /\ mode[j] = "holding" => i = j
Less(a, b) == a[1] < b[1] \/ (a[1] = b[1] /\ a[2] < b[2])
InStampOrder == \A k \in 1..(Len(entered) - 1) : Less(entered[k], entered[k+1])
====
