/* Leader election on a ring of N nodes (Chang and Roberts). A node: 0 asleep, 1 a candidate, 2 lost, 3 leader.
   Two bits for each node, and four for the place of each candidate's id: 0, or 1 + the node that it goes to. */
#include "search.h"
#define NODE(s, i) ((s) >> 2 * (i) & 3)
#define BECOMES(s, i, state) (((s) & ~((word)3 << 2 * (i))) | (word)(state) << 2 * (i))
#define ID(s, i) ((s) >> (2 * N + 4 * (i)) & 15)
#define MOVES(s, i, to) (((s) & ~((word)15 << (2 * N + 4 * (i)))) | (word)(to) << (2 * N + 4 * (i)))
static const word initial = 0;

static int good(word s) {
    int leaders = 0, lost = 0;
    for (int i = 0; i < N; i++) {
        leaders += NODE(s, i) == 3;
        lost += NODE(s, i) == 2;
    }
    return !leaders || lost == N - 1;
}

static void expand(word s) {
    for (int i = 0; i < N; i++) {
        int next = (i + 1) % N;
        if (NODE(s, i) == 0) {
            see(MOVES(BECOMES(s, i, 1), i, next + 1));
            see(BECOMES(s, i, 2));
        }
        if (!ID(s, i)) continue;
        int at = ID(s, i) - 1, state = NODE(s, at);
        word passed = MOVES(s, i, (at + 1) % N + 1);
        if (state == 2) see(passed);
        else if (state && i < at) see(BECOMES(passed, at, 2));
        else if (state) see(MOVES(i == at ? BECOMES(s, at, 3) : s, i, 0));
    }
}
