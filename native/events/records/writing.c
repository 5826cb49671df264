/* What assigning to a field of an event does: a value that fits is written to the record or kept.
 *
 * Python's own checks (the field's `write`) are the truth. What is here takes the common values as they would
 * and leaves all others to them; no value is ever refused here.
 */
#include "events/records/records.h"

/* --- the common types --- */

static enum outcome write_chars(PyObject *value, uint8_t *bytes, Py_ssize_t size)
{
    Py_ssize_t length;
    const char *text = utf8_of(value, &length);

    if (text == NULL || length > size || memchr(text, 0, (size_t)length) != NULL)
        return UNUSUAL;
    memcpy(bytes, text, (size_t)length);
    memset(bytes + length, 0, (size_t)(size - length));
    return GOOD;
}

static enum outcome write_inline(const struct field *field, PyObject *value, uint8_t *bytes)
{
    switch ((enum form)field->form) {
    case INLINE_DOUBLE:
        return write_double(value, bytes);
    case INLINE_FLOAT:
        return write_float(value, bytes);
    case INLINE_INT64:
        return write_int(value, bytes, 8, INT64_MIN, INT64_MAX);
    case INLINE_INT32:
        return write_int(value, bytes, 4, INT32_MIN, INT32_MAX);
    case INLINE_INT16:
        return write_int(value, bytes, 2, INT16_MIN, INT16_MAX);
    case INLINE_INT8:
        return write_int(value, bytes, 1, INT8_MIN, INT8_MAX);
    case INLINE_UINT64:
        return write_uint64(value, bytes);
    case INLINE_UINT32:
        return write_int(value, bytes, 4, 0, UINT32_MAX);
    case INLINE_UINT16:
        return write_int(value, bytes, 2, 0, UINT16_MAX);
    case INLINE_UINT8:
        return write_int(value, bytes, 1, 0, UINT8_MAX);
    case INLINE_BOOL:
        return write_bool(value, bytes);
    case INLINE_CHARS:
        return write_chars(value, bytes, field->size);
    default:
        return UNUSUAL;
    }
}

/* --- all others --- */

/* write(value) gives the bytes or raises. */
static int write_by_python(const struct field *field, PyObject *value, uint8_t *bytes)
{
    PyObject *data = call_one(field->write, value);
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
static void keep(PyObject *object, Py_ssize_t slot, PyObject *value)
{
    PyObject *before = *slot_at(object, slot);

    *slot_at(object, slot) = value;
    Py_XDECREF(before);
}

/* Whether a value may be kept without asking Python. */
static int is_surely_good(const struct field *field, PyObject *value)
{
    Py_ssize_t size;
    const char *text;

    switch (field->form) {
    case KEPT_TEXT:
        text = utf8_of(value, &size);
        return text != NULL && memchr(text, 0, (size_t)size) == NULL;
    case KEPT_BLOB:
        return PyBytes_CheckExact(value);
    default:
        return field->nested != NULL && field->nested->owner == Py_TYPE(value);
    }
}

/* write(value) raises, or its result is ignored: what is kept is the value as given. */
static int write_kept(const struct field *field, PyObject *object, PyObject *value)
{
    PyObject *checked;

    if (!is_surely_good(field, value)) {
        checked = call_one(field->write, value);
        if (checked == NULL)
            return -1;
        Py_DECREF(checked);
    }
    mark_stale(field->shape, object);
    keep(object, field->slot, Py_NewRef(value));
    return 0;
}

/* --- the descriptor --- */

int echo_record_field_set(PyObject *self, PyObject *object, PyObject *value)
{
    struct field *field = field_in((struct field *)self, object);
    uint8_t *bytes;

    if (field == NULL)
        return -1;
    if (value == NULL) {
        PyErr_Format(PyExc_AttributeError, "Expected a value for %R: a field cannot be deleted", field->name);
        return -1;
    }
    if (field->slot != 0)
        return write_kept(field, object, value);
    bytes = (uint8_t *)object + field->at;
    if (write_inline(field, value, bytes) != GOOD && write_by_python(field, value, bytes) != 0)
        return -1;
    mark_stale(field->shape, object);
    return 0;
}
