---- MODULE Locking ----
\* Strict two-phase locking with a waits-for graph; a victim of a deadlock aborts, and may try again.
EXTENDS Naturals, Sequences, FiniteSets
CONSTANTS Txns, MaxRetries
VARIABLES txns, locks, store, history, _retries

Program == << << <<"r", "x">>, <<"w", "y">>, <<"r", "z">> >>, << <<"r", "y">>, <<"w", "x">>, <<"w", "z">> >>,
              << <<"w", "x">>, <<"w", "z">>, <<"r", "y">> >>, << <<"r", "z">>, <<"r", "x">> >>, << <<"w", "y">>, <<"r", "x">> >> >>
T == 1..Txns
K == UNION {{Program[i][j][2] : j \in 1..Len(Program[i])} : i \in T}
Nul == [k \in {} |-> 0]
Fresh(s) == [pc |-> 0, status |-> s, buffer |-> Nul]
L(m, h, q) == [mode |-> m, holders |-> h, queue |-> q]

Init ==
  /\ txns = [i \in T |-> Fresh("running")]
  /\ locks = [k \in K |-> L("free", {}, <<>>)]
  /\ store = [k \in K |-> 0]
  /\ history = <<>> /\ _retries = 0

Compatible(l, i, m) == l.mode = "free" \/ l.holders = {i} \/ (l.mode = "shared" /\ m = "shared")
Fits(l, i, m) == IF Compatible(l, i, m) THEN TRUE ELSE FALSE

Perform(i, op, k) ==
  /\ txns' = [txns EXCEPT ![i] = [pc |-> @.pc + 1, status |-> "running",
       buffer |-> IF op = "w" THEN [x \in DOMAIN @.buffer \cup {k} |-> IF x = k THEN i ELSE @.buffer[x]] ELSE @.buffer]]
  /\ history' = Append(history, <<op, i, k>>)

Request == \E i \in T :
  /\ txns[i].status = "running"
  /\ txns[i].pc < Len(Program[i])
  /\ LET op == Program[i][txns[i].pc + 1][1]
         k == Program[i][txns[i].pc + 1][2]
         m == IF op = "r" THEN "shared" ELSE "exclusive"
         l == locks[k] IN
     IF Fits(l, i, m) /\ l.queue = <<>> THEN
       /\ locks' = [locks EXCEPT ![k] = L(m, l.holders \cup {i}, <<>>)]
       /\ Perform(i, op, k)
     ELSE
       /\ locks' = [locks EXCEPT ![k].queue = Append(@, <<i, m>>)]
       /\ txns' = [txns EXCEPT ![i].status = "waiting"]
       /\ UNCHANGED history
  /\ UNCHANGED <<store, _retries>>

Grant == \E k \in K :
  /\ locks[k].queue # <<>>
  /\ LET l == locks[k] e == Head(l.queue) IN
     /\ Fits(l, e[1], e[2]) = TRUE
     /\ locks' = [locks EXCEPT ![k] = L(e[2], l.holders \cup {e[1]}, Tail(l.queue))]
     /\ Perform(e[1], IF e[2] = "shared" THEN "r" ELSE "w", k)
  /\ UNCHANGED <<store, _retries>>

Others(q, i) == SelectSeq(q, LAMBDA e : e[1] # i)
Released(i) == [k \in K |-> LET h == locks[k].holders \ {i} IN
  L(IF h = {} THEN "free" ELSE locks[k].mode, h, Others(locks[k].queue, i))]

Commit == \E i \in T :
  /\ txns[i].status = "running" /\ txns[i].pc = Len(Program[i])
  /\ store' = [k \in K |-> IF k \in DOMAIN txns[i].buffer THEN txns[i].buffer[k] ELSE store[k]]
  /\ txns' = [txns EXCEPT ![i].status = "committed", ![i].buffer = Nul]
  /\ locks' = Released(i)
  /\ UNCHANGED <<history, _retries>>

Edge(i, j) == i # j /\ \E k \in K : \E n \in 1..Len(locks[k].queue) :
  /\ locks[k].queue[n][1] = i
  /\ (j \in locks[k].holders \/ \E o \in 1..(n - 1) : locks[k].queue[o][1] = j)
RECURSIVE Reach(_)
Reach(S) == LET N == S \cup {j \in T : \E i \in S : Edge(i, j)} IN IF N = S THEN S ELSE Reach(N)

Abort == \E i \in T :
  /\ txns[i].status = "waiting"
  /\ i \in Reach({j \in T : Edge(i, j)})
  /\ txns' = [txns EXCEPT ![i] = Fresh("aborted")]
  /\ history' = SelectSeq(history, LAMBDA e : e[2] # i)
  /\ locks' = Released(i)
  /\ UNCHANGED <<store, _retries>>

Retry == \E i \in T :
  /\ txns[i].status = "aborted"
  /\ _retries < MaxRetries /\ _retries' = _retries + 1
  /\ txns' = [txns EXCEPT ![i] = Fresh("running")]
  /\ UNCHANGED <<locks, store, history>>

Next == Request \/ Grant \/ Commit \/ Abort \/ Retry

RECURSIVE Closure(_)
Closure(E) == LET N == E \cup {<<p[1][1], p[2][2]>> : p \in {r \in E \X E : r[1][2] = r[2][1]}} IN IF N = E THEN E ELSE Closure(N)
Serializable ==
  LET h == SelectSeq(history, LAMBDA e : txns[e[2]].status = "committed")
      E == {<<h[p[1]][2], h[p[2]][2]>> : p \in {r \in (1..Len(h)) \X (1..Len(h)) :
              r[1] < r[2] /\ h[r[1]][3] = h[r[2]][3] /\ h[r[1]][2] # h[r[2]][2] /\ "w" \in {h[r[1]][1], h[r[2]][1]}}} IN
  \A e \in Closure(E) : e[1] # e[2]
LocksExclude == \A k \in K : locks[k].mode = "exclusive" => Cardinality(locks[k].holders) <= 1

Spec == Init /\ [][Next]_<<txns, locks, store, history, _retries>>
====
