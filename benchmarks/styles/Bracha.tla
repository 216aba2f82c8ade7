---- MODULE Bracha ----
EXTENDS Integers, FiniteSets
CONSTANTS N, F, Values, MaxLies
VARIABLES echoed, readied, delivered, echoes, readies, msgs, lies
vars == <<echoed, readied, delivered, echoes, readies, msgs, lies>>
None == "none"
C == 1..N-F
Faulty == N-F+1..N
Msg(t, s, v, d) == [type |-> t, source |-> s, value |-> v, dest |-> d]
ToAll(t, s, v) == {Msg(t, s, v, d) : d \in C}
Init ==
  /\ echoed = [c \in C |-> None] /\ readied = [c \in C |-> None] /\ delivered = [c \in C |-> None]
  /\ echoes = [c \in C |-> {}] /\ readies = [c \in C |-> {}] /\ msgs = {} /\ lies = 0
Lie ==
  /\ lies < MaxLies /\ lies' = lies + 1
  /\ \E d \in C, v \in Values :
       \/ msgs' = msgs \union {Msg("initial", 0, v, d)}
       \/ \E s \in Faulty, t \in {"echo", "ready"} : msgs' = msgs \union {Msg(t, s, v, d)}
  /\ UNCHANGED <<echoed, readied, delivered, echoes, readies>>
StartEcho(m) ==
  /\ m.type = "initial" /\ echoed[m.dest] = None
  /\ echoed' = [echoed EXCEPT ![m.dest] = m.value]
  /\ msgs' = (msgs \ {m}) \union ToAll("echo", m.dest, m.value)
  /\ UNCHANGED <<readied, delivered, echoes, readies, lies>>
MaybeReady(m, enough) ==
  IF enough /\ readied[m.dest] = None
  THEN readied' = [readied EXCEPT ![m.dest] = m.value] /\ msgs' = (msgs \ {m}) \union ToAll("ready", m.dest, m.value)
  ELSE msgs' = msgs \ {m} /\ UNCHANGED readied
HearEcho(m) ==
  /\ m.type = "echo"
  /\ echoes' = [echoes EXCEPT ![m.dest] = @ \union {<<m.source, m.value>>}]
  /\ MaybeReady(m, 2 * Cardinality({p \in echoes'[m.dest] : p[2] = m.value}) > N + F)
  /\ UNCHANGED <<echoed, delivered, readies, lies>>
HearReady(m) ==
  /\ m.type = "ready"
  /\ readies' = [readies EXCEPT ![m.dest] = @ \union {<<m.source, m.value>>}]
  /\ LET heard == Cardinality({p \in readies'[m.dest] : p[2] = m.value}) IN
       /\ delivered' = IF heard > 2 * F /\ delivered[m.dest] = None THEN [delivered EXCEPT ![m.dest] = m.value] ELSE delivered
       /\ MaybeReady(m, heard > F)
  /\ UNCHANGED <<echoed, echoes, lies>>
Next == Lie \/ \E m \in msgs : StartEcho(m) \/ HearEcho(m) \/ HearReady(m)
Spec == Init /\ [][Next]_vars
Agreement == \A a, b \in C : delivered[a] = None \/ delivered[b] = None \/ delivered[a] = delivered[b]
====
