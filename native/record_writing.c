/* What assigning to a field of an event does: a value that fits is written to the record or kept.
 *
 * Python's own checks (the field's `write`) are the truth. What is here takes the common values as they would
 * and leaves all others to them; no value is ever refused here.
 */
#include "records.h"

/* --- the common types: exactly these are taken, and no exception is set for any other --- */

static enum outcome take_int(PyObject *value, int64_t low, int64_t high, int64_t *out)
{
    int overflow;

    if (!PyLong_CheckExact(value))
        return UNUSUAL;
    *out = PyLong_AsLongLongAndOverflow(value, &overflow); /* raises only for what is no int */
    return overflow == 0 && low <= *out && *out <= high ? GOOD : UNUSUAL;
}

static enum outcome write_int(PyObject *value, uint8_t *bytes, int size, int64_t low, int64_t high)
{
    int64_t number;

    if (take_int(value, low, high, &number) != GOOD)
        return UNUSUAL;
    switch (size) {
    case 1:
        *bytes = (uint8_t)number;
        break;
    case 2:
        memcpy(bytes, &(uint16_t){(uint16_t)number}, 2);
        break;
    case 4:
        memcpy(bytes, &(uint32_t){(uint32_t)number}, 4);
        break;
    default:
        memcpy(bytes, &number, 8);
    }
    return GOOD;
}

static enum outcome take_double(PyObject *value, double *out)
{
    if (PyFloat_CheckExact(value)) {
        *out = PyFloat_AsDouble(value);
        return GOOD;
    }
    if (!PyLong_CheckExact(value))
        return UNUSUAL;
    *out = PyLong_AsDouble(value);
    if (*out != -1.0 || PyErr_Occurred() == NULL)
        return GOOD;
    PyErr_Clear();
    return UNUSUAL;
}

static enum outcome write_double(PyObject *value, uint8_t *bytes)
{
    double number;

    if (take_double(value, &number) != GOOD)
        return UNUSUAL;
    memcpy(bytes, &number, sizeof number);
    return GOOD;
}

/* A finite number that becomes infinite does not fit. */
static enum outcome write_float(PyObject *value, uint8_t *bytes)
{
    double number;
    float rounded;

    if (take_double(value, &number) != GOOD)
        return UNUSUAL;
    rounded = (float)number;
    if (__builtin_isinf(rounded) && !__builtin_isinf(number))
        return UNUSUAL;
    memcpy(bytes, &rounded, sizeof rounded);
    return GOOD;
}

static enum outcome write_bool(PyObject *value, uint8_t *bytes)
{
    if (value != Py_True && value != Py_False)
        return UNUSUAL;
    *bytes = value == Py_True;
    return GOOD;
}

/* The UTF-8 of exact text without NULs; it stays with the text. NULL for any other, without an exception. */
static const char *utf8_of(PyObject *value, Py_ssize_t *size)
{
    const char *text;

    if (!PyUnicode_CheckExact(value))
        return NULL;
    text = PyUnicode_AsUTF8AndSize(value, size);
    if (text == NULL) {
        PyErr_Clear();
        return NULL;
    }
    return memchr(text, 0, (size_t)*size) == NULL ? text : NULL;
}

static enum outcome write_chars(PyObject *value, uint8_t *bytes, Py_ssize_t size)
{
    Py_ssize_t length;
    const char *text = utf8_of(value, &length);

    if (text == NULL || length > size)
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
    case INLINE_UINT64: /* the upper half goes the slow way */
        return write_int(value, bytes, 8, 0, INT64_MAX);
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
    PyObject *data = call_with(field->write, value);
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

    switch (field->form) {
    case KEPT_TEXT:
        return utf8_of(value, &size) != NULL;
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
        checked = call_with(field->write, value);
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
