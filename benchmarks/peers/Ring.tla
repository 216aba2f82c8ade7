---- MODULE Ring ----
\* Leader election on a ring (Chang and Roberts): a candidate's id travels until a candidate with a smaller id stops it.
EXTENDS Integers
CONSTANT N
VARIABLES state, inbox

vars == <<state, inbox>>
Nodes == 1..N
After(n) == (n % N) + 1

Init == state = [n \in Nodes |-> "asleep"] /\ inbox = [n \in Nodes |-> {}]

Stand(n) ==
  /\ state[n] = "asleep"
  /\ state' = [state EXCEPT ![n] = "candidate"]
  /\ inbox' = [inbox EXCEPT ![After(n)] = @ \union {n}]

SitOut(n) == state[n] = "asleep" /\ state' = [state EXCEPT ![n] = "lost"] /\ UNCHANGED inbox

Receive(n, id) ==
  /\ state[n] # "asleep"
  /\ LET stops == state[n] # "lost" /\ id >= n
         rest == [inbox EXCEPT ![n] = @ \ {id}]
     IN /\ inbox' = IF stops THEN rest ELSE [rest EXCEPT ![After(n)] = @ \union {id}]
        /\ state' = [state EXCEPT ![n] =
             IF @ = "lost" \/ id > n THEN @ ELSE IF id < n THEN "lost" ELSE "leader"]

Next == \E n \in Nodes : Stand(n) \/ SitOut(n) \/ \E id \in inbox[n] : Receive(n, id)
Spec == Init /\ [][Next]_vars
Good == \A n \in Nodes : state[n] = "leader" => \A m \in Nodes \ {n} : state[m] = "lost"
====
