---- MODULE TwoPhase ----
\* Two-phase commit: managers report that they are prepared, and a coordinator decides.
CONSTANT Managers
VARIABLES phase, heard, sent, decision

vars == <<phase, heard, sent, decision>>
Ends == {"committed", "aborted"}

Init ==
  /\ phase = [m \in Managers |-> "working"]
  /\ heard = {} /\ sent = {} /\ decision = "none"

Prepare(m) ==
  /\ phase[m] = "working"
  /\ phase' = [phase EXCEPT ![m] = "prepared"]
  /\ sent' = sent \union {m}
  /\ UNCHANGED <<heard, decision>>

GiveUp(m) ==
  /\ phase[m] = "working"
  /\ phase' = [phase EXCEPT ![m] = "aborted"]
  /\ UNCHANGED <<heard, sent, decision>>

Hear(m) ==
  /\ decision = "none" /\ m \in sent
  /\ heard' = heard \union {m}
  /\ UNCHANGED <<phase, sent, decision>>

Decide(end) ==
  /\ decision = "none" /\ (end = "aborted" \/ heard = Managers)
  /\ decision' = end
  /\ UNCHANGED <<phase, heard, sent>>

Follow(m) ==
  /\ decision # "none"
  /\ phase' = [phase EXCEPT ![m] = decision]
  /\ UNCHANGED <<heard, sent, decision>>

Next == (\E m \in Managers : Prepare(m) \/ GiveUp(m) \/ Hear(m) \/ Follow(m)) \/ \E end \in Ends : Decide(end)
Spec == Init /\ [][Next]_vars
Good == \A a, b \in Managers : ~(phase[a] = "committed" /\ phase[b] = "aborted")
====
