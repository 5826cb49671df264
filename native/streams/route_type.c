/* The type Route: one source's way over one link. */
#include "streams/outlets.h"
#include "streams/routes.h"

#include <stdlib.h>
#include <structmember.h>

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
    if (echo_link_check(route->link) == 0 && echo_frame_check(kind, payload.len) == 0) {
        echo_submission_begin();
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
    struct outbox *outbox = route_of(self)->lane->outbox;

    (void)ignored;
    if (!is_inherited(route_of(self)->link)) {
        outbox_lock(outbox);
        echo_lane_close(route_of(self)->lane);
        echo_outbox_unlock(outbox);
    }
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
#define DEFINE_LANE_GETTER(name, expression)                                                                 \
    static PyObject *route_get_##name(PyObject *self, void *ignored)                                         \
    {                                                                                                        \
        struct lane *lane = route_of(self)->lane;                                                            \
        unsigned long long value = 0;                                                                        \
                                                                                                             \
        (void)ignored;                                                                                       \
        if (!is_inherited(route_of(self)->link)) {                                                           \
            outbox_lock(lane->outbox);                                                                       \
            value = expression;                                                                              \
            echo_outbox_unlock(lane->outbox);                                                                \
        }                                                                                                    \
        return PyLong_FromUnsignedLongLong(value);                                                           \
    }
DEFINE_LANE_GETTER(events, lane->events)
DEFINE_LANE_GETTER(dropped, lane->dropped)
DEFINE_LANE_GETTER(queued_events, lane->backlog.events)
DEFINE_LANE_GETTER(queued_bytes, lane->ahead.bytes + lane->backlog.bytes)
#undef DEFINE_LANE_GETTER

/* Of an Outlet or None: its tally, or NULL. -1 with TypeError. */
static int find_tally(const struct module_state *state, PyObject *outlet, struct tally **tally)
{
    *tally = NULL;
    if (outlet == Py_None)
        return 0;
    if (!Py_IS_TYPE(outlet, state->outlet_type)) {
        PyErr_Format(PyExc_TypeError, "Expected an Outlet or None, got %R", outlet);
        return -1;
    }
    *tally = ((struct outlet *)(void *)outlet)->tally;
    return 0;
}

static struct lane *lane_new(struct outbox *outbox, const struct lane *settings)
{
    struct lane *lane = calloc(1, sizeof *lane);

    if (lane == NULL)
        return NULL;
    *lane = *settings;
    lane->outbox = outbox;
    if (lane->delay <= outbox->delay)
        lane->delay = 0;
    if (lane->tally != NULL)
        atomic_fetch_add(&lane->tally->users, 1);
    return lane;
}

static int check_settings(unsigned int stream, long long max_events, Py_ssize_t max_bytes, int policy,
                          long long delay_ns)
{
    if (stream >= FIRST_STREAM && max_events >= 0 && max_bytes >= 0 && policy >= POLICY_BLOCK &&
        policy <= POLICY_ERROR && delay_ns >= 0)
        return 0;
    PyErr_Format(
        PyExc_ValueError,
        "Expected stream from %d on, max_events, max_bytes and delay_ns from 0 on, policy from %d to %d",
        FIRST_STREAM, POLICY_BLOCK, POLICY_ERROR);
    return -1;
}

/* Takes the lane over. */
static PyObject *route_over(PyTypeObject *type, PyObject *link, struct lane *lane, PyObject *name)
{
    struct route *route = (struct route *)(void *)PyType_GenericAlloc(type, 0);

    if (route == NULL) {
        echo_lane_free(lane);
        return NULL;
    }
    route->link = link_of(Py_NewRef(link));
    route->lane = lane;
    route->name = Py_NewRef(name);
    return (PyObject *)route;
}

static PyObject *route_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"",       "",           "",         "",            "max_events", "max_bytes",
                            "policy", "timeout_ns", "delay_ns", "max_payload", NULL};
    const struct module_state *state = PyType_GetModuleState(type);
    long long max_events = -1, timeout_ns = -1, delay_ns = 0;
    unsigned int stream, max_payload = UINT32_MAX;
    struct lane *lane;
    PyObject *link, *name, *outlet = Py_None;
    struct tally *tally;
    Py_ssize_t max_bytes = -1;
    int policy = -1;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!IU|O$LniLLI:Route", names, state->link_type, &link,
                                     &stream, &name, &outlet, &max_events, &max_bytes, &policy, &timeout_ns,
                                     &delay_ns, &max_payload) ||
        check_settings(stream, max_events, max_bytes, policy, delay_ns) != 0 ||
        find_tally(state, outlet, &tally) != 0 ||
        echo_link_check(link_of(link)) != 0)
        return NULL;
    lane = lane_new(&link_of(link)->outbox, &(struct lane){.stream = stream,
                                                           .policy = (enum policy)policy,
                                                           .max_events = (uint64_t)max_events,
                                                           .max_bytes = (size_t)max_bytes,
                                                           .timeout_ns = timeout_ns,
                                                           .max_payload = max_payload < INT32_MAX ? max_payload : INT32_MAX,
                                                           .delay = echo_ticks_of(delay_ns),
                                                           .tally = tally});
    return lane != NULL ? route_over(type, link, lane, name) : PyErr_NoMemory();
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
    if (!is_inherited(route->link)) {
        outbox_lock(outbox);
        echo_lane_release(route->lane);
        echo_outbox_unlock(outbox);
    }
    Py_DECREF((PyObject *)route->link);
    Py_DECREF(route->name);
    free_instance(self);
}

static PyMethodDef route_methods[] = {
    {"send", route_send, METH_VARARGS,
     PyDoc_STR("send($self, kind, payload, /)\n--\n\nA control frame behind the route's events.")},
    {"close", route_close, METH_NOARGS,
     PyDoc_STR("close($self, /)\n--\n\nDrops further events; what waits is still sent, and control frames are.")},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef route_getters[] = {
    {"link", route_get_link, NULL, PyDoc_STR("What it leads over."), NULL},
    {"stream", route_get_stream, NULL, PyDoc_STR("The number in its frames."), NULL},
    {"events", route_get_events, NULL, PyDoc_STR("Events that were accepted; some may be dropped later."),
     NULL},
    {"dropped", route_get_dropped, NULL, PyDoc_STR("Events that were not sent."), NULL},
    {"queued_events", route_get_queued_events, NULL, PyDoc_STR("Events in its backlog."), NULL},
    {"queued_bytes", route_get_queued_bytes, NULL, PyDoc_STR("Bytes in its backlog."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot route_slots[] = {
    {Py_tp_doc,
     PyDoc_STR("Route(link, stream, name, outlet=None, /, *, max_events, max_bytes, policy, timeout_ns, "
               "delay_ns=0, max_payload=4294967295)\n--\n\n"
               "The way of one source's events over one link; what it drops is counted by the outlet too.")},
    {Py_tp_new, route_new},
    {Py_tp_dealloc, route_dealloc},
    {Py_tp_traverse, route_traverse},
    {Py_tp_methods, route_methods},
    {Py_tp_getset, route_getters},
    {0, NULL}};

PyType_Spec echo_link_route_spec = {
    .name = "echo_core._c.links.Route",
    .basicsize = sizeof(struct route),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = route_slots,
};
