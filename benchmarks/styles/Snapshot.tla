---- MODULE Snapshot ----
EXTENDS Integers, Sequences, FiniteSets
CONSTANTS N, Money, MaxTransfers
VARIABLES money, recorded, open, inChannels, chan, transfers
vars == <<money, recorded, open, inChannels, chan, transfers>>
P == 1..N
Init == /\ money = [p \in P |-> Money] /\ recorded = [p \in P |-> -1] /\ open = [p \in P |-> {}]
        /\ inChannels = [p \in P |-> [q \in P |-> 0]] /\ chan = [c \in P \X P |-> << >>] /\ transfers = 0
Pay(p) == \E a \in 1..money[p], q \in P \ {p} :
  /\ transfers < MaxTransfers /\ transfers' = transfers + 1
  /\ money' = [money EXCEPT ![p] = @ - a]
  /\ chan' = [chan EXCEPT ![<<p, q>>] = Append(@, [type |-> "money", amount |-> a])]
  /\ UNCHANGED <<recorded, open, inChannels>>
Receive(q, p) == 
  /\ chan[<<q, p>>] # << >> /\ Head(chan[<<q, p>>]).type = "money"
  /\ LET a == Head(chan[<<q, p>>]).amount IN
     /\ money' = [money EXCEPT ![p] = @ + a]
     /\ inChannels' = IF q \in open[p] THEN [inChannels EXCEPT ![p][q] = @ + a] ELSE inChannels
  /\ chan' = [chan EXCEPT ![<<q, p>>] = Tail(@)]
  /\ UNCHANGED <<recorded, open, transfers>>
Markers(c, p) == [x \in P \X P |-> IF x[1] = p /\ x[2] # p THEN Append(c[x], [type |-> "marker"]) ELSE c[x]]
Begin == /\ recorded[1] = -1 /\ recorded' = [recorded EXCEPT ![1] = money[1]] /\ open' = [open EXCEPT ![1] = P \ {1}]
         /\ chan' = Markers(chan, 1) /\ UNCHANGED <<money, inChannels, transfers>>
Mark(q, p) ==
  /\ chan[<<q, p>>] # << >> /\ Head(chan[<<q, p>>]).type = "marker"
  /\ LET rest == [chan EXCEPT ![<<q, p>>] = Tail(@)] IN
     IF recorded[p] = -1
     THEN recorded' = [recorded EXCEPT ![p] = money[p]] /\ open' = [open EXCEPT ![p] = P \ {p, q}] /\ chan' = Markers(rest, p)
     ELSE open' = [open EXCEPT ![p] = @ \ {q}] /\ chan' = rest /\ UNCHANGED recorded
  /\ UNCHANGED <<money, inChannels, transfers>>
Next == Begin \/ \E p \in P : Pay(p) \/ \E q \in P : Receive(q, p) \/ Mark(q, p)
Spec == Init /\ [][Next]_vars
RECURSIVE SumSeq(_), SumOver(_, _)
SumSeq(s) == IF s = << >> THEN 0 ELSE (IF Head(s).type = "money" THEN Head(s).amount ELSE 0) + SumSeq(Tail(s))
SumOver(f, S) == IF S = {} THEN 0 ELSE LET x == CHOOSE x \in S : TRUE IN f[x] + SumOver(f, S \ {x})
NoMoneyIsLost == SumOver(money, P) + SumOver([c \in P \X P |-> SumSeq(chan[c])], P \X P) = N * Money
SnapshotIsConsistent == (\A p \in P : recorded[p] # -1 /\ open[p] = {}) =>
  SumOver(recorded, P) + SumOver([p \in P |-> SumOver(inChannels[p], P)], P) = N * Money
====
