---- MODULE ConsumerGroup ----
\* A consumer group assigns partitions to its members, which commit the offsets that they have processed.
EXTENDS Integers, FiniteSets
CONSTANTS Members, Partitions, Length, MaxRebalances
VARIABLES members, joined, generation, owner, committed, processed, _rebalances

Nul == [x \in {} |-> 0]
M(g, p) == [generation |-> g, positions |-> p]
\* strings are not ordered in TLA+: their places are written out
Place(s) == CASE s \in {"a", "p1"} -> 0 [] s \in {"b", "p2"} -> 1 [] s \in {"c", "p3"} -> 2
Rank(s, S) == Cardinality({t \in S : Place(t) < Place(s)})
Assign(J) == IF J = {} THEN Nul
  ELSE [p \in Partitions |-> CHOOSE m \in J : Rank(m, J) = Rank(p, Partitions) % Cardinality(J)]

Init ==
  /\ members = [m \in Members |-> M(-1, Nul)]
  /\ joined = {} /\ generation = 0 /\ owner = Nul
  /\ committed = [p \in Partitions |-> 0]
  /\ processed = {} /\ _rebalances = 0

Rebalanced(J) ==
  /\ _rebalances < MaxRebalances /\ _rebalances' = _rebalances + 1
  /\ joined' = J /\ generation' = generation + 1 /\ owner' = Assign(J)
  /\ UNCHANGED <<members, committed, processed>>

Join == \E m \in Members \ joined : Rebalanced(joined \cup {m})
Leave == \E m \in joined : Rebalanced(joined \ {m})

Sync == \E m \in joined :
  /\ members[m].generation < generation
  /\ members' = [members EXCEPT ![m] = M(generation, [p \in {q \in DOMAIN owner : owner[q] = m} |-> committed[p]])]
  /\ UNCHANGED <<joined, generation, owner, committed, processed, _rebalances>>

Poll == \E m \in Members : \E p \in DOMAIN members[m].positions :
  LET o == members[m].positions[p] IN
  /\ o < Length
  /\ members' = [members EXCEPT ![m].positions[p] = o + 1]
  /\ processed' = processed \cup {<<p, o, m>>}
  /\ UNCHANGED <<joined, generation, owner, committed, _rebalances>>

Commit == \E m \in joined : \E p \in DOMAIN members[m].positions :
  /\ members[m].generation = generation
  /\ members[m].positions[p] > committed[p]
  /\ committed' = [committed EXCEPT ![p] = members[m].positions[p]]
  /\ UNCHANGED <<members, joined, generation, owner, processed, _rebalances>>

Forget == \E m \in Members \ joined :
  /\ DOMAIN members[m].positions # {}
  /\ members' = [members EXCEPT ![m] = M(-1, Nul)]
  /\ UNCHANGED <<joined, generation, owner, committed, processed, _rebalances>>

Next == Join \/ Leave \/ Sync \/ Poll \/ Commit \/ Forget

CommittedIsProcessed == \A p \in Partitions : \A o \in 0..(committed[p] - 1) : \E m \in Members : <<p, o, m>> \in processed
RECURSIVE Sum(_)
Sum(S) == IF S = {} THEN 0 ELSE LET m == CHOOSE x \in S : TRUE IN Cardinality(DOMAIN members[m].positions) + Sum(S \ {m})
OneOwnerPerGeneration == Sum({m \in Members : members[m].generation = generation}) <= Cardinality(Partitions)

Spec == Init /\ [][Next]_<<members, joined, generation, owner, committed, processed, _rebalances>>
====
