/* The types Lookback and LookbackStream as Python sees them; lookback.c has their rules. */
#include "logs/lookback.h"
#include "logs/module.h"

#include <structmember.h>

/* --- LookbackStream --- */

static int64_t stream_take(PyObject *self, const uint8_t *bytes, Py_ssize_t size, uint64_t events, uint64_t number,
                           int64_t submitted_ns)
{
    struct lookback_stream *stream = (struct lookback_stream *)self;

    if (stream->lookback->state == PASSING)
        return stream->taker->take(stream->target, bytes, size, events, number, submitted_ns);
    return echo_lookback_take(stream, bytes, size, events, number, submitted_ns);
}

static int stream_miss(PyObject *self, uint64_t first, uint64_t last, const char *cause)
{
    struct lookback_stream *stream = (struct lookback_stream *)self;

    if (stream->lookback->state == PASSING)
        return stream->taker->miss(stream->target, first, last, cause);
    return echo_lookback_miss(stream, first, last, cause);
}

/* What is looked back at makes room for itself. */
static int stream_has_room(PyObject *self, uint64_t bytes)
{
    const struct lookback_stream *stream = (struct lookback_stream *)self;
    const struct lookback *lookback = stream->lookback;

    switch (lookback->state) {
    case LOOKING_BACK:
        return 1;
    case HANDING_ON:
        return lookback->max_bytes / 2 > lookback->bytes;
    default:
        return stream->taker->has_room(stream->target, bytes);
    }
}

static PyObject *stream_get_taker(PyObject *Py_UNUSED(self), void *Py_UNUSED(unused))
{
    static const struct record_taker taker = {stream_take, stream_miss, stream_has_room};

    return PyCapsule_New((void *)(uintptr_t)&taker, RECORD_TAKER, NULL);
}

static PyObject *stream_gap(PyObject *self, PyObject *args)
{
    unsigned long long first, last;
    const char *cause;

    if (!PyArg_ParseTuple(args, "KKs:gap", &first, &last, &cause))
        return NULL;
    return stream_miss(self, first, last, cause) == 0 ? Py_NewRef(Py_None) : NULL;
}

static const Py_ssize_t stream_owned[] = {offsetof(struct lookback_stream, lookback),
                                          offsetof(struct lookback_stream, target), 0};

static int stream_traverse(PyObject *self, visitproc visit, void *arg)
{
    return visit_owned(self, stream_owned, visit, arg);
}

static void stream_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    clear_owned(self, stream_owned);
    free_instance(self);
}

static PyMethodDef stream_methods[] = {
    {"gap", stream_gap, METH_VARARGS,
     PyDoc_STR("gap($self, first, last, cause, /)\n--\n\nEvents of these numbers will not come.")},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef stream_getters[] = {
    {RECORD_TAKER, stream_get_taker, NULL, PyDoc_STR("What it does, for C code."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot stream_slots[] = {{Py_tp_doc, PyDoc_STR("A taker of records in front of another.")},
                                     {Py_tp_dealloc, stream_dealloc},
                                     {Py_tp_traverse, stream_traverse},
                                     {Py_tp_methods, stream_methods},
                                     {Py_tp_getset, stream_getters},
                                     {0, NULL}};

PyType_Spec echo_lookback_stream_spec = {
    .name = "echo_core._c.logs.LookbackStream",
    .basicsize = sizeof(struct lookback_stream),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = stream_slots,
};

/* --- Lookback --- */

static PyObject *lookback_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"keeps_ns", "max_bytes", NULL};
    struct lookback *lookback;
    long long keeps_ns;
    Py_ssize_t max_bytes;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Ln:Lookback", names, &keeps_ns, &max_bytes))
        return NULL;
    if (keeps_ns <= 0 || max_bytes <= 0)
        return PyErr_Format(PyExc_ValueError, "Expected a time and bytes above 0, got %lld and %zd", keeps_ns,
                            max_bytes);
    lookback = (struct lookback *)PyType_GenericAlloc(type, 0); /* zeroed */
    if (lookback == NULL)
        return NULL;
    lookback->keeps_ns = keeps_ns;
    lookback->max_bytes = (size_t)max_bytes;
    lookback->streams = PyList_New(0);
    if (lookback->streams == NULL)
        Py_CLEAR(lookback);
    return (PyObject *)lookback;
}

static int lookback_clear(PyObject *self)
{
    struct lookback *lookback = (struct lookback *)self;

    echo_lookback_empty(lookback); /* which refers to the streams */
    Py_CLEAR(lookback->streams);
    return 0;
}

static int lookback_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct lookback *)self)->streams);
    return 0;
}

static void lookback_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    lookback_clear(self);
    free_instance(self);
}

/* stream(target) */
static PyObject *lookback_stream(PyObject *self, PyObject *target)
{
    struct lookback *lookback = (struct lookback *)self;
    const struct record_taker *taker = record_taker_of(target);
    struct lookback_stream *stream;

    if (taker == NULL)
        return NULL;
    stream = (struct lookback_stream *)PyType_GenericAlloc(sibling(Py_TYPE(self), LOOKBACK_STREAM), 0);
    if (stream == NULL)
        return NULL;
    stream->lookback = (struct lookback *)(void *)Py_NewRef(self);
    stream->target = Py_NewRef(target);
    stream->taker = taker;
    if (lookback->state != PASSING && PyList_Append(lookback->streams, (PyObject *)stream) != 0)
        Py_CLEAR(stream);
    return (PyObject *)stream;
}

static PyObject *lookback_trigger(PyObject *self, PyObject *Py_UNUSED(unused))
{
    echo_lookback_trigger((struct lookback *)self);
    Py_RETURN_NONE;
}

static PyObject *lookback_hand_on(PyObject *self, PyObject *Py_UNUSED(unused))
{
    struct lookback *lookback = (struct lookback *)self;
    int status;

    if (lookback->state == LOOKING_BACK) {
        PyErr_SetString(PyExc_ValueError, "Expected a lookback that was triggered");
        return NULL;
    }
    status = echo_lookback_hand_on(lookback);
    if (status < 0)
        return NULL;
    if (status == 1 && PyList_SetSlice(lookback->streams, 0, PY_SSIZE_T_MAX, NULL) != 0)
        return NULL;
    return PyBool_FromLong(status);
}

static PyObject *lookback_is_waiting(PyObject *self, void *Py_UNUSED(unused))
{
    return PyBool_FromLong(((struct lookback *)self)->state == LOOKING_BACK);
}

static PyMethodDef lookback_methods[] = {
    {"stream", lookback_stream, METH_O, PyDoc_STR("stream($self, target, /)\n--\n\nA taker in front of another one.")},
    {"trigger", lookback_trigger, METH_NOARGS,
     PyDoc_STR("trigger($self, /)\n--\n\nWhat is kept, and all that comes, is to be handed on.")},
    {"hand_on", lookback_hand_on, METH_NOARGS,
     PyDoc_STR("hand_on($self, /)\n--\n\nHands on what there is room for; True: that was all, and from now on what "
               "comes is passed on at once.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef lookback_members[] = {
    {"events", T_ULONGLONG, offsetof(struct lookback, events), READONLY, PyDoc_STR("That it keeps.")},
    {"bytes", T_PYSSIZET, offsetof(struct lookback, bytes), READONLY, PyDoc_STR("Of memory.")},
    {"forgotten", T_ULONGLONG, offsetof(struct lookback, forgotten), READONLY,
     PyDoc_STR("Events that were let go of early, for want of memory.")},
    {NULL, 0, 0, 0, NULL}};

static PyGetSetDef lookback_getters[] = {
    {"is_waiting", lookback_is_waiting, NULL, PyDoc_STR("Whether it has not been triggered."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot lookback_slots[] = {{Py_tp_doc, PyDoc_STR("Lookback(keeps_ns, max_bytes)\n--\n\nThe last of what "
                                                             "came, until it is triggered.")},
                                       {Py_tp_new, lookback_new},
                                       {Py_tp_dealloc, lookback_dealloc},
                                       {Py_tp_traverse, lookback_traverse},
                                       {Py_tp_clear, lookback_clear},
                                       {Py_tp_methods, lookback_methods},
                                       {Py_tp_members, lookback_members},
                                       {Py_tp_getset, lookback_getters},
                                       {0, NULL}};

PyType_Spec echo_lookback_spec = {
    .name = "echo_core._c.logs.Lookback",
    .basicsize = sizeof(struct lookback),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = lookback_slots,
};
