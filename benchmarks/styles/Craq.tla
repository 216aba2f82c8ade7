---- MODULE Craq ----
EXTENDS Naturals, Sequences, FiniteSets
CONSTANTS N, Reads, MaxWrites
VARIABLES versions, waiting, reads, busy, lastv, ch, committed, hreads, floor, writes
vars == <<versions, waiting, reads, busy, lastv, ch, committed, hreads, floor, writes>>
Node == 1..N
C == {N+1, N+2}
P == Node \cup C
Init ==
        /\ versions = [n \in Node |-> <<<<0,0>>>>] /\ waiting = [n \in Node |-> {}]
        /\ reads = [c \in C |-> 0] /\ busy = [c \in C |-> FALSE] /\ lastv = [c \in C |-> 0]
        /\ ch = [p \in P \X P |-> <<>>] /\ committed = <<0>> /\ hreads = <<>> /\ floor = [c \in C |-> 99] /\ writes = 0
Send(c, s, d, m) == [c EXCEPT ![<<s, d>>] = Append(@, m)]
Pop(s, d) == [ch EXCEPT ![<<s, d>>] = Tail(@)]
Write == LET v == versions[1][Len(versions[1])][1] + 1 IN
  /\ writes < MaxWrites /\ writes' = writes + 1
  /\ versions' = [versions EXCEPT ![1] = Append(@, <<v, 10 + v>>)]
  /\ ch' = Send(ch, 1, 2, [type |-> "Write", version |-> v, value |-> 10 + v])
  /\ UNCHANGED <<waiting, reads, busy, lastv, committed, hreads, floor>>
Read(c) ==
  /\ ~busy[c] /\ reads[c] < Reads
  /\ \E n \in Node : ch' = Send(ch, c, n, [type |-> "Read", rid |-> reads[c] + 1])
  /\ busy' = [busy EXCEPT ![c] = TRUE] /\ reads' = [reads EXCEPT ![c] = @ + 1]
  /\ floor' = [floor EXCEPT ![c] = committed[Len(committed)]]
  /\ UNCHANGED <<versions, waiting, lastv, committed, hreads, writes>>
Last(q) == q[Len(q)]
OnWrite(s, d, m) ==
  /\ m.type = "Write"
  /\ IF d = N THEN /\ versions' = [versions EXCEPT ![d] = <<<<m.version, m.value>>>>]
                   /\ ch' = Send(Pop(s, d), d, d - 1, [type |-> "WriteAck", version |-> m.version])
                   /\ committed' = Append(committed, m.version)
     ELSE /\ versions' = [versions EXCEPT ![d] = Append(@, <<m.version, m.value>>)]
          /\ ch' = Send(Pop(s, d), d, d + 1, m) /\ UNCHANGED committed
  /\ UNCHANGED <<waiting, reads, busy, lastv, hreads, floor, writes>>
OnAck(s, d, m) ==
  /\ m.type = "WriteAck"
  /\ versions' = [versions EXCEPT ![d] = SelectSeq(@, LAMBDA v : v[1] >= m.version)]
  /\ ch' = IF d > 1 THEN Send(Pop(s, d), d, d - 1, m) ELSE Pop(s, d)
  /\ UNCHANGED <<waiting, reads, busy, lastv, committed, hreads, floor, writes>>
OnRead(s, d, m) ==
  /\ m.type = "Read"
  /\ IF Len(versions[d]) = 1 \/ d = N
     THEN ch' = Send(Pop(s, d), d, s, [type |-> "ReadReply", rid |-> m.rid, version |-> Last(versions[d])[1], value |-> Last(versions[d])[2]]) /\ UNCHANGED waiting
     ELSE waiting' = [waiting EXCEPT ![d] = @ \cup {<<s, m.rid>>}] /\ ch' = Send(Pop(s, d), d, N, [type |-> "VersionQuery", client |-> s, rid |-> m.rid])
  /\ UNCHANGED <<versions, reads, busy, lastv, committed, hreads, floor, writes>>
OnVQ(s, d, m) ==
  /\ m.type = "VersionQuery"
  /\ ch' = Send(Pop(s, d), d, s, [type |-> "VersionReply", client |-> m.client, rid |-> m.rid, version |-> Last(versions[d])[1]])
  /\ UNCHANGED <<versions, waiting, reads, busy, lastv, committed, hreads, floor, writes>>
OnVR(s, d, m) ==
  /\ m.type = "VersionReply"
  /\ LET f == SelectSeq(versions[d], LAMBDA v : v[1] >= m.version)[1] IN
     ch' = Send(Pop(s, d), d, m.client, [type |-> "ReadReply", rid |-> m.rid, version |-> f[1], value |-> f[2]])
  /\ waiting' = [waiting EXCEPT ![d] = @ \ {<<m.client, m.rid>>}]
  /\ UNCHANGED <<versions, reads, busy, lastv, committed, hreads, floor, writes>>
OnRR(s, d, m) ==
  /\ m.type = "ReadReply"
  /\ busy' = [busy EXCEPT ![d] = FALSE] /\ lastv' = [lastv EXCEPT ![d] = m.version] /\ ch' = Pop(s, d)
  /\ hreads' = Append(hreads, <<d, floor[d], m.version>>)
  /\ UNCHANGED <<versions, waiting, reads, committed, floor, writes>>
Deliver(s, d) == ch[<<s, d>>] # <<>> /\ LET m == Head(ch[<<s, d>>]) IN
   OnWrite(s, d, m) \/ OnAck(s, d, m) \/ OnRead(s, d, m) \/ OnVQ(s, d, m) \/ OnVR(s, d, m) \/ OnRR(s, d, m)
Next == Write \/ (\E c \in C : Read(c)) \/ \E s, d \in P : Deliver(s, d)
Spec == Init /\ [][Next]_vars
ReadsAreFresh == \A i \in 1..Len(hreads) : hreads[i][2] <= hreads[i][3] /\ \E j \in 1..Len(committed) : committed[j] = hreads[i][3]
OneWriterOrder == \A n, p \in Node : \A i \in 1..Len(versions[n]) : \A j \in 1..Len(versions[p]) : versions[n][i][1] = versions[p][j][1] => versions[n][i] = versions[p][j]
====
