/* The rules of the type Queue: events that wait for a thread, bounded by number and by bytes.
 *
 * The GIL guards its state. Nobody makes a system call unless somebody sleeps: who goes to sleep says so in a
 * bell, while holding the GIL, and sleeps only if the bell has not been rung since. A ring wakes all: who finds
 * nothing says again that it sleeps, so no wake-up is lost to a thread that has gone away with an exception.
 */
#include "streams/queues.h"

#include "streams/deliveries.h"

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
static void show(struct queue *queue)
{
    int is_readable = queue->count > 0 || is_over(queue);
    uint64_t one = 1;

    if (queue->fd < 0 || has_forked_since(queue->fd_forks) || is_readable == queue->fd_is_readable)
        return;
    queue->fd_is_readable = is_readable;
    while ((is_readable ? write(queue->fd, &one, sizeof one) : read(queue->fd, &one, sizeof one)) < 0 && errno == EINTR)
        ;
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
static int grow(struct queue *queue)
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

/* Takes the reference to the event over, unless it fails; not that to what counts it, which only a policy that drops
 * what is in the queue has use for. */
static int append(struct queue *queue, const struct item *item)
{
    struct item *place;

    if (queue->count == queue->capacity && grow(queue) != 0)
        return -1;
    place = item_at(queue, queue->count);
    *place = *item;
    place->from = queue->policy == POLICY_DROP_OLDEST ? Py_XNewRef(item->from) : NULL;
    queue->count++;
    queue->events += item->events;
    queue->bytes += item->size;
    ring(&queue->filled);
    show(queue);
    return 0;
}

/* The oldest item, whose references become the caller's. There is one. */
static struct item pop(struct queue *queue)
{
    struct item item = *item_at(queue, 0);

    queue->head = (queue->head + 1) & (queue->capacity - 1);
    queue->count--;
    queue->events -= item.events;
    queue->bytes -= item.size;
    queue->is_stalled = 0;
    ring(&queue->drained);
    show(queue);
    return item;
}

void echo_queue_empty(struct queue *queue)
{
    while (queue->count > 0) {
        struct item item = pop(queue);

        Py_DECREF(item.event);
        Py_XDECREF(item.from);
    }
}

/* Nothing that is in the queue will be dropped any more: it would keep what feeds it, which keeps it. May run any
 * code. */
static void forget_origins(struct queue *queue)
{
    PyObject *from;

    for (size_t i = 0; i < queue->count; i++) {
        from = item_at(queue, i)->from;
        item_at(queue, i)->from = NULL;
        Py_XDECREF(from);
    }
}

/* --- putting --- */

/* An item of more events or bytes than are allowed has room where it is alone: it could never go otherwise. */
static inline int has_room(const struct queue *queue, const struct item *item)
{
    return queue->count == 0 ||
           (item->events <= queue->max_events - queue->events && item->size <= queue->max_bytes - queue->bytes);
}

void echo_queue_narrow(PyObject *self, Py_ssize_t record_size, Py_ssize_t alone, struct space *space)
{
    const struct queue *queue = (struct queue *)self;
    Py_ssize_t events = queue->max_events - queue->events, bytes = queue->max_bytes - queue->bytes, whole;

    if (queue->policy != POLICY_BLOCK || queue->is_stalled || is_over(queue))
        return;
    if (record_size == 0)
        space->frames = Py_MIN(space->frames, events);
    else if (!__builtin_mul_overflow(events, record_size, &whole))
        bytes = Py_MIN(bytes, whole);
    if (queue->count == 0 && bytes < alone)
        bytes = alone;
    space->bytes = Py_MIN(space->bytes, bytes);
}

/* A thread that leads would wait for itself, or for what it alone may be about to get. It has looked whether there is
 * room for what it hands out, and puts it also where others have come first, unless one of them has waited in vain;
 * and what handlers that run meanwhile submit to the queue that it leads for. */
static int waits_for_itself(const struct queue *queue, PyObject *from)
{
    return (from != NULL && ((struct delivery *)from)->is_led) ||
           (queue->leader != 0 && queue->leader == PyThread_get_thread_ident());
}

/* 1: there is room now; 0: there is none; -1 with an exception. */
static int await_room(struct queue *queue, const struct item *item)
{
    int64_t left, deadline;

    if (queue->is_stalled)
        return 0;
    if (waits_for_itself(queue, item->from))
        return 1;
    deadline = deadline_after(queue->timeout_ns);
    while (!is_over(queue) && !has_room(queue, item)) {
        left = time_left(deadline);
        queue->is_stalled = left == 0;
        if (queue->is_stalled)
            return 0;
        if (sleep_until_rung(&queue->drained, left) != 0)
            return -1;
    }
    return !is_over(queue);
}

/* Lets go of the event of an item that is not in the queue. May run any code. */
static void drop(struct queue *queue, const struct item *item)
{
    queue->dropped += (uint64_t)item->events;
    if (item->from != NULL)
        ((struct delivery *)item->from)->dropped += (uint64_t)item->events;
    Py_DECREF(item->event);
}

static int drop_oldest(struct queue *queue, const struct item *item)
{
    while (!has_room(queue, item)) {
        struct item oldest = pop(queue);

        drop(queue, &oldest);
        Py_XDECREF(oldest.from);
    }
    return !is_over(queue);
}

static int fail(struct queue *queue)
{
    queue->has_failed = 1;
    ring(&queue->filled);
    show(queue);
    return 0;
}

/* As await_room. */
static int make_room(struct queue *queue, const struct item *item)
{
    if (is_over(queue))
        return 0;
    switch (queue->policy) {
    case POLICY_BLOCK:
        return await_room(queue, item);
    case POLICY_DROP_OLDEST:
        return drop_oldest(queue, item);
    case POLICY_DROP_NEWEST:
        return 0;
    case POLICY_ERROR:
        return fail(queue);
    }
    Py_UNREACHABLE();
}

int echo_queue_put(PyObject *self, PyObject *event, Py_ssize_t size, Py_ssize_t events, PyObject *from)
{
    struct queue *queue = (struct queue *)self;
    struct item item = {event, from, size, events};
    int room = !is_over(queue) && has_room(queue, &item) ? 1 : make_room(queue, &item);

    if (room > 0 && append(queue, &item) == 0)
        return 0;
    drop(queue, &item);
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

/* A handler that waits for what comes behind its own event would wait for itself. */
static int is_in_its_own_way(const struct queue *queue)
{
    if (queue->link == NULL || !echo_is_dispatching_from(queue->link))
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
    if (is_in_its_own_way(queue))
        return GOT_ERROR;
    return sleep_until_rung(&queue->filled, timeout_ns) == 0 ? GOT_NOTHING : GOT_ERROR;
}

enum got echo_queue_take(struct queue *queue, PyObject **event)
{
    if (queue->count > 0) {
        struct item item = pop(queue);

        *event = item.event;
        Py_XDECREF(item.from);
        return GOT;
    }
    if (!queue->has_failed)
        return queue->is_closed ? GOT_END : GOT_NOTHING;
    echo_raise("BacklogError", "Expected at most %zd events or %zd bytes to wait for the sink, got more",
               queue->max_events, queue->max_bytes);
    return GOT_ERROR;
}

enum got echo_queue_get(struct queue *queue, int64_t timeout_ns, PyObject **event)
{
    enum got got = echo_queue_take(queue, event);
    int64_t left, deadline;

    if (got != GOT_NOTHING)
        return got;
    deadline = deadline_after(timeout_ns);
    do {
        left = time_left(deadline);
        got = await_event(queue, left);
        if (got == GOT_NOTHING)
            got = echo_queue_take(queue, event);
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
    Py_CLEAR(queue->link);
}
