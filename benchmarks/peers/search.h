/* Breadth-first search over packed states: one hash set of words, and an array of states in the order of discovery.
   A protocol defines `initial`, `good` and `expand`, which calls `see` for each step.  usage: PROGRAM log2-of-slots */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
typedef uint64_t word;
static const word initial;
static int good(word state);
static void expand(word state);
static word *slots, *states, found, steps;
static int shift;

static void see(word state) {
    word hash = state * 0x9e3779b97f4a7c15u;
    hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9u;
    word mask = (~(word)0) >> shift, place = hash >> shift;
    steps++;
    for (; slots[place]; place = (place + 1) & mask)
        if (slots[place] == state + 1) return; /* 0 is an empty slot */
    if (found == mask) { puts("full"); exit(1); }
    slots[place] = state + 1;
    states[found++] = state;
}

static word *room(word bytes) {
    void *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) { perror("mmap"); exit(1); }
    return memory;
}

int main(int count, char **words) {
    int bits = count > 1 ? atoi(words[1]) : 24;
    shift = 64 - bits;
    slots = room((word)8 << bits);
    states = room((word)8 << bits);
    see(initial);
    for (word next = 0; next < found; next++) {
        if (!good(states[next])) { puts("violated"); return 12; }
        expand(states[next]);
    }
    printf("%llu states\n", (unsigned long long)found);
    return 0;
}
