---- MODULE VR ----
EXTENDS Integers, Sequences, FiniteSets
CONSTANTS N, Values, MaxView
VARIABLES status, view, normal, log, commit, acked, changes, logs, msgs
vars == <<status, view, normal, log, commit, acked, changes, logs, msgs>>
R == 0..N-1
Most == N \div 2
Primary(v) == v % N
Others(r) == R \ {r}
Max(a, b) == IF a > b THEN a ELSE b
Init ==
  /\ status = [r \in R |-> "normal"] /\ view = [r \in R |-> 0] /\ normal = [r \in R |-> 0]
  /\ log = [r \in R |-> << >>] /\ commit = [r \in R |-> 0] /\ acked = [r \in R |-> [s \in R |-> 0]]
  /\ changes = [r \in R |-> {}] /\ logs = [r \in R |-> {}] /\ msgs = {}
Request(r) ==
  /\ status[r] = "normal" /\ Primary(view[r]) = r
  /\ \E v \in Values \ {log[r][i] : i \in DOMAIN log[r]} :
       /\ log' = [log EXCEPT ![r] = Append(@, v)]
       /\ msgs' = msgs \union {[type |-> "prepare", view |-> view[r], number |-> Len(log[r]) + 1, value |-> v, commit |-> commit[r], dest |-> d] : d \in Others(r)}
  /\ UNCHANGED <<status, view, normal, commit, acked, changes, logs>>
DoPrepare(m) == LET r == m.dest IN
  /\ m.type = "prepare" /\ status[r] = "normal" /\ m.view = view[r] /\ m.number = Len(log[r]) + 1
  /\ log' = [log EXCEPT ![r] = Append(@, m.value)]
  /\ commit' = [commit EXCEPT ![r] = Max(@, m.commit)]
  /\ msgs' = (msgs \ {m}) \union {[type |-> "ok", view |-> m.view, number |-> m.number, source |-> r, dest |-> Primary(m.view)]}
  /\ UNCHANGED <<status, view, normal, acked, changes, logs>>
DoOk(m) == LET r == m.dest
               new == [acked[r] EXCEPT ![m.source] = Max(@, m.number)]
               done == {k \in commit[r]+1..Len(log[r]) : Cardinality({s \in R : new[s] >= k}) >= Most} IN
  /\ m.type = "ok" /\ status[r] = "normal" /\ m.view = view[r]
  /\ acked' = [acked EXCEPT ![r] = new]
  /\ commit' = [commit EXCEPT ![r] = IF done = {} THEN @ ELSE CHOOSE k \in done : \A j \in done : j <= k]
  /\ msgs' = msgs \ {m}
  /\ UNCHANGED <<status, view, normal, log, changes, logs>>
Announce(r, v) == {[type |-> "change", view |-> v, source |-> r, dest |-> d] : d \in Others(r)}
Timeout(r) ==
  /\ view[r] < MaxView /\ ~(status[r] = "normal" /\ Primary(view[r]) = r)
  /\ status' = [status EXCEPT ![r] = "view-change"] /\ view' = [view EXCEPT ![r] = @ + 1]
  /\ acked' = [acked EXCEPT ![r] = [s \in R |-> 0]] /\ changes' = [changes EXCEPT ![r] = {}] /\ logs' = [logs EXCEPT ![r] = {}]
  /\ msgs' = msgs \union Announce(r, view[r] + 1)
  /\ UNCHANGED <<normal, log, commit>>
DoChange(m) == LET r == m.dest
                   newer == m.view > view[r]
                   old == IF newer THEN {} ELSE changes[r]
                   new == old \union {m.source} IN
  /\ m.type = "change" /\ (newer \/ (m.view = view[r] /\ status[r] # "normal"))
  /\ status' = [status EXCEPT ![r] = "view-change"] /\ view' = [view EXCEPT ![r] = m.view]
  /\ acked' = [acked EXCEPT ![r] = [s \in R |-> 0]] /\ changes' = [changes EXCEPT ![r] = new]
  /\ logs' = IF newer THEN [logs EXCEPT ![r] = {}] ELSE logs
  /\ msgs' = (msgs \ {m}) \union (IF newer THEN Announce(r, m.view) ELSE {})
       \union (IF Cardinality(old) < Most /\ Cardinality(new) >= Most
               THEN {[type |-> "do", view |-> m.view, log |-> log[r], normal |-> normal[r], commit |-> commit[r], source |-> r, dest |-> Primary(m.view)]} ELSE {})
  /\ UNCHANGED <<normal, log, commit>>
Before(a, b) == a.normal < b.normal \/ (a.normal = b.normal /\ Len(a.log) <= Len(b.log))
DoLogs(m) == LET r == m.dest
                 new == logs[r] \union {m}
                 best == CHOOSE b \in new : \A a \in new : Before(a, b)
                 high == CHOOSE k \in {a.commit : a \in new} : \A a \in new : a.commit <= k IN
  /\ m.type = "do" /\ m.view = view[r] /\ status[r] # "normal"
  /\ IF Cardinality(new) <= Most
     THEN /\ logs' = [logs EXCEPT ![r] = new] /\ msgs' = msgs \ {m}
          /\ UNCHANGED <<status, normal, log, commit, changes>>
     ELSE /\ status' = [status EXCEPT ![r] = "normal"] /\ normal' = [normal EXCEPT ![r] = view[r]]
          /\ log' = [log EXCEPT ![r] = best.log] /\ commit' = [commit EXCEPT ![r] = high]
          /\ changes' = [changes EXCEPT ![r] = {}] /\ logs' = [logs EXCEPT ![r] = {}]
          /\ msgs' = (msgs \ {m}) \union {[type |-> "start", view |-> view[r], log |-> best.log, commit |-> high, dest |-> d] : d \in Others(r)}
  /\ UNCHANGED <<view, acked>>
DoStart(m) == LET r == m.dest IN
  /\ m.type = "start" /\ (m.view > view[r] \/ (m.view = view[r] /\ status[r] # "normal"))
  /\ status' = [status EXCEPT ![r] = "normal"] /\ view' = [view EXCEPT ![r] = m.view] /\ normal' = [normal EXCEPT ![r] = m.view]
  /\ log' = [log EXCEPT ![r] = m.log] /\ commit' = [commit EXCEPT ![r] = m.commit]
  /\ acked' = [acked EXCEPT ![r] = [s \in R |-> 0]] /\ changes' = [changes EXCEPT ![r] = {}] /\ logs' = [logs EXCEPT ![r] = {}]
  /\ msgs' = (msgs \ {m}) \union (IF m.log = << >> THEN {} ELSE {[type |-> "ok", view |-> m.view, number |-> Len(m.log), source |-> r, dest |-> Primary(m.view)]})
Next ==
  \/ \E r \in R : Request(r) \/ Timeout(r)
  \/ \E m \in msgs : DoPrepare(m) \/ DoOk(m) \/ DoChange(m) \/ DoLogs(m) \/ DoStart(m)
Spec == Init /\ [][Next]_vars
CommittedAgree == \A a, b \in R : \A k \in 1..commit[a] : k <= commit[b] => log[a][k] = log[b][k]
====
