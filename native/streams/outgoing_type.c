/* The type OutgoingStream: one source's way over one link. */
#include "streams/outgoing.h"
#include "streams/outlets.h"

#include "links/entries.h"

#include "core/outbox/staging.h"

#include <structmember.h>

static PyObject *outgoing_send(PyObject *self, PyObject *args)
{
    return echo_link_send(stream_of(self)->link, stream_of(self)->outgoing, args);
}
DEFINE_ENTRY_THAT_ACTS(outgoing_send, stream_of(self)->link)

static PyObject *outgoing_close(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    struct outbox *outbox = stream_of(self)->outgoing->outbox;

    outbox_lock(outbox);
    echo_outgoing_close(stream_of(self)->outgoing);
    echo_outbox_unlock(outbox);
    Py_RETURN_NONE;
}
DEFINE_ENTRY_THAT_LETS_GO(outgoing_close, stream_of(self)->link->forks)

/* grant(events, bytes) */
static PyObject *outgoing_grant(PyObject *self, PyObject *args)
{
    struct outgoing *outgoing = stream_of(self)->outgoing;
    unsigned long long events, bytes;

    if (!PyArg_ParseTuple(args, "KK:grant", &events, &bytes))
        return NULL;
    if (events > MAX_CREDIT || bytes > MAX_CREDIT)
        return PyErr_Format(PyExc_ValueError, "Expected limits below 2**63, got %llu and %llu", events, bytes);
    outbox_lock(outgoing->outbox);
    echo_outgoing_grant(outgoing, (struct amount){events, bytes});
    echo_outbox_pump(outgoing->outbox, 1);
    echo_outbox_unlock(outgoing->outbox);
    Py_RETURN_NONE;
}
DEFINE_ENTRY_THAT_ACTS(outgoing_grant, stream_of(self)->link)

static PyObject *outgoing_drain(PyObject *self, PyObject *timeout_ns)
{
    return echo_link_drain(stream_of(self)->link, stream_of(self)->outgoing, timeout_ns);
}
DEFINE_ENTRY_THAT_ACTS(outgoing_drain, stream_of(self)->link)

static PyObject *outgoing_give_up(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    struct outbox *outbox = stream_of(self)->outgoing->outbox;

    outbox_lock(outbox);
    echo_outgoing_give_up(stream_of(self)->outgoing);
    echo_outbox_unlock(outbox);
    Py_RETURN_NONE;
}
DEFINE_ENTRY_THAT_LETS_GO(outgoing_give_up, stream_of(self)->link->forks)

static PyObject *outgoing_get_stream(PyObject *self, void *Py_UNUSED(ignored))
{
    return PyLong_FromUnsignedLong(stream_of(self)->outgoing->stream);
}

static size_t waiting_bytes(const struct outgoing *outgoing)
{
    return outgoing->ahead.bytes + outgoing->backlog.bytes;
}

DEFINE_ENTRY_THAT_TELLS(outgoing_events, stream_of(self)->link, stream_of(self)->outgoing->events)
DEFINE_ENTRY_THAT_TELLS(outgoing_dropped, stream_of(self)->link, stream_of(self)->outgoing->dropped)
DEFINE_ENTRY_THAT_TELLS(outgoing_sent, stream_of(self)->link, outgoing_sent(stream_of(self)->outgoing).events)
DEFINE_ENTRY_THAT_TELLS(outgoing_confirmed, stream_of(self)->link, stream_of(self)->outgoing->done.events)
DEFINE_ENTRY_THAT_TELLS(outgoing_unconfirmed, stream_of(self)->link, stream_of(self)->outgoing->unconfirmed)
DEFINE_ENTRY_THAT_TELLS(outgoing_queued_events, stream_of(self)->link, stream_of(self)->outgoing->backlog.events)
DEFINE_ENTRY_THAT_TELLS(outgoing_queued_bytes, stream_of(self)->link, waiting_bytes(stream_of(self)->outgoing))

/* Of an Outlet or None: its tally, or NULL. -1 with TypeError. */
static int find_tally(const struct module_state *state, PyObject *outlet, struct tally **tally)
{
    *tally = NULL;
    if (outlet == Py_None)
        return 0;
    if (!PyObject_TypeCheck(outlet, state->outlet_type)) {
        PyErr_Format(PyExc_TypeError, "Expected an Outlet or None, got %R", outlet);
        return -1;
    }
    *tally = ((struct outlet *)(void *)outlet)->tally;
    return 0;
}

static int check_settings(unsigned int stream, long long max_events, Py_ssize_t max_bytes, int policy,
                          long long delay_ns)
{
    if (stream >= FIRST_STREAM && stream - FIRST_STREAM < MAX_STREAMS && max_events >= 0 && max_bytes >= 0 &&
        policy >= POLICY_PACE && policy <= POLICY_ERROR && delay_ns >= 0)
        return 0;
    PyErr_Format(PyExc_ValueError,
                 "Expected stream from %d to %d, max_events, max_bytes and delay_ns from 0 on, policy from %d to %d",
                 FIRST_STREAM, FIRST_STREAM + MAX_STREAMS - 1, POLICY_PACE, POLICY_ERROR);
    return -1;
}

/* Takes the outgoing over. */
static PyObject *outgoing_over(PyTypeObject *type, PyObject *link, struct outgoing *outgoing, PyObject *name)
{
    struct outgoing_stream *stream = (struct outgoing_stream *)(void *)PyType_GenericAlloc(type, 0);

    if (stream == NULL) {
        outbox_lock(outgoing->outbox);
        echo_outgoing_free(outgoing);
        echo_outbox_unlock(&link_of(link)->outbox);
        return NULL;
    }
    stream->link = link_of(Py_NewRef(link));
    stream->outgoing = outgoing;
    stream->name = Py_NewRef(name);
    return (PyObject *)stream;
}

static PyObject *outgoing_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {
        "", "", "", "", "max_events", "max_bytes", "policy", "timeout_ns", "delay_ns", "max_payload", NULL};
    const struct module_state *state = echo_state_of(type);
    long long max_events = -1, timeout_ns = -1, delay_ns = 0;
    unsigned int stream, max_payload = UINT32_MAX;
    struct outgoing *outgoing;
    PyObject *link, *name, *outlet = Py_None;
    struct tally *tally;
    Py_ssize_t max_bytes = -1;
    int policy = -1;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!IU|O$LniLLI:OutgoingStream", names, state->link_type, &link,
                                     &stream, &name, &outlet, &max_events, &max_bytes, &policy, &timeout_ns, &delay_ns,
                                     &max_payload) ||
        check_settings(stream, max_events, max_bytes, policy, delay_ns) != 0 ||
        find_tally(state, outlet, &tally) != 0 || echo_link_check(link_of(link)) != 0)
        return NULL;
    outbox_lock(&link_of(link)->outbox);
    outgoing = echo_outgoing_new(&link_of(link)->outbox,
                                 &(struct outgoing){.stream = stream,
                                                    .policy = (enum policy)policy,
                                                    .max_events = (uint64_t)max_events,
                                                    .max_bytes = (size_t)max_bytes,
                                                    .timeout_ns = timeout_ns,
                                                    .max_payload = max_payload < INT32_MAX ? max_payload : INT32_MAX,
                                                    .delay = echo_ticks_of(delay_ns),
                                                    .tally = tally});
    echo_outbox_unlock(&link_of(link)->outbox);
    return outgoing != NULL ? outgoing_over(type, link, outgoing, name) : PyErr_NoMemory();
}

static const Py_ssize_t outgoing_owned[] = {offsetof(struct outgoing_stream, link),
                                            offsetof(struct outgoing_stream, name), 0};

static int outgoing_traverse(PyObject *self, visitproc visit, void *arg)
{
    return visit_owned(self, outgoing_owned, visit, arg);
}

static void outgoing_dealloc(PyObject *self)
{
    struct outgoing_stream *stream = stream_of(self);
    struct outbox *outbox = &stream->link->outbox;

    PyObject_GC_UnTrack(self);
    if (!has_forked_since(stream->link->forks)) {
        outbox_lock(outbox);
        echo_outgoing_release(stream->outgoing);
        echo_outbox_unlock(outbox);
    }
    clear_owned(self, outgoing_owned);
    free_instance(self);
}

static PyMethodDef outgoing_methods[] = {
    {"send", outgoing_send_entry, METH_VARARGS,
     PyDoc_STR("send($self, kind, payload, /)\n--\n\nA control frame behind the stream's events.")},
    {"close", outgoing_close_entry, METH_NOARGS,
     PyDoc_STR("close($self, /)\n--\n\nDrops further events; what waits is still sent, and control frames are.")},
    {"grant", outgoing_grant_entry, METH_VARARGS,
     PyDoc_STR("grant($self, events, bytes, /)\n--\n\nThe receiver takes so much in all, before it grants more.")},
    {"drain", outgoing_drain_entry, METH_O,
     PyDoc_STR("drain($self, timeout_ns, /)\n--\n\nAs that of the link; what waits for credit goes too.")},
    {"give_up", outgoing_give_up_entry, METH_NOARGS,
     PyDoc_STR("give_up($self, /)\n--\n\nDrops what has to wait for credit, now or later; it ends with its link.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef outgoing_members[] = {
    {"link", T_OBJECT_EX, offsetof(struct outgoing_stream, link), READONLY, PyDoc_STR("What it leads over.")},
    {NULL, 0, 0, 0, NULL}};

static PyGetSetDef outgoing_getters[] = {
    {"stream", outgoing_get_stream, NULL, PyDoc_STR("The number in its frames."), NULL},
    {"events", outgoing_events_entry, NULL, PyDoc_STR("Events that were accepted; some may be dropped later."), NULL},
    {"dropped", outgoing_dropped_entry, NULL, PyDoc_STR("Events that were not sent."), NULL},
    {"sent", outgoing_sent_entry, NULL, PyDoc_STR("Events that have gone, or are about to."), NULL},
    {"confirmed", outgoing_confirmed_entry, NULL, PyDoc_STR("Events that the receiver has finished with."), NULL},
    {"unconfirmed", outgoing_unconfirmed_entry, NULL,
     PyDoc_STR("Events that were sent, and not confirmed when it ended with its link."), NULL},
    {"queued_events", outgoing_queued_events_entry, NULL, PyDoc_STR("Events in its backlog."), NULL},
    {"queued_bytes", outgoing_queued_bytes_entry, NULL, PyDoc_STR("Bytes in its backlog."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot outgoing_slots[] = {
    {Py_tp_doc,
     PyDoc_STR("OutgoingStream(link, stream, name, outlet=None, /, *, max_events, max_bytes, policy, timeout_ns, "
               "delay_ns=0, max_payload=4294967295)\n--\n\n"
               "The way of one source's events over one link; what it drops is counted by the outlet too.")},
    {Py_tp_new, outgoing_new},
    {Py_tp_dealloc, outgoing_dealloc},
    {Py_tp_traverse, outgoing_traverse},
    {Py_tp_methods, outgoing_methods},
    {Py_tp_members, outgoing_members},
    {Py_tp_getset, outgoing_getters},
    {0, NULL}};

PyType_Spec echo_link_outgoing_spec = {
    .name = "echo_core._c.links.OutgoingStream",
    .basicsize = sizeof(struct outgoing_stream),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = outgoing_slots,
};
