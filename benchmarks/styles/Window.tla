---- MODULE Window ----
EXTENDS Integers, Sequences
CONSTANTS Items, Size, Modulus, Capacity
VARIABLES base, next, got, data, acks
vars == <<base, next, got, data, acks>>
Min(a, b) == IF a < b THEN a ELSE b
Init == base = 0 /\ next = 0 /\ got = << >> /\ data = << >> /\ acks = << >>
Transmit == /\ next < Min(base + Size, Items) /\ next' = next + 1
            /\ data' = Append(data, [number |-> next % Modulus, value |-> next]) /\ UNCHANGED <<base, got, acks>>
Timeout == base < next /\ next' = base /\ UNCHANGED <<base, got, data, acks>>
Receive == /\ data # << >> /\ data' = Tail(data)
           /\ got' = IF Head(data).number = Len(got) % Modulus THEN Append(got, Head(data).value) ELSE got
           /\ acks' = Append(acks, Len(got') % Modulus) /\ UNCHANGED <<base, next>>
RECURSIVE Best(_, _)
Best(n, b) == IF n > base + Size THEN b ELSE Best(n + 1, IF n % Modulus = Head(acks) /\ n <= next THEN n ELSE b)
Acknowledge == acks # << >> /\ acks' = Tail(acks) /\ base' = Best(base + 1, base) /\ UNCHANGED <<next, got, data>>
Lose == \/ data # << >> /\ data' = Tail(data) /\ UNCHANGED <<base, next, got, acks>>
        \/ acks # << >> /\ acks' = Tail(acks) /\ UNCHANGED <<base, next, got, data>>
Next == Transmit \/ Timeout \/ Receive \/ Acknowledge \/ Lose
Spec == Init /\ [][Next]_vars
InOrder == got = [i \in 1..Len(got) |-> i - 1]
AcknowledgedWasReceived == base <= Len(got)
ShortChannels == Len(data) <= Capacity /\ Len(acks) <= Capacity
====
