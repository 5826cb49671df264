/* The type Delivery as Python sees it; deliveries.c has its rules. */
#include "streams/deliveries.h"

#include "core/forks.h"

#include <structmember.h>

/* --- the calls --- */

/* hand(records, number=0, submitted_ns=0): any buffer. What may change is copied first. */
static PyObject *delivery_hand(PyObject *self, PyObject *args)
{
    struct record record = {.is_shared = 0};
    unsigned long long number = 0;
    long long submitted_ns = 0;
    PyObject *records, *bytes;
    int status;

    if (!PyArg_ParseTuple(args, "O|KL:hand", &records, &number, &submitted_ns))
        return NULL;
    bytes = PyBytes_CheckExact(records) ? Py_NewRef(records) : PyBytes_FromObject(records);
    if (bytes == NULL)
        return NULL;
    record.bytes = (const uint8_t *)PyBytes_AsString(bytes);
    record.size = PyBytes_Size(bytes);
    record.submitted_ns = submitted_ns;
    status = echo_delivery_hand(self, &record, 1, bytes, number);
    Py_DECREF(bytes);
    return status == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *delivery_held(PyObject *self, PyObject *Py_UNUSED(unused))
{
    struct delivery *delivery = (struct delivery *)self;
    struct amount pending = delivery->pending;

    if (!delivery->has_held)
        Py_RETURN_NONE;
    delivery->has_held = 0;
    return Py_BuildValue("KK", (unsigned long long)pending.events, (unsigned long long)pending.bytes);
}

/* done(events, bytes) */
static PyObject *delivery_done_with(PyObject *self, PyObject *args)
{
    Py_ssize_t events, bytes;

    if (!PyArg_ParseTuple(args, "nn:done", &events, &bytes))
        return NULL;
    delivery_done((struct delivery *)self, events, bytes);
    Py_RETURN_NONE;
}

static PyObject *delivery_close(PyObject *self, PyObject *Py_UNUSED(unused))
{
    echo_delivery_close(self);
    Py_RETURN_NONE;
}

/* pass_over(number) */
static PyObject *delivery_pass_over(PyObject *self, PyObject *argument)
{
    struct delivery *delivery = (struct delivery *)self;
    unsigned long long number = PyLong_AsUnsignedLongLong(argument);

    if (number == (unsigned long long)-1 && PyErr_Occurred() != NULL)
        return NULL;
    delivery->had = number;
    delivery->is_plain = 0;
    Py_RETURN_NONE;
}

static PyObject *delivery_hand_event(PyObject *self, PyObject *event)
{
    return echo_delivery_hand_event(self, event, &(struct record){.size = 0}, 0) == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *delivery_look(PyObject *self, PyObject *Py_UNUSED(unused))
{
    return PyLong_FromLongLong(echo_delivery_look(self));
}

/* --- what counts --- */

static const unsigned long long nothing_counted;

/* Of a callable, and those that it calls. 0, or -1 with an exception. */
static int find_counts(struct delivery *delivery, PyObject *callable)
{
    const unsigned long long *count;
    struct raw_call raw;
    PyObject *next;
    int found = 0;

    for (; callable != NULL && found < COUNTS; callable = next) {
        if (echo_raw_call_of(callable, &raw) != 0)
            return -1;
        next = NULL;
        count = raw.count != NULL ? raw.count(raw.self, &next) : NULL;
        if (count != NULL) {
            delivery->counting[found] = Py_NewRef(callable);
            delivery->counts[found++] = count;
        }
    }
    return 0;
}

/* `convert`: what `decode` converts by, if it is no built-in function. */
static int take_counts(struct delivery *delivery, PyObject *convert)
{
    for (int i = 0; i < COUNTS; i++)
        delivery->counts[i] = &nothing_counted;
    if (delivery->raw.decode == NULL && !delivery->is_array)
        delivery->counts[0] = &delivery->decoded; /* itself Python code: all are */
    return find_counts(delivery, delivery->is_array ? convert : delivery->decode);
}

/* --- the type --- */

static int take_arguments(struct delivery *delivery, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"target",     "decode", "on_error", "record_size", "is_array", "dtype",      "convert",
                            "on_refusal", "sink",   "describe", "on_gap",      "on_held",  "await_room", NULL};
    PyObject *target, *decode, *on_error, *dtype = Py_None, *convert = NULL, *on_refusal = NULL, *sink = NULL;
    PyObject *describe = Py_None, *on_gap = Py_None, *on_held = Py_None, *await_room = Py_None;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|$npOOOOOOOO:Delivery", names, &target, &decode, &on_error,
                                     &delivery->record_size, &delivery->is_array, &dtype, &convert, &on_refusal, &sink,
                                     &describe, &on_gap, &on_held, &await_room))
        return -1;
    if (delivery->record_size < 0 || (delivery->is_array && delivery->record_size == 0)) {
        PyErr_Format(PyExc_ValueError, "Expected the size of a record, got %zd", delivery->record_size);
        return -1;
    }
    delivery->target = Py_NewRef(target);
    delivery->decode = Py_NewRef(decode);
    delivery->dtype = dtype != Py_None ? Py_NewRef(dtype) : NULL;
    delivery->on_error = Py_NewRef(on_error);
    delivery->on_refusal = Py_NewRef(on_refusal != NULL ? on_refusal : on_error);
    delivery->sink = Py_XNewRef(sink);
    delivery->describe = describe != Py_None ? Py_NewRef(describe) : NULL;
    delivery->on_gap = on_gap != Py_None ? Py_NewRef(on_gap) : NULL;
    delivery->on_held = on_held != Py_None ? Py_NewRef(on_held) : NULL;
    delivery->await_room = await_room != Py_None ? Py_NewRef(await_room) : NULL;
    delivery->next_number = ANY_NUMBER;
    if (echo_raw_call_of(decode, &delivery->raw) != 0)
        return -1;
    return take_counts(delivery, convert);
}

static PyObject *delivery_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    const struct module_state *state = PyType_GetModuleState(type);
    struct delivery *delivery = (struct delivery *)PyType_GenericAlloc(type, 0); /* zeroed */

    if (delivery == NULL)
        return NULL;
    delivery->state = state;
    delivery->forks = echo_forks;
    if (take_arguments(delivery, args, kwargs) == 0) {
        delivery->is_queue = Py_IS_TYPE(delivery->target, state->queue_type);
        delivery->is_relay = Py_IS_TYPE(delivery->target, state->outlet_type);
    }
    if (PyErr_Occurred() == NULL && echo_delivery_find_taker(delivery) == 0) {
        delivery->is_plain = !delivery->is_array && !delivery->is_relay && delivery->taker == NULL;
        if (delivery->sink != NULL && Py_IS_TYPE(delivery->sink, state->sharers_type))
            delivery->sharers = (struct sharers *)(void *)delivery->sink;
    } else
        Py_CLEAR(delivery);
    return (PyObject *)delivery;
}

static const Py_ssize_t delivery_owned[] = {offsetof(struct delivery, target),
                                            offsetof(struct delivery, decode),
                                            offsetof(struct delivery, dtype),
                                            offsetof(struct delivery, on_error),
                                            offsetof(struct delivery, on_refusal),
                                            offsetof(struct delivery, counting[0]),
                                            offsetof(struct delivery, counting[1]),
                                            offsetof(struct delivery, sink),
                                            offsetof(struct delivery, describe),
                                            offsetof(struct delivery, on_gap),
                                            offsetof(struct delivery, on_held),
                                            offsetof(struct delivery, await_room),
                                            0};
_Static_assert(COUNTS == 2, "each has its place above");

static int delivery_traverse(PyObject *self, visitproc visit, void *arg)
{
    return visit_owned(self, delivery_owned, visit, arg);
}

static void delivery_dealloc(PyObject *self)
{
    struct delivery *delivery = (struct delivery *)self;

    PyObject_GC_UnTrack(self);
    echo_incoming_remove(delivery->incoming, delivery);
    clear_owned(self, delivery_owned);
    free_instance(self);
}

static PyMethodDef delivery_methods[] = {
    {"hand", delivery_hand, METH_VARARGS,
     PyDoc_STR("hand($self, records, number=0, submitted_ns=0, /)\n--\n\nAs if a frame with these records had come.")},
    {"held", delivery_held, METH_NOARGS,
     PyDoc_STR("held($self, /)\n--\n\nEvents, and bytes of them, that are pending; None: nothing was taken since the "
               "last look.")},
    {"done", delivery_done_with, METH_VARARGS,
     PyDoc_STR("done($self, events, bytes, /)\n--\n\nOf what is pending so much is done with.")},
    {"hand_event", delivery_hand_event, METH_O,
     PyDoc_STR("hand_event($self, event, /)\n--\n\nAn event of the sink's own type, by reference.")},
    {"pass_over", delivery_pass_over, METH_O,
     PyDoc_STR("pass_over($self, number, /)\n--\n\nOf what comes it has had the events below that number.")},
    {"look", delivery_look, METH_NOARGS,
     PyDoc_STR("look($self, /)\n--\n\nHow many ns ago that call of the handler was first looked at which is longest at "
               "work; -1: none is, -2: nor has one been since the last look.")},
    {"close", delivery_close, METH_NOARGS,
     PyDoc_STR("close($self, /)\n--\n\nNothing more is handed on; what is left of a batch is dropped.")},
    {NULL, NULL, 0, NULL}};

static PyObject *delivery_get_events(PyObject *self, void *Py_UNUSED(ignored))
{
    const struct delivery *delivery = (struct delivery *)self;

    return PyLong_FromUnsignedLongLong(delivery->decoded + delivery->handed + delivery->skipped);
}

static PyObject *delivery_get_compiled(PyObject *self, void *Py_UNUSED(ignored))
{
    const struct delivery *delivery = (struct delivery *)self;

    return PyLong_FromUnsignedLongLong(delivery->decoded - delivery->interpreted);
}

static PyObject *delivery_is_busy(PyObject *self, void *Py_UNUSED(ignored))
{
    const struct delivery *delivery = (struct delivery *)self;

    return PyBool_FromLong((delivery->batches != NULL || delivery->aside.events > 0) &&
                           !has_forked_since(delivery->forks));
}

static PyObject *delivery_get_next_number(PyObject *self, void *Py_UNUSED(ignored))
{
    uint64_t number = ((struct delivery *)self)->next_number;

    return number != ANY_NUMBER ? PyLong_FromUnsignedLongLong(number) : Py_NewRef(Py_None);
}

static int delivery_set_next_number(PyObject *self, PyObject *value, void *Py_UNUSED(ignored))
{
    unsigned long long number = value != NULL ? PyLong_AsUnsignedLongLong(value) : ANY_NUMBER;

    if (value == NULL)
        PyErr_SetString(PyExc_TypeError, "Expected the number of an event, got none");
    if (PyErr_Occurred() != NULL)
        return -1;
    ((struct delivery *)self)->next_number = number;
    return 0;
}

static PyGetSetDef delivery_getters[] = {
    {"next_number", delivery_get_next_number, delivery_set_next_number,
     PyDoc_STR("Of a taker's: what it is given has numbers from this on; None: it has had none."), NULL},
    {"events", delivery_get_events, NULL, PyDoc_STR("How many have come to this sink, failures included."), NULL},
    {"compiled", delivery_get_compiled, NULL, PyDoc_STR("How many of them native code has made of records."), NULL},
    {"is_busy", delivery_is_busy, NULL, PyDoc_STR("Whether a batch is under way, or put aside."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMemberDef delivery_members[] = {
    {"pending", T_ULONGLONG, offsetof(struct delivery, pending.events), READONLY,
     PyDoc_STR("How many of a stream's events it has taken, and is not done with.")},
    {"interpreted", T_ULONGLONG, offsetof(struct delivery, interpreted), READONLY,
     PyDoc_STR("How many of them were left to Python code.")},
    {"bytes", T_ULONGLONG, offsetof(struct delivery, bytes), READONLY,
     PyDoc_STR("Of their records, in the sender's layout. Events that vary in size and came by reference count where "
               "their sizes had to be known.")},
    {"failures", T_ULONGLONG, offsetof(struct delivery, failures), READONLY,
     PyDoc_STR("How many of them ended in an exception.")},
    {"dropped", T_ULONGLONG, offsetof(struct delivery, dropped), READONLY,
     PyDoc_STR("Events without room in the queue, or skipped.")},
    {"skipped", T_ULONGLONG, offsetof(struct delivery, skipped), READONLY,
     PyDoc_STR("Events that were left of a batch when it was closed.")},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot delivery_slots[] = {
    {Py_tp_doc, PyDoc_STR("Delivery(target, decode, on_error, *, record_size=0, is_array=False, dtype=None, "
                          "convert=None, on_refusal=on_error, sink=None, describe=None, on_gap=None, "
                          "on_held=None, await_room=None)\n--\n\n"
                          "From the records of one stream to one sink.")},
    {Py_tp_new, delivery_new},
    {Py_tp_dealloc, delivery_dealloc},
    {Py_tp_traverse, delivery_traverse},
    {Py_tp_methods, delivery_methods},
    {Py_tp_members, delivery_members},
    {Py_tp_getset, delivery_getters},
    {0, NULL}};

PyType_Spec echo_link_delivery_spec = {
    .name = "echo_core._c.links.Delivery",
    .basicsize = sizeof(struct delivery),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = delivery_slots,
};
