/* Single-decree Paxos: 3 acceptors, 2 values, ballots 0 to N - 1 (N at most 3), and every message ever sent.
   The value of a vote is that of its ballot's proposal, so a promise names only the ballot of the acceptor's last vote. */
#include "search.h"
#define FIELD(s, place) ((s) >> (place) & 3)
#define WITH(s, place, value) (((s) & ~((word)3 << (place))) | (word)(value) << (place))
#define JOINED(a) (2 * (a))                           /* 0, or the acceptor's highest ballot + 1 */
#define VOTED(a) (6 + 2 * (a))                        /* 0, or the ballot of its last vote + 1 */
#define PROPOSAL(b) (12 + 2 * (b))                    /* 0, or the proposed value + 1 */
#define PROMISE(a, b) (18 + 2 * (3 * (a) + (b)))      /* 0, or 1 + VOTED(a) when it was sent */
#define PREPARED(b) ((word)1 << (36 + (b)))
#define ACCEPTED(a, b) ((word)1 << (39 + 3 * (a) + (b)))
static const word initial = 0;

static int good(word s) {
    int chosen = 0;
    for (int b = 0; b < N; b++) {
        int votes = 0;
        for (int a = 0; a < 3; a++) votes += (s & ACCEPTED(a, b)) != 0;
        if (votes > 1) chosen |= 1 << FIELD(s, PROPOSAL(b));
    }
    return chosen == 0 || (chosen & (chosen - 1)) == 0;
}

static void propose(word s, int b) {
    int safe = 0;
    for (int left = 0; left < 3; left++) { /* the quorum of the two other acceptors */
        int first = FIELD(s, PROMISE((left + 1) % 3, b)), second = FIELD(s, PROMISE((left + 2) % 3, b));
        if (!first || !second) continue;
        int latest = first > second ? first : second;
        safe |= latest == 1 ? 3 : FIELD(s, PROPOSAL(latest - 2));
    }
    if (safe & 1) see(WITH(s, PROPOSAL(b), 1));
    if (safe & 2) see(WITH(s, PROPOSAL(b), 2));
}

static void expand(word s) {
    for (int b = 0; b < N; b++) {
        see(s | PREPARED(b));
        if (!FIELD(s, PROPOSAL(b))) propose(s, b);
        for (int a = 0; a < 3; a++) {
            int joined = FIELD(s, JOINED(a));
            word joins = WITH(s, JOINED(a), b + 1);
            if (s & PREPARED(b) && b + 1 > joined) see(WITH(joins, PROMISE(a, b), FIELD(s, VOTED(a)) + 1));
            if (FIELD(s, PROPOSAL(b)) && b + 1 >= joined) see(WITH(joins, VOTED(a), b + 1) | ACCEPTED(a, b));
        }
    }
}
