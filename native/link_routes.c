/* The type Route: one source's way over one link, and what becomes of its events when the link is full. */
#include "link_links.h"

#include <errno.h>
#include <stdlib.h>
#include <structmember.h>

/* How long a large frame waits for a full wire before it is copied to the backlog. A reader that is busy takes
 * less; a copy costs as much as the write. */
#define LARGE_PATIENCE_NS 10000000

/* The Python object. The lane outlives it while frames of it wait. */
struct route {
    PyObject ob_base;
    struct link *link;  /* owned */
    struct lane *lane;  /* owned, or orphaned */
    int is_closed;      /* 1: takes no more */
};

static struct route *route_of(PyObject *object)
{
    return (struct route *)(void *)object;
}

static int check_route(const struct route *route)
{
    if (route->link->forks != echo_forks || route->link->wire == NULL)
        return echo_link_check(route->link);
    if (!route->is_closed)
        return 0;
    echo_raise("ClosedError", "The route of stream %lu is closed", (unsigned long)route->lane->stream);
    return -1;
}

/* --- a full link --- */

/* Something to put, and how far it has come. */
struct put {
    struct lane *lane;
    const struct frame *frame;
    uint64_t events;
    size_t bytes;     /* of the frame */
    int is_waiting;   /* 1: until_ns is set */
    int64_t until_ns; /* the end of the policy's patience; negative: never */
};

enum done {
    DONE,
    DROPPED,
    AGAIN,      /* something has changed: from the start */
    REFUSED,    /* the backlog is full */
    INTERRUPTED /* a signal came */
};

static int64_t large_patience(const struct lane *lane)
{
    if (lane->policy != POLICY_BLOCK)
        return 0;
    return lane->timeout_ns < 0 || lane->timeout_ns > LARGE_PATIENCE_NS ? LARGE_PATIENCE_NS : lane->timeout_ns;
}

/* Past the backlogs, where that keeps the order. Locked. REFUSED: it must wait behind others. */
static enum done put_directly(struct put *put)
{
    struct outbox *outbox = put->lane->outbox;

    if (has_backlog(outbox) || put->lane->tail_gap > 0)
        return REFUSED;
    if (put->bytes <= STAGING_BYTES - outbox->staged) {
        echo_outbox_stage(outbox, put->frame, put->lane->delay);
        return DONE;
    }
    if (outbox->is_writing || outbox->is_full)
        return REFUSED;
    if (put->bytes <= STAGING_BYTES || outbox->large != NULL ||
        (outbox->staged > 0 && outbox->front_to > outbox->front_from)) {
        echo_outbox_write(outbox, 1);
        return AGAIN;
    }
    return echo_outbox_write_large(outbox, put->frame, large_patience(put->lane)) ? DONE : AGAIN;
}

static void queue(struct put *put)
{
    echo_lane_queue(put->lane, put->events, put->frame);
    echo_outbox_pump(put->lane->outbox, 1);
}

/* A large frame waits until all is written, to go to the wire from where it lies; others until half is. */
static int has_room(const struct put *put)
{
    const struct lane *lane = put->lane;

    if (put->bytes > STAGING_BYTES)
        return !has_work(lane->outbox) && !lane->outbox->is_writing;
    return lane->backlog.events * 2 <= lane->max_events && lane->backlog.bytes * 2 <= lane->max_bytes &&
           echo_lane_fits(lane, put->events, put->bytes);
}

/* No GIL, locked. */
static enum done work_until_room(struct put *put)
{
    struct outbox *outbox = put->lane->outbox;
    int64_t left_ns = -1;

    while (outbox->end == END_NOT && !has_room(put)) {
        if (put->until_ns >= 0 && (left_ns = put->until_ns - monotonic_ns()) <= 0)
            return echo_lane_fits(put->lane, put->events, put->bytes) ? AGAIN : REFUSED;
        if (echo_outbox_work(outbox, left_ns) == -EINTR)
            return INTERRUPTED;
    }
    return AGAIN;
}

/* Locked before and after; unlocked and without the GIL meanwhile, in the order that forbids a deadlock. */
static enum done wait_for_room(struct put *put)
{
    struct outbox *outbox = put->lane->outbox;
    PyThreadState *state;
    enum done done;

    if (!put->is_waiting) {
        put->is_waiting = 1;
        put->until_ns = put->lane->timeout_ns < 0 ? -1 : monotonic_ns() + put->lane->timeout_ns;
    }
    echo_outbox_unlock(outbox);
    state = PyEval_SaveThread();
    outbox_lock(outbox);
    done = work_until_room(put);
    echo_outbox_unlock(outbox);
    PyEval_RestoreThread(state);
    if (done == INTERRUPTED && PyErr_CheckSignals() == 0)
        done = AGAIN;
    outbox_lock(outbox);
    return done;
}

static enum done drop_oldest(struct put *put)
{
    while (!echo_lane_fits(put->lane, put->events, put->bytes))
        echo_lane_drop_oldest(put->lane);
    queue(put);
    return DONE;
}

/* One attempt. Locked. */
static enum done try(struct put *put)
{
    enum done done = put_directly(put);

    if (done != REFUSED)
        return done;
    if (echo_lane_fits(put->lane, put->events, put->bytes)) {
        queue(put);
        return DONE;
    }
    switch (put->lane->policy) {
    case POLICY_BLOCK:
        return wait_for_room(put);
    case POLICY_DROP_OLDEST:
        return drop_oldest(put);
    case POLICY_DROP_NEWEST:
        return DROPPED;
    default:
        return REFUSED;
    }
}

static int raise_backlog(const struct lane *lane)
{
    if (lane->policy == POLICY_BLOCK)
        echo_raise("BacklogError", "The backlog of stream %lu was full for %lld ms", (unsigned long)lane->stream,
                   (long long)(lane->timeout_ns / 1000000));
    else
        echo_raise("BacklogError", "The backlog of stream %lu is full: expected at most %llu events, %zu bytes",
                   (unsigned long)lane->stream, (unsigned long long)lane->max_events, lane->max_bytes);
    return -1;
}

/* Locked; unlocks. 0, or -1 with an exception. */
static int put_and_unlock(struct put *put)
{
    struct lane *lane = put->lane;
    struct outbox *outbox = lane->outbox;
    enum done done = AGAIN;

    while (done == AGAIN && outbox->end == END_NOT)
        done = try(put);
    if (done == DONE)
        lane->events += put->events;
    else
        echo_lane_drop_newest(lane, put->events, put->frame);
    echo_outbox_unlock(outbox);
    if (done == REFUSED)
        return raise_backlog(lane);
    return done == INTERRUPTED ? -1 : 0;
}

/* --- putting --- */

static int put_frame(struct route *route, const struct frame *frame, uint64_t events)
{
    struct lane *lane = route->lane;
    struct outbox *outbox = lane->outbox;
    size_t bytes = frame_bytes(frame->size);
    struct put put;

    outbox_lock(outbox);
    if (bytes <= STAGING_BYTES - outbox->staged && !has_backlog(outbox) && lane->tail_gap == 0 &&
        outbox->end == END_NOT) {
        lane->events += events;
        echo_outbox_stage(outbox, frame, lane->delay);
        echo_outbox_unlock(outbox);
        return 0;
    }
    put = (struct put){.lane = lane, .frame = frame, .events = events, .bytes = bytes};
    return put_and_unlock(&put);
}

int echo_route_put(PyObject *object, const uint8_t *payload, Py_ssize_t size, uint64_t events)
{
    struct route *route = route_of(object);
    struct frame frame = {.size = (uint32_t)size, .stream = route->lane->stream, .payload = payload};

    if (check_route(route) != 0 || echo_frame_check(frame.stream, size) != 0)
        return -1;
    if (events == 0)
        return 0;
    return put_frame(route, &frame, events);
}

int echo_route_lend(PyObject *object, PyObject *block, const uint8_t *payload, Py_ssize_t size, uint64_t events)
{
    struct route *route = route_of(object);
    uint8_t loan[16];
    struct frame frame = {.size = sizeof loan, .stream = KIND_LOAN, .payload = loan};

    if (route->link->pool == NULL || events == 0)
        return echo_route_put(object, payload, size, events);
    if (check_route(route) != 0)
        return -1;
    if (!echo_block_lend(block, route->link->outbox.holder, route->lane->stream, size, loan))
        return echo_route_put(object, payload, size, events);
    return put_frame(route, &frame, events);
}

/* --- the type --- */

static PyObject *route_send(PyObject *self, PyObject *args)
{
    struct route *route = route_of(self);
    struct outbox *outbox = route->lane->outbox;
    struct frame frame;
    unsigned int kind;
    Py_buffer payload;
    int status = -1;

    if (!PyArg_ParseTuple(args, "Iy*:send", &kind, &payload))
        return NULL;
    frame = (struct frame){.size = (uint32_t)payload.len, .stream = kind, .payload = payload.buf};
    if (check_route(route) == 0 && echo_frame_check(kind, payload.len) == 0) {
        outbox_lock(outbox);
        status = echo_lane_control(route->lane, &frame);
        echo_outbox_unlock(outbox);
        if (status != 0)
            echo_link_raise_end(route->link);
    }
    PyBuffer_Release(&payload);
    return status == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *route_close(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    route_of(self)->is_closed = 1;
    Py_RETURN_NONE;
}

static PyObject *route_get_link(PyObject *self, void *ignored)
{
    (void)ignored;
    return Py_NewRef((PyObject *)route_of(self)->link);
}

static PyObject *route_get_stream(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromUnsignedLong(route_of(self)->lane->stream);
}

/* In a forked child: nothing. */
#define DEFINE_LANE_GETTER(name, expression)                                                               \
    static PyObject *route_get_##name(PyObject *self, void *ignored)                                       \
    {                                                                                                      \
        struct lane *lane = route_of(self)->lane;                                                          \
        unsigned long long value = 0;                                                                      \
                                                                                                           \
        (void)ignored;                                                                                     \
        if (route_of(self)->link->forks == echo_forks) {                                                   \
            outbox_lock(lane->outbox);                                                                     \
            value = expression;                                                                            \
            echo_outbox_unlock(lane->outbox);                                                              \
        }                                                                                                  \
        return PyLong_FromUnsignedLongLong(value);                                                         \
    }
DEFINE_LANE_GETTER(events, lane->events)
DEFINE_LANE_GETTER(dropped, lane->dropped)
DEFINE_LANE_GETTER(queued_events, lane->backlog.events)
DEFINE_LANE_GETTER(queued_bytes, lane->ahead.bytes + lane->backlog.bytes)
#undef DEFINE_LANE_GETTER

static struct lane *lane_new(struct outbox *outbox, const struct lane *settings)
{
    struct lane *lane = calloc(1, sizeof *lane);

    if (lane == NULL)
        return NULL;
    *lane = *settings;
    lane->outbox = outbox;
    return lane;
}

static int check_settings(unsigned int stream, long long max_events, Py_ssize_t max_bytes, int policy,
                          long long delay_ns)
{
    if (stream >= FIRST_STREAM && max_events >= 0 && max_bytes >= 0 && policy >= POLICY_BLOCK &&
        policy <= POLICY_ERROR && delay_ns >= 0)
        return 0;
    PyErr_Format(PyExc_ValueError,
                 "Expected stream from %d on, max_events, max_bytes and delay_ns from 0 on, policy from %d to %d",
                 FIRST_STREAM, POLICY_BLOCK, POLICY_ERROR);
    return -1;
}

static PyObject *route_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"link",   "stream",     "max_events", "max_bytes",
                            "policy", "timeout_ns", "delay_ns",   NULL};
    const struct module_state *state = PyType_GetModuleState(type);
    long long max_events = -1, timeout_ns = -1, delay_ns = 0;
    unsigned int stream;
    struct route *route;
    struct lane *lane;
    PyObject *link;
    Py_ssize_t max_bytes = -1;
    int policy = -1;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!I|$LniLL:Route", names, state->link_type, &link, &stream,
                                     &max_events, &max_bytes, &policy, &timeout_ns, &delay_ns) ||
        check_settings(stream, max_events, max_bytes, policy, delay_ns) != 0 ||
        echo_link_check(link_of(link)) != 0)
        return NULL;
    lane = lane_new(&link_of(link)->outbox, &(struct lane){.stream = stream,
                                                           .policy = (enum policy)policy,
                                                           .max_events = (uint64_t)max_events,
                                                           .max_bytes = (size_t)max_bytes,
                                                           .timeout_ns = timeout_ns,
                                                           .delay = echo_ticks_of(delay_ns)});
    if (lane == NULL)
        return PyErr_NoMemory();
    route = (struct route *)(void *)PyType_GenericAlloc(type, 0);
    if (route == NULL) {
        free(lane);
        return NULL;
    }
    route->link = link_of(Py_NewRef(link));
    route->lane = lane;
    return (PyObject *)route;
}

static int route_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(route_of(self)->link);
    return 0;
}

static void route_dealloc(PyObject *self)
{
    struct route *route = route_of(self);
    struct outbox *outbox = &route->link->outbox;

    PyObject_GC_UnTrack(self);
    if (route->link->forks == echo_forks) {
        outbox_lock(outbox);
        echo_lane_release(route->lane);
        echo_outbox_unlock(outbox);
    }
    Py_DECREF((PyObject *)route->link);
    free_instance(self);
}

static PyMethodDef route_methods[] = {
    {"send", route_send, METH_VARARGS,
     PyDoc_STR("send($self, kind, payload, /)\n--\n\nA control frame behind the route's events.")},
    {"close", route_close, METH_NOARGS,
     PyDoc_STR("close($self, /)\n--\n\nTakes no more; what waits is still sent.")},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef route_getters[] = {
    {"link", route_get_link, NULL, PyDoc_STR("What it leads over."), NULL},
    {"stream", route_get_stream, NULL, PyDoc_STR("The number in its frames."), NULL},
    {"events", route_get_events, NULL, PyDoc_STR("Events that were accepted; some may be dropped later."), NULL},
    {"dropped", route_get_dropped, NULL, PyDoc_STR("Events that were not sent."), NULL},
    {"queued_events", route_get_queued_events, NULL, PyDoc_STR("Events in its backlog."), NULL},
    {"queued_bytes", route_get_queued_bytes, NULL, PyDoc_STR("Bytes in its backlog."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot route_slots[] = {
    {Py_tp_doc, PyDoc_STR("Route(link, stream, *, max_events, max_bytes, policy, timeout_ns, delay_ns=0)\n--\n\n"
                          "The way of one source's events over one link.")},
    {Py_tp_new, route_new},
    {Py_tp_dealloc, route_dealloc},
    {Py_tp_traverse, route_traverse},
    {Py_tp_methods, route_methods},
    {Py_tp_getset, route_getters},
    {0, NULL}};

PyType_Spec echo_link_route_spec = {
    .name = "echo_core._links.Route",
    .basicsize = sizeof(struct route),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = route_slots,
};
