/* The list of the links that threads stand by for, and the bells of those that rest.
 *
 * Threads look at it without the GIL, so a mutex guards it. Who hears of a link whose bell was rung holds it meanwhile,
 * without the mutex: it does not go before that. Nobody takes the GIL who has the mutex or holds a link.
 *
 * A reader that waits in a socket can be had back only after a time that the kernel looks at, which costs each read a
 * little. So the first few links that are busy keep theirs, which waits for ever.
 */
#include "links/link.h"

#include <errno.h>

#include <pthread.h>

/* A link is busy that has been handed over so often between two looks. */
#define BUSY_HANDS 10

/* How many of those keep their thread. */
#define MAX_KEPT 4

/* Rung bells are fetched so many at a time. */
#define MAX_RUNG 16

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t let_go; /* a link was that somebody held */
    struct watched *first; /* the mutex */
    _Atomic size_t count;  /* of links; the mutex, as the next */
    _Atomic size_t called; /* how many are to be answered */
    unsigned kept;         /* links that keep their thread. The mutex */
    struct bells bells;
    int has_bells;  /* 1: they are open. GIL */
    uint64_t ids;   /* given to links. GIL */
    unsigned forks; /* echo_forks when all this was set up */
} list = {.mutex = PTHREAD_MUTEX_INITIALIZER, .let_go = PTHREAD_COND_INITIALIZER};

void echo_watched_forget_inherited(void)
{
    if (!has_forked_since(list.forks))
        return;
    if (list.has_bells)
        echo_bells_close(&list.bells);
    pthread_mutex_init(&list.mutex, NULL);
    pthread_cond_init(&list.let_go, NULL);
    list.first = NULL;
    atomic_store(&list.count, 0);
    atomic_store(&list.called, 0);
    list.has_bells = 0;
    list.kept = 0;
    list.forks = echo_forks;
    echo_standby_forget();
}

static void lock(void)
{
    pthread_mutex_lock(&list.mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&list.mutex);
}

void echo_watched_ring(void)
{
    if (list.has_bells)
        echo_bells_call(&list.bells);
}

/* --- links; the mutex for what is static --- */

static int open_bells(void)
{
    echo_watched_forget_inherited();
    if (list.has_bells)
        return 0;
    errno = -echo_bells_open(&list.bells);
    if (errno != 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    list.has_bells = 1;
    return 0;
}

static void put_in(struct watched *watched)
{
    watched->next = list.first;
    watched->place = &list.first;
    if (watched->next != NULL)
        watched->next->place = &watched->next;
    list.first = watched;
    atomic_fetch_add(&list.count, 1);
}

static void set_called(struct watched *watched, int is_called)
{
    if (watched->is_called != is_called)
        atomic_fetch_add(&list.called, is_called ? 1 : (size_t)-1);
    watched->is_called = is_called;
}

static void take_out(struct watched *watched)
{
    set_called(watched, 0);
    list.kept -= (unsigned)watched->is_kept;
    watched->is_kept = 0;
    *watched->place = watched->next;
    if (watched->next != NULL)
        watched->next->place = watched->place;
    watched->place = NULL;
    atomic_fetch_sub(&list.count, 1);
}

static void drop_bell(struct watched *watched)
{
    if (watched->bell >= 0)
        echo_bells_drop(&list.bells, watched->bell);
    watched->bell = -1;
}

int echo_watched_add(struct watched *watched, PyObject *link)
{
    if (open_bells() != 0)
        return -1;
    watched->link = link;
    watched->id = list.ids++;
    watched->bell = -1;
    atomic_init(&watched->patience_ns, -1);
    watched->forks = echo_forks;
    lock();
    put_in(watched);
    unlock();
    return 0;
}

void echo_watched_remove(struct watched *watched)
{
    if (watched->place == NULL || has_forked_since(watched->forks))
        return;
    lock();
    while (watched->holders > 0)
        pthread_cond_wait(&list.let_go, &list.mutex);
    drop_bell(watched);
    take_out(watched);
    unlock();
    if (atomic_load(&list.count) == 0)
        echo_watched_ring(); /* nobody has to stand by */
}

void echo_watched_call(struct watched *watched)
{
    if (has_forked_since(watched->forks))
        return;
    lock();
    if (watched->place == NULL)
        put_in(watched);
    set_called(watched, 1);
    unlock();
    echo_watched_ring();
}

void echo_watched_wait(struct watched *watched, int64_t patience_ns)
{
    lock();
    if (!watched->is_kept)
        atomic_store(&watched->patience_ns, patience_ns);
    unlock();
}

/* Not where it is ended: its descriptor is about to be closed. */
int echo_watched_arm(struct watched *watched, int bell, enum rings rings)
{
    int status = -EBADF;

    lock();
    if (watched->place != NULL)
        status = echo_bells_arm(&list.bells, bell, watched->id, rings, watched->bell < 0);
    if (status == 0)
        watched->bell = bell;
    unlock();
    return status;
}

void echo_watched_disarm(struct watched *watched)
{
    if (has_forked_since(watched->forks))
        return;
    lock();
    drop_bell(watched);
    unlock();
}

/* --- looking --- */

/* Its next read, and those that follow, are not timed. The mutex. */
static void keep_where_busy(struct watched *watched, uint64_t hands)
{
    if (hands - watched->seen < 2 * BUSY_HANDS || list.kept == MAX_KEPT ||
        atomic_load_explicit(&watched->patience_ns, memory_order_relaxed) <= 0)
        return;
    list.kept++;
    watched->is_kept = 1;
    atomic_store_explicit(&watched->patience_ns, -1, memory_order_relaxed);
}

/* The mutex. */
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

enum sight echo_watched_look(void)
{
    enum sight sight, most = SEES_NO_LINK;

    lock();
    for (struct watched *watched = list.first; watched != NULL; watched = watched->next) {
        sight = look_at(watched);
        most = sight > most ? sight : most;
    }
    unlock();
    return most;
}

enum sight echo_watched_glance(void)
{
    if (atomic_load(&list.called) > 0)
        return SEES_A_CALL;
    return atomic_load(&list.count) > 0 ? SEES_NOTHING : SEES_NO_LINK;
}

/* --- bells --- */

/* NULL: it is gone by now. */
static struct watched *hold(uint64_t id)
{
    struct watched *watched;

    lock();
    for (watched = list.first; watched != NULL && watched->id != id; watched = watched->next)
        continue;
    if (watched != NULL)
        watched->holders++;
    unlock();
    return watched;
}

static void let_go(struct watched *watched, int is_called)
{
    lock();
    if (is_called)
        set_called(watched, 1);
    if (--watched->holders == 0)
        pthread_cond_broadcast(&list.let_go);
    unlock();
}

void echo_watched_await(int timeout_ms)
{
    uint64_t rung[MAX_RUNG];
    int count = echo_bells_wait(&list.bells, rung, MAX_RUNG, timeout_ms);
    struct watched *watched;

    for (int i = 0; i < count; i++) {
        watched = hold(rung[i]);
        if (watched != NULL)
            let_go(watched, echo_link_hear(link_of(watched->link)));
    }
}

/* --- whom to answer --- */

/* Whether it has been found slow just now, each time once. The mutex. */
static int is_newly_slow(struct watched *watched)
{
    uint64_t hands = atomic_load_explicit(&watched->hands, memory_order_relaxed);

    if (hands % 2 == 0 || hands != watched->seen || hands == watched->slow)
        return 0;
    watched->slow = hands;
    return 1;
}

PyObject *echo_watched_next(int *is_called)
{
    PyObject *link = NULL;

    lock();
    for (struct watched *watched = list.first; watched != NULL && link == NULL; watched = watched->next) {
        *is_called = watched->is_called;
        set_called(watched, 0);
        if (*is_called || is_newly_slow(watched))
            link = Py_NewRef(watched->link);
    }
    unlock();
    return link;
}
