---- MODULE ORSet ----
\* The observed-remove set of Shapiro et al.: replicas broadcast additions and removals over FIFO channels.
EXTENDS Naturals, Sequences, FiniteSets
CONSTANTS N, MaxAdds, MaxRemoves
VARIABLES present, gone, clock, channel, adds, removes
vars == <<present, gone, clock, channel, adds, removes>>
Ids == 0..(N - 1)
Elements == {"a", "b"}

Init == /\ present = [i \in Ids |-> {}]
        /\ gone = [i \in Ids |-> {}]
        /\ clock = [i \in Ids |-> 0]
        /\ channel = [s \in Ids |-> [d \in Ids |-> <<>>]]
        /\ adds = 0
        /\ removes = 0

Broadcast(s, m) ==
    channel' = [channel EXCEPT ![s] = [d \in Ids |-> IF d = s THEN <<>> ELSE Append(channel[s][d], m)]]

Add(i, e) ==
    LET tag == clock[i] * N + i IN
    /\ adds < MaxAdds
    /\ present' = [present EXCEPT ![i] = @ \cup {<<e, tag>>}]
    /\ clock' = [clock EXCEPT ![i] = @ + 1]
    /\ adds' = adds + 1
    /\ Broadcast(i, [kind |-> "add", pairs |-> {<<e, tag>>}])
    /\ UNCHANGED <<gone, removes>>

Remove(i, e) ==
    LET pairs == {p \in present[i] : p[1] = e} IN
    /\ pairs # {}
    /\ removes < MaxRemoves
    /\ present' = [present EXCEPT ![i] = @ \ pairs]
    /\ gone' = [gone EXCEPT ![i] = @ \cup pairs]
    /\ removes' = removes + 1
    /\ Broadcast(i, [kind |-> "remove", pairs |-> pairs])
    /\ UNCHANGED <<clock, adds>>

Receive(s, d) ==
    /\ channel[s][d] # <<>>
    /\ LET m == Head(channel[s][d]) IN
        IF m.kind = "add"
        THEN /\ present' = [present EXCEPT ![d] = @ \cup (m.pairs \ gone[d])]
             /\ UNCHANGED gone
        ELSE /\ present' = [present EXCEPT ![d] = @ \ m.pairs]
             /\ gone' = [gone EXCEPT ![d] = @ \cup m.pairs]
    /\ channel' = [channel EXCEPT ![s][d] = Tail(@)]
    /\ UNCHANGED <<clock, adds, removes>>

Next == \/ \E i \in Ids, e \in Elements : Add(i, e) \/ Remove(i, e)
        \/ \E s, d \in Ids : Receive(s, d)
Spec == Init /\ [][Next]_vars

Converged == (\A s, d \in Ids : channel[s][d] = <<>>) => Cardinality({present[i] : i \in Ids}) = 1
====
