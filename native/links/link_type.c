/* The type Link: one connection to another process, shared by all that the two have to say to each other. */
#include "links/link.h"

#include "links/entries.h"
#include "links/pool.h"
#include "links/state.h"
#include "links/wires.h"

#include <stdlib.h>
#include <structmember.h>

/* A link that was not written to for so long is idle: its next frame is written at once. */
#define IDLE_NS 4000

/* --- statistics --- */

DEFINE_ENTRY_THAT_TELLS(link_sent_bytes, link_of(self), link->outbox.sent_bytes)
DEFINE_ENTRY_THAT_TELLS(link_sent_frames, link_of(self), link->outbox.sent_frames)
DEFINE_ENTRY_THAT_TELLS(link_queued_bytes, link_of(self), echo_outbox_queued(&link->outbox))
DEFINE_ENTRY_THAT_TELLS(link_queued_events, link_of(self), echo_outbox_queued_events(&link->outbox))
DEFINE_ENTRY_THAT_TELLS(link_dropped, link_of(self), link->outbox.dropped)
DEFINE_ENTRY_THAT_TELLS(link_confirmed, link_of(self), link->outbox.confirmed)
DEFINE_ENTRY_THAT_TELLS(link_unconfirmed, link_of(self), link->outbox.unconfirmed)
DEFINE_ENTRY_THAT_TELLS(link_writes, link_of(self), link->outbox.writes)

static PyObject *link_get_is_open(PyObject *self, void *Py_UNUSED(ignored))
{
    struct link *link = link_of(self);
    int is_open = 0;

    if (!has_forked_since(link->forks) && !link->is_ended) {
        outbox_lock(&link->outbox);
        is_open = link->outbox.end == END_NOT;
        echo_outbox_unlock(&link->outbox);
    }
    return PyBool_FromLong(is_open);
}

/* --- the host of its outbox: Python, whose lock is the GIL --- */

static void *pause_python(void)
{
    return PyEval_SaveThread();
}

static void resume_python(void *paused)
{
    PyEval_RestoreThread(paused);
}

static void keep_link(void *link)
{
    Py_INCREF((PyObject *)link);
}

static void let_go_of_link(void *link)
{
    Py_DECREF((PyObject *)link);
}

static const struct host python = {pause_python, resume_python, keep_link, let_go_of_link};

/* --- the type --- */

static void set_up(struct link *link, struct wire *wire, int64_t delay_ns, int64_t stall_ns, unsigned holder,
                   Py_ssize_t control_bytes)
{
    link->wire = wire;
    link->outbox.wire = wire;
    link->outbox.link = &link->ob_base;
    link->outbox.host = &python;
    link->outbox.pool = link->pool != NULL ? &((struct pool *)(void *)link->pool)->memory : NULL;
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

/* A new reference, or NULL for None. -1 with TypeError for another type. */
static int take_optional(PyObject *object, PyTypeObject *type, PyObject **out)
{
    if (object != Py_None && !PyObject_TypeCheck(object, type)) {
        PyErr_Format(PyExc_TypeError, "Expected %R or None, got %R", type, object);
        return -1;
    }
    *out = object != Py_None ? Py_NewRef(object) : NULL;
    return 0;
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
    struct wire *taken = NULL;
    struct link *link;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|$LnLLOIO:Link", names, state->wire_type, &wire, &control,
                                     &max_payload, &control_bytes, &delay_ns, &stall_ns, &pool, &holder, &mapping) ||
        check_settings(max_payload, control_bytes, delay_ns, stall_ns, holder) != 0)
        return NULL;
    link = (struct link *)(void *)PyType_GenericAlloc(type, 0);
    if (link == NULL)
        return NULL;
    link->forks = echo_forks;
    if (echo_outbox_open(&link->outbox) != 0)
        PyErr_NoMemory();
    else if (take_optional(pool, state->pool_type, &link->pool) == 0 &&
             take_optional(mapping, state->mapping_type, &link->mapping) == 0)
        taken = echo_wire_take(wire);
    if (taken == NULL) {
        Py_DECREF(link);
        return NULL;
    }
    link->control = Py_NewRef(control);
    link->max_payload = (uint32_t)max_payload;
    link->intake.chunk_type = state->chunk_type;
    set_up(link, taken, delay_ns, stall_ns, holder, control_bytes);
    if (echo_watched_add(&link->watched, (PyObject *)link) != 0) {
        Py_DECREF(link);
        return NULL;
    }
    return (PyObject *)link;
}

static const Py_ssize_t link_owned[] = {offsetof(struct link, control), offsetof(struct link, reader),
                                        offsetof(struct link, pool),    offsetof(struct link, mapping),
                                        offsetof(struct link, failure), 0};

static int link_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct link *link = link_of(self);

    for (size_t i = 0; i < link->incoming_count; i++)
        Py_VISIT(link->incoming[i]);
    for (Py_ssize_t i = 0; i < link->followers.count; i++)
        Py_VISIT(link->followers.queues[i]);
    return visit_owned(self, link_owned, visit, arg);
}

static int link_clear(PyObject *self)
{
    struct link *link = link_of(self);
    size_t count = link->incoming_count;

    link->incoming_count = 0; /* what runs below finds none */
    for (size_t i = 0; i < count; i++) {
        echo_link_part(link, i);
        Py_XDECREF(link->incoming[i]);
    }
    while (link->followers.count > 0)
        echo_link_unfollow(link, link->followers.queues[link->followers.count - 1]);
    Py_CLEAR(link->control);
    Py_CLEAR(link->reader);
    Py_CLEAR(link->failure);
    return 0; /* not pool and mapping: the outbox needs the one, and neither refers to a link */
}

/* Its thread is joined, which takes no GIL. In a forked child there is no such thread, and no lock to take.
 */
static void free_sending(struct link *link)
{
    struct wire *wire = link->wire;

    if (has_forked_since(link->forks)) {
        if (wire != NULL)
            wire->operations->abandon(wire);
        return;
    }
    if (wire != NULL)
        echo_link_end_outbox(link, END_SHUT);
    echo_outbox_close(&link->outbox);
    if (wire != NULL)
        wire->operations->free(wire);
}

static void link_dealloc(PyObject *self)
{
    struct link *link = link_of(self);

    PyObject_GC_UnTrack(self);
    echo_watched_remove(&link->watched);
    free_sending(link);
    link_clear(self);
    free(link->incoming);
    free(link->followers.queues);
    for (int i = 0; i < CHUNKS; i++)
        Py_XDECREF((PyObject *)link->intake.chunks[i]);
    clear_owned(self, link_owned);
    free_instance(self);
}

static PyGetSetDef link_getters[] = {
    {"is_open", link_get_is_open, NULL, PyDoc_STR("Whether neither side has ended it."), NULL},
    {"sent_bytes", link_sent_bytes_entry, NULL, PyDoc_STR("Bytes given to the system."), NULL},
    {"sent_frames", link_sent_frames_entry, NULL, PyDoc_STR("Frames that will not be dropped any more."), NULL},
    {"queued_bytes", link_queued_bytes_entry, NULL, PyDoc_STR("Bytes that wait for the system."), NULL},
    {"queued_events", link_queued_events_entry, NULL, PyDoc_STR("Events in the backlogs of its streams."), NULL},
    {"dropped", link_dropped_entry, NULL, PyDoc_STR("Events that were not sent."), NULL},
    {"confirmed", link_confirmed_entry, NULL, PyDoc_STR("Events that the peer has finished with."), NULL},
    {"unconfirmed", link_unconfirmed_entry, NULL,
     PyDoc_STR("Events that it is not known to have, of streams that ended."), NULL},
    {"writes", link_writes_entry, NULL, PyDoc_STR("Writes to the wire."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMemberDef link_members[] = {
    {"reads", T_ULONGLONG, offsetof(struct link, reads), READONLY,
     PyDoc_STR("Reads of the wire that brought something.")},
    {"received_bytes", T_ULONGLONG, offsetof(struct link, received_bytes), READONLY, PyDoc_STR("Bytes read.")},
    {"received_frames", T_ULONGLONG, offsetof(struct link, received_frames), READONLY, PyDoc_STR("Frames handed out.")},
    {"overlooked", T_ULONGLONG, offsetof(struct link, overlooked), READONLY,
     PyDoc_STR("How often nobody had come to read it from one rouse to the next.")},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot link_slots[] = {
    {Py_tp_doc, PyDoc_STR("Link(wire, control, *, max_payload, control_bytes, delay_ns, stall_ns, pool=None, "
                          "holder=0, mapping=None)\n--\n\n"
                          "What one process has of its connection to another: frames in, frames out.")},
    {Py_tp_new, link_new},
    {Py_tp_dealloc, link_dealloc},
    {Py_tp_traverse, link_traverse},
    {Py_tp_clear, link_clear},
    {Py_tp_methods, echo_link_methods},
    {Py_tp_getset, link_getters},
    {Py_tp_members, link_members},
    {0, NULL}};

PyType_Spec echo_link_link_spec = {
    .name = "echo_core._c.links.Link",
    .basicsize = sizeof(struct link),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = link_slots,
};
