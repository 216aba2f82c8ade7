/* N dining philosophers; the last one takes the forks in the other order. 0 thinks, 1 has one fork, 2 eats. */
#include "each.h"
byte seat[N];
#define BEFORE(f) ((f + N - 1) % N)
#define TAKEN(f) (seat[f] > (f == N - 1) || seat[BEFORE(f)] > (BEFORE(f) != N - 1))
#define ONE(i) (i == N - 1 -> 0 : i)
#define OTHER(i) (i == N - 1 -> i : (i + 1) % N)

#define PHILOSOPHER(i) \
  :: d_step { seat[i] == 0 && !TAKEN(ONE(i)) -> seat[i] = 1 } \
  :: d_step { seat[i] == 1 && !TAKEN(OTHER(i)) -> seat[i] = 2; assert(seat[(i + 1) % N] < 2 && seat[BEFORE(i)] < 2) } \
  :: d_step { seat[i] == 2 -> seat[i] = 0 }

active proctype search() {
  do
  EACH(PHILOSOPHER)
  od
}
