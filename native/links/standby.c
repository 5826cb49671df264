/* Standing by: one thread of a process sees when something comes on a link that nobody reads, or when a link's reader is
 * held up by a handler, and goes on reading.
 *
 * A link that rests (resting.c) is waited for by its bell, and so are all others that do, in one system call. Who finds
 * one rung reads that link itself: it is not handed to another thread, which would cost a change of threads.
 *
 * The reader counts when it begins and ends to hand over. The one that stands by looks at the counts of all links from
 * time to time: one that has not changed from one look to the next, and is odd, is slow. So a reader pays for an
 * addition, and for no look at a clock.
 *
 * It looks while anything is handed over, and sleeps otherwise; who hands over then wakes it. A reader may just have
 * read that nobody sleeps, and what it has counted be not yet to be seen. So one looks again, after some
 * milliseconds, before sleeping without a limit: by then either of the two is seen.
 *
 * Other threads wait for their turn to stand by: turns.c.
 *
 * A reader that waits in a socket can be had back only after a time that the kernel looks at, which costs each read a
 * little. So the first few links that are busy keep theirs, which waits for ever.
 *
 * A mutex guards the list of links, as the looks are without the GIL. Nobody takes the GIL who has it.
 */
#include "links/link.h"
#include "links/turns.h"

#include "core/wires/bells.h"

#include <errno.h>

#include <pthread.h>

/* Between two looks. A handler that takes twice as long is overtaken. */
#define LOOK_MS 5

/* So many looks at links that do nothing, and it sleeps. */
#define QUIET_LOOKS 4

/* A link is busy that has been handed over so often between two looks. */
#define BUSY_HANDS 10

/* How many of those keep their thread. */
#define MAX_KEPT 4

/* Rung bells are fetched so many at a time. */
#define MAX_RUNG 16

_Atomic int echo_standby_is_asleep;

static struct {
    pthread_mutex_t mutex;
    struct watched *first;
    struct bells bells;
    int has_bells;  /* 1: they are open. GIL */
    uint64_t ids;   /* given to links. GIL */
    unsigned kept;  /* links that keep their thread. The mutex */
    unsigned forks; /* echo_forks when all this was set up */
} standby = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* A child has inherited links that it does not read, no thread, and perhaps a mutex that is taken. GIL. */
static void forget_inherited(void)
{
    if (!has_forked_since(standby.forks))
        return;
    if (standby.has_bells)
        echo_bells_close(&standby.bells);
    pthread_mutex_init(&standby.mutex, NULL);
    standby.first = NULL;
    standby.has_bells = 0;
    standby.kept = 0;
    standby.forks = echo_forks;
    atomic_store(&echo_standby_is_asleep, 0);
    echo_turns_forget();
}

void echo_standby_wake(void)
{
    if (!atomic_exchange(&echo_standby_is_asleep, 0))
        return;
    if (echo_turns_are_lent())
        echo_turns_call_in();
    else
        echo_bells_call(&standby.bells);
}

int echo_standby_is_needed(void)
{
    return standby.first != NULL;
}

/* --- links --- */

static int open_bells(void)
{
    forget_inherited();
    if (standby.has_bells)
        return 0;
    errno = -echo_bells_open(&standby.bells);
    if (errno != 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    standby.has_bells = 1;
    return 0;
}

static void put_in(struct watched *watched)
{
    watched->next = standby.first;
    watched->place = &standby.first;
    if (watched->next != NULL)
        watched->next->place = &watched->next;
    standby.first = watched;
}

int echo_watched_add(struct watched *watched, PyObject *link)
{
    if (open_bells() != 0)
        return -1;
    watched->link = link;
    watched->id = standby.ids++;
    watched->bell = -1;
    atomic_init(&watched->patience_ns, -1);
    watched->forks = echo_forks;
    pthread_mutex_lock(&standby.mutex);
    put_in(watched);
    pthread_mutex_unlock(&standby.mutex);
    return 0;
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
    echo_watched_disarm(watched);
    pthread_mutex_lock(&standby.mutex);
    take_out(watched);
    standby.kept -= (unsigned)watched->is_kept;
    watched->is_kept = 0;
    pthread_mutex_unlock(&standby.mutex);
    if (standby.first == NULL) {
        atomic_store(&echo_standby_is_asleep, 1);
        echo_standby_wake();
        echo_turns_end();
    }
}

void echo_watched_call(struct watched *watched)
{
    if (has_forked_since(watched->forks))
        return;
    pthread_mutex_lock(&standby.mutex);
    if (watched->place == NULL)
        put_in(watched);
    watched->is_called = 1;
    pthread_mutex_unlock(&standby.mutex);
    atomic_store(&echo_standby_is_asleep, 0);
    echo_bells_call(&standby.bells);
}

void echo_watched_wait(struct watched *watched, int64_t patience_ns)
{
    pthread_mutex_lock(&standby.mutex);
    if (!watched->is_kept)
        atomic_store(&watched->patience_ns, patience_ns);
    pthread_mutex_unlock(&standby.mutex);
}

int echo_watched_arm(struct watched *watched, int bell, int wants_rings)
{
    int status = echo_bells_arm(&standby.bells, bell, watched->id, wants_rings, watched->bell < 0);

    if (status == 0)
        watched->bell = bell;
    return status;
}

void echo_watched_disarm(struct watched *watched)
{
    if (watched->bell < 0 || has_forked_since(watched->forks))
        return;
    echo_bells_drop(&standby.bells, watched->bell);
    watched->bell = -1;
}

/* --- looking --- */

enum sight { SEES_NO_LINK, SEES_NOTHING, SEES_WORK, SEES_A_CALL };

/* Its next read, and those that follow, are not timed. The mutex. */
static void keep_where_busy(struct watched *watched, uint64_t hands)
{
    if (hands - watched->seen < 2 * BUSY_HANDS || standby.kept == MAX_KEPT ||
        atomic_load_explicit(&watched->patience_ns, memory_order_relaxed) <= 0)
        return;
    standby.kept++;
    watched->is_kept = 1;
    atomic_store_explicit(&watched->patience_ns, -1, memory_order_relaxed);
}

/* No GIL; the mutex. */
static enum sight look_at(struct watched *watched)
{
    uint64_t hands = atomic_load_explicit(&watched->hands, memory_order_relaxed);

    if (watched->is_called)
        return SEES_A_CALL;
    if (hands != watched->seen) {
        keep_where_busy(watched, hands);
        watched->seen = hands;
        return SEES_WORK;
    }
    return hands % 2 == 1 && hands != watched->slow ? SEES_A_CALL : SEES_NOTHING;
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

/* A link may be gone by now whose bell was rung. No GIL. */
static void note_rung(const uint64_t *ids, int count)
{
    pthread_mutex_lock(&standby.mutex);
    for (struct watched *watched = standby.first; watched != NULL; watched = watched->next)
        for (int i = 0; i < count; i++)
            watched->is_called |= watched->id == ids[i];
    pthread_mutex_unlock(&standby.mutex);
}

static void await_bell(int timeout_ms)
{
    uint64_t rung[MAX_RUNG];
    int count = echo_bells_wait(&standby.bells, rung, MAX_RUNG, timeout_ms);

    if (count > 0)
        note_rung(rung, count);
}

/* Until a link is to be answered, a reader is slow, or there is no link. No GIL. */
static void await_call(void)
{
    enum sight sight;
    int quiet = 0;

    for (;;) {
        if (quiet >= QUIET_LOOKS)
            atomic_store(&echo_standby_is_asleep, 1);
        sight = look();
        if (sight == SEES_NO_LINK || sight == SEES_A_CALL)
            break;
        quiet = sight == SEES_NOTHING ? quiet + 1 : 0;
        if (quiet == 0)
            atomic_store(&echo_standby_is_asleep, 0);
        await_bell(quiet > QUIET_LOOKS + 1 ? -1 : LOOK_MS);
    }
    atomic_store(&echo_standby_is_asleep, 0);
}

/* Whether it has been found slow just now, each time once. The mutex. */
static int is_newly_slow(struct watched *watched)
{
    uint64_t hands = atomic_load_explicit(&watched->hands, memory_order_relaxed);

    if (hands % 2 == 0 || hands != watched->seen || hands == watched->slow)
        return 0;
    watched->slow = hands;
    return 1;
}

/* A new reference to the link of one that was called, or is slow; NULL: there is none. */
static PyObject *next_link(int *is_called)
{
    PyObject *link = NULL;

    pthread_mutex_lock(&standby.mutex);
    for (struct watched *watched = standby.first; watched != NULL && link == NULL; watched = watched->next) {
        *is_called = watched->is_called;
        watched->is_called = 0;
        if (*is_called || is_newly_slow(watched))
            link = Py_NewRef(watched->link);
    }
    pthread_mutex_unlock(&standby.mutex);
    return link;
}

/* Whether anything is being handed over, which may turn out to be slow. */
static int is_handing_over(void)
{
    uint64_t hands = 0;

    pthread_mutex_lock(&standby.mutex);
    for (struct watched *watched = standby.first; watched != NULL; watched = watched->next)
        hands |= atomic_load_explicit(&watched->hands, memory_order_relaxed);
    pthread_mutex_unlock(&standby.mutex);
    return hands % 2 == 1;
}

/* For a moment, as far as can be known: what begins to be handed over calls a spare in. */
static void leave_for_a_moment(void)
{
    echo_turns_lend();
    if (echo_turns_are_lent())
        atomic_store(&echo_standby_is_asleep, 1);
}

/* A new reference to the link that the calling thread is to read; NULL: look again. GIL. */
static PyObject *link_to_read(void)
{
    int is_called;
    PyObject *link = next_link(&is_called);

    if (link != NULL && is_called && !echo_link_answer(link_of(link)))
        Py_CLEAR(link);
    if (link != NULL && is_called && !is_handing_over())
        leave_for_a_moment();
    else if (link != NULL)
        echo_turns_pass();
    return link;
}

/* --- the module's functions --- */

PyObject *echo_stand_by(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    PyThreadState *state;
    PyObject *link = NULL;

    forget_inherited();
    if (standby.first == NULL || !echo_turns_take())
        Py_RETURN_NONE;
    while (link == NULL && standby.first != NULL) {
        state = PyEval_SaveThread();
        await_call();
        PyEval_RestoreThread(state);
        link = link_to_read();
    }
    if (link != NULL)
        return link;
    echo_turns_pass();
    Py_RETURN_NONE;
}

PyObject *echo_wants_standby(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    forget_inherited();
    return PyBool_FromLong(echo_turns_are_free() && standby.first != NULL);
}
