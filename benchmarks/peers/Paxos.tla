---- MODULE Paxos ----
\* Single-decree Paxos, with every message ever sent.
EXTENDS Integers
CONSTANTS Acceptors, Values, Ballots
VARIABLES joined, voted, sent

vars == <<joined, voted, sent>>
None == [ballot |-> -1, value |-> "none"]
Majorities == {{a, b} : <<a, b>> \in {p \in Acceptors \X Acceptors : p[1] # p[2]}}
Send(m) == sent' = sent \union {m}

Init == joined = [a \in Acceptors |-> -1] /\ voted = [a \in Acceptors |-> None] /\ sent = {}

Prepare(b) == Send([kind |-> "prepare", ballot |-> b]) /\ UNCHANGED <<joined, voted>>

Join(a, b) ==
  /\ [kind |-> "prepare", ballot |-> b] \in sent /\ b > joined[a]
  /\ joined' = [joined EXCEPT ![a] = b]
  /\ Send([kind |-> "promise", by |-> a, ballot |-> b, vote |-> voted[a]])
  /\ UNCHANGED voted

Safe(b, v) == \E quorum \in Majorities :
  LET promises == {m \in sent : m.kind = "promise" /\ m.ballot = b /\ m.by \in quorum}
      votes == {m.vote : m \in promises} \ {None}
  IN /\ \A a \in quorum : \E m \in promises : m.by = a
     /\ votes = {} \/ \E vote \in votes : vote.value = v /\ \A other \in votes : other.ballot <= vote.ballot

Propose(b, v) ==
  /\ ~\E m \in sent : m.kind = "propose" /\ m.ballot = b
  /\ Safe(b, v)
  /\ Send([kind |-> "propose", ballot |-> b, value |-> v])
  /\ UNCHANGED <<joined, voted>>

Vote(a) == \E m \in {m \in sent : m.kind = "propose" /\ m.ballot >= joined[a]} :
  /\ joined' = [joined EXCEPT ![a] = m.ballot]
  /\ voted' = [voted EXCEPT ![a] = [ballot |-> m.ballot, value |-> m.value]]
  /\ Send([kind |-> "vote", by |-> a, ballot |-> m.ballot, value |-> m.value])

Next ==
  \/ \E b \in Ballots : Prepare(b) \/ (\E a \in Acceptors : Join(a, b)) \/ \E v \in Values : Propose(b, v)
  \/ \E a \in Acceptors : Vote(a)
Spec == Init /\ [][Next]_vars

Chosen(v) == \E b \in Ballots, quorum \in Majorities :
  \A a \in quorum : [kind |-> "vote", by |-> a, ballot |-> b, value |-> v] \in sent
Good == \A v, w \in Values : Chosen(v) /\ Chosen(w) => v = w
====
