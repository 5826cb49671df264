/* The type IncomingStream: the receiving end of one stream, which counts what comes and hands it to each sink. */
#include "streams/deliveries.h"

#include "links/errors.h"

#include "core/forks.h"

#include <structmember.h>

/* Counts the records, if all are whole. -1 with WireError. */
static int count_records(struct incoming_stream *incoming, const struct record *records, Py_ssize_t count)
{
    Py_ssize_t i, events = count, bytes = 0, size = incoming->record_size;

    for (i = 0; i < count; i++) {
        bytes += records[i].size;
        if (size == 0 || records[i].size == size)
            continue;
        if (records[i].size <= 0 || records[i].size % size != 0)
            return echo_raise("WireError", "Expected records of %zd bytes each, got %zd bytes", size, records[i].size);
        events += records[i].size / size - 1;
    }
    incoming->sequence += (uint64_t)events;
    incoming->events += (uint64_t)events;
    incoming->bytes += (uint64_t)bytes;
    return 0;
}

int echo_incoming_hand(struct incoming_stream *incoming, const struct record *records, Py_ssize_t count,
                       PyObject *owner, int is_led)
{
    PyObject *interrupt = NULL, *deliveries = incoming->deliveries;
    Py_ssize_t i, delivery_count;
    unsigned forks = echo_forks;
    int status = 0;

    if (count_records(incoming, records, count) != 0)
        return -1;
    if (deliveries == NULL) /* after tp_clear */
        return 0;
    Py_INCREF(deliveries); /* they may be replaced meanwhile */
    delivery_count = PyTuple_Size(deliveries);
    for (i = 0; status == 0 && i < delivery_count && !has_forked_since(forks); i++) {
        if (echo_delivery_hand(PyTuple_GetItem(deliveries, i), records, count, owner, is_led) != 0)
            status = echo_keep_interrupt(&interrupt);
    }
    Py_DECREF(deliveries);
    return interrupt == NULL ? status : echo_raise_interrupt(interrupt);
}

void echo_incoming_close(const struct incoming_stream *incoming)
{
    Py_ssize_t i, count = incoming->deliveries != NULL ? PyTuple_Size(incoming->deliveries) : 0;

    for (i = 0; i < count; i++)
        echo_delivery_close(PyTuple_GetItem(incoming->deliveries, i));
}

void echo_incoming_narrow(const struct incoming_stream *incoming, Py_ssize_t size, struct space *space)
{
    Py_ssize_t i, count = incoming->deliveries != NULL ? PyTuple_Size(incoming->deliveries) : 0;

    for (i = 0; i < count; i++)
        echo_delivery_narrow(PyTuple_GetItem(incoming->deliveries, i), size, space);
}

/* --- the type --- */

int echo_replace_tuple(PyObject **place, PyObject *tuple, PyTypeObject *type)
{
    PyObject *old = *place;
    Py_ssize_t i;

    if (tuple == NULL || !PyTuple_CheckExact(tuple)) {
        PyErr_Format(PyExc_TypeError, "Expected a tuple, got %R", tuple != NULL ? tuple : Py_None);
        return -1;
    }
    for (i = 0; i < PyTuple_Size(tuple); i++) {
        if (!PyObject_TypeCheck(PyTuple_GetItem(tuple, i), type)) {
            PyErr_Format(PyExc_TypeError, "Expected a tuple of %R, got %R", type, tuple);
            return -1;
        }
    }
    *place = Py_NewRef(tuple);
    Py_XDECREF(old);
    return 0;
}

static PyObject *incoming_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"record_size", "sequence", NULL};
    struct incoming_stream *incoming = (struct incoming_stream *)PyType_GenericAlloc(type, 0); /* zeroed */
    unsigned long long sequence = 0;

    if (incoming == NULL)
        return NULL;
    if (PyArg_ParseTupleAndKeywords(args, kwargs, "|$nK:IncomingStream", names, &incoming->record_size, &sequence)) {
        incoming->sequence = sequence;
        incoming->deliveries = PyTuple_New(0);
        if (incoming->record_size < 0)
            PyErr_Format(PyExc_ValueError, "Expected the size of a record, got %zd", incoming->record_size);
    }
    if (PyErr_Occurred() != NULL)
        Py_CLEAR(incoming);
    return (PyObject *)incoming;
}

static int incoming_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct incoming_stream *)self)->deliveries);
    return 0;
}

static int incoming_clear(PyObject *self)
{
    Py_CLEAR(((struct incoming_stream *)self)->deliveries);
    return 0;
}

static void incoming_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    incoming_clear(self);
    free_instance(self);
}

static PyObject *incoming_get_deliveries(PyObject *self, void *Py_UNUSED(unused))
{
    const struct incoming_stream *incoming = (struct incoming_stream *)self;

    return incoming->deliveries != NULL ? Py_NewRef(incoming->deliveries) : PyTuple_New(0);
}

static int incoming_set_deliveries(PyObject *self, PyObject *deliveries, void *Py_UNUSED(unused))
{
    const struct module_state *state = echo_state_of(Py_TYPE(self));

    return echo_replace_tuple(&((struct incoming_stream *)self)->deliveries, deliveries, state->delivery_type);
}

static PyMemberDef incoming_members[] = {
    {"sequence", T_ULONGLONG, offsetof(struct incoming_stream, sequence), 0, PyDoc_STR("Events and gaps so far.")},
    {"events", T_ULONGLONG, offsetof(struct incoming_stream, events), READONLY, PyDoc_STR("Events received.")},
    {"bytes", T_ULONGLONG, offsetof(struct incoming_stream, bytes), READONLY, PyDoc_STR("Bytes of these.")},
    {"lost", T_ULONGLONG, offsetof(struct incoming_stream, lost), READONLY, PyDoc_STR("Events in gaps.")},
    {NULL, 0, 0, 0, NULL}};

static PyGetSetDef incoming_properties[] = {{"deliveries", incoming_get_deliveries, incoming_set_deliveries,
                                             PyDoc_STR("The sinks; replaced as a whole."), NULL},
                                            {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot incoming_slots[] = {
    {Py_tp_doc, PyDoc_STR("IncomingStream(*, record_size=0, sequence=0)\n--\n\nThe receiving end of one stream.")},
    {Py_tp_new, incoming_new},
    {Py_tp_dealloc, incoming_dealloc},
    {Py_tp_traverse, incoming_traverse},
    {Py_tp_clear, incoming_clear},
    {Py_tp_members, incoming_members},
    {Py_tp_getset, incoming_properties},
    {0, NULL}};

PyType_Spec echo_link_incoming_spec = {
    .name = "echo_core._c.links.IncomingStream",
    .basicsize = sizeof(struct incoming_stream),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = incoming_slots,
};
