---- MODULE MCTwoPhase ----
\* Two-phase commit: spec/examples/two_phase_commit in TLA+, with messages that name their receiver.
EXTENDS TLC

CONSTANTS RM, tm, working, isPrepared, committed, aborted
VARIABLES phase, prepared, messages
vars == <<phase, prepared, messages>>

PreparedBy(r) == [type |-> "Prepared", source |-> r, dest |-> tm]
DecisionFor(r, p) == [type |-> "Decision", phase |-> p, dest |-> r]

Init ==
    /\ phase = [i \in RM \cup {tm} |-> working]
    /\ prepared = (tm :> {})
    /\ messages = {}

Prepare(r) ==
    /\ phase[r] = working
    /\ phase' = [phase EXCEPT ![r] = isPrepared]
    /\ messages' = messages \cup {PreparedBy(r)}
    /\ UNCHANGED prepared
ChooseToAbort(r) ==
    /\ phase[r] = working
    /\ phase' = [phase EXCEPT ![r] = aborted]
    /\ UNCHANGED <<prepared, messages>>
HearPrepared == \E m \in messages :
    /\ m.type = "Prepared"
    /\ phase[tm] = working
    /\ prepared' = [prepared EXCEPT ![tm] = @ \cup {m.source}]
    /\ UNCHANGED <<phase, messages>>
Decide(p) ==
    /\ phase' = [phase EXCEPT ![tm] = p]
    /\ messages' = messages \cup {DecisionFor(r, p) : r \in RM}
    /\ UNCHANGED prepared
Commit == phase[tm] = working /\ prepared[tm] = RM /\ Decide(committed)
Abort == phase[tm] = working /\ Decide(aborted)
FollowDecision == \E m \in messages :
    /\ m.type = "Decision"
    /\ phase' = [phase EXCEPT ![m.dest] = m.phase]
    /\ UNCHANGED <<prepared, messages>>

Next == (\E r \in RM : Prepare(r) \/ ChooseToAbort(r)) \/ HearPrepared \/ Commit \/ Abort \/ FollowDecision
Plain == Init /\ [][Next]_vars
Busy == Plain /\ WF_vars(Next)
Deciding == Plain /\ WF_vars(Commit \/ Abort) /\ WF_vars(FollowDecision)
Hearing == Plain /\ WF_vars(HearPrepared) /\ SF_vars(Commit) /\ WF_vars(FollowDecision)

Done(r) == phase[r] \in {committed, aborted}
AllEnd == <>(\A r \in RM : Done(r))
OutcomeIsFollowed == phase[tm] = committed ~> \A r \in RM : phase[r] = committed
PreparedCommit == (\A r \in RM : phase[r] = isPrepared) ~> phase[tm] = committed
====
