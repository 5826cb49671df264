/* The type Walker: the events of one class to records and back by a tree of Values, without compiled code.
 *
 * It does every declaration, at once and in a tenth of the time of Python code; whatever is unusual goes to a
 * slow Python callable, whose result or exception counts.
 */
#include "events/objects/objects.h"

#include <structmember.h>

/* The Python object. It has no tp_clear: a cycle through it leads through a class, which has one. */
struct walker {
    PyObject ob_base;               /* spelled out: PyObject_HEAD hides it */
    struct value *value;            /* owned; of a record */
    PyObject *convert;              /* owned; makes a sender's bytes ours, and checks them. None: they are */
    PyObject *encode;               /* owned; the fallback of encode */
    PyObject *decode;               /* owned; the fallback of decode */
    unsigned long long walked;      /* calls that were answered here */
    unsigned long long interpreted; /* calls that went to a fallback */
};

static PyObject *finish(struct walker *walker, enum outcome outcome, PyObject *result, PyObject *fallback,
                        PyObject *argument)
{
    if (outcome == GOOD)
        walker->walked++;
    else if (outcome == UNUSUAL) {
        walker->interpreted++;
        return PyObject_CallFunctionObjArgs(fallback, argument, NULL);
    }
    return result;
}

PyObject *echo_walker_of(PyObject *callable, PyCFunction function)
{
    if (callable == NULL || !PyCFunction_Check(callable) || PyCFunction_GetFunction(callable) != function)
        return NULL;
    return PyCFunction_GetSelf(callable);
}

PyObject *echo_walker_encode(PyObject *self, PyObject *event)
{
    struct walker *walker = (struct walker *)self;
    PyObject *result = NULL;
    enum outcome outcome = echo_value_encode(walker->value, event, &result);

    return finish(walker, outcome, result, walker->encode, event);
}

int echo_walker_encode_raw(PyObject *self, PyObject *event, uint8_t *room, Py_ssize_t size, PyObject **record,
                           Py_ssize_t *written)
{
    struct walker *walker = (struct walker *)self;
    enum outcome outcome = echo_value_write(walker->value, event, room, size, record, written);

    if (outcome == GOOD && *record == NULL) {
        walker->walked++;
        return 0;
    }
    *record = finish(walker, outcome, *record, walker->encode, event);
    return *record != NULL ? 0 : -1;
}

Py_ssize_t echo_walker_measure(PyObject *self, PyObject *event)
{
    struct walker *walker = (struct walker *)self;
    Py_ssize_t size;
    enum outcome outcome = echo_value_measure(walker->value, event, &size);

    if (outcome == UNUSUAL)
        return size_of_record(finish(walker, UNUSUAL, NULL, walker->encode, event));
    return outcome == GOOD ? size : -1;
}

/* Bytes of our own layout that do not change, as a new reference; NULL where there are none. */
static PyObject *bytes_from(const struct walker *walker, PyObject *data)
{
    Py_buffer view;
    PyObject *copy;

    if (walker->convert != Py_None)
        return PyObject_CallFunctionObjArgs(walker->convert, data, NULL);
    if (PyBytes_CheckExact(data))
        return Py_NewRef(data);
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) != 0)
        return NULL;
    copy = PyBytes_FromStringAndSize(view.buf, view.len);
    PyBuffer_Release(&view);
    return copy;
}

PyObject *echo_walker_decode(PyObject *self, PyObject *data)
{
    struct walker *walker = (struct walker *)self;
    PyObject *result = NULL, *bytes = bytes_from(walker, data);
    enum outcome outcome = UNUSUAL;

    if (bytes == NULL)
        outcome = outcome_of_error();
    else if (PyBytes_CheckExact(bytes))
        outcome = echo_value_decode(walker->value, (uint8_t *)PyBytes_AsString(bytes), PyBytes_Size(bytes),
                                    &result);
    Py_XDECREF(bytes);
    return finish(walker, outcome, result, walker->decode, data);
}

PyObject *echo_walker_decode_raw(PyObject *self, const uint8_t *record, Py_ssize_t size)
{
    struct walker *walker = (struct walker *)self;
    PyObject *data, *result = NULL;
    int is_ours = walker->convert == Py_None;
    enum outcome outcome = is_ours ? echo_value_decode(walker->value, record, size, &result) : UNUSUAL;

    if (outcome != UNUSUAL)
        return finish(walker, outcome, result, NULL, NULL);
    data = PyBytes_FromStringAndSize((const char *)record, size);
    if (data != NULL)
        result = is_ours ? finish(walker, UNUSUAL, NULL, walker->decode, data) : echo_walker_decode(self, data);
    Py_XDECREF(data);
    return result;
}

const unsigned long long *echo_walker_count(PyObject *self, PyObject **next)
{
    struct walker *walker = (struct walker *)self;

    *next = walker->convert;
    return &walker->interpreted;
}

/* --- the type --- */

static PyObject *walker_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"value", "convert", "encode", "decode", NULL};
    const struct module_state *state = PyType_GetModuleState(type);
    PyObject *value, *convert, *encode, *decode;
    struct walker *walker;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOO:Walker", names, state->value_type, &value, &convert,
                                     &encode, &decode))
        return NULL;
    if (((struct value *)value)->form != FORM_RECORD)
        return PyErr_Format(PyExc_ValueError, "Expected the Value of a record, got %R", value);
    walker = (struct walker *)PyType_GenericAlloc(type, 0); /* zeroed */
    if (walker == NULL)
        return NULL;
    walker->value = (struct value *)Py_NewRef(value);
    walker->convert = Py_NewRef(convert);
    walker->encode = Py_NewRef(encode);
    walker->decode = Py_NewRef(decode);
    return (PyObject *)walker;
}

static int walker_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct walker *walker = (struct walker *)self;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(walker->value);
    Py_VISIT(walker->convert);
    Py_VISIT(walker->encode);
    Py_VISIT(walker->decode);
    return 0;
}

static void walker_dealloc(PyObject *self)
{
    struct walker *walker = (struct walker *)self;

    PyObject_GC_UnTrack(self);
    Py_XDECREF((PyObject *)walker->value);
    Py_XDECREF(walker->convert);
    Py_XDECREF(walker->encode);
    Py_XDECREF(walker->decode);
    free_instance(self);
}

static PyMethodDef walker_methods[] = {
    {"encode", echo_walker_encode, METH_O, PyDoc_STR("encode($self, event, /)\n--\n\nThe record of one event.")},
    {"decode", echo_walker_decode, METH_O, PyDoc_STR("decode($self, data, /)\n--\n\nThe event of one record.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef walker_members[] = {
    {"value", T_OBJECT_EX, offsetof(struct walker, value), READONLY, PyDoc_STR("The tree.")},
    {"walked", T_ULONGLONG, offsetof(struct walker, walked), READONLY,
     PyDoc_STR("How many calls were answered here.")},
    {"interpreted", T_ULONGLONG, offsetof(struct walker, interpreted), READONLY,
     PyDoc_STR("How many calls went to a fallback.")},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot walker_slots[] = {
    {Py_tp_doc, PyDoc_STR("Walker(value, convert, encode, decode)\n--\n\n"
                          "Events to records and back, by the fallbacks where they are unusual.")},
    {Py_tp_new, walker_new},
    {Py_tp_dealloc, walker_dealloc},
    {Py_tp_traverse, walker_traverse},
    {Py_tp_methods, walker_methods},
    {Py_tp_members, walker_members},
    {0, NULL}};

PyType_Spec echo_object_walker_spec = {
    .name = "echo_core._c.objects.Walker",
    .basicsize = sizeof(struct walker),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = walker_slots,
};
