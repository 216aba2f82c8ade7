---- MODULE MCEwd998 ----
\* Termination detection on a ring: spec/examples/ewd998 in TLA+. The token is a message, as it is there.
EXTENDS Integers, TLC

CONSTANTS N, MaxPending, MaxSum
VARIABLES active, colour, counter, messages
vars == <<active, colour, counter, messages>>
Nodes == 0..(N - 1)
Token(i, s, c) == [type |-> "Token", dest |-> i, sum |-> s, colour |-> c]
Payload(i) == [type |-> "Payload", dest |-> i]
With(bag, m) == IF m \in DOMAIN bag THEN [bag EXCEPT ![m] = @ + 1] ELSE bag @@ (m :> 1)
Without(bag, m) == IF bag[m] > 1 THEN [bag EXCEPT ![m] = @ - 1] ELSE [n \in DOMAIN bag \ {m} |-> bag[n]]
Pending(i) == IF Payload(i) \in DOMAIN messages THEN messages[Payload(i)] ELSE 0

Init ==
    /\ active \in [Nodes -> BOOLEAN]
    /\ colour \in [Nodes -> {"white", "black"}]
    /\ counter = [i \in Nodes |-> 0]
    /\ \E i \in Nodes : messages = (Token(i, 0, "black") :> 1)

InitiateProbe == \E m \in DOMAIN messages :
    /\ m.type = "Token" /\ m.dest = 0
    /\ "black" \in {m.colour, colour[0]} \/ counter[0] + m.sum > 0
    /\ colour' = [colour EXCEPT ![0] = "white"]
    /\ messages' = With(Without(messages, m), Token(N - 1, 0, "white"))
    /\ UNCHANGED <<active, counter>>
PassToken == \E m \in DOMAIN messages :
    /\ m.type = "Token" /\ m.dest # 0
    /\ ~active[m.dest]
    /\ LET i == m.dest IN
       /\ colour' = [colour EXCEPT ![i] = "white"]
       /\ messages' = With(Without(messages, m),
                           Token(i - 1, m.sum + counter[i], IF colour[i] = "black" THEN "black" ELSE m.colour))
    /\ UNCHANGED <<active, counter>>
SendMsg == \E i, j \in Nodes :
    /\ active[i] /\ i # j
    /\ counter' = [counter EXCEPT ![i] = @ + 1]
    /\ messages' = With(messages, Payload(j))
    /\ UNCHANGED <<active, colour>>
RecvMsg == \E m \in DOMAIN messages :
    /\ m.type = "Payload"
    /\ active' = [active EXCEPT ![m.dest] = TRUE]
    /\ colour' = [colour EXCEPT ![m.dest] = "black"]
    /\ counter' = [counter EXCEPT ![m.dest] = @ - 1]
    /\ messages' = Without(messages, m)
Deactivate == \E i \in Nodes :
    /\ active[i]
    /\ active' = [active EXCEPT ![i] = FALSE]
    /\ UNCHANGED <<colour, counter, messages>>

Next == InitiateProbe \/ PassToken \/ SendMsg \/ RecvMsg \/ Deactivate
Plain == Init /\ [][Next]_vars
Spec == Plain /\ WF_vars(InitiateProbe \/ PassToken)
Busy == Plain /\ WF_vars(Next)
Strong == Plain /\ SF_vars(InitiateProbe) /\ SF_vars(PassToken) /\ SF_vars(Deactivate)
StateConstraint ==
    /\ \A i \in Nodes : counter[i] <= MaxPending /\ Pending(i) <= MaxPending
    /\ \A m \in DOMAIN messages : m.type = "Token" => m.sum <= MaxSum

Terminated == \A i \in Nodes : ~active[i] /\ Pending(i) = 0
Detected == \E m \in DOMAIN messages :
    /\ m.type = "Token" /\ m.dest = 0
    /\ m.colour = "white" /\ colour[0] = "white" /\ ~active[0] /\ m.sum + counter[0] = 0
Liveness == Terminated ~> Detected
EndsAtLast == <>Terminated
ProbesGoOn == []<><<InitiateProbe>>_vars \/ <>[]Detected
RestsAtLast == <>[](\A i \in Nodes : ~active[i])
====
