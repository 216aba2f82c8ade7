/* Single-decree Paxos: 3 acceptors, 2 values, ballots 0 to N - 1, and every message ever sent.
   The value of a vote is that of its ballot's proposal, so a promise names only the ballot of the acceptor's last vote. */
#include "each.h"
byte joined[3], voted[3];  /* 0, or a ballot + 1 */
byte proposal[N];          /* 0, or a value */
byte promise[9];           /* of acceptor a in ballot b, at 3a + b: 0, or 1 + voted[a] when it was sent */
bool prepared[N], accepted[9];
#define LATEST(x, y) (x > y -> x : y)
#define ALLOWS(x, y, v) (x && y && (LATEST(x, y) == 1 || proposal[LATEST(x, y) - 2] == v))
#define SAFE(p, q, r, v) (ALLOWS(p, q, v) || ALLOWS(p, r, v) || ALLOWS(q, r, v))
#define CHOSEN(b, v) (proposal[b] == v && accepted[b] + accepted[3 + b] + accepted[6 + b] > 1)
#define FIRST(b) || CHOSEN(b, 1)
#define SECOND(b) || CHOSEN(b, 2)

inline check() {
  assert(!((false EACH(FIRST)) && (false EACH(SECOND))))
}

#define ACCEPTOR(a, b) \
  :: d_step { prepared[b] && b + 1 > joined[a] -> joined[a] = b + 1; promise[3 * a + b] = voted[a] + 1 } \
  :: d_step { proposal[b] && b + 1 >= joined[a] -> joined[a] = b + 1; voted[a] = b + 1; accepted[3 * a + b] = 1; check() }
#define PROPOSE(b, v) \
  :: d_step { !proposal[b] && SAFE(promise[b], promise[3 + b], promise[6 + b], v) -> proposal[b] = v }
#define BALLOT(b) \
  :: d_step { prepared[b] = 1 } \
  PROPOSE(b, 1) PROPOSE(b, 2) ACCEPTOR(0, b) ACCEPTOR(1, b) ACCEPTOR(2, b)

active proctype search() {
  do
  EACH(BALLOT)
  od
}
