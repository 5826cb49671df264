/* The rules of the type Queue: events that wait for a thread, bounded by number and by bytes.
 *
 * The GIL guards its state. Nobody makes a system call unless somebody sleeps: who goes to sleep says so in a
 * bell, while holding the GIL, and sleeps only if the bell has not been rung since. A ring wakes all: who finds
 * nothing says again that it sleeps, so no wake-up is lost to a thread that has gone away with an exception.
 */
#include "streams/queues.h"

#include "streams/answers.h"

#include "links/errors.h"
#include "links/link.h"

#include "core/forks.h"
#include "core/outbox/staging.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define FIRST_CAPACITY 16

/* --- time --- */

/* Until the deadline: 0 when it has passed, negative when it never comes. */
static int64_t time_left(int64_t deadline)
{
    int64_t left = deadline != INT64_MAX ? deadline - monotonic_ns() : -1;

    return deadline == INT64_MAX || left > 0 ? left : 0;
}

/* --- bells --- */

static void ring(struct bell *bell)
{
    if (!bell->is_awaited)
        return;
    bell->is_awaited = 0;
    atomic_fetch_add(&bell->word, 1);
    futex_wake_all(&bell->word);
}

/* Sleeps until the bell is rung, time is up, or for no reason. -1 with what a signal handler has raised. */
static int sleep_until_rung(struct bell *bell, int64_t timeout_ns)
{
    uint32_t word = atomic_load(&bell->word);
    int status;

    bell->is_awaited = 1;
    Py_BEGIN_ALLOW_THREADS
    status = echo_futex_wait(&bell->word, word, timeout_ns);
    Py_END_ALLOW_THREADS
    return status == -EINTR ? PyErr_CheckSignals() : 0;
}

/* --- the descriptor --- */

/* The descriptor is readable exactly while there is something to get, or nothing to wait for. One that is the
 * parent's is left as it is. */
static __attribute__((noinline)) void show_readiness(struct queue *queue)
{
    int is_readable = queue->count > 0 || is_over(queue);
    uint64_t one = 1;

    if (has_forked_since(queue->fd_forks) || is_readable == queue->fd_is_readable)
        return;
    queue->fd_is_readable = is_readable;
    while ((is_readable ? write(queue->fd, &one, sizeof one) : read(queue->fd, &one, sizeof one)) < 0 && errno == EINTR)
        ;
}

static inline void show(struct queue *queue)
{
    if (queue->fd >= 0)
        show_readiness(queue);
}

int echo_queue_fd(struct queue *queue)
{
    if (queue->fd >= 0 && !has_forked_since(queue->fd_forks))
        return queue->fd;
    if (queue->fd >= 0)
        close(queue->fd);
    queue->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    queue->fd_forks = echo_forks;
    queue->fd_is_readable = 0;
    if (queue->fd < 0)
        PyErr_SetFromErrno(PyExc_OSError);
    show(queue);
    return queue->fd;
}

/* --- the ring --- */

static struct item *item_at(const struct queue *queue, size_t i)
{
    return &queue->items[(queue->head + i) & (queue->capacity - 1)];
}

/* Runs no Python code. */
static __attribute__((cold)) int grow(struct queue *queue)
{
    size_t i, capacity = queue->capacity != 0 ? 2 * queue->capacity : FIRST_CAPACITY;
    struct item *items = PyMem_Malloc(capacity * sizeof *items);

    if (items == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (i = 0; i < queue->count; i++)
        items[i] = *item_at(queue, i);
    PyMem_Free(queue->items);
    queue->items = items;
    queue->capacity = capacity;
    queue->head = 0;
    return 0;
}

/* Takes the reference to the event over, unless it fails; not that to what brought it. */
static int append(struct queue *queue, const struct item *item)
{
    if (queue->count == queue->capacity && grow(queue) != 0)
        return -1;
    *item_at(queue, queue->count) = *item;
    if (item->from != NULL) {
        Py_INCREF(item->from);
        delivery_hold((struct delivery *)item->from, item->events, item->size);
    }
    queue->count++;
    queue->events += item->events;
    queue->bytes += item->size;
    ring(&queue->filled);
    show(queue);
    return 0;
}

/* The oldest item, whose references become the caller's. There is one. */
static inline void pop(struct queue *queue, struct item *item)
{
    *item = *item_at(queue, 0);
    queue->head = (queue->head + 1) & (queue->capacity - 1);
    queue->count--;
    queue->events -= item->events;
    queue->bytes -= item->size;
    ring(&queue->drained);
    show(queue);
}

void echo_queue_empty(struct queue *queue)
{
    struct item item;

    while (queue->count > 0) {
        pop(queue, &item);
        Py_DECREF(item.event);
        item_done(&item);
    }
}

/* Its sink is closed. */
static void miss(const struct item *item)
{
    echo_delivery_miss((struct delivery *)item->from, item->number, (uint64_t)item->events, MISSED_CLOSED);
}

/* Nobody has to take what is queued any more, so that it is no sink's. */
static void miss_all(const struct queue *queue)
{
    const struct item *item;

    for (size_t i = 0; i < queue->count; i++) {
        item = item_at(queue, i);
        if (item->from == NULL)
            continue;
        miss(item);
        echo_delivery_forget((struct delivery *)item->from, item->events, item->size);
    }
}

/* Nothing that is in the queue will be dropped any more: it would keep what feeds it, which keeps it. May run any
 * code. */
static void forget_origins(struct queue *queue)
{
    struct item *item;
    PyObject *from;

    miss_all(queue);
    for (size_t i = 0; i < queue->count; i++) {
        item = item_at(queue, i);
        from = item->from;
        if (from == NULL)
            continue;
        item->from = NULL;
        item->describe = Py_XNewRef(((struct delivery *)from)->describe);
        delivery_done((struct delivery *)from, 0, 0);
        Py_DECREF(from);
    }
}

uint64_t echo_queue_oldest_of(const struct delivery *delivery)
{
    const struct queue *queue = (struct queue *)delivery->target;

    if (queue->held.from == &delivery->ob_base)
        return queue->held.number;
    for (size_t i = 0; i < queue->count; i++)
        if (item_at(queue, i)->from == &delivery->ob_base)
            return item_at(queue, i)->number;
    return UINT64_MAX;
}

void echo_queue_miss_held_of(const struct delivery *delivery)
{
    const struct queue *queue = (struct queue *)delivery->target;

    if (queue->held.from == &delivery->ob_base)
        miss(&queue->held);
    for (size_t i = 0; i < queue->count; i++)
        if (item_at(queue, i)->from == &delivery->ob_base)
            miss(item_at(queue, i));
}

static struct amount amount_of(const struct item *item)
{
    return (struct amount){(uint64_t)item->events, (uint64_t)item->size};
}

struct amount echo_queue_held_of(const struct delivery *delivery)
{
    const struct queue *queue = (struct queue *)delivery->target;
    struct amount held = {0, 0};

    for (size_t i = 0; i < queue->count; i++)
        if (item_at(queue, i)->from == &delivery->ob_base)
            held = amount_plus(held, amount_of(item_at(queue, i)));
    return queue->held.from == &delivery->ob_base ? amount_plus(held, amount_of(&queue->held)) : held;
}

struct amount echo_queue_share(const struct queue *queue)
{
    Py_ssize_t feeds = queue->feeds > 1 ? (Py_ssize_t)queue->feeds : 1;

    return (struct amount){(uint64_t)Py_MAX(queue->max_events / feeds, 1),
                           (uint64_t)Py_MAX(queue->max_bytes / feeds, 1)};
}

/* --- putting --- */

/* An item of more events or bytes than are allowed has room where it is alone: it could never go otherwise. */
static inline int has_room(const struct queue *queue, const struct item *item)
{
    return queue->count == 0 ||
           (item->events <= queue->max_events - queue->events && item->size <= queue->max_bytes - queue->bytes);
}

/* Another process's, which had credit for it. */
static int is_granted(const struct queue *queue, const struct item *item)
{
    const struct incoming_stream *incoming = item->from != NULL ? ((struct delivery *)item->from)->incoming : NULL;

    return incoming != NULL && !incoming->is_local && does_wait(queue->policy);
}

/* Whether this thread alone would make room: it is handling what it has taken, or reads for this queue. */
static int waits_for_itself(const struct queue *queue)
{
    unsigned long self = PyThread_get_thread_ident();

    return queue->leader == self || (queue->looper == self && !queue->has_others);
}

static void note_pace(struct queue *queue, int others_wait)
{
    int64_t now_ns = monotonic_ns();

    sink_pace_note(&queue->pace, now_ns);
    sink_pace_go_on(&queue->pace, now_ns, others_wait);
}

/* For how long to wait from now on; something was taken just now, or since somebody had waited in vain. */
static int64_t patience_now(struct queue *queue)
{
    note_pace(queue, 1);
    return sink_patience(queue->policy, &queue->pace, queue->timeout_ns);
}

/* Until there is room: 1. 0: nothing was taken for so long as the policy says, or else for that long in all; or the
 * queue is over. -1 with an exception. */
static int await_room(struct queue *queue, const struct item *item)
{
    int64_t left, due, deadline;
    uint64_t takes = queue->takes;

    if (queue->vain_at == takes || waits_for_itself(queue))
        return 0;
    deadline = deadline_after(patience_now(queue));
    while (!is_over(queue) && !has_room(queue, item)) {
        if (queue->policy == POLICY_PACE && queue->takes != takes)
            deadline = deadline_after(patience_now(queue));
        takes = queue->takes;
        left = time_left(deadline);
        if (left == 0) {
            queue->vain_at = takes;
            return 0;
        }
        left = pace_sleep_ns(queue->policy, left);
        due = deadline_after(left);
        if (sleep_until_rung(&queue->drained, left) != 0)
            return -1;
        deadline = pace_deadline(queue->policy, deadline, due, monotonic_ns());
    }
    if (queue->takes != takes)
        note_pace(queue, 0);
    return !is_over(queue);
}

/* Lets go of the event of an item that is not in the queue. May run any code. */
static void drop(struct queue *queue, const struct item *item)
{
    queue->dropped += (uint64_t)item->events;
    if (item->from != NULL) {
        ((struct delivery *)item->from)->dropped += (uint64_t)item->events;
        echo_delivery_miss((struct delivery *)item->from, item->number, (uint64_t)item->events, MISSED_DROPPED);
    }
    Py_DECREF(item->event);
}

static int drop_oldest(struct queue *queue, const struct item *item)
{
    struct item oldest;

    while (!is_over(queue) && !has_room(queue, item)) {
        pop(queue, &oldest);
        drop(queue, &oldest);
        item_done(&oldest);
    }
    return !is_over(queue);
}

/* As await_room; then the oldest has to go. */
static int pace(struct queue *queue, const struct item *item)
{
    int room = await_room(queue, item);

    return room == 0 ? drop_oldest(queue, item) : room;
}

/* As await_room; but who has waited in vain is told. */
static int block(struct queue *queue, const struct item *item)
{
    int room = await_room(queue, item);

    if (room != 0 || is_over(queue))
        return room;
    if (waits_for_itself(queue))
        return echo_raise("BacklogError", "Expected room in the queue of a sink here, which is full, and this thread "
                                          "alone takes events from it");
    return echo_raise("BacklogError", "Expected room in the queue of a sink here, it was full for %lld ms",
                      (long long)(queue->timeout_ns / 1000000));
}

static int fail(struct queue *queue)
{
    queue->has_failed = 1;
    ring(&queue->filled);
    show(queue);
    return 0;
}

/* As await_room. */
static __attribute__((cold)) int make_room(struct queue *queue, const struct item *item)
{
    if (is_over(queue))
        return 0;
    switch (queue->policy) {
    case POLICY_PACE:
        return pace(queue, item);
    case POLICY_BLOCK:
        return block(queue, item);
    case POLICY_DROP_OLDEST:
        return drop_oldest(queue, item);
    case POLICY_DROP_NEWEST:
        return 0;
    case POLICY_ERROR:
        return fail(queue);
    }
    Py_UNREACHABLE();
}

int echo_queue_put(PyObject *self, const struct item *item)
{
    struct queue *queue = (struct queue *)self;
    int room = !is_over(queue) && (has_room(queue, item) || is_granted(queue, item)) ? 1 : make_room(queue, item);

    if (room > 0 && append(queue, item) == 0)
        return 0;
    drop(queue, item);
    return room == 0 ? 0 : -1;
}

/* --- getting --- */

/* Reads the link in this thread, which brings events to this queue among others. */
static enum led lead(struct queue *queue, int64_t timeout_ns)
{
    PyObject *link = queue->link;
    unsigned long before = queue->leader;
    enum led led;

    if (link == NULL)
        return LED_OCCUPIED;
    Py_INCREF(link); /* it may be replaced meanwhile */
    queue->leader = PyThread_get_thread_ident();
    led = echo_link_lead(link, timeout_ns);
    queue->leader = before;
    Py_DECREF(link);
    return led;
}

/* A handler that waits for what comes behind its own event would wait for itself. Also one that another thread has
 * taken the reading from may not: else its fate was a matter of milliseconds. */
static int is_in_its_own_way(const struct queue *queue)
{
    if (echo_gathering == NULL || queue->link == NULL || !echo_is_dispatching_from(queue->link))
        return 0;
    echo_raise("ChannelError", "Expected a thread that can wait for events, got the one that reads the link that they "
                               "come by: handlers run there; give the sink a thread with own_thread=True");
    return 1;
}

/* Waits once, in whichever way; GOT_NOTHING: look again. A signal is handled first: one that came while no system
 * call was there to be interrupted, or on another thread. Not between lead and sleeping, as the ring that lead has
 * promised may come meanwhile. */
static enum got await_event(struct queue *queue, int64_t timeout_ns)
{
    if (PyErr_CheckSignals() != 0)
        return GOT_ERROR;
    if (queue->count > 0 || is_over(queue)) /* so a handler has brought about */
        return GOT_NOTHING;
    if (timeout_ns != 0 && is_in_its_own_way(queue))
        return GOT_ERROR;
    switch (lead(queue, timeout_ns)) {
    case LED_READ:
    case LED_TIMEOUT:
        return GOT_NOTHING;
    case LED_RAISED:
        return GOT_ERROR;
    case LED_OCCUPIED:
    case LED_ENDED:
        break;
    }
    if (timeout_ns == 0 || queue->count > 0 || is_over(queue))
        return GOT_NOTHING;
    return sleep_until_rung(&queue->filled, timeout_ns) == 0 ? GOT_NOTHING : GOT_ERROR;
}

enum got echo_queue_take(struct queue *queue, struct item *item)
{
    if (queue->count > 0) {
        pop(queue, item);
        queue->takes++;
        if (queue->looper != 0 && queue->looper != PyThread_get_thread_ident())
            queue->has_others = 1;
        return GOT;
    }
    if (!queue->has_failed)
        return queue->is_closed ? GOT_END : GOT_NOTHING;
    echo_raise("BacklogError", "Expected at most %zd events or %zd bytes to wait for the sink, got more",
               queue->max_events, queue->max_bytes);
    return GOT_ERROR;
}

enum got echo_queue_get(struct queue *queue, int64_t timeout_ns, struct item *item)
{
    enum got got = echo_queue_take(queue, item);
    int64_t left, deadline;

    if (got != GOT_NOTHING)
        return got;
    deadline = deadline_after(timeout_ns);
    do {
        left = time_left(deadline);
        got = await_event(queue, left);
        if (got == GOT_NOTHING)
            got = echo_queue_take(queue, item);
    } while (got == GOT_NOTHING && left != 0);
    return got;
}

/* --- for all --- */

void echo_queue_wake(PyObject *self)
{
    ring(&((struct queue *)self)->filled);
}

void echo_queue_close(struct queue *queue)
{
    queue->is_closed = 1;
    ring(&queue->filled);
    ring(&queue->drained);
    show(queue);
    forget_origins(queue);
    if (queue->looper == PyThread_get_thread_ident()) /* which asks for nothing more */
        queue_hold(queue, &(struct item){0});
    Py_CLEAR(queue->link);
}
