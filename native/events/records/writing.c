/* What assigning to a field of an event does: a value that fits is written to the record or kept.
 *
 * The field's Python function `write` defines which values are valid. C code handles the common types with the same
 * result and calls `write` for all others; it never rejects a value itself.
 */
#include "events/objects/objects.h"
#include "events/records/records.h"

/* --- the common types --- */

/* An ndarray of numbers is copied to where it belongs. */
static enum outcome write_by_part(const struct field *field, PyObject *it, uint8_t *bytes)
{
    enum outcome outcome = field->numbers != NULL ? echo_value_take_numbers(field->numbers, it, bytes) : UNUSUAL;

    return outcome == UNUSUAL && field->writer != NULL ? echo_part_write(field->writer, it, bytes) : outcome;
}

static enum outcome write_inline(const struct field *field, PyObject *it, uint8_t *bytes)
{
    switch ((enum form)field->form) {
        LEAVES(LEAF_TO_WRITE)
    case FORM_CHARS:
        return write_chars(it, bytes, field->size);
    default:
        return write_by_part(field, it, bytes);
    }
}

/* --- all others --- */

/* write(value) gives the bytes or raises. */
static int write_by_python(const struct field *field, PyObject *value, uint8_t *bytes)
{
    PyObject *data = PyObject_CallFunctionObjArgs(field->write, value, NULL);
    char *from;
    Py_ssize_t size;

    if (data == NULL)
        return -1;
    if (PyBytes_AsStringAndSize(data, &from, &size) != 0) {
        Py_DECREF(data);
        return -1;
    }
    if (size == field->size)
        memcpy(bytes, from, (size_t)size);
    else
        PyErr_Format(PyExc_SystemError, "Expected %zd bytes for %R, got %zd", field->size, field->name, size);
    Py_DECREF(data);
    return size == field->size ? 0 : -1;
}

/* --- kept values --- */

/* Steals value. What was kept before goes last: its end may run any code. */
static void keep(const struct field *field, PyObject *object, PyObject *value)
{
    PyObject *before = *slot_at(object, field->slot);

    *slot_at(object, field->slot) = value;
    if (field->shape->is_collected)
        track_for(object, value);
    Py_XDECREF(before);
}

/* Whether a value may be kept without asking Python. */
static int is_surely_good(const struct field *field, PyObject *value)
{
    Py_ssize_t size;
    const char *text;

    switch (field->form) {
    case FORM_TEXT:
        text = utf8_of(value, &size);
        return text != NULL && memchr(text, 0, (size_t)size) == NULL;
    case FORM_BLOB:
        return PyBytes_CheckExact(value);
    default:
        return field->nested != NULL && field->nested->owner == Py_TYPE(value);
    }
}

/* 0, or what write(value) raises; its result is ignored. */
static int check_kept(const struct field *field, PyObject *value)
{
    PyObject *checked;

    if (is_surely_good(field, value))
        return 0;
    if (field->writer != NULL)
        return echo_part_check(field->writer, value);
    checked = PyObject_CallFunctionObjArgs(field->write, value, NULL);
    Py_XDECREF(checked);
    return checked != NULL ? 0 : -1;
}

/* What is kept is the value as given. */
static int write_kept(const struct field *field, PyObject *object, PyObject *value)
{
    if (check_kept(field, value) != 0)
        return -1;
    mark_stale(field->shape, object);
    keep(field, object, Py_NewRef(value));
    return 0;
}

/* --- the descriptor --- */

int echo_record_set_value(const struct field *field, PyObject *object, PyObject *value)
{
    enum outcome outcome;
    uint8_t *bytes;

    if (field->slot != 0)
        return write_kept(field, object, value);
    bytes = (uint8_t *)object + field->at;
    outcome = write_inline(field, value, bytes);
    if (outcome == RAISED || (outcome == UNUSUAL && write_by_python(field, value, bytes) != 0))
        return -1;
    mark_stale(field->shape, object);
    return 0;
}

int echo_record_field_set(PyObject *self, PyObject *object, PyObject *value)
{
    struct field *field = field_in((struct field *)self, object);

    if (field == NULL)
        return -1;
    if (value == NULL) {
        PyErr_Format(PyExc_AttributeError, "Expected a value for %R: a field cannot be deleted", field->name);
        return -1;
    }
    return echo_record_set_value(field, object, value);
}
