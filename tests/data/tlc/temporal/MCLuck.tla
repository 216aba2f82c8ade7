---- MODULE MCLuck ----
\* Luck passes from one to another. What SYMMETRY and VIEW make one state differs in who is lucky.
EXTENDS TLC

CONSTANTS Players
VARIABLES played, messages, lucky
vars == <<played, messages, lucky>>

Init ==
    /\ played = [p \in Players |-> FALSE]
    /\ messages = [m \in {} |-> 0]
    /\ lucky \in Players

Pass(p) ==
    /\ lucky = p
    /\ lucky' \in Players \ {p}
    /\ UNCHANGED <<played, messages>>

Next == \E p \in Players : Pass(p)
Busy == Init /\ [][Next]_vars /\ WF_vars(Next)
symmPlayers == Permutations(Players)
NoLuck == <<played, messages>>
FirstLucky == lucky = CHOOSE p \in Players : TRUE

LuckSettles == \E p \in Players : <>[](lucky = p)
LuckPasses == \A p \in Players : []<>(lucky # p)
====
