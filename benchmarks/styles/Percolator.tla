---- MODULE Percolator ----
EXTENDS Integers
CONSTANTS Clients, Keys, MaxCrashes
VARIABLES phase, start, commit, left, lock, data, writes, clock, crashes
client == <<phase, start, commit, left>>
cells == <<lock, data, writes>>
vars == <<client, cells, clock, crashes>>
Primary == CHOOSE k \in Keys : TRUE
Init ==
  /\ phase = [c \in Clients |-> "idle"] /\ start = [c \in Clients |-> 0]
  /\ commit = [c \in Clients |-> 0] /\ left = [c \in Clients |-> {}]
  /\ lock = [k \in Keys |-> 0] /\ data = [k \in Keys |-> {}] /\ writes = [k \in Keys |-> {}]
  /\ clock = 0 /\ crashes = 0
Begin(c) ==
  /\ phase[c] = "idle" /\ clock' = clock + 1
  /\ phase' = [phase EXCEPT ![c] = "prewrite"] /\ start' = [start EXCEPT ![c] = clock + 1] /\ left' = [left EXCEPT ![c] = Keys]
  /\ UNCHANGED <<commit, cells, crashes>>
Prewrite(c) ==
  /\ phase[c] = "prewrite"
  /\ \E k \in IF Primary \in left[c] THEN {Primary} ELSE left[c] :
       IF \E w \in writes[k] : w[1] >= start[c]
       THEN phase' = [phase EXCEPT ![c] = "aborted"] /\ left' = [left EXCEPT ![c] = {}] /\ UNCHANGED cells
       ELSE /\ lock[k] = 0 /\ lock' = [lock EXCEPT ![k] = start[c]] /\ data' = [data EXCEPT ![k] = @ \union {start[c]}]
            /\ left' = [left EXCEPT ![c] = @ \ {k}] /\ UNCHANGED <<phase, writes>>
  /\ UNCHANGED <<start, commit, clock, crashes>>
GetCommitTime(c) ==
  /\ phase[c] = "prewrite" /\ left[c] = {} /\ clock' = clock + 1
  /\ phase' = [phase EXCEPT ![c] = "commit"] /\ commit' = [commit EXCEPT ![c] = clock + 1]
  /\ UNCHANGED <<start, left, cells, crashes>>
Written(k, s, t) == lock' = [lock EXCEPT ![k] = 0] /\ writes' = [writes EXCEPT ![k] = @ \union {<<t, s>>}] /\ UNCHANGED data
CommitPrimary(c) ==
  /\ phase[c] = "commit"
  /\ IF lock[Primary] # start[c] THEN phase' = [phase EXCEPT ![c] = "aborted"] /\ UNCHANGED <<left, cells>>
     ELSE /\ Written(Primary, start[c], commit[c])
          /\ phase' = [phase EXCEPT ![c] = "finish"] /\ left' = [left EXCEPT ![c] = Keys \ {Primary}]
  /\ UNCHANGED <<start, commit, clock, crashes>>
CommitSecondary(c) ==
  /\ phase[c] = "finish"
  /\ \/ left[c] = {} /\ phase' = [phase EXCEPT ![c] = "done"] /\ UNCHANGED <<left, cells>>
     \/ \E k \in left[c] :
          /\ left' = [left EXCEPT ![c] = @ \ {k}]
          /\ IF lock[k] = start[c] THEN Written(k, start[c], commit[c]) ELSE UNCHANGED cells
          /\ UNCHANGED phase
  /\ UNCHANGED <<start, commit, clock, crashes>>
Crash(c) ==
  /\ phase[c] \in {"prewrite", "commit", "finish"} /\ crashes < MaxCrashes /\ crashes' = crashes + 1
  /\ phase' = [phase EXCEPT ![c] = "crashed"] /\ left' = [left EXCEPT ![c] = {}]
  /\ UNCHANGED <<start, commit, cells, clock>>
CleanUp(k) == LET s == lock[k] done == {w \in writes[Primary] : w[2] = s} IN
  /\ s # 0
  /\ IF done # {} THEN \E w \in done : Written(k, s, w[1])
     ELSE LET cell == IF lock[Primary] = s THEN Primary ELSE k IN
          /\ lock' = [lock EXCEPT ![cell] = 0] /\ data' = [data EXCEPT ![cell] = @ \ {s}] /\ UNCHANGED writes
  /\ UNCHANGED <<client, clock, crashes>>
Next ==
  \/ \E c \in Clients : Begin(c) \/ Prewrite(c) \/ GetCommitTime(c) \/ CommitPrimary(c) \/ CommitSecondary(c) \/ Crash(c)
  \/ \E k \in Keys : CleanUp(k)
Spec == Init /\ [][Next]_vars
WritesHaveData == \A k \in Keys : \A w \in writes[k] : w[2] \in data[k]
AllOrNothing == \A c \in Clients : phase[c] = "done" => \A k \in Keys : \E w \in writes[k] : w[2] = start[c]
NoLostUpdate == \A k \in Keys : \A a, b \in writes[k] : ~(a # b /\ a[2] < b[1] /\ b[2] < a[1])
====
