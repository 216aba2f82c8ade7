/* Two-phase commit with N resource managers. A manager: 0 works, 1 is prepared, 2 has committed, 3 has aborted.
   Two bits for each manager, a bit for each that the coordinator has heard of, one for each that has reported, and the
   coordinator's decision: 0, 1 (commit) or 2 (abort). */
#include "search.h"
#define HEARD(i) ((word)1 << (2 * N + (i)))
#define SENT(i) ((word)1 << (3 * N + (i)))
#define ALL_HEARD ((((word)1 << N) - 1) << 2 * N)
#define DECISION (4 * N)
static const word initial = 0;

static int good(word s) {
    int committed = 0, aborted = 0;
    for (int i = 0; i < N; i++) {
        committed |= (s >> 2 * i & 3) == 2;
        aborted |= (s >> 2 * i & 3) == 3;
    }
    return !(committed && aborted);
}

static void expand(word s) {
    int decision = s >> DECISION;
    if (!decision) {
        if ((s & ALL_HEARD) == ALL_HEARD) see(s | (word)1 << DECISION);
        see(s | (word)2 << DECISION);
    }
    for (int i = 0; i < N; i++) {
        word rest = s & ~((word)3 << 2 * i);
        if (!decision && s & SENT(i)) see(s | HEARD(i));
        if (rest == s) {
            see(s | (word)1 << 2 * i | SENT(i));
            see(s | (word)3 << 2 * i);
        }
        if (decision) see(rest | (word)(decision + 1) << 2 * i);
    }
}
