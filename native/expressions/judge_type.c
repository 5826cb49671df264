/* The type Judge. judges.c decides; this is how Python asks, and how C code does (raw_judge.h). */
#include "expressions/judges.h"
#include "expressions/module.h"
#include "raw_judge.h"

#include <string.h>
#include <structmember.h>

/* --- asking --- */

static PyObject *answer(int is_passed)
{
    return is_passed < 0 ? NULL : PyBool_FromLong(is_passed);
}

static PyObject *judge_passes(PyObject *self, PyObject *event)
{
    struct judge *judge = (struct judge *)self;

    return answer(echo_judge_object(judge, event, echo_judge_now(judge)));
}

static PyObject *judge_passes_at(PyObject *self, PyObject *args)
{
    PyObject *event;
    long long now_ns;

    if (!PyArg_ParseTuple(args, "OL:passes_at", &event, &now_ns))
        return NULL;
    return answer(echo_judge_object((struct judge *)self, event, now_ns));
}

/* Of exact bytes: anything else could change meanwhile. */
static PyObject *judge_passes_record(PyObject *self, PyObject *args)
{
    struct judge *judge = (struct judge *)self;
    PyObject *record;
    long long now_ns = echo_judge_now(judge);

    if (!PyArg_ParseTuple(args, "S|L:passes_record", &record, &now_ns))
        return NULL;
    return answer(
        echo_judge_record(judge, (const uint8_t *)PyBytes_AsString(record), (uint64_t)PyBytes_Size(record), now_ns));
}

/* mask(record): a bit for each root that holds. */
static PyObject *judge_mask(PyObject *self, PyObject *record)
{
    int64_t results[MAX_ROOTS + MAX_STATES];
    uint64_t mask, failing;

    if (!PyBytes_CheckExact(record))
        return PyErr_Format(PyExc_TypeError, "Expected bytes, got %R", (PyObject *)Py_TYPE(record));
    echo_judge_roots((struct judge *)self, (const uint8_t *)PyBytes_AsString(record), (uint64_t)PyBytes_Size(record),
                     &mask, &failing, results);
    return PyLong_FromUnsignedLongLong(mask);
}

/* write_roots(record, target, offsets): each root's value to its place, a byte for a bool and eight for any other.
 * False: one of them failed, and nothing is written. */
static PyObject *judge_write_roots(PyObject *self, PyObject *args)
{
    struct judge *judge = (struct judge *)self;
    const struct program *program = judge->program;
    int64_t results[MAX_ROOTS + MAX_STATES];
    uint64_t mask, failing;
    PyObject *record, *target, *offsets;
    Py_buffer room;
    int i;

    if (!PyArg_ParseTuple(args, "SOO!:write_roots", &record, &target, &PyTuple_Type, &offsets))
        return NULL;
    if (PyTuple_Size(offsets) != program->root_count)
        return PyErr_Format(PyExc_ValueError, "Expected %d offsets, got %zd", program->root_count,
                            PyTuple_Size(offsets));
    if (echo_judge_roots(judge, (const uint8_t *)PyBytes_AsString(record), (uint64_t)PyBytes_Size(record), &mask,
                         &failing, results) != 0)
        Py_RETURN_FALSE;
    if (PyObject_GetBuffer(target, &room, PyBUF_WRITABLE) != 0)
        return NULL;
    for (i = 0; i < program->root_count && PyErr_Occurred() == NULL; i++) {
        Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GetItem(offsets, i));
        Py_ssize_t size = program->roots[i].form == '?' ? 1 : 8;

        if (at < 0 || at > room.len - size) {
            if (PyErr_Occurred() == NULL)
                PyErr_Format(PyExc_ValueError, "Expected a place within %zd bytes, got %zd", room.len, at);
        } else if (size == 1) {
            ((uint8_t *)room.buf)[at] = mask >> i & 1;
        } else {
            memcpy((uint8_t *)room.buf + at, &results[i], 8);
        }
    }
    PyBuffer_Release(&room);
    return PyErr_Occurred() == NULL ? Py_NewRef(Py_True) : NULL;
}

/* The buffer of rows; -1 with an exception. */
static int open_rows(const struct judge *judge, PyObject *object, Py_buffer *rows)
{
    if (PyObject_GetBuffer(object, rows, PyBUF_SIMPLE) != 0)
        return -1;
    if (judge->is_fixed && rows->len % judge->record_size == 0 && rows->len / judge->record_size <= UINT32_MAX)
        return 0;
    PyErr_Format(PyExc_ValueError, "Expected records of %zd bytes and no variable parts, got %zd bytes",
                 judge->record_size, rows->len);
    PyBuffer_Release(rows);
    return -1;
}

/* indices(rows, target): which of the rows pass, as uint32; how many. */
static PyObject *judge_indices(PyObject *self, PyObject *args)
{
    struct judge *judge = (struct judge *)self;
    Py_ssize_t passed = 0, count;
    int64_t now_ns = echo_judge_now(judge);
    PyObject *source, *target;
    Py_buffer rows, indices;

    if (!PyArg_ParseTuple(args, "OO:indices", &source, &target) || open_rows(judge, source, &rows) != 0)
        return NULL;
    count = rows.len / judge->record_size;
    if (PyObject_GetBuffer(target, &indices, PyBUF_WRITABLE) != 0) {
        PyBuffer_Release(&rows);
        return NULL;
    }
    if (indices.len / (Py_ssize_t)sizeof(uint32_t) < count)
        PyErr_Format(PyExc_ValueError, "Expected room for %zd indices, got %zd bytes", count, indices.len);
    else
        passed = echo_judge_rows(judge, rows.buf, count, indices.buf, now_ns);
    PyBuffer_Release(&indices);
    PyBuffer_Release(&rows);
    return PyErr_Occurred() == NULL ? PyLong_FromSsize_t(passed) : NULL;
}

static void copy_survivors(const struct judge *judge, const uint8_t *rows, const uint32_t *indices, Py_ssize_t count,
                           uint8_t *target)
{
    size_t size = (size_t)judge->record_size;
    Py_ssize_t i;

    if (judge->copy != NULL) {
        judge->copy(rows, indices, (uint64_t)count, target);
        return;
    }
    for (i = 0; i < count; i++)
        memcpy(target + (size_t)i * size, rows + indices[i] * size, size);
}

/* 256 rows at a time are judged without a branch, then those that pass are copied while they are in the cache. */
static Py_ssize_t filter(struct judge *judge, const uint8_t *rows, Py_ssize_t count, uint8_t *target)
{
    uint32_t indices[BLOCK_ROWS];
    int64_t now_ns = echo_judge_now(judge);
    Py_ssize_t at, passed = 0;

    for (at = 0; at < count; at += BLOCK_ROWS) {
        const uint8_t *block = rows + at * judge->record_size;
        Py_ssize_t rest = count - at < BLOCK_ROWS ? count - at : BLOCK_ROWS;
        Py_ssize_t more = echo_judge_rows(judge, block, rest, indices, now_ns);

        copy_survivors(judge, block, indices, more, target + passed * judge->record_size);
        passed += more;
    }
    return passed;
}

/* filter(rows, target): the rows that pass, copied; how many. */
static PyObject *judge_filter(PyObject *self, PyObject *args)
{
    struct judge *judge = (struct judge *)self;
    Py_ssize_t passed = 0;
    PyObject *source, *target;
    Py_buffer rows, copies;

    if (!PyArg_ParseTuple(args, "OO:filter", &source, &target) || open_rows(judge, source, &rows) != 0)
        return NULL;
    if (PyObject_GetBuffer(target, &copies, PyBUF_WRITABLE) != 0) {
        PyBuffer_Release(&rows);
        return NULL;
    }
    if (copies.len < rows.len)
        PyErr_Format(PyExc_ValueError, "Expected room for %zd bytes, got %zd", rows.len, copies.len);
    else
        passed = filter(judge, rows.buf, rows.len / judge->record_size, copies.buf);
    PyBuffer_Release(&copies);
    PyBuffer_Release(&rows);
    return PyErr_Occurred() == NULL ? PyLong_FromSsize_t(passed) : NULL;
}

/* --- for C code --- */

static int raw_record(PyObject *self, const uint8_t *record, Py_ssize_t size, int64_t now_ns)
{
    return echo_judge_record((struct judge *)self, record, (uint64_t)size, now_ns);
}

static int raw_object(PyObject *self, PyObject *event, int64_t now_ns)
{
    return echo_judge_object((struct judge *)self, event, now_ns);
}

static int raw_glance(PyObject *self, PyObject *event, int64_t now_ns)
{
    return echo_judge_glance((struct judge *)self, event, now_ns);
}

static Py_ssize_t raw_rows(PyObject *self, const uint8_t *rows, Py_ssize_t count, uint32_t *indices, int64_t now_ns)
{
    return echo_judge_rows((struct judge *)self, rows, count, indices, now_ns);
}

static const uint8_t *raw_fields(PyObject *self, PyObject *event, Py_ssize_t *size)
{
    const struct judge *judge = (const struct judge *)self;

    *size = judge->record_size;
    return echo_access_record(&judge->access, event);
}

static PyObject *raw_parameters(PyObject *self)
{
    return ((const struct judge *)self)->parameters;
}

static PyObject *judge_raw(PyObject *self, void *unused)
{
    static const struct raw_judge raw = {.record = raw_record,
                                         .object = raw_object,
                                         .glance = raw_glance,
                                         .fields = raw_fields,
                                         .parameters = raw_parameters,
                                         .rows = raw_rows};

    (void)self;
    (void)unused;
    return PyCapsule_New((void *)(uintptr_t)&raw, RAW_JUDGE, NULL);
}

/* --- changing --- */

static PyObject *judge_set_parameters(PyObject *self, PyObject *parameters)
{
    struct judge *judge = (struct judge *)self;
    PyObject *old = judge->parameters;

    if (!PyBytes_CheckExact(parameters))
        return PyErr_Format(PyExc_TypeError, "Expected bytes, got %R", (PyObject *)Py_TYPE(parameters));
    if (echo_parameters_check(judge->program, parameters) != 0)
        return NULL;
    judge->parameters = Py_NewRef(parameters); /* between two events, as the GIL is held */
    judge->snapshot = (const uint8_t *)PyBytes_AsString(parameters);
    Py_DECREF(old);
    Py_RETURN_NONE;
}

/* An address, or 0 for none; -1 with an exception. */
static int take_address(PyObject *object, void *out)
{
    unsigned long long address = PyLong_AsUnsignedLongLong(object);

    if (address == (unsigned long long)-1 && PyErr_Occurred() != NULL)
        return 0;
    memcpy(out, &(uintptr_t){(uintptr_t)address}, sizeof(uintptr_t));
    return 1;
}

static PyObject *judge_install(PyObject *self, PyObject *args)
{
    struct judge *judge = (struct judge *)self;
    PyObject *keep_alive, *old = judge->keep_alive;
    judge_record *compiled;
    filter_rows *rows;
    copy_rows *copy;

    if (!PyArg_ParseTuple(args, "O&O&O&O:install", take_address, &compiled, take_address, &rows, take_address, &copy,
                          &keep_alive))
        return NULL;
    judge->keep_alive = Py_NewRef(keep_alive);
    judge->compiled = compiled;
    judge->filter = judge->is_fixed && judge->program->state_count == 0 ? rows : NULL;
    judge->copy = judge->is_fixed ? copy : NULL;
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

static PyObject *judge_use_objects(PyObject *self, PyObject *args)
{
    struct judge *judge = (struct judge *)self;
    struct access access = {.cls = NULL};
    PyObject *cls, *details;

    if (!PyArg_ParseTuple(args, "O!O!:use_objects", &PyType_Type, &cls, &PyTuple_Type, &details))
        return NULL;
    if (PyTuple_Size(details) < 1 || echo_access_fill(&access, (PyTypeObject *)cls, details, judge->record_size) != 0) {
        echo_access_clear(&access);
        if (PyErr_Occurred() == NULL)
            PyErr_SetString(PyExc_ValueError, "Expected where a record is and leaves, got nothing");
        return NULL;
    }
    echo_access_clear(&judge->access);
    judge->access = access;
    Py_RETURN_NONE;
}

static PyObject *judge_forget(PyObject *self, PyObject *unused)
{
    struct judge *judge = (struct judge *)self;

    (void)unused;
    memset(judge->states, 0, sizeof judge->states);
    judge->reached = 0;
    judge->passed_at_ns = INT64_MIN;
    Py_RETURN_NONE;
}

/* --- the type --- */

static int fill(struct judge *judge, PyTypeObject *program_type, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"program", "parameters", "record_size",     "is_fixed",
                               "encode",  "every",      "min_interval_ns", NULL};
    PyObject *program, *parameters, *encode;
    long long every, min_interval_ns;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!SnpOLL:Judge", keywords, program_type, &program, &parameters,
                                     &judge->record_size, &judge->is_fixed, &encode, &every, &min_interval_ns))
        return -1;
    judge->program = (struct program *)Py_NewRef(program);
    judge->parameters = Py_NewRef(parameters);
    judge->snapshot = (const uint8_t *)PyBytes_AsString(parameters);
    judge->all = judge->program->update_count == 0 && every == 1 && min_interval_ns == 0
                     ? (INT64_C(1) << judge->program->root_count) - 1
                     : -1;
    judge->encode = encode != Py_None ? Py_NewRef(encode) : NULL;
    judge->every = (unsigned long long)every;
    judge->min_interval_ns = min_interval_ns;
    judge->passed_at_ns = INT64_MIN;
    if (judge->record_size < 1 || every < 1 || min_interval_ns < 0) {
        PyErr_SetString(PyExc_ValueError, "Expected a size and a rate from 1 on, and an interval from 0 on");
        return -1;
    }
    if (judge->encode != NULL && echo_raw_call_of(judge->encode, &judge->raw) != 0)
        return -1;
    return echo_parameters_check(judge->program, parameters);
}

static PyObject *judge_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct judge *judge = (struct judge *)PyType_GenericAlloc(type, 0); /* zeroed */

    if (judge != NULL && fill(judge, sibling(type, PROGRAM), args, kwargs) != 0)
        Py_CLEAR(judge);
    return (PyObject *)judge;
}

static const Py_ssize_t owned[] = {offsetof(struct judge, program), offsetof(struct judge, parameters),
                                   offsetof(struct judge, encode), offsetof(struct judge, keep_alive), 0};

static int judge_traverse(PyObject *self, visitproc visit, void *arg)
{
    const struct judge *judge = (const struct judge *)self;

    Py_VISIT(judge->access.details);
    Py_VISIT((PyObject *)judge->access.cls);
    return visit_owned(self, owned, visit, arg);
}

/* What can lead back here goes: classes and callables. */
static int judge_clear(PyObject *self)
{
    struct judge *judge = (struct judge *)self;

    echo_access_clear(&judge->access);
    memset(&judge->raw, 0, sizeof judge->raw);
    Py_CLEAR(judge->encode);
    return 0;
}

static void judge_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    judge_clear(self);
    clear_owned(self, owned);
    free_instance(self);
}

static PyObject *judge_failure(PyObject *self, void *unused)
{
    const struct judge *judge = (const struct judge *)self;

    (void)unused;
    if (judge->failure == 0)
        Py_RETURN_NONE;
    return PyLong_FromLong(judge->failure - 1);
}

static PyObject *judge_is_compiled(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct judge *)self)->compiled != NULL);
}

static PyObject *judge_states(PyObject *self, void *unused)
{
    struct judge *judge = (struct judge *)self;

    (void)unused;
    return PyBytes_FromStringAndSize((const char *)judge->states,
                                     (Py_ssize_t)(judge->program->state_count * sizeof(struct state)));
}

static PyMethodDef judge_methods[] = {
    {"passes", judge_passes, METH_O, PyDoc_STR("passes($self, event, /)\n--\n\nWhether an event passes.")},
    {"passes_at", judge_passes_at, METH_VARARGS,
     PyDoc_STR("passes_at($self, event, now_ns, /)\n--\n\nThe same at a time, which does not go back.")},
    {"passes_record", judge_passes_record, METH_VARARGS,
     PyDoc_STR("passes_record($self, record, now_ns=None, /)\n--\n\nThe same of the bytes of its record.")},
    {"mask", judge_mask, METH_O, PyDoc_STR("mask($self, record, /)\n--\n\nA bit for each root that holds.")},
    {"write_roots", judge_write_roots, METH_VARARGS,
     PyDoc_STR("write_roots($self, record, target, offsets, /)\n--\n\nWrites each root's value; False: one failed.")},
    {"indices_in", judge_indices, METH_VARARGS,
     PyDoc_STR("indices_in($self, rows, target, /)\n--\n\nWrites which rows pass, as uint32; how many.")},
    {"filter_into", judge_filter, METH_VARARGS,
     PyDoc_STR("filter_into($self, rows, target, /)\n--\n\nCopies the rows that pass; how many.")},
    {"set_parameters", judge_set_parameters, METH_O,
     PyDoc_STR("set_parameters($self, parameters, /)\n--\n\nFrom the next event on these count.")},
    {"install", judge_install, METH_VARARGS,
     PyDoc_STR("install($self, judge, filter, copy, keep_alive, /)\n--\n\nFrom now on compiled code runs.")},
    {"use_objects", judge_use_objects, METH_VARARGS,
     PyDoc_STR("use_objects($self, cls, details, /)\n--\n\nSays how instances of a class are judged as they are.")},
    {"forget", judge_forget, METH_NOARGS, PyDoc_STR("forget($self, /)\n--\n\nForgets all earlier events.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef judge_members[] = {
    {"judged", T_ULONGLONG, offsetof(struct judge, judged), READONLY, PyDoc_STR("Events.")},
    {"passed", T_ULONGLONG, offsetof(struct judge, passed), READONLY, PyDoc_STR("Those that passed.")},
    {"failed", T_ULONGLONG, offsetof(struct judge, failed), READONLY, PyDoc_STR("Those that met an error.")},
    {"interpreted", T_ULONGLONG, offsetof(struct judge, interpreted), READONLY,
     PyDoc_STR("Those that no compiled code could decide.")},
    {"encoded", T_ULONGLONG, offsetof(struct judge, encoded), READONLY,
     PyDoc_STR("Objects that had to be encoded first.")},
    {NULL, 0, 0, 0, NULL}};

static PyGetSetDef judge_properties[] = {
    {"failure", judge_failure, NULL, PyDoc_STR("The step that failed last, or None."), NULL},
    {"is_compiled", judge_is_compiled, NULL, PyDoc_STR("Whether compiled code is installed."), NULL},
    {"states", judge_states, NULL, PyDoc_STR("What is remembered."), NULL},
    {RAW_JUDGE, judge_raw, NULL, PyDoc_STR("Its functions, for C code."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot judge_slots[] = {
    {Py_tp_doc, PyDoc_STR("Judge(program, parameters, record_size, is_fixed, encode, every, min_interval_ns)\n--\n\n"
                          "Whether events pass.")},
    {Py_tp_new, judge_new},
    {Py_tp_dealloc, judge_dealloc},
    {Py_tp_traverse, judge_traverse},
    {Py_tp_clear, judge_clear},
    {Py_tp_methods, judge_methods},
    {Py_tp_members, judge_members},
    {Py_tp_getset, judge_properties},
    {0, NULL}};

PyType_Spec echo_judge_spec = {
    .name = "echo_core._c.expressions.Judge",
    .basicsize = sizeof(struct judge),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = judge_slots,
};
