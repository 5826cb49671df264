/* Standing by: one thread of a process sees when a link's reader is held up by a handler, and takes over reading.
 *
 * The reader counts when it begins and ends to hand over. The one that stands by looks at the counts of all links from
 * time to time: one that has not changed from one look to the next, and is odd, is slow. So a reader pays for an
 * addition, and for no look at a clock.
 *
 * It looks while anything is handed over, and sleeps otherwise; who hands over then wakes it. A reader may just have
 * read that nobody sleeps, and what it has counted be not yet to be seen. So one looks again, after some
 * milliseconds, before sleeping without a limit: by then either of the two is seen.
 *
 * A thread that was overtaken is a spare when its handler has returned, and stands by when the one that did reads: so a
 * handler that is always a little slow costs no start of a thread for each event. There are few spares, and a spare that
 * nobody has needed for some seconds ends.
 *
 * A mutex guards the list of links, as the looks are without the GIL. Nobody takes the GIL who has it.
 */
#include "links/standby.h"

#include "core/clock.h"
#include "core/forks.h"

#include <pthread.h>

/* Between two looks. A handler that takes twice as long is overtaken. */
#define LOOK_NS 5000000

/* So many looks at links that do nothing, and it sleeps. */
#define QUIET_LOOKS 4

/* How many wait for their turn at most, and for how long. */
#define MAX_SPARES 8
#define SPARE_NS 5000000000

_Atomic int echo_standby_is_asleep;

static struct {
    pthread_mutex_t mutex;
    struct watched *first;
    _Atomic uint32_t word; /* futex: counts what it has to wake up for */
    _Atomic uint32_t turn; /* futex: counts what spares have to wake up for */
    int is_there;          /* 1: a thread stands by, or has been given its turn. GIL */
    unsigned spares;       /* that wait for their turn. GIL */
    unsigned turns;        /* given to spares, which are still to wake up. GIL */
    unsigned forks;        /* echo_forks when all this was set up */
} standby = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* A child has inherited links that it does not read, no thread, and perhaps a mutex that is taken. GIL. */
static void forget_inherited(void)
{
    if (!has_forked_since(standby.forks))
        return;
    pthread_mutex_init(&standby.mutex, NULL);
    standby.first = NULL;
    standby.is_there = 0;
    standby.spares = standby.turns = 0;
    standby.forks = echo_forks;
    atomic_store(&echo_standby_is_asleep, 0);
}

void echo_standby_wake(void)
{
    if (!atomic_exchange(&echo_standby_is_asleep, 0))
        return;
    atomic_fetch_add(&standby.word, 1);
    futex_wake_all(&standby.word);
}

/* All, as one of them may be about to leave. */
static void wake_spares(void)
{
    if (standby.spares == 0)
        return;
    atomic_fetch_add(&standby.turn, 1);
    futex_wake_all(&standby.turn);
}

/* --- links --- */

void echo_watched_add(struct watched *watched, PyObject *link)
{
    forget_inherited();
    watched->link = link;
    watched->forks = echo_forks;
    pthread_mutex_lock(&standby.mutex);
    watched->next = standby.first;
    watched->place = &standby.first;
    if (watched->next != NULL)
        watched->next->place = &watched->next;
    standby.first = watched;
    pthread_mutex_unlock(&standby.mutex);
}

static void take_out(struct watched *watched)
{
    *watched->place = watched->next;
    if (watched->next != NULL)
        watched->next->place = watched->place;
    watched->place = NULL;
}

/* Without links nobody has to stand by. */
void echo_watched_remove(struct watched *watched)
{
    if (watched->place == NULL || has_forked_since(watched->forks))
        return;
    pthread_mutex_lock(&standby.mutex);
    take_out(watched);
    pthread_mutex_unlock(&standby.mutex);
    if (standby.first == NULL) {
        atomic_store(&echo_standby_is_asleep, 1);
        echo_standby_wake();
        wake_spares();
    }
}

/* --- looking --- */

enum sight { SEES_NO_LINK, SEES_NOTHING, SEES_WORK, SEES_A_SLOW_ONE };

/* No GIL. */
static enum sight look_at(struct watched *watched)
{
    uint64_t hands = atomic_load_explicit(&watched->hands, memory_order_relaxed);

    if (hands != watched->seen) {
        watched->seen = hands;
        return SEES_WORK;
    }
    return hands % 2 == 1 && hands != watched->slow ? SEES_A_SLOW_ONE : SEES_NOTHING;
}

/* The most that is seen of any. No GIL. */
static enum sight look(void)
{
    enum sight sight, most = SEES_NO_LINK;

    pthread_mutex_lock(&standby.mutex);
    for (struct watched *watched = standby.first; watched != NULL; watched = watched->next) {
        sight = look_at(watched);
        most = sight > most ? sight : most;
    }
    pthread_mutex_unlock(&standby.mutex);
    return most;
}

/* Until a reader is slow, or there is no link. No GIL. */
static void await_slow_one(void)
{
    enum sight sight;
    uint32_t word;
    int quiet = 0;

    for (;;) {
        word = atomic_load(&standby.word);
        if (quiet >= QUIET_LOOKS)
            atomic_store(&echo_standby_is_asleep, 1);
        sight = look();
        if (sight == SEES_NO_LINK || sight == SEES_A_SLOW_ONE)
            break;
        quiet = sight == SEES_NOTHING ? quiet + 1 : 0;
        if (quiet == 0)
            atomic_store(&echo_standby_is_asleep, 0);
        echo_futex_wait(&standby.word, word, quiet > QUIET_LOOKS + 1 ? -1 : LOOK_NS);
    }
    atomic_store(&echo_standby_is_asleep, 0);
}

/* A new reference to the link of one that has been found slow just now, each time once. */
static PyObject *slow_link(void)
{
    uint64_t hands;
    PyObject *link = NULL;

    pthread_mutex_lock(&standby.mutex);
    for (struct watched *watched = standby.first; watched != NULL && link == NULL; watched = watched->next) {
        hands = atomic_load_explicit(&watched->hands, memory_order_relaxed);
        if (hands % 2 == 0 || hands != watched->seen || hands == watched->slow)
            continue;
        watched->slow = hands;
        link = Py_NewRef(watched->link);
    }
    pthread_mutex_unlock(&standby.mutex);
    return link;
}

/* --- spares --- */

/* Until it is this thread's turn to stand by: 1. 0: it is not needed. GIL; releases it. */
static int await_turn(void)
{
    int64_t left_ns, until_ns = monotonic_ns() + SPARE_NS;
    PyThreadState *state;
    uint32_t word;

    if (!standby.is_there)
        return 1;
    if (standby.spares == MAX_SPARES)
        return 0;
    standby.spares++;
    while (standby.turns == 0 && standby.first != NULL && (left_ns = until_ns - monotonic_ns()) > 0) {
        word = atomic_load(&standby.turn);
        state = PyEval_SaveThread();
        echo_futex_wait(&standby.turn, word, left_ns);
        PyEval_RestoreThread(state);
    }
    standby.spares--;
    if (standby.turns == 0)
        return 0;
    standby.turns--;
    return 1;
}

/* Who stood by has something else to do. */
static void give_turn(void)
{
    standby.is_there = standby.spares > standby.turns;
    if (!standby.is_there)
        return;
    standby.turns++;
    wake_spares();
}

/* --- the module's functions --- */

PyObject *echo_stand_by(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    PyThreadState *state;
    PyObject *link = NULL;

    forget_inherited();
    if (standby.first == NULL || !await_turn())
        Py_RETURN_NONE;
    standby.is_there = 1;
    while (link == NULL && standby.first != NULL) {
        state = PyEval_SaveThread();
        await_slow_one();
        PyEval_RestoreThread(state);
        link = slow_link();
    }
    give_turn();
    return link != NULL ? link : Py_NewRef(Py_None);
}

PyObject *echo_wants_standby(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    forget_inherited();
    return PyBool_FromLong(!standby.is_there && standby.first != NULL);
}
