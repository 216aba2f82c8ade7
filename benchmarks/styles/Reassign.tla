---- MODULE Reassign ----
\* A controller moves the replicas of partitions between brokers while brokers fail and return.
EXTENDS Naturals, FiniteSets
CONSTANTS Brokers, Partitions, Factor, MaxReassignments, MaxFailures, None
VARIABLES live, parts, _reassignments, _failures

B == 1..Brokers
Name(i) == IF i = 1 THEN "t1" ELSE IF i = 2 THEN "t2" ELSE "t3"
Names == {Name(i) : i \in 1..Partitions}
Smallest(S) == CHOOSE x \in S : \A y \in S : x <= y

Elect(p, up) ==
  IF p.leader # None /\ p.leader \in p.isr /\ p.leader \in up THEN p
  ELSE LET c == p.isr \cap up
           l == IF c = {} THEN None ELSE Smallest(c) IN
       IF l = p.leader THEN p ELSE [p EXCEPT !.leader = l, !.epoch = @ + 1]

Init ==
  /\ live = B
  /\ parts = [n \in Names |-> [replicas |-> 1..Factor, isr |-> 1..Factor, adding |-> {}, removing |-> {}, leader |-> 1, epoch |-> 0]]
  /\ _reassignments = 0
  /\ _failures = 0

Same == UNCHANGED <<live, _failures, _reassignments>>

StartReassignment == \E n \in Names : \E goal \in SUBSET live :
  LET p == parts[n] IN
  /\ p.adding = {} /\ p.removing = {}
  /\ Cardinality(goal) = Factor
  /\ goal # p.replicas
  /\ _reassignments < MaxReassignments
  /\ _reassignments' = _reassignments + 1
  /\ parts' = [parts EXCEPT ![n] = [p EXCEPT !.replicas = @ \cup goal, !.adding = goal \ p.replicas, !.removing = p.replicas \ goal]]
  /\ UNCHANGED <<live, _failures>>

ExpandIsr == \E n \in Names : \E b \in parts[n].replicas \ parts[n].isr :
  /\ parts[n].leader # None
  /\ b \in live
  /\ parts' = [parts EXCEPT ![n].isr = @ \cup {b}]
  /\ Same

ShrinkIsr == \E n \in Names : \E b \in parts[n].isr \ {parts[n].leader} :
  /\ parts[n].leader # None
  /\ b \notin live
  /\ parts' = [parts EXCEPT ![n].isr = @ \ {b}]
  /\ Same

Settle(p, kept) == Elect([p EXCEPT !.replicas = kept, !.isr = @ \cap kept, !.adding = {}, !.removing = {}], live)

Finish == \E n \in Names : LET p == parts[n] IN
  /\ p.adding # {}
  /\ p.adding \subseteq p.isr
  /\ parts' = [parts EXCEPT ![n] = Settle(p, p.replicas \ p.removing)]
  /\ Same

Cancel == \E n \in Names : LET p == parts[n] IN
  /\ p.adding # {}
  /\ p.isr \ p.adding # {}
  /\ parts' = [parts EXCEPT ![n] = Settle(p, p.replicas \ p.adding)]
  /\ Same

Fail == \E b \in live :
  /\ _failures < MaxFailures
  /\ _failures' = _failures + 1
  /\ live' = live \ {b}
  /\ parts' = [n \in Names |-> Elect(parts[n], live \ {b})]
  /\ UNCHANGED _reassignments

Return == \E b \in B \ live :
  /\ live' = live \cup {b}
  /\ parts' = [n \in Names |-> Elect(parts[n], live \cup {b})]
  /\ UNCHANGED <<_reassignments, _failures>>

Next == StartReassignment \/ ExpandIsr \/ ShrinkIsr \/ Finish \/ Cancel \/ Fail \/ Return

LeaderInIsr == \A n \in Names : parts[n].leader # None => parts[n].leader \in parts[n].isr
IsrInReplicas == \A n \in Names : parts[n].isr # {} /\ parts[n].isr \subseteq parts[n].replicas
EnoughReplicas == \A n \in Names : Cardinality(parts[n].replicas \ parts[n].adding) = Factor

Spec == Init /\ [][Next]_<<live, parts, _reassignments, _failures>>
====
