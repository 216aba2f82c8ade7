/* N dining philosophers; the last one takes the forks in the other order. Two bits for each: 0 thinks, 1 has one fork,
   2 eats. A deadlock is a violation. */
#include "search.h"
#define SEAT(s, i) ((s) >> 2 * (i) & 3)
static const word initial = 0;

/* Whether a philosopher has fork `f`, which lies between the seats f - 1 and f. */
static int taken(word s, int f) {
    int before = (f + N - 1) % N;
    return SEAT(s, f) > (f == N - 1) || SEAT(s, before) > (before != N - 1);
}

static int good(word s) {
    int enabled = 0;
    for (int i = 0; i < N; i++) {
        int seat = SEAT(s, i), first = i == N - 1 ? 0 : i, second = i == N - 1 ? i : i + 1;
        if (seat == 2 && SEAT(s, (i + 1) % N) == 2) return 0;
        enabled |= seat == 2 || !taken(s, seat ? second : first);
    }
    return enabled;
}

static void expand(word s) {
    for (int i = 0; i < N; i++) {
        int seat = SEAT(s, i), first = i == N - 1 ? 0 : i, second = i == N - 1 ? i : i + 1;
        if (seat == 2) see(s & ~((word)3 << 2 * i));
        else if (!taken(s, seat ? second : first)) see(s + ((word)1 << 2 * i));
    }
}
