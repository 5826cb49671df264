/* When long work gives other threads their turn. */
#include "events/turns.h"

#include <time.h>

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Whoever waits for the GIL asks for it after 5 ms, and only who was asked waits until it has been taken. */
void echo_turn_check(struct turn *turn)
{
    int64_t now = now_ns();

    turn->done = 0;
    if (turn->since_ns == 0) {
        turn->since_ns = now;
    } else if (now - turn->since_ns >= TURN_NS) {
        PyEval_RestoreThread(PyEval_SaveThread());
        turn->since_ns = now_ns();
    }
}
