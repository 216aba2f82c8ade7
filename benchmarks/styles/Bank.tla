---- MODULE Bank ----
EXTENDS Integers, Sequences, FiniteSets
CONSTANTS Customers, Deposit, MaxTransfers
VARIABLES accounts, escrows, ledger, opened
vars == <<accounts, escrows, ledger, opened>>
Init == accounts = [c \in Customers |-> Deposit] /\ escrows = [n \in {} |-> 0] /\ ledger = << >> /\ opened = 0
Log(k, e) == Append(ledger, [kind |-> k, payer |-> e.payer, payee |-> e.payee, amount |-> e.amount])
Open == /\ opened < MaxTransfers /\ opened' = opened + 1
        /\ \E p \in Customers : \E q \in Customers \ {p}, a \in 1..accounts[p] :
           LET e == [payer |-> p, payee |-> q, amount |-> a, approvals |-> {}] IN
           /\ accounts' = [accounts EXCEPT ![p] = @ - a]
           /\ escrows' = [n \in DOMAIN escrows \cup {opened} |-> IF n = opened THEN e ELSE escrows[n]]
           /\ ledger' = Log("open", e)
Approve == \E n \in DOMAIN escrows : \E w \in {escrows[n].payer, escrows[n].payee} \ escrows[n].approvals :
   escrows' = [escrows EXCEPT ![n].approvals = @ \cup {w}] /\ UNCHANGED <<accounts, ledger, opened>>
Without(n) == [m \in DOMAIN escrows \ {n} |-> escrows[m]]
Settle == \E n \in DOMAIN escrows : LET e == escrows[n] IN Cardinality(e.approvals) = 2 
  /\ accounts' = [accounts EXCEPT ![e.payee] = @ + e.amount] /\ escrows' = Without(n) /\ ledger' = Log("settle", e) /\ UNCHANGED opened
Refund == \E n \in DOMAIN escrows : LET e == escrows[n] IN e.approvals = {}
  /\ accounts' = [accounts EXCEPT ![e.payer] = @ + e.amount] /\ escrows' = Without(n) /\ ledger' = Log("refund", e) /\ UNCHANGED opened
Next == Open \/ Approve \/ Settle \/ Refund
Spec == Init /\ [][Next]_vars
RECURSIVE Sum(_, _), Play(_, _)
Sum(f, S) == IF S = {} THEN 0 ELSE LET x == CHOOSE x \in S : TRUE IN f[x] + Sum(f, S \ {x})
TotalIsKept == Sum(accounts, Customers) + Sum([n \in DOMAIN escrows |-> escrows[n].amount], DOMAIN escrows) = Deposit * Cardinality(Customers)
Play(b, l) == IF l = << >> THEN b ELSE LET e == Head(l) IN
  Play(IF e.kind = "open" THEN [b EXCEPT ![e.payer] = @ - e.amount]
       ELSE IF e.kind = "settle" THEN [b EXCEPT ![e.payee] = @ + e.amount] ELSE [b EXCEPT ![e.payer] = @ + e.amount], Tail(l))
LedgerExplainsBalances == Play([c \in Customers |-> Deposit], ledger) = accounts
====
