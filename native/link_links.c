/* The type Link: one connection to another process, shared by all that the two have to say to each other. */
#include "link_links.h"

#include <errno.h>
#include <stdlib.h>
#include <structmember.h>

/* A link that was not written to for so long is idle: its next frame is written at once. */
#define IDLE_NS 4000

/* Streams of one link; memory for them grows with those that are bound. */
#define MAX_STREAMS (1 << 20)

/* --- the end --- */

int echo_link_check(const struct link *link)
{
    if (link->forks == echo_forks && link->wire != NULL)
        return 0;
    if (link->forks != echo_forks)
        echo_raise("ClosedError", "The link belongs to the parent process: open channels anew after a fork");
    else
        echo_raise("ClosedError", "The link was abandoned");
    return -1;
}

void echo_link_raise_end(struct link *link)
{
    enum end end;
    int error;

    outbox_lock(&link->outbox);
    end = link->outbox.end;
    error = link->outbox.error;
    echo_outbox_unlock(&link->outbox);
    switch (end) {
    case END_NOT:
    case END_SHUT:
        echo_raise("ClosedError", "The link is closed");
        break;
    case END_PEER:
        echo_raise("LinkError", "The peer has closed the connection");
        break;
    case END_ERROR:
        echo_raise("LinkError", "Sending failed: %s", strerror(error));
        break;
    case END_STALLED:
        echo_raise("LinkError", "The peer has read nothing for %lld ms",
                   (long long)(echo_ns_of(link->outbox.stall) / 1000000));
        break;
    case END_FLOODED:
        echo_raise("LinkError", "The peer does not read: more than %zu bytes of control frames wait for it",
                   link->outbox.max_control_bytes);
        break;
    case END_MEMORY:
        echo_raise("LinkError", "No memory for frames that wait to be sent");
        break;
    case END_THREAD:
        echo_raise("LinkError", "The system gave no thread that sends: %s", strerror(error));
        break;
    }
}

static void end_outbox(struct link *link, enum end end)
{
    outbox_lock(&link->outbox);
    echo_outbox_end(&link->outbox, end, 0);
    echo_outbox_unlock(&link->outbox);
}

void echo_link_end(struct link *link, enum end end)
{
    if (link->is_ended)
        return;
    link->is_ended = 1;
    end_outbox(link, end);
    atomic_fetch_add(&link->parking, 1);
    futex_wake_all(&link->parking);
    echo_link_wake_followers(link);
}

/* --- sending --- */

int echo_frame_check(uint32_t stream, Py_ssize_t size)
{
    if (stream != 0 && size <= INT32_MAX)
        return 0;
    if (stream == 0)
        PyErr_SetString(PyExc_ValueError, "Expected a kind from 1 on, got 0");
    else
        echo_raise("FormatError", "Expected at most %d bytes in one frame, got %zd", INT32_MAX, size);
    return -1;
}

static PyObject *link_send(PyObject *self, PyObject *args)
{
    struct link *link = link_of(self);
    struct frame frame;
    unsigned int kind;
    Py_buffer payload;
    int status;

    if (!PyArg_ParseTuple(args, "Iy*:send", &kind, &payload))
        return NULL;
    if (echo_link_check(link) != 0 || echo_frame_check(kind, payload.len) != 0) {
        PyBuffer_Release(&payload);
        return NULL;
    }
    frame = (struct frame){.size = (uint32_t)payload.len, .stream = kind, .payload = payload.buf};
    outbox_lock(&link->outbox);
    status = echo_outbox_control(&link->outbox, &frame);
    echo_outbox_unlock(&link->outbox);
    PyBuffer_Release(&payload);
    if (status != 0) {
        echo_link_raise_end(link);
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Until all is written or time is up. 1: it is; 0: not; -EINTR. No GIL. */
static int drain(struct outbox *outbox, int64_t until_ns)
{
    int64_t left_ns = -1;
    int status = 0, is_done;

    outbox_lock(outbox);
    while (status == 0 && outbox->end == END_NOT && (has_work(outbox) || outbox->is_writing)) {
        if (until_ns >= 0 && (left_ns = until_ns - monotonic_ns()) <= 0)
            break;
        status = echo_outbox_work(outbox, left_ns);
    }
    is_done = !has_work(outbox) && !outbox->is_writing;
    echo_outbox_unlock(outbox);
    return status != 0 ? status : is_done;
}

static PyObject *link_drain(PyObject *self, PyObject *argument)
{
    struct link *link = link_of(self);
    int64_t timeout_ns = PyLong_AsLongLong(argument), until_ns;
    PyThreadState *state;
    int status;

    if ((timeout_ns == -1 && PyErr_Occurred() != NULL) || echo_link_check(link) != 0)
        return NULL;
    until_ns = timeout_ns < 0 ? -1 : monotonic_ns() + timeout_ns;
    do {
        state = PyEval_SaveThread();
        status = drain(&link->outbox, until_ns);
        PyEval_RestoreThread(state);
    } while (status == -EINTR && PyErr_CheckSignals() == 0);
    return status == -EINTR ? NULL : PyBool_FromLong(status);
}

/* --- receiving --- */

static PyObject *link_run(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    if (echo_link_check(link_of(self)) != 0 || echo_link_run(link_of(self)) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static int make_room_for(struct link *link, size_t index)
{
    size_t count = link->inlet_count < 16 ? 16 : link->inlet_count;
    PyObject **inlets;

    while (count <= index)
        count *= 2;
    if (count == link->inlet_count)
        return 0;
    inlets = realloc(link->inlets, count * sizeof *inlets);
    if (inlets == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memset(inlets + link->inlet_count, 0, (count - link->inlet_count) * sizeof *inlets);
    link->inlets = inlets;
    link->inlet_count = count;
    return 0;
}

static int check_stream(unsigned int stream)
{
    if (stream >= FIRST_STREAM && stream - FIRST_STREAM < MAX_STREAMS)
        return 0;
    echo_raise("WireError", "Expected a stream from %d to %d, got %u", FIRST_STREAM, FIRST_STREAM + MAX_STREAMS - 1,
               stream);
    return -1;
}

static PyObject *link_bind(PyObject *self, PyObject *args)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    struct link *link = link_of(self);
    PyObject *inlet, *before;
    unsigned int stream;

    if (!PyArg_ParseTuple(args, "IO!:bind", &stream, state->inlet_type, &inlet) || check_stream(stream) != 0 ||
        make_room_for(link, stream - FIRST_STREAM) != 0)
        return NULL;
    before = link->inlets[stream - FIRST_STREAM];
    link->inlets[stream - FIRST_STREAM] = Py_NewRef(inlet);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static PyObject *link_unbind(PyObject *self, PyObject *argument)
{
    struct link *link = link_of(self);
    unsigned long stream = PyLong_AsUnsignedLong(argument);
    PyObject *before;

    if (stream == (unsigned long)-1 && PyErr_Occurred() != NULL)
        return NULL;
    if (stream < FIRST_STREAM || stream - FIRST_STREAM >= link->inlet_count)
        Py_RETURN_NONE;
    before = link->inlets[stream - FIRST_STREAM];
    if (before != NULL)
        link->inlets[stream - FIRST_STREAM] = Py_NewRef(Py_None);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static PyObject *link_follow(PyObject *self, PyObject *queue)
{
    if (echo_link_check(link_of(self)) != 0 || echo_link_follow(link_of(self), queue) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *link_unfollow(PyObject *self, PyObject *queue)
{
    echo_link_unfollow(link_of(self), queue);
    Py_RETURN_NONE;
}

static PyObject *link_shut(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    if (echo_link_check(link_of(self)) != 0)
        return NULL;
    echo_link_end(link_of(self), END_SHUT);
    Py_RETURN_NONE;
}

static PyObject *link_abandon(PyObject *self, PyObject *ignored)
{
    struct link *link = link_of(self);
    struct wire *wire = link->wire;

    (void)ignored;
    if (link->forks == echo_forks) {
        PyErr_SetString(PyExc_RuntimeError, "Only a forked child abandons a link; this process made it");
        return NULL;
    }
    link->wire = NULL;
    link->is_ended = 1;
    if (wire != NULL)
        wire->operations->abandon(wire);
    Py_RETURN_NONE;
}

/* --- statistics --- */

/* What the outbox says; its mutex is held for a moment. In a forked child: nothing. */
#define DEFINE_OUTBOX_GETTER(name, expression)                                                             \
    static PyObject *link_get_##name(PyObject *self, void *ignored)                                        \
    {                                                                                                      \
        struct outbox *outbox = &link_of(self)->outbox;                                                    \
        unsigned long long value = 0;                                                                      \
                                                                                                           \
        (void)ignored;                                                                                     \
        if (link_of(self)->forks == echo_forks) {                                                          \
            outbox_lock(outbox);                                                                           \
            value = expression;                                                                            \
            echo_outbox_unlock(outbox);                                                                    \
        }                                                                                                  \
        return PyLong_FromUnsignedLongLong(value);                                                         \
    }
DEFINE_OUTBOX_GETTER(sent_bytes, outbox->sent_bytes)
DEFINE_OUTBOX_GETTER(sent_frames, outbox->sent_frames)
DEFINE_OUTBOX_GETTER(queued_bytes, echo_outbox_queued(outbox))
DEFINE_OUTBOX_GETTER(writes, outbox->writes)
#undef DEFINE_OUTBOX_GETTER

static PyObject *link_get_is_open(PyObject *self, void *ignored)
{
    struct link *link = link_of(self);
    int is_open = 0;

    (void)ignored;
    if (link->forks == echo_forks && !link->is_ended) {
        outbox_lock(&link->outbox);
        is_open = link->outbox.end == END_NOT;
        echo_outbox_unlock(&link->outbox);
    }
    return PyBool_FromLong(is_open);
}

static PyObject *link_get_reads(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromUnsignedLongLong(atomic_load(&link_of(self)->reads));
}

/* --- the type --- */

static void set_up(struct link *link, struct wire *wire, int64_t delay_ns, int64_t stall_ns, unsigned holder,
                   Py_ssize_t control_bytes)
{
    link->wire = wire;
    link->forks = echo_forks;
    link->outbox.wire = wire;
    link->outbox.link = &link->ob_base;
    link->outbox.pool = link->pool;
    link->outbox.holder = holder;
    link->outbox.max_control_bytes = (size_t)control_bytes;
    link->outbox.delay = echo_ticks_of(delay_ns);
    link->outbox.stall = echo_ticks_of(stall_ns);
    link->outbox.idle = echo_ticks_of(IDLE_NS);
    link->outbox.reads = &link->reads;
    link->outbox.reads_seen = UINT64_MAX; /* the first frame is written at once */
}

static int check_settings(long long max_payload, Py_ssize_t control_bytes, long long delay_ns, long long stall_ns,
                          unsigned holder)
{
    if (max_payload >= 0 && max_payload <= INT32_MAX && control_bytes >= 0 && delay_ns >= 0 && stall_ns > 0 &&
        holder < 64)
        return 0;
    PyErr_SetString(PyExc_ValueError, "Expected max_payload below 2**31, control_bytes and delay_ns from 0 on, "
                                      "stall_ns above 0, holder from 0 to 63");
    return -1;
}

static PyObject *link_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"wire",     "control", "max_payload", "control_bytes", "delay_ns",
                            "stall_ns", "pool",    "holder",      "mapping",       NULL};
    const struct module_state *state = PyType_GetModuleState(type);
    PyObject *wire, *control, *pool = Py_None, *mapping = Py_None;
    long long max_payload = -1, delay_ns = -1, stall_ns = -1;
    Py_ssize_t control_bytes = -1;
    unsigned int holder = 0;
    struct wire *taken;
    struct link *link;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|$LnLLOIO:Link", names, state->wire_type, &wire, &control,
                                     &max_payload, &control_bytes, &delay_ns, &stall_ns, &pool, &holder,
                                     &mapping) ||
        check_settings(max_payload, control_bytes, delay_ns, stall_ns, holder) != 0)
        return NULL;
    link = (struct link *)(void *)PyType_GenericAlloc(type, 0);
    if (link == NULL)
        return NULL;
    taken = echo_outbox_open(&link->outbox) == 0 ? echo_wire_take(wire) : (struct wire *)PyErr_NoMemory();
    if (taken == NULL) {
        Py_DECREF(link);
        return NULL;
    }
    link->control = Py_NewRef(control);
    link->pool = pool != Py_None ? Py_NewRef(pool) : NULL;
    link->mapping = mapping != Py_None ? Py_NewRef(mapping) : NULL;
    link->max_payload = (uint32_t)max_payload;
    link->intake.chunk_type = state->chunk_type;
    set_up(link, taken, delay_ns, stall_ns, holder, control_bytes);
    return (PyObject *)link;
}

static int link_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct link *link = link_of(self);

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(link->control);
    Py_VISIT(link->pool);
    Py_VISIT(link->mapping);
    Py_VISIT(link->failure);
    for (size_t i = 0; i < link->inlet_count; i++)
        Py_VISIT(link->inlets[i]);
    for (Py_ssize_t i = 0; i < link->followers.count; i++)
        Py_VISIT(link->followers.queues[i]);
    return 0;
}

static int link_clear(PyObject *self)
{
    struct link *link = link_of(self);
    size_t inlets = link->inlet_count;

    link->inlet_count = 0; /* what runs below finds none */
    for (size_t i = 0; i < inlets; i++)
        Py_XDECREF(link->inlets[i]);
    while (link->followers.count > 0)
        echo_link_unfollow(link, link->followers.queues[link->followers.count - 1]);
    Py_CLEAR(link->control);
    Py_CLEAR(link->failure);
    return 0; /* not pool and mapping: the outbox needs the one, and neither refers to a link */
}

/* Its thread is joined, which takes no GIL. In a forked child there is no such thread, and no lock to take. */
static void free_sending(struct link *link)
{
    struct wire *wire = link->wire;

    if (link->forks != echo_forks) {
        if (wire != NULL)
            wire->operations->abandon(wire);
        return;
    }
    if (wire != NULL)
        end_outbox(link, END_SHUT);
    echo_outbox_close(&link->outbox);
    if (wire != NULL)
        wire->operations->free(wire);
}

static void link_dealloc(PyObject *self)
{
    struct link *link = link_of(self);

    PyObject_GC_UnTrack(self);
    free_sending(link);
    link_clear(self);
    free(link->inlets);
    free(link->followers.queues);
    for (int i = 0; i < CHUNKS; i++)
        Py_XDECREF((PyObject *)link->intake.chunks[i]);
    Py_XDECREF(link->pool);
    Py_XDECREF(link->mapping);
    free_instance(self);
}

static PyMethodDef link_methods[] = {
    {"run", link_run, METH_NOARGS, PyDoc_STR("run($self, /)\n--\n\nReads and delivers until the end of the link.")},
    {"send", link_send, METH_VARARGS,
     PyDoc_STR("send($self, kind, payload, /)\n--\n\n"
               "A control frame, in order with the events that were submitted before.")},
    {"bind", link_bind, METH_VARARGS,
     PyDoc_STR("bind($self, stream, inlet, /)\n--\n\nWhere the records of a stream go.")},
    {"unbind", link_unbind, METH_O,
     PyDoc_STR("unbind($self, stream, /)\n--\n\nWhat still comes of the stream is skipped.")},
    {"follow", link_follow, METH_O,
     PyDoc_STR("follow($self, queue, /)\n--\n\nWho waits for this queue may read the link.")},
    {"unfollow", link_unfollow, METH_O, PyDoc_STR("unfollow($self, queue, /)\n--\n\nUndoes follow.")},
    {"drain", link_drain, METH_O,
     PyDoc_STR("drain($self, timeout_ns, /)\n--\n\nWhether all that was sent was given to the system in time.")},
    {"shut", link_shut, METH_NOARGS,
     PyDoc_STR("shut($self, /)\n--\n\nEnds it in both directions, at once; `run` returns.")},
    {"abandon", link_abandon, METH_NOARGS,
     PyDoc_STR("abandon($self, /)\n--\n\nIn a forked child: lets go, and the other side does not notice.")},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef link_getters[] = {
    {"is_open", link_get_is_open, NULL, PyDoc_STR("Whether neither side has ended it."), NULL},
    {"sent_bytes", link_get_sent_bytes, NULL, PyDoc_STR("Bytes given to the system."), NULL},
    {"sent_frames", link_get_sent_frames, NULL, PyDoc_STR("Frames that will not be dropped any more."), NULL},
    {"queued_bytes", link_get_queued_bytes, NULL, PyDoc_STR("Bytes that wait for the system."), NULL},
    {"writes", link_get_writes, NULL, PyDoc_STR("Writes to the wire."), NULL},
    {"reads", link_get_reads, NULL, PyDoc_STR("Reads of the wire that brought something."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMemberDef link_members[] = {
    {"received_bytes", T_ULONGLONG, offsetof(struct link, received_bytes), READONLY, PyDoc_STR("Bytes read.")},
    {"received_frames", T_ULONGLONG, offsetof(struct link, received_frames), READONLY,
     PyDoc_STR("Frames handed out.")},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot link_slots[] = {
    {Py_tp_doc, PyDoc_STR("Link(wire, control, *, max_payload, control_bytes, delay_ns, stall_ns, pool=None, "
                          "holder=0, mapping=None)\n--\n\n"
                          "What one process has of its connection to another: frames in, frames out.")},
    {Py_tp_new, link_new},
    {Py_tp_dealloc, link_dealloc},
    {Py_tp_traverse, link_traverse},
    {Py_tp_clear, link_clear},
    {Py_tp_methods, link_methods},
    {Py_tp_getset, link_getters},
    {Py_tp_members, link_members},
    {0, NULL}};

PyType_Spec echo_link_link_spec = {
    .name = "echo_core._links.Link",
    .basicsize = sizeof(struct link),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = link_slots,
};
