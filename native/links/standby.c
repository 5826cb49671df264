/* Standing by: a few threads of a process see when something comes on a link that nobody reads, or when a link's reader
 * is held up by a handler, and go on reading.
 *
 * A link that rests (resting.c) is waited for by its bell, and so are all others that do, in one system call. Who finds
 * one rung reads that link itself: it is not handed to another thread, which would cost a change of threads. All that
 * stand by wait so; the system wakes one for a bell, the one that came last.
 *
 * Credit is taken there at once, without the interpreter's lock. For all else a link has to be read with it, which one
 * thread at a time goes for: that is the errand. The others wait on, so that a thread which keeps the lock for long keeps
 * no credit from any link.
 *
 *   NOBODYS --a link is to be answered--> COMING --has the lock, reads for a moment--> AWAY --comes back--> COMING
 *      ^                                     |                                           |
 *      +-------------------------------------+--------------- handlers, or long ---------+
 *
 * A thread that is away for long has another one started in its place, which needs the lock to begin. The last one that
 * stands by waits for that before it goes for the errand, too: else nobody would hear credit meanwhile.
 *
 * Most that comes on a link that rests is a word between two nodes, such as a ping, and read in a moment: who is away
 * for that answers the next link, too, and wakes nobody for it. The errand is another's as soon as events are handed over
 * by whomever, since handlers may be slow; where the thread stays with its link; and where the moment is found to last.
 *
 * A reader counts when it begins and ends to hand over. One of those that stand by looks at the counts of all links from
 * time to time: one that has not changed from one look to the next, and is odd, is slow. So a reader pays for an
 * addition, and for no look at a clock. It looks while anything is handed over, and then waits as the others do; who
 * hands over then wakes one. A reader may just have read that somebody looks, and what it has counted be not yet to be
 * seen. So one looks again, after some milliseconds: by then either of the two is seen.
 */
#include "links/link.h"

#include "core/clock.h"

/* Between two looks. A handler that takes twice as long is overtaken. */
#define LOOK_MS 5

/* So many looks at links that do nothing, and nobody looks. */
#define QUIET_LOOKS 4

/* How many stand by at least, beside the one that is away: one of them may wait for the interpreter's lock. */
#define MIN_THREADS 2

/* How many stay: those that were away have come back. Others leave when nobody has needed them for some seconds. */
#define USUAL_THREADS (MIN_THREADS + 1)
#define MAX_THREADS 9
#define SPARE_NS 5000000000

/* One that is started in the place of another comes in so much time, or not at all. */
#define START_NS INT64_C(10000000000)

/* A moment. */
#define MOMENT_NS (LOOK_MS * INT64_C(1000000))

enum errand {
    NOBODYS,
    COMING, /* a thread that stands by has it, and takes the GIL */
    AWAY,   /* it reads a link for a moment */
};

_Atomic int echo_standby_is_asleep;

static struct {
    _Atomic unsigned threads;   /* that stand by. Changed with the GIL */
    _Atomic int64_t comes_by;   /* nanoseconds: until then one more may be under way */
    _Atomic int errand;         /* enum errand; changed by compare and swap */
    unsigned long away;         /* the thread that is AWAY. GIL */
    _Atomic int64_t away_since; /* nanoseconds */
    _Atomic int is_looked;      /* 1: one of the threads looks at the counts */
} standby;

void echo_standby_forget(void)
{
    atomic_store(&standby.threads, 0);
    atomic_store(&standby.comes_by, 0);
    atomic_store(&standby.errand, NOBODYS);
    atomic_store(&standby.is_looked, 0);
    atomic_store(&echo_standby_is_asleep, 0);
}

/* --- the errand --- */

static int change_errand(int from, int to)
{
    return atomic_compare_exchange_strong(&standby.errand, &from, to);
}

static void ring_where_called(void)
{
    if (echo_watched_glance() == SEES_A_CALL)
        echo_watched_ring();
}

void echo_standby_call_in(void)
{
    if (change_errand(AWAY, NOBODYS))
        ring_where_called();
}

void echo_standby_wake(void)
{
    if (!atomic_exchange(&echo_standby_is_asleep, 0))
        return;
    change_errand(AWAY, NOBODYS);
    echo_watched_ring();
}

/* Not the last one that hears of credit while another is about to come. No GIL. */
static int may_leave(void)
{
    return atomic_load(&standby.threads) >= MIN_THREADS || monotonic_ns() > atomic_load(&standby.comes_by);
}

/* Who looks may have found that the one which is away is held up. No GIL. */
static int take_errand(int is_looking)
{
    int is_late = is_looking || monotonic_ns() - atomic_load(&standby.away_since) > MOMENT_NS;

    if (!may_leave())
        return 0;
    return change_errand(NOBODYS, COMING) || (is_late && change_errand(AWAY, COMING));
}

/* Its thread reads a link. While nobody looks for slow readers nothing is handed over, as far as can be known: what
 * begins to be wakes one that looks. */
static void go_away(int may_come_back)
{
    standby.away = PyThread_get_thread_ident();
    atomic_store(&standby.away_since, monotonic_ns());
    if (atomic_load(&standby.threads) <= MIN_THREADS)
        atomic_store(&standby.comes_by, monotonic_ns() + START_NS); /* it is about to start another */
    atomic_store(&standby.errand, may_come_back && atomic_load(&echo_standby_is_asleep) ? AWAY : NOBODYS);
    ring_where_called();
}

/* Whether the calling thread was away with the errand, and still has it. */
static int comes_back(void)
{
    return standby.away == PyThread_get_thread_ident() && change_errand(AWAY, COMING);
}

/* --- waiting. No GIL --- */

struct looking {
    int is_on;
    int quiet; /* so many looks have seen nothing */
};

static void begin_to_look(struct looking *looking)
{
    int nobody = 0;

    if (looking->is_on || atomic_load(&echo_standby_is_asleep) ||
        !atomic_compare_exchange_strong(&standby.is_looked, &nobody, 1))
        return;
    *looking = (struct looking){.is_on = 1};
}

/* Unless all is quiet another thread looks in its place. */
static void end_look(struct looking *looking)
{
    if (!looking->is_on)
        return;
    looking->is_on = 0;
    atomic_store(&standby.is_looked, 0);
    if (!atomic_load(&echo_standby_is_asleep))
        echo_watched_ring();
}

static enum sight look(struct looking *looking)
{
    enum sight sight;

    if (looking->quiet >= QUIET_LOOKS)
        atomic_store(&echo_standby_is_asleep, 1);
    sight = echo_watched_look();
    looking->quiet = sight == SEES_NOTHING ? looking->quiet + 1 : 0;
    if (looking->quiet == 0)
        atomic_store(&echo_standby_is_asleep, 0);
    return sight;
}

/* Where a link is to be answered, another thread has the errand, and may be away for longer than a moment; or none has, as
 * this is the last that stands by. */
static int timeout_ms(const struct looking *looking, enum sight sight, int64_t left_ns)
{
    if (looking->is_on || (sight == SEES_A_CALL && atomic_load(&standby.errand) != COMING))
        return LOOK_MS;
    return left_ns < INT64_MAX ? (int)(left_ns / 1000000) + 1 : -1;
}

/* Until a link is to be answered, or a reader is slow: 1, with the errand. 0: there is no link, or the time is up. */
static int await_errand(int64_t until_ns)
{
    struct looking looking = {0};
    int64_t left_ns = INT64_MAX;
    enum sight sight;
    int is_taken = 0;

    for (;;) {
        begin_to_look(&looking);
        sight = looking.is_on ? look(&looking) : echo_watched_glance();
        is_taken = sight == SEES_A_CALL && take_errand(looking.is_on);
        if (until_ns != INT64_MAX)
            left_ns = until_ns - monotonic_ns();
        if (is_taken || sight == SEES_NO_LINK || (left_ns <= 0 && !looking.is_on))
            break;
        if (looking.quiet > QUIET_LOOKS + 1)
            end_look(&looking);
        echo_watched_await(timeout_ms(&looking, sight, left_ns));
    }
    end_look(&looking);
    return is_taken;
}

/* --- threads --- */

/* A new reference to the link that the calling thread is to read; NULL: there is none. GIL, and the errand. */
static PyObject *link_to_read(int *is_called)
{
    PyObject *link;

    while ((link = echo_watched_next(is_called)) != NULL && *is_called && !echo_link_answer(link_of(link)))
        Py_DECREF(link);
    return link;
}

static int64_t leaves_at(void)
{
    return standby.threads > USUAL_THREADS ? monotonic_ns() + SPARE_NS : INT64_MAX;
}

/* As await_errand, with the GIL, which it releases. */
static int await_errand_paused(int64_t until_ns)
{
    PyThreadState *state = PyEval_SaveThread();
    int is_taken = await_errand(until_ns);

    PyEval_RestoreThread(state);
    return is_taken;
}

/* Of the thread that has the errand, or waits for it. NULL: it is not needed. */
static PyObject *next_to_read(int has_errand)
{
    PyObject *link;
    int is_called;

    while (echo_watched_glance() != SEES_NO_LINK) {
        int64_t until_ns = leaves_at();

        if (!has_errand && !await_errand_paused(until_ns)) {
            if (until_ns == INT64_MAX || standby.threads <= USUAL_THREADS)
                continue;
            ring_where_called(); /* nobody else may be awake who waits for the one that is away */
            return NULL;
        }
        link = link_to_read(&is_called);
        if (link != NULL) {
            go_away(is_called);
            return link;
        }
        atomic_store(&standby.errand, NOBODYS); /* who was called since is seen by the next glance */
        has_errand = 0;
    }
    if (has_errand)
        atomic_store(&standby.errand, NOBODYS);
    return NULL;
}

/* The reference to the link is given back. */
static PyObject *reader_of(PyObject *link)
{
    PyObject *reader = echo_link_reader(link_of(link));

    Py_DECREF(link);
    return reader;
}

PyObject *echo_stand_by(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    PyObject *link;
    int has_errand;

    echo_watched_forget_inherited();
    has_errand = comes_back();
    if (!has_errand && standby.threads >= MAX_THREADS)
        Py_RETURN_NONE;
    atomic_store(&standby.comes_by, 0);
    standby.threads++;
    link = next_to_read(has_errand);
    standby.threads--;
    if (link == NULL && standby.threads > 0 && echo_watched_glance() == SEES_NO_LINK)
        echo_watched_ring(); /* one wakes the next */
    return link != NULL ? reader_of(link) : Py_NewRef(Py_None);
}

PyObject *echo_wants_standby(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    echo_watched_forget_inherited();
    return PyBool_FromLong(standby.threads < MIN_THREADS && echo_watched_glance() != SEES_NO_LINK);
}
