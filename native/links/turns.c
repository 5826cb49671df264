/* Turns: of the threads that stand by (standby.c) one has its turn, others are spare and wait for theirs.
 *
 * A thread that was overtaken is a spare when its handler has returned, as is one whose link rests again, and stands by
 * when the one that did reads: so a handler that is always a little slow costs no start of a thread for each event. There
 * are few spares, and a spare that nobody has needed for some seconds ends, but for the last one.
 *
 * Most that comes on a link that rests is a word between two nodes, such as a ping, and read in a moment. The thread
 * that stood by comes back from that, and need not have woken a spare: it has lent its turn. It passes it as soon as
 * events are handed over by whomever, since handlers may be slow; where it stays with the link; and where the moment
 * is found to last.
 */
#include "links/turns.h"

#include "links/standby.h"

#include "core/clock.h"

/* How many wait for their turn at most, and for how long. */
#define MAX_SPARES 8
#define SPARE_NS 5000000000

/* A moment. */
#define MOMENT_NS 50000000

static struct {
    _Atomic uint32_t called; /* futex: counts what spares have to wake up for */
    int is_taken;            /* 1: a thread stands by, has lent its turn, or has been given it. GIL, as all else */
    unsigned spares;         /* that wait for their turn */
    unsigned given;          /* turns, to spares that are still to wake up */
    unsigned long away;      /* the thread that has lent its turn; 0: none */
    int64_t away_since;      /* nanoseconds */
} turns;

int echo_turns_are_free(void)
{
    return !turns.is_taken;
}

int echo_turns_are_lent(void)
{
    return turns.away != 0;
}

void echo_turns_forget(void)
{
    turns.is_taken = 0;
    turns.spares = turns.given = 0;
    turns.away = 0;
}

/* One is enough: a spare that is about to leave takes the turn, where there is one by then. */
void echo_turns_pass(void)
{
    turns.away = 0;
    turns.is_taken = turns.spares > turns.given;
    if (!turns.is_taken)
        return;
    turns.given++;
    atomic_fetch_add(&turns.called, 1);
    futex_wake_one(&turns.called);
}

void echo_turns_lend(void)
{
    if (turns.spares <= turns.given) {
        echo_turns_pass();
        return;
    }
    turns.away = PyThread_get_thread_ident();
    turns.away_since = monotonic_ns();
}

void echo_turns_call_in(void)
{
    if (turns.away != 0)
        echo_turns_pass();
}

void echo_turns_call_in_late(void)
{
    if (turns.away != 0 && monotonic_ns() - turns.away_since > MOMENT_NS)
        echo_turns_pass();
}

void echo_turns_end(void)
{
    echo_turns_call_in();
    if (turns.spares == 0)
        return;
    atomic_fetch_add(&turns.called, 1);
    futex_wake_all(&turns.called);
}

/* Until it is given a turn: 1. 0: it was not needed. Releases the GIL. */
static int await_as_spare(void)
{
    int64_t left_ns, until_ns = monotonic_ns() + SPARE_NS;
    PyThreadState *state;
    uint32_t word;

    turns.spares++;
    while (turns.given == 0 && echo_standby_is_needed()) {
        left_ns = until_ns - monotonic_ns();
        if (left_ns <= 0 && turns.spares > 1)
            break;
        word = atomic_load(&turns.called);
        state = PyEval_SaveThread();
        echo_futex_wait(&turns.called, word, left_ns > 0 ? left_ns : -1);
        PyEval_RestoreThread(state);
    }
    turns.spares--;
    if (turns.given == 0)
        return 0;
    turns.given--;
    return 1;
}

int echo_turns_take(void)
{
    if (turns.away != 0 && turns.away == PyThread_get_thread_ident())
        turns.away = 0;
    else if (turns.is_taken && (turns.spares == MAX_SPARES || !await_as_spare()))
        return 0;
    turns.is_taken = 1;
    return 1;
}
