---- MODULE MCLock ----
\* The lock service (tests/data/toy) under fairness. Nobody claims that its properties hold.
EXTENDS LockService

Weak == WF_vars(Ask) /\ WF_vars(Grant) /\ WF_vars(Enter) /\ WF_vars(Leave) /\ WF_vars(Free)
Strong == SF_vars(Ask) /\ SF_vars(Grant) /\ SF_vars(Enter) /\ SF_vars(Leave) /\ SF_vars(Free)

Busy == Spec /\ WF_vars(Next)
WeakSpec == Spec /\ Weak
StrongSpec == Spec /\ Strong
Handling == Spec /\ WF_vars(Grant \/ Enter \/ Free)

Holds(c) == phase[c] = holding
SomebodyHolds == []<>(\E c \in Clients : Holds(c))
WhoeverWaitsHolds == \A c \in Clients : phase[c] = waiting ~> Holds(c)
LockedAtLast == <>[](holder[server] # nobody)
LeftIsFree == []<><<Leave>>_vars => []<>(ENABLED <<Ask>>_vars)
====
