/* The type Stage as Python sees it; stages.c has its rules. */
#include "logs/module.h"
#include "logs/ranges.h"
#include "logs/stages.h"
#include "types.h"

#include <structmember.h>

static PyObject *get_taker(PyObject *self, void *unused)
{
    (void)self;
    (void)unused;
    return PyCapsule_New((void *)(uintptr_t)&echo_stage_taker, RECORD_TAKER, NULL);
}

static PyObject *taken_or_not(int status)
{
    return status < 0 ? NULL : PyBool_FromLong(status);
}

/* What append and append_batch are called with. By hand, since it is done for each event. */
struct appended {
    Py_buffer records;
    uint64_t number;
    int64_t time;
};

static int is_named(PyObject *name, const char *text)
{
    return PyUnicode_CompareWithASCIIString(name, text) == 0;
}

static int read_keyword(struct appended *appended, PyObject *name, PyObject *value)
{
    if (is_named(name, "sequence"))
        appended->number = PyLong_AsUnsignedLongLong(value);
    else if (is_named(name, "time_ns"))
        appended->time = PyLong_AsLongLong(value);
    else
        PyErr_Format(PyExc_TypeError, "Expected sequence or time_ns, got %R", name);
    return PyErr_Occurred() == NULL ? 0 : -1;
}

/* 0, or -1 with an exception; the buffer is to be released after the first only. */
static int read_appended(struct appended *appended, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    Py_ssize_t i, count = names != NULL ? PyTuple_Size(names) : 0;
    int has_number = 0;

    if (nargs != 1) {
        PyErr_Format(PyExc_TypeError, "Expected records alone by position, got %zd arguments", nargs);
        return -1;
    }
    appended->time = 0;
    for (i = 0; i < count; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        if (read_keyword(appended, name, args[nargs + i]) != 0)
            return -1;
        has_number |= is_named(name, "sequence");
    }
    if (!has_number) {
        PyErr_SetString(PyExc_TypeError, "Expected sequence, got none");
        return -1;
    }
    return PyObject_GetBuffer(args[0], &appended->records, PyBUF_SIMPLE);
}

static PyObject *stage_append(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    struct appended appended;
    int status;

    if (read_appended(&appended, args, nargs, names) != 0)
        return NULL;
    status = echo_stage_take(self, appended.records.buf, appended.records.len, 1, appended.number, appended.time);
    PyBuffer_Release(&appended.records);
    return taken_or_not(status);
}

static PyObject *stage_append_batch(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    uint64_t size = ((struct stage *)self)->record_size;
    struct appended appended;
    int status = -1;

    if (read_appended(&appended, args, nargs, names) != 0)
        return NULL;
    if (size == 0)
        PyErr_SetString(PyExc_ValueError, "Expected records of a fixed size, got a stream whose records vary");
    else
        status = echo_stage_take(self, appended.records.buf, appended.records.len,
                                 (uint64_t)appended.records.len / size, appended.number, appended.time);
    PyBuffer_Release(&appended.records);
    return taken_or_not(status);
}

static PyObject *stage_gap(PyObject *self, PyObject *args)
{
    unsigned long long first, last;
    const char *cause;

    if (!PyArg_ParseTuple(args, "KKs:gap", &first, &last, &cause) ||
        echo_stage_taker.miss(self, first, last, cause) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *stage_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    echo_stage_end((struct stage *)self);
    Py_RETURN_NONE;
}

static PyObject *stage_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"staging", "stream", "format_number", "record_size", "ranged", NULL};
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    unsigned long long record_size;
    unsigned int stream, format;
    struct stage *stage;
    Py_buffer ranged = {0};
    PyObject *staging;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OIIK|y*:Stage", names, &staging, &stream, &format, &record_size,
                                     &ranged))
        return NULL;
    stage = echo_is_staging(staging) ? (struct stage *)allocate(type, 0) : NULL; /* zeroed */
    if (stage == NULL) {
        if (PyErr_Occurred() == NULL)
            PyErr_SetString(PyExc_TypeError, "Expected a Staging");
        if (ranged.obj != NULL)
            PyBuffer_Release(&ranged);
        return NULL;
    }
    stage->staging = (struct staging *)Py_NewRef(staging);
    stage->stream = stream;
    stage->format = format;
    stage->record_size = record_size;
    if (ranged.obj != NULL) {
        stage->ranged = echo_new_ranged_fields(ranged.buf, ranged.len);
        PyBuffer_Release(&ranged);
        if (stage->ranged == NULL)
            Py_CLEAR(stage);
    }
    return (PyObject *)stage;
}

/* In no cycle: a staging knows its stages, but does not own them. */
static void stage_dealloc(PyObject *self)
{
    echo_stage_end((struct stage *)self);
    echo_drop_ranged_fields(((struct stage *)self)->ranged);
    free_instance(self);
}

static PyMethodDef stage_methods[] = {
    {"append", (PyCFunction)(void (*)(void))stage_append, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"append_batch", (PyCFunction)(void (*)(void))stage_append_batch, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"gap", stage_gap, METH_VARARGS, NULL},
    {"close", stage_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyMemberDef stage_members[] = {
    {"events", T_ULONGLONG, offsetof(struct stage, events), READONLY, NULL},
    {"lost", T_ULONGLONG, offsetof(struct stage, lost), READONLY, NULL},
    {"next_sequence", T_ULONGLONG, offsetof(struct stage, next_number), READONLY, NULL},
    {"stream", T_UINT, offsetof(struct stage, stream), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};

static PyGetSetDef stage_properties[] = {{RECORD_TAKER, get_taker, NULL, PyDoc_STR("For C code."), NULL},
                                         {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot stage_slots[] = {{Py_tp_doc, PyDoc_STR("The way of one stream's events into a log.")},
                                    {Py_tp_new, stage_new},
                                    {Py_tp_dealloc, stage_dealloc},
                                    {Py_tp_methods, stage_methods},
                                    {Py_tp_members, stage_members},
                                    {Py_tp_getset, stage_properties},
                                    {0, NULL}};

PyType_Spec echo_stage_spec = {
    .name = "echo_core._c.logs.Stage",
    .basicsize = sizeof(struct stage),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = stage_slots,
};
