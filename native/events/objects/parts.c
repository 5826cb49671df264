/* The type Part: one field by itself, for events that keep their record: read where it lies in a record whose
 * parts have been verified, and written as it would be into a record.
 */
#include "events/objects/parts.h"
#include "events/module.h"

static const struct member *field_of(const struct part *part)
{
    return &part->record->fields[part->index];
}

const struct part *echo_part_of(PyTypeObject *sibling_type, PyObject *function)
{
    PyObject *self = PyCFunction_Check(function) ? PyCFunction_GetSelf(function) : NULL;

    return self != NULL && Py_IS_TYPE(self, sibling(sibling_type, PART)) ? (struct part *)self : NULL;
}

int echo_part_fits(const struct part *part, Py_ssize_t size, int is_inline)
{
    const struct value *value = field_of(part)->value;

    return value->size == size && (value->is_fixed || !is_inline);
}

/* --- from bytes --- */

PyObject *echo_part_read(const struct part *part, PyObject *source)
{
    PyObject *result = NULL;
    enum outcome outcome = UNUSUAL;

    if (PyBytes_CheckExact(source))
        outcome = echo_value_decode_field(part->record, field_of(part), source, part->is_view, &result);
    return finish((struct shell *)part, outcome, result, part->shell.fallbacks[0], source);
}

PyObject *echo_part_read_inline(const struct part *part, const uint8_t *bytes)
{
    const struct value *value = field_of(part)->value;
    PyObject *result = echo_read_field((PyObject *)value, bytes);

    if (result != NULL || PyErr_Occurred() != NULL)
        return result;
    return echo_shell_decode_slowly((struct shell *)part, part->shell.fallbacks[0], bytes, value->size);
}

static PyObject *part_read(PyObject *self, PyObject *source)
{
    return echo_part_read((struct part *)self, source);
}

/* --- to bytes --- */

/* What the fallback says of a value; what it returns is of no use. */
static int fall_back_to_check(const struct part *part, PyObject *it)
{
    PyObject *checked = fall_back((struct shell *)part, part->shell.fallbacks[1], it);

    Py_XDECREF(checked);
    return checked != NULL ? 0 : -1;
}

int echo_part_check(const struct part *part, PyObject *it)
{
    enum outcome outcome = echo_value_check(field_of(part)->value, it);

    return outcome == UNUSUAL ? fall_back_to_check(part, it) : outcome == GOOD ? 0 : -1;
}

enum outcome echo_part_write(const struct part *part, PyObject *it, uint8_t *target)
{
    const struct value *value = field_of(part)->value;
    uint8_t room[ROOM_BYTES];
    PyObject *record = NULL;
    Py_ssize_t written;
    enum outcome outcome = echo_value_write(value, it, room, ROOM_BYTES, &record, &written);

    if (outcome == GOOD)
        memcpy(target, record != NULL ? (uint8_t *)PyBytes_AsString(record) : room, (size_t)value->size);
    Py_XDECREF(record);
    return outcome;
}

/* The bytes that the value is, followed by those of its parts. */
static PyObject *part_write(PyObject *self, PyObject *it)
{
    struct part *part = (struct part *)self;
    PyObject *result = NULL;
    enum outcome outcome = echo_value_encode(field_of(part)->value, it, &result);

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

/* --- the type --- */

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
