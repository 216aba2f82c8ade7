---- MODULE Collector ----
\* A collector counts references by updates that processes send in order, as in deferred reference counting.
EXTENDS Integers, Sequences, FiniteSets
CONSTANTS Objects, Processes, MaxQueue, MaxAllocations, MaxCopies
VARIABLES refs, roots, counts, free, queue, _allocations, _copies

O == 1..Objects
Name(i) == IF i = 1 THEN "p1" ELSE IF i = 2 THEN "p2" ELSE "p3"
P == {Name(i) : i \in 1..Processes}
Inc(o) == [kind |-> "inc", target |-> o]
Dec(o) == [kind |-> "dec", target |-> o]
Min(S) == CHOOSE x \in S : \A y \in S : x <= y

Init ==
  /\ refs = [o \in O |-> 0]
  /\ roots = [p \in P |-> {}]
  /\ counts = [o \in O |-> 0]
  /\ free = O
  /\ queue = [p \in P |-> <<>>]
  /\ _allocations = 0 /\ _copies = 0

Push(p, s) == /\ Len(queue[p]) + Len(s) <= MaxQueue
              /\ queue' = [queue EXCEPT ![p] = @ \o s]
Copy == _copies < MaxCopies /\ _copies' = _copies + 1

Allocate == \E p \in P :
  /\ free # {}
  /\ _allocations < MaxAllocations /\ _allocations' = _allocations + 1
  /\ LET o == Min(free) IN
     /\ free' = free \ {o}
     /\ roots' = [roots EXCEPT ![p] = @ \cup {o}]
     /\ counts' = [counts EXCEPT ![o] = 1]
  /\ UNCHANGED <<refs, queue, _copies>>

HandOver == \E p \in P : \E q \in P \ {p} : \E o \in roots[p] \ roots[q] :
  /\ Copy
  /\ Push(p, <<Inc(o)>>)
  /\ roots' = [roots EXCEPT ![q] = @ \cup {o}]
  /\ UNCHANGED <<refs, counts, free, _allocations>>

Store == \E p \in P : \E h \in roots[p] : \E v \in roots[p] \cup {0} :
  /\ refs[h] # v /\ v # h
  /\ Push(p, (IF v # 0 THEN <<Inc(v)>> ELSE <<>>) \o (IF refs[h] # 0 THEN <<Dec(refs[h])>> ELSE <<>>))
  /\ refs' = [refs EXCEPT ![h] = v]
  /\ IF v # 0 THEN Copy ELSE UNCHANGED _copies
  /\ UNCHANGED <<roots, counts, free, _allocations>>

Load == \E p \in P : \E t \in {refs[o] : o \in roots[p]} \ (roots[p] \cup {0}) :
  /\ Copy
  /\ Push(p, <<Inc(t)>>)
  /\ roots' = [roots EXCEPT ![p] = @ \cup {t}]
  /\ UNCHANGED <<refs, counts, free, _allocations>>

Drop == \E p \in P : \E o \in roots[p] :
  /\ Push(p, <<Dec(o)>>)
  /\ roots' = [roots EXCEPT ![p] = @ \ {o}]
  /\ UNCHANGED <<refs, counts, free, _allocations, _copies>>

Collect == \E p \in P :
  /\ queue[p] # <<>>
  /\ LET u == Head(queue[p]) IN counts' = [counts EXCEPT ![u.target] = @ + (IF u.kind = "inc" THEN 1 ELSE -1)]
  /\ queue' = [queue EXCEPT ![p] = Tail(@)]
  /\ UNCHANGED <<refs, roots, free, _allocations, _copies>>

Reclaim == \E o \in O \ free :
  /\ \A p \in P : queue[p] = <<>>
  /\ counts[o] = 0
  /\ free' = free \cup {o}
  /\ counts' = [x \in O |-> IF x = refs[o] THEN counts[x] - 1 ELSE counts[x]]
  /\ refs' = [refs EXCEPT ![o] = 0]
  /\ UNCHANGED <<roots, queue, _allocations, _copies>>

Next == Allocate \/ HandOver \/ Store \/ Load \/ Drop \/ Collect \/ Reclaim

RECURSIVE Closure(_)
Closure(S) == LET T == S \cup ({refs[o] : o \in S} \ {0}) IN IF T = S THEN S ELSE Closure(T)
LiveObjectsStay == Closure(UNION {roots[p] : p \in P}) \cap free = {}
CountsAreRightInTheEnd == (\A p \in P : queue[p] = <<>>) =>
  \A o \in O \ free : counts[o] = Cardinality({p \in P : o \in roots[p]}) + Cardinality({h \in O \ free : refs[h] = o})

Spec == Init /\ [][Next]_<<refs, roots, counts, free, queue, _allocations, _copies>>
====
