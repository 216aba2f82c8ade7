---- MODULE Philosophers ----
\* Dining philosophers; the last one takes the forks in the other order.
EXTENDS Integers
CONSTANT N
VARIABLE seat

Seats == 0..N - 1
One(i) == IF i = N - 1 THEN 0 ELSE i
Other(i) == IF i = N - 1 THEN i ELSE i + 1
Has(i, fork) == \/ seat[i] = "eats" /\ fork \in {One(i), Other(i)}
                \/ seat[i] = "waits" /\ fork = One(i)
Free(fork) == \A i \in Seats : ~Has(i, fork)

Init == seat = [i \in Seats |-> "thinks"]
TakeOne(i) == seat[i] = "thinks" /\ Free(One(i)) /\ seat' = [seat EXCEPT ![i] = "waits"]
TakeOther(i) == seat[i] = "waits" /\ Free(Other(i)) /\ seat' = [seat EXCEPT ![i] = "eats"]
PutBoth(i) == seat[i] = "eats" /\ seat' = [seat EXCEPT ![i] = "thinks"]

Next == \E i \in Seats : TakeOne(i) \/ TakeOther(i) \/ PutBoth(i)
Spec == Init /\ [][Next]_seat
Good == \A i \in Seats : ~(seat[i] = "eats" /\ seat[(i + 1) % N] = "eats")
====
