---- MODULE Peterson ----
EXTENDS Integers
CONSTANT N
VARIABLES at, level, last
vars == <<at, level, last>>
P == 1..N
Init == at = [p \in P |-> "idle"] /\ level = [p \in P |-> 0] /\ last = [l \in 1..N-1 |-> 1]
Climb(p) == at[p] = "idle" /\ at' = [at EXCEPT ![p] = "says"] /\ level' = [level EXCEPT ![p] = 1] /\ UNCHANGED last
Say(p) == at[p] = "says" /\ at' = [at EXCEPT ![p] = "waits"] /\ last' = [last EXCEPT ![level[p]] = p] /\ UNCHANGED level
GoOn(p) ==
  /\ at[p] = "waits"
  /\ last[level[p]] # p \/ \A q \in P \ {p} : level[q] < level[p]
  /\ IF level[p] = N - 1 THEN at' = [at EXCEPT ![p] = "critical"] /\ UNCHANGED level
     ELSE at' = [at EXCEPT ![p] = "says"] /\ level' = [level EXCEPT ![p] = @ + 1]
  /\ UNCHANGED last
Leave(p) == at[p] = "critical" /\ at' = [at EXCEPT ![p] = "idle"] /\ level' = [level EXCEPT ![p] = 0] /\ UNCHANGED last
Next == \E p \in P : Climb(p) \/ Say(p) \/ GoOn(p) \/ Leave(p)
Spec == Init /\ [][Next]_vars
MutualExclusion == \A p, q \in P : p # q => ~(at[p] = "critical" /\ at[q] = "critical")
====
