/* The type Part: one field by itself, for events that keep their record: read where it lies in a record whose
 * parts have been verified, and written as it would be into a record.
 */
#include "events/objects/objects.h"

/* The Python object. */
struct part {
    PyObject ob_base;     /* spelled out: PyObject_HEAD hides it */
    struct value *record; /* owned; the whole record. Has no tp_clear, nor has this */
    Py_ssize_t index;     /* of the field in it */
    int is_view;          /* 1: a sequence of numbers or records is a view of the source */
    PyObject *reader;     /* owned; called with the source where the field is not as it should be */
    PyObject *writer;     /* owned; called with a value that is unusual */
};

static PyObject *part_read(PyObject *self, PyObject *source)
{
    struct part *part = (struct part *)self;
    PyObject *result = NULL;
    enum outcome outcome = UNUSUAL;

    if (PyBytes_CheckExact(source))
        outcome = echo_value_decode_field(part->record, &part->record->fields[part->index], source,
                                          part->is_view, &result);
    return outcome == UNUSUAL ? PyObject_CallFunctionObjArgs(part->reader, source, NULL) : result;
}

/* The bytes that the value is, followed by those of its parts. */
static PyObject *part_write(PyObject *self, PyObject *it)
{
    struct part *part = (struct part *)self;
    PyObject *result = NULL;
    enum outcome outcome = echo_value_encode(part->record->fields[part->index].value, it, &result);

    return outcome == UNUSUAL ? PyObject_CallFunctionObjArgs(part->writer, it, NULL) : result;
}

static int is_viewable(const struct value *value)
{
    if (value->form == FORM_REFERENCE)
        value = value->element;
    return value->form == FORM_SEQUENCE && value->dtype != NULL;
}

static PyObject *part_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"record", "index", "is_view", "reader", "writer", NULL};
    const struct module_state *state = PyType_GetModuleState(type);
    PyObject *record, *reader, *writer;
    struct part *part;
    Py_ssize_t index;
    int is_view;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!npOO:Part", names, state->value_type, &record, &index,
                                     &is_view, &reader, &writer))
        return NULL;
    if (((struct value *)record)->form != FORM_RECORD || index < 0 ||
        index >= ((struct value *)record)->count || !PyCallable_Check(reader) || !PyCallable_Check(writer) ||
        (is_view && !is_viewable(((struct value *)record)->fields[index].value)))
        return PyErr_Format(PyExc_ValueError, "Expected a record and the index of a field, got %R", args);
    part = (struct part *)PyType_GenericAlloc(type, 0); /* zeroed */
    if (part == NULL)
        return NULL;
    part->record = (struct value *)Py_NewRef(record);
    part->index = index;
    part->is_view = is_view;
    part->reader = Py_NewRef(reader);
    part->writer = Py_NewRef(writer);
    return (PyObject *)part;
}

static int part_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct part *part = (struct part *)self;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(part->record);
    Py_VISIT(part->reader);
    Py_VISIT(part->writer);
    return 0;
}

static void part_dealloc(PyObject *self)
{
    struct part *part = (struct part *)self;

    PyObject_GC_UnTrack(self);
    Py_XDECREF((PyObject *)part->record);
    Py_XDECREF(part->reader);
    Py_XDECREF(part->writer);
    free_instance(self);
}

static PyMethodDef part_methods[] = {
    {"read", part_read, METH_O,
     PyDoc_STR("read($self, source, /)\n--\n\nThe field's value in a record that has been verified.")},
    {"write", part_write, METH_O,
     PyDoc_STR("write($self, value, /)\n--\n\nThe bytes of a value, followed by those of its parts.")},
    {NULL, NULL, 0, NULL}};

static PyType_Slot part_slots[] = {
    {Py_tp_doc, PyDoc_STR("Part(record, index, is_view, reader, writer)\n--\n\n"
                          "Reads and writes one field by itself.")},
    {Py_tp_new, part_new},
    {Py_tp_dealloc, part_dealloc},
    {Py_tp_traverse, part_traverse},
    {Py_tp_methods, part_methods},
    {0, NULL}};

PyType_Spec echo_object_part_spec = {
    .name = "echo_core._c.objects.Part",
    .basicsize = sizeof(struct part),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = part_slots,
};
