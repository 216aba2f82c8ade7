---- MODULE EWD840 ----
EXTENDS Naturals
CONSTANT N
VARIABLES active, color, tpos, tcolor
vars == <<active, color, tpos, tcolor>>
Nodes == 0..N-1
Init == /\ active \in [Nodes -> BOOLEAN]
        /\ color \in [Nodes -> {"white","black"}]
        /\ tpos \in Nodes /\ tcolor \in {"white","black"}
Initiate == /\ tpos = 0 /\ (tcolor = "black" \/ color[0] = "black")
            /\ tpos' = N-1 /\ tcolor' = "white" /\ color' = [color EXCEPT ![0] = "white"] /\ UNCHANGED active
Pass(i) == /\ tpos = i /\ i # 0 /\ (~active[i] \/ color[i] = "black" \/ tcolor = "black")
           /\ tpos' = i-1 /\ tcolor' = IF color[i] = "black" THEN "black" ELSE tcolor
           /\ color' = [color EXCEPT ![i] = "white"] /\ UNCHANGED active
Send(i) == /\ active[i] /\ \E j \in Nodes \ {i} : /\ active' = [active EXCEPT ![j] = TRUE]
             /\ color' = [color EXCEPT ![i] = IF j > i THEN "black" ELSE @]
           /\ UNCHANGED <<tpos, tcolor>>
Deact(i) == active[i] /\ active' = [active EXCEPT ![i] = FALSE] /\ UNCHANGED <<color, tpos, tcolor>>
Next == Initiate \/ \E i \in Nodes : Pass(i) \/ Send(i) \/ Deact(i)
Spec == Init /\ [][Next]_vars
Fine == tpos \in Nodes
====
