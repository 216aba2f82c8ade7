/* Leader election on a ring of N nodes (Chang and Roberts). A node: 0 asleep, 1 a candidate, 2 lost, 3 leader. */
#include "each.h"
byte node[N];
byte to[N]; /* where the id of a candidate goes: 0, or a node + 1 */
#define AT(i) (to[i] - 1)
#define PASS(i) to[i] = to[i] % N + 1
#define LOST(i) + (node[i] == 2)

inline check() {
  assert(0 EACH(LOST) == N - 1)
}

#define ID(i) \
  :: d_step { !node[i] -> node[i] = 1; to[i] = (i + 1) % N + 1 } \
  :: d_step { !node[i] -> node[i] = 2 } \
  :: d_step { to[i] && node[AT(i)] == 2 -> PASS(i) } \
  :: d_step { to[i] && node[AT(i)] % 2 && AT(i) > i -> node[AT(i)] = 2; PASS(i) } \
  :: d_step { to[i] && node[AT(i)] % 2 && AT(i) < i -> to[i] = 0 } \
  :: d_step { to[i] && node[AT(i)] % 2 && AT(i) == i -> node[i] = 3; to[i] = 0; check() }

active proctype search() {
  do
  EACH(ID)
  od
}
