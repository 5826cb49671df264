/* The type Part: one field by itself, for events that keep their record: read where it lies in a record whose
 * parts have been verified, and written as it would be into a record.
 */
#include "events/module.h"
#include "events/objects/objects.h"

/* The Python object. */
struct part {
    struct shell shell;   /* first; the fallbacks are for reading and writing */
    struct value *record; /* owned; the whole record. Has no tp_clear, nor has this */
    Py_ssize_t index;     /* of the field in it */
    int is_view;          /* 1: a sequence of numbers or records is a view of the source */
};

static PyObject *part_read(PyObject *self, PyObject *source)
{
    struct part *part = (struct part *)self;
    PyObject *result = NULL;
    enum outcome outcome = UNUSUAL;

    if (PyBytes_CheckExact(source))
        outcome =
            echo_value_decode_field(part->record, &part->record->fields[part->index], source, part->is_view, &result);
    return finish(&part->shell, outcome, result, part->shell.fallbacks[0], source);
}

/* The bytes that the value is, followed by those of its parts. */
static PyObject *part_write(PyObject *self, PyObject *it)
{
    struct part *part = (struct part *)self;
    PyObject *result = NULL;
    enum outcome outcome = echo_value_encode(part->record->fields[part->index].value, it, &result);

    return finish(&part->shell, outcome, result, part->shell.fallbacks[1], it);
}

static int is_array_of_numbers(const struct value *value)
{
    return value->form == FORM_ARRAY && value->dtype != NULL && value->element->form != FORM_RECORD &&
           value->element->is_free;
}

const struct value *echo_part_numbers(PyTypeObject *part_type, PyObject *write)
{
    PyObject *self = PyCFunction_Check(write) ? PyCFunction_GetSelf(write) : NULL;
    const struct part *part = (struct part *)self;
    const struct value *value;

    if (self == NULL || !Py_IS_TYPE(self, part_type) || PyCFunction_GetFunction(write) != part_write)
        return NULL;
    value = part->record->fields[part->index].value;
    return is_array_of_numbers(value) ? value : NULL;
}

static int is_viewable(const struct value *value)
{
    if (value->form == FORM_REFERENCE)
        value = value->element;
    return value->form == FORM_SEQUENCE && value->dtype != NULL;
}

static const Py_ssize_t owned[] = {offsetof(struct part, record), 0};

static PyObject *part_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"record", "index", "is_view", "reader", "writer", NULL};
    PyObject *record, *reader, *writer;
    struct part *part;
    Py_ssize_t index;
    int is_view;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!npOO:Part", names, sibling(type, VALUE), &record, &index,
                                     &is_view, &reader, &writer))
        return NULL;
    if (((struct value *)record)->form != FORM_RECORD || index < 0 || index >= ((struct value *)record)->count ||
        (is_view && !is_viewable(((struct value *)record)->fields[index].value)))
        return PyErr_Format(PyExc_ValueError, "Expected a record and the index of a field, got %R", args);
    part = (struct part *)echo_shell_new(type, owned, reader, writer);
    if (part == NULL)
        return NULL;
    part->record = (struct value *)Py_NewRef(record);
    part->index = index;
    part->is_view = is_view;
    return (PyObject *)part;
}

static PyMethodDef part_methods[] = {
    {"read", part_read, METH_O,
     PyDoc_STR("read($self, source, /)\n--\n\nThe field's value in a record that has been verified.")},
    {"write", part_write, METH_O,
     PyDoc_STR("write($self, value, /)\n--\n\nThe bytes of a value, followed by those of its parts.")},
    {NULL, NULL, 0, NULL}};

static PyType_Slot part_slots[] = {{Py_tp_doc, PyDoc_STR("Part(record, index, is_view, reader, writer)\n--\n\n"
                                                         "Reads and writes one field by itself.")},
                                   {Py_tp_new, part_new},
                                   {Py_tp_dealloc, echo_shell_dealloc},
                                   {Py_tp_traverse, echo_shell_traverse},
                                   {Py_tp_clear, echo_shell_clear},
                                   {Py_tp_methods, part_methods},
                                   {0, NULL}};

PyType_Spec echo_object_part_spec = {
    .name = "echo_core._c.events.Part",
    .basicsize = sizeof(struct part),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = part_slots,
};
