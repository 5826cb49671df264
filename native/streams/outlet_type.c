/* The type Outlet as Python sees it; outlets.c has its ways. */
#include "streams/outlets.h"

#include "streams/deliveries.h"

#include <stdatomic.h>
#include <structmember.h>

/* Of one frame with several records, where the caller names no other limit. */
#define MAX_PAYLOAD (1024 * 1024)

/* --- making and ending one --- */

static int take_arguments(struct outlet *outlet, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"event_class", "encode", "record_size", "dtype", "max_payload", NULL};
    PyObject *event_class, *encode, *dtype = Py_None;

    outlet->max_payload = MAX_PAYLOAD;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$nOn:Outlet", names, &event_class, &encode, &outlet->record_size,
                                     &dtype, &outlet->max_payload))
        return -1;
    if (event_class != Py_None && !PyType_Check(event_class)) {
        PyErr_Format(PyExc_TypeError, "Expected a class or None, got %R", event_class);
        return -1;
    }
    if (outlet->record_size < 0 || outlet->max_payload < 1) {
        PyErr_SetString(PyExc_ValueError, "Expected a size of at least 0 and a payload of at least 1 byte");
        return -1;
    }
    outlet->event_class = event_class != Py_None ? (PyTypeObject *)Py_NewRef(event_class) : NULL;
    outlet->encode = Py_NewRef(encode);
    outlet->dtype = dtype != Py_None ? Py_NewRef(dtype) : NULL;
    return echo_raw_call_of(encode, &outlet->raw);
}

/* Nobody takes anything any more. May run any code. -1 with MemoryError. */
static int let_go(struct outlet *outlet)
{
    PyObject *nobody = PyTuple_New(0);
    PyObject *streams = outlet->outgoing, *direct = outlet->direct, *converting = outlet->converting;

    if (nobody == NULL)
        return -1;
    echo_outlet_free_room(outlet);
    outlet->takes_records = outlet->measures = 0;
    outlet->outgoing = Py_NewRef(nobody);
    outlet->direct = Py_NewRef(nobody);
    outlet->converting = nobody;
    Py_XDECREF(streams);
    Py_XDECREF(direct);
    Py_XDECREF(converting);
    Py_CLEAR(outlet->pool);
    return 0;
}

static PyObject *outlet_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct outlet *outlet = (struct outlet *)PyType_GenericAlloc(type, 0); /* zeroed */

    if (outlet == NULL)
        return NULL;
    outlet->tally = echo_tally_new();
    if (outlet->tally == NULL)
        PyErr_NoMemory();
    if (outlet->tally == NULL || let_go(outlet) != 0 || take_arguments(outlet, args, kwargs) != 0)
        Py_CLEAR(outlet);
    return (PyObject *)outlet;
}

static PyObject *outlet_close(PyObject *self, PyObject *Py_UNUSED(unused))
{
    struct outlet *outlet = (struct outlet *)self;

    outlet->is_closed = 1;
    if (let_go(outlet) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static const Py_ssize_t outlet_owned[] = {offsetof(struct outlet, event_class), offsetof(struct outlet, encode),
                                          offsetof(struct outlet, dtype),       offsetof(struct outlet, outgoing),
                                          offsetof(struct outlet, direct),      offsetof(struct outlet, converting),
                                          offsetof(struct outlet, pool),        0};

static int outlet_traverse(PyObject *self, visitproc visit, void *arg)
{
    return visit_owned(self, outlet_owned, visit, arg);
}

/* The class and the encoder stay: their cycles lead through the class. */
static int outlet_clear(PyObject *self)
{
    if (let_go((struct outlet *)self) != 0)
        PyErr_Clear();
    return 0;
}

static void outlet_dealloc(PyObject *self)
{
    struct outlet *outlet = (struct outlet *)self;

    PyObject_GC_UnTrack(self);
    clear_owned(self, outlet_owned);
    echo_outlet_free_room(outlet);
    echo_tally_release(outlet->tally);
    free_instance(self);
}

/* --- attributes --- */

/* A tuple that is replaced as a whole: where it stands in an outlet, and in the module's state the type of its items. */
struct tuple_place {
    Py_ssize_t tuple, type;
};

#define TUPLE(name, item) {offsetof(struct outlet, name), offsetof(struct module_state, item##_type)}
static struct tuple_place outgoing = TUPLE(outgoing, outgoing), direct = TUPLE(direct, delivery),
                          converting = TUPLE(converting, delivery);
#undef TUPLE

static PyObject *outlet_get_tuple(PyObject *self, void *place)
{
    return Py_NewRef(*slot_at(self, ((const struct tuple_place *)place)->tuple));
}

static int has_queue(PyObject *deliveries)
{
    Py_ssize_t i, count = PyTuple_Size(deliveries);

    for (i = 0; i < count && !((struct delivery *)PyTuple_GetItem(deliveries, i))->is_queue; i++)
        continue;
    return i < count;
}

/* Replacing a tuple may run any code, which may replace it again: so what it is now is looked at last. */
static int outlet_set_tuple(PyObject *self, PyObject *tuple, void *place)
{
    const struct tuple_place *at = place;
    PyTypeObject *type = (PyTypeObject *)*slot_at(PyType_GetModuleState(Py_TYPE(self)), at->type);
    struct outlet *outlet = (struct outlet *)self;
    int status = is_outlet_open(outlet) ? echo_replace_tuple(slot_at(self, at->tuple), tuple, type) : -1;

    outlet->takes_records = PyTuple_Size(outlet->outgoing) + PyTuple_Size(outlet->converting) > 0;
    outlet->measures = outlet->record_size == 0 && has_queue(outlet->direct);
    return status;
}

/* The streams, which the caller holds, and one more, as a new tuple. May run any code: a new tuple may be what has the
 * garbage collector run. */
static PyObject *and_stream(PyObject *streams, PyObject *stream)
{
    Py_ssize_t i, count = PyTuple_Size(streams);
    PyObject *more = PyTuple_New(count + 1);

    if (more == NULL)
        return NULL;
    for (i = 0; i < count; i++)
        PyTuple_SetItem(more, i, Py_NewRef(PyTuple_GetItem(streams, i))); /* steals; cannot fail */
    PyTuple_SetItem(more, count, Py_NewRef(stream));
    return more;
}

/* As they were when the new tuple was filled; what was added or removed meanwhile must not be undone. */
static PyObject *streams_and(const struct outlet *outlet, PyObject *stream)
{
    PyObject *streams, *more = NULL;
    int is_outdated;

    do {
        Py_XDECREF(more);
        streams = Py_NewRef(outlet->outgoing);
        more = and_stream(streams, stream);
        is_outdated = streams != outlet->outgoing;
        Py_DECREF(streams); /* the last reference only where it is outdated: nothing runs after the last look */
    } while (more != NULL && is_outdated);
    return more;
}

/* Between the comparison and the first event that leaves by the stream nobody can submit another. */
static PyObject *outlet_add_outgoing(PyObject *self, PyObject *args)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    struct outlet *outlet = (struct outlet *)self;
    unsigned long long sequence;
    PyObject *stream, *streams;
    int status;

    if (!PyArg_ParseTuple(args, "O!K:add_outgoing", state->outgoing_type, &stream, &sequence))
        return NULL;
    streams = streams_and(outlet, stream);
    if (streams == NULL)
        return NULL;
    if (sequence != outlet->sequence || outlet->is_closed) {
        Py_DECREF(streams);
        Py_RETURN_FALSE;
    }
    status = outlet_set_tuple(self, streams, &outgoing);
    Py_DECREF(streams);
    return status == 0 ? Py_NewRef(Py_True) : NULL;
}

static PyObject *outlet_get_dropped(PyObject *self, void *Py_UNUSED(unused))
{
    return PyLong_FromUnsignedLongLong(atomic_load(&((struct outlet *)self)->tally->dropped));
}

/* Whoever has a stream may drop something yet; so may a backlog that a stream has left behind. */
static PyObject *outlet_get_may_drop(PyObject *self, void *Py_UNUSED(unused))
{
    return PyBool_FromLong(atomic_load(&((struct outlet *)self)->tally->users) > 1);
}

static PyObject *outlet_get_pool(PyObject *self, void *Py_UNUSED(unused))
{
    PyObject *pool = ((struct outlet *)self)->pool;

    return Py_NewRef(pool != NULL ? pool : Py_None);
}

static int outlet_set_pool(PyObject *self, PyObject *pool, void *Py_UNUSED(unused))
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    struct outlet *outlet = (struct outlet *)self;
    PyObject *old = outlet->pool;

    if (pool == NULL || (pool != Py_None && !Py_IS_TYPE(pool, state->pool_type))) {
        PyErr_Format(PyExc_TypeError, "Expected a Pool or None, got %R", pool != NULL ? pool : Py_None);
        return -1;
    }
    if (!is_outlet_open(outlet))
        return -1;
    outlet->pool = pool != Py_None ? Py_NewRef(pool) : NULL;
    Py_XDECREF(old);
    return 0;
}

/* --- the type --- */

static PyMethodDef outlet_methods[] = {
    {"submit", echo_outlet_submit, METH_O,
     PyDoc_STR("submit($self, event, /)\n--\n\nTo all streams and sinks; encoded at most once.")},
    {"submit_records", echo_outlet_submit_records, METH_O,
     PyDoc_STR("submit_records($self, records, /)\n--\n\n"
               "Records of fixed size side by side, in the source's layout.")},
    {"submit_array", echo_outlet_submit_array, METH_O,
     PyDoc_STR("submit_array($self, array, /)\n--\n\n"
               "The records of a numpy structured array, one event each, without a Python object for any.")},
    {"add_outgoing", outlet_add_outgoing, METH_VARARGS,
     PyDoc_STR("add_outgoing($self, stream, sequence, /)\n--\n\n"
               "From now on events leave by this stream too, if the next one is number `sequence`; whether it is.")},
    {"close", outlet_close, METH_NOARGS,
     PyDoc_STR("close($self, /)\n--\n\nNothing more is taken; it lets go of streams and sinks.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef outlet_members[] = {
    {"sequence", T_ULONGLONG, offsetof(struct outlet, sequence), READONLY, PyDoc_STR("Events submitted.")},
    {"bytes", T_ULONGLONG, offsetof(struct outlet, bytes), READONLY,
     PyDoc_STR("Bytes of their records, where somebody took any.")},
    {NULL, 0, 0, 0, NULL}};

static PyGetSetDef outlet_properties[] = {
    {"outgoing", outlet_get_tuple, outlet_set_tuple, PyDoc_STR("To other processes; replaced as a whole."), &outgoing},
    {"direct", outlet_get_tuple, outlet_set_tuple, PyDoc_STR("Sinks here that take the event itself."), &direct},
    {"converting", outlet_get_tuple, outlet_set_tuple, PyDoc_STR("Sinks here that take its record."), &converting},
    {"dropped", outlet_get_dropped, NULL, PyDoc_STR("Events that streams which were made for it have dropped."), NULL},
    {"may_drop", outlet_get_may_drop, NULL, PyDoc_STR("Whether such a stream, or what it has queued, is left."), NULL},
    {"pool", outlet_get_pool, outlet_set_pool, PyDoc_STR("Memory for large records and batches, or None."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot outlet_slots[] = {
    {Py_tp_doc, PyDoc_STR("Outlet(event_class, encode, *, record_size=0, dtype=None, max_payload=1048576)\n--\n\n"
                          "Where the events of one source leave.")},
    {Py_tp_new, outlet_new},
    {Py_tp_dealloc, outlet_dealloc},
    {Py_tp_traverse, outlet_traverse},
    {Py_tp_clear, outlet_clear},
    {Py_tp_methods, outlet_methods},
    {Py_tp_members, outlet_members},
    {Py_tp_getset, outlet_properties},
    {0, NULL}};

PyType_Spec echo_link_outlet_spec = {
    .name = "echo_core._c.links.Outlet",
    .basicsize = sizeof(struct outlet),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = outlet_slots,
};
