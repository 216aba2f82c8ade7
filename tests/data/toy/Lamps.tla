---- MODULE Lamps ----
\* Lamps that are switched by hand, each with its last visitor. Next is no disjunction of named actions at its top.
EXTENDS Naturals
CONSTANTS Lamp, Visitor, NULL
VARIABLES lit, last

Dark ==
    /\ lit = [l \in Lamp |-> FALSE]
    /\ last = [l \in Lamp |-> NULL]

OneLit ==
    /\ lit \in {[l \in Lamp |-> l = m] : m \in Lamp}
    /\ last = [l \in Lamp |-> NULL]

Step == \E l \in Lamp, v \in Visitor :
    /\ last[l] # v
    /\ lit' = [lit EXCEPT ![l] = ~lit[l]]
    /\ last' = [last EXCEPT ![l] = v]

NotAll == \E l \in Lamp : ~lit[l]
====
