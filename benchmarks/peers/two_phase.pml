/* Two-phase commit with N resource managers (at most 8): sets of managers as bits, and the coordinator's decision. */
#include "each.h"
#define IN(set, i) (set & (1 << i))
#define ADD(set, i) set = set | (1 << i)
#define DROP(set, i) set = set & (255 - (1 << i))
#define WORKS(i) !IN((prepared | committed | aborted), i)
#define CHECK assert(!(committed && aborted))
byte prepared, committed, aborted, heard, sent, decision; /* decision: 0, 1 (commit) or 2 (abort) */

#define MANAGER(i) \
  :: d_step { WORKS(i) -> ADD(prepared, i); ADD(sent, i) } \
  :: d_step { WORKS(i) -> ADD(aborted, i); CHECK } \
  :: d_step { !decision && IN(sent, i) -> ADD(heard, i) } \
  :: d_step { decision == 1 -> DROP(prepared, i); DROP(aborted, i); ADD(committed, i); CHECK } \
  :: d_step { decision == 2 -> DROP(prepared, i); DROP(committed, i); ADD(aborted, i); CHECK }

active proctype search() {
  do
  :: d_step { !decision && heard == (1 << N) - 1 -> decision = 1 }
  :: d_step { !decision -> decision = 2 }
  EACH(MANAGER)
  od
}
