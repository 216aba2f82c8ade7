---- MODULE Chain ----
EXTENDS Integers, Sequences
CONSTANTS N, Values, MaxFailures
VARIABLES successor, history, stable, chain, replied, channel, failures
vars == <<successor, history, stable, chain, replied, channel, failures>>
S == 1..N
None == 0
Init ==
  /\ successor = [s \in S |-> IF s < N THEN s + 1 ELSE None]
  /\ history = [s \in S |-> << >>] /\ stable = [s \in S |-> 0]
  /\ chain = [i \in S |-> i] /\ replied = << >> /\ failures = 0
  /\ channel = [p \in S \X S |-> << >>]
In(s) == \E i \in DOMAIN chain : chain[i] = s
Place(s) == CHOOSE i \in DOMAIN chain : chain[i] = s
After(s) == IF Place(s) < Len(chain) THEN chain[Place(s) + 1] ELSE None
Put(c, s, d, m) == [c EXCEPT ![<<s, d>>] = Append(@, m)]
Acks(c, s, n) == IF Place(s) = 1 THEN c ELSE Put(c, s, chain[Place(s) - 1], [ack |-> TRUE, number |-> n])
Take(s, v, c) ==
  LET new == Append(history[s], v) IN
  /\ history' = [history EXCEPT ![s] = new]
  /\ IF successor[s] # None
     THEN /\ channel' = Put(c, s, successor[s], [ack |-> FALSE, number |-> Len(new), value |-> v])
          /\ UNCHANGED <<stable, replied>>
     ELSE /\ channel' = Acks(c, s, Len(new)) /\ stable' = [stable EXCEPT ![s] = Len(new)] /\ replied' = new
Request(s) ==
  /\ chain[1] = s /\ successor[s] = After(s)
  /\ \E v \in Values \ {history[s][i] : i \in DOMAIN history[s]} : Take(s, v, channel)
  /\ UNCHANGED <<successor, chain, failures>>
Receive(p, s) ==
  /\ channel[<<p, s>>] # << >> /\ In(s)
  /\ LET m == Head(channel[<<p, s>>]) rest == [channel EXCEPT ![<<p, s>>] = Tail(@)] IN
     IF m.ack
     THEN /\ IF m.number > stable[s] THEN stable' = [stable EXCEPT ![s] = m.number] /\ channel' = Acks(rest, s, m.number)
             ELSE channel' = rest /\ UNCHANGED stable
          /\ UNCHANGED <<history, replied>>
     ELSE /\ successor[s] = After(s)
          /\ IF m.number = Len(history[s]) + 1 THEN Take(s, m.value, rest)
             ELSE channel' = rest /\ UNCHANGED <<history, stable, replied>>
  /\ UNCHANGED <<successor, chain, failures>>
Fail(s) ==
  /\ In(s) /\ Len(chain) > 1 /\ failures < MaxFailures /\ failures' = failures + 1
  /\ chain' = SelectSeq(chain, LAMBDA t : t # s)
  /\ UNCHANGED <<successor, history, stable, replied, channel>>
Repair(s) ==
  /\ In(s) /\ successor[s] # After(s)
  /\ successor' = [successor EXCEPT ![s] = After(s)]
  /\ IF After(s) # None
     THEN /\ channel' = [channel EXCEPT ![<<s, After(s)>>] =
               @ \o [i \in 1..Len(history[s]) - stable[s] |->
                      [ack |-> FALSE, number |-> stable[s] + i, value |-> history[s][stable[s] + i]]]]
          /\ UNCHANGED <<stable, replied>>
     ELSE /\ stable' = [stable EXCEPT ![s] = Len(history[s])] /\ replied' = history[s]
          /\ channel' = IF history[s] = << >> THEN channel ELSE Acks(channel, s, Len(history[s]))
  /\ UNCHANGED <<history, chain, failures>>
Next == \E s \in S : Request(s) \/ Fail(s) \/ Repair(s) \/ \E p \in S : Receive(p, s)
Spec == Init /\ [][Next]_vars
Prefix(a, b) == Len(a) <= Len(b) /\ \A i \in DOMAIN a : a[i] = b[i]
InOrder == \A i \in 1..Len(chain) - 1 : Prefix(history[chain[i + 1]], history[chain[i]])
RepliesLast == \A i \in DOMAIN chain : Prefix(replied, history[chain[i]])
====
