---- MODULE MCDining ----
\* Dining philosophers who hand each other clean forks: spec/examples/dining_philosophers in TLA+.
EXTENDS Naturals, Sequences, TLC

CONSTANTS NP, atLoop, atEat, atThink
VARIABLES at, hungry, messages, forks
vars == <<at, hungry, messages, forks>>
Ids == 1..NP
Right(i) == (i % NP) + 1
Left(i) == ((i + NP - 2) % NP) + 1
Fork(i, clean) == [holder |-> i, clean |-> clean]

Init ==
    /\ at = [i \in Ids |-> atLoop]
    /\ hungry = [i \in Ids |-> TRUE]
    /\ messages = [m \in {} |-> 0]
    /\ forks = [i \in Ids |-> Fork(IF i = 2 THEN 1 ELSE i, FALSE)]

Loop(i) ==
    LET l == i
        r == Right(i)
        ready == forks[l] = Fork(i, TRUE) /\ forks[r] = Fork(i, TRUE)
    IN
    /\ at[i] = atLoop
    /\ at' = [at EXCEPT ![i] = IF ~hungry[i] THEN atThink ELSE IF ready THEN atEat ELSE atLoop]
    /\ forks' = IF forks[l] = Fork(i, FALSE) THEN [forks EXCEPT ![l] = Fork(Left(i), TRUE)]
                ELSE IF forks[r] = Fork(i, FALSE) THEN [forks EXCEPT ![r] = Fork(r, TRUE)] ELSE forks
    /\ UNCHANGED <<hungry, messages>>

Think(i) ==
    /\ at[i] = atThink
    /\ at' = [at EXCEPT ![i] = atLoop]
    /\ hungry' = [hungry EXCEPT ![i] = TRUE]
    /\ UNCHANGED <<forks, messages>>

Eat(i) ==
    /\ at[i] = atEat
    /\ at' = [at EXCEPT ![i] = atLoop]
    /\ hungry' = [hungry EXCEPT ![i] = FALSE]
    /\ forks' = [n \in Ids |-> IF n \in {i, Right(i)} THEN Fork(forks[n].holder, FALSE) ELSE forks[n]]
    /\ UNCHANGED messages

Next == \E i \in Ids : Loop(i) \/ Think(i) \/ Eat(i)
Plain == Init /\ [][Next]_vars
Spec == Plain /\ \A i \in Ids : WF_vars(Loop(i) \/ Think(i) \/ Eat(i))
Busy == Plain /\ WF_vars(Next)
Apart == Plain /\ SF_vars(\E i \in Ids : Loop(i)) /\ SF_vars(\E i \in Ids : Think(i)) /\ SF_vars(\E i \in Ids : Eat(i))
Lazy == Plain /\ \A i \in Ids : WF_vars(Loop(i)) /\ SF_vars(Eat(i))

NobodyStarves == \A i \in Ids : []<>(~hungry[i])
SomebodyEats == []<>(\E i \in Ids : at[i] = atEat)
ThinkersReturn == \A i \in Ids : at[i] = atThink ~> at[i] = atLoop
FirstSettles == <>[](at[1] # atEat) \/ []<>(at[2] = atEat)
====
