---- MODULE Toy ----
EXTENDS Naturals
VARIABLES x, y
vars == <<x, y>>
Init == x = 0 /\ y = [a |-> {}]
Step(n) == x < 3 /\ x' = x + n /\ y' = [a |-> {x}]
Back == x = 3 /\ x' = 1 /\ y' = [a |-> {0}]
Same == x >= 2 /\ x' = x + 1 /\ UNCHANGED y
Next == Step(1) \/ Back
SameNext == Step(1) \/ (Same /\ x < 4)
Both == Step(1) \/ Step(2)
Spec == Init /\ [][Next]_vars /\ WF_vars(Next)
Stutter == Init /\ [][Step(1)]_vars
Live == <>(x = 7)
Small == x < 2
Smaller == x < 3
NotInit == x # 0
Grow == [][x' > x]_vars
====
