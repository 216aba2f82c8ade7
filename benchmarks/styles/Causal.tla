---- MODULE Causal ----
EXTENDS Naturals, Sequences, FiniteSets
CONSTANTS N, MaxCasts
VARIABLES clock, pending, delivered, msgs, casts
vars == <<clock, pending, delivered, msgs, casts>>
P == 0..(N-1)
Init == /\ clock = [i \in P |-> [j \in P |-> 0]] /\ pending = [i \in P |-> {}] /\ delivered = [i \in P |-> <<>>] /\ msgs = {} /\ casts = 0
Ready(i, m) == \A j \in P : IF j = m.origin THEN m.clock[j] = clock[i][j] + 1 ELSE m.clock[j] <= clock[i][j]
Broadcast(i) == LET c == [clock[i] EXCEPT ![i] = @ + 1] IN
  /\ casts < MaxCasts /\ casts' = casts + 1
  /\ clock' = [clock EXCEPT ![i] = c]
  /\ delivered' = [delivered EXCEPT ![i] = Append(@, <<i, c>>)]
  /\ msgs' = msgs \cup {[origin |-> i, clock |-> c, dest |-> d] : d \in P \ {i}}
  /\ UNCHANGED pending
Deliver(i, m) ==
  /\ clock' = [clock EXCEPT ![i][m.origin] = @ + 1]
  /\ pending' = [pending EXCEPT ![i] = @ \ {m}]
  /\ delivered' = [delivered EXCEPT ![i] = Append(@, <<m.origin, m.clock>>)]
Receive(m) == LET i == m.dest IN
  /\ msgs' = msgs \ {m} /\ UNCHANGED casts
  /\ IF Ready(i, m) THEN Deliver(i, m)
     ELSE pending' = [pending EXCEPT ![i] = @ \cup {m}] /\ UNCHANGED <<clock, delivered>>
DeliverPending(i) == \E m \in pending[i] : Ready(i, m) /\ Deliver(i, m) /\ UNCHANGED <<msgs, casts>>
Next == (\E i \in P : Broadcast(i) \/ DeliverPending(i)) \/ (\E m \in msgs : Receive(m))
Spec == Init /\ [][Next]_vars
Leq(a, b) == \A j \in P : a[j] <= b[j]
CausalOrder == \A p \in P : \A i, j \in 1..Len(delivered[p]) : i < j => ~(Leq(delivered[p][j][2], delivered[p][i][2]) /\ delivered[p][j][2] # delivered[p][i][2])
NoGap == \A p, j \in P : Cardinality({k \in 1..Len(delivered[p]) : delivered[p][k][1] = j}) = clock[p][j]
====
