---- MODULE One ----
EXTENDS Naturals
VARIABLES x
Init == x = {}
Next == x' = x \cup {<<"a string that is long enough to be wrapped when there are several of them", x>>}
Inv == x = {} \/ \A e \in x : e[2] = {}
====
