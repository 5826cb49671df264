/* The leaves of types: numbers, bools and text between Python objects and bytes, for trees of Values and for the
 * fields of events that hold their record.
 *
 * Python code defines which values are valid. The functions here handle values of exactly the common types with the
 * same result, and say UNUSUAL for all others: they never reject a value, and leave no exception set but of what cannot
 * be done again. Only what says so runs Python code.
 */
#pragma once

#include "events/outcome.h" /* first: it includes Python.h, which says what the C library is to offer */

#include "events/bytes.h"
#include "events/halves.h"
#include "events/layouts.h"
#include "events/times.h"
#include "types.h"

/* Everything is at an offset below this: room for sums in 32 and 64 bits. */
#define MAX_OFFSET (INT32_MAX / 2)

/* The ladder of integers: LEAF(name, letter, kind, size, number that `bytes` hold, object of it, write `it`).
 * kind: the name of a member of Kind (formats/types.py). */
#define INTEGERS(LEAF)                                                                                                 \
    LEAF(INT64, 'q', "INT", 8, load_int64_t(bytes), PyLong_FromLongLong,                                               \
         write_int(it, bytes, 8, INT64_MIN, INT64_MAX))                                                                \
    LEAF(INT32, 'i', "INT", 4, load_int32_t(bytes), PyLong_FromLong, write_int(it, bytes, 4, INT32_MIN, INT32_MAX))    \
    LEAF(INT16, 'h', "INT", 2, load_int16_t(bytes), PyLong_FromLong, write_int(it, bytes, 2, INT16_MIN, INT16_MAX))    \
    LEAF(INT8, 'b', "INT", 1, load_int8_t(bytes), PyLong_FromLong, write_int(it, bytes, 1, INT8_MIN, INT8_MAX))        \
    LEAF(UINT64, 'Q', "UINT", 8, load_uint64_t(bytes), PyLong_FromUnsignedLongLong, write_uint64(it, bytes))           \
    LEAF(UINT32, 'I', "UINT", 4, load_uint32_t(bytes), PyLong_FromLongLong, write_int(it, bytes, 4, 0, UINT32_MAX))    \
    LEAF(UINT16, 'H', "UINT", 2, load_uint16_t(bytes), PyLong_FromLong, write_int(it, bytes, 2, 0, UINT16_MAX))        \
    LEAF(UINT8, 'B', "UINT", 1, load_uint8_t(bytes), PyLong_FromLong, write_int(it, bytes, 1, 0, UINT8_MAX))

/* Times are leaves only where echo_layouts.has_times says so. */
#define TIMES(LEAF)                                                                                                    \
    LEAF(TIMESTAMP, 'T', "TIMESTAMP", 8, load_int64_t(bytes), echo_new_timestamp, echo_write_timestamp(it, bytes))     \
    LEAF(DURATION, 'D', "DURATION", 8, load_int64_t(bytes), echo_new_duration, echo_write_duration(it, bytes))

#define NUMBERS(LEAF)                                                                                                  \
    LEAF(DOUBLE, 'd', "FLOAT", 8, load_double(bytes), PyFloat_FromDouble, write_double(it, bytes))                     \
    LEAF(FLOAT, 'f', "FLOAT", 4, load_float(bytes), PyFloat_FromDouble, write_float(it, bytes))                        \
    LEAF(HALF, 'g', "FLOAT", 2, load_half(bytes), PyFloat_FromDouble, write_half(it, bytes))                           \
    LEAF(COMPLEX128, 'C', "COMPLEX", 16, bytes, new_complex128, write_complex128(it, bytes))                           \
    LEAF(COMPLEX64, 'c', "COMPLEX", 8, bytes, new_complex64, write_complex64(it, bytes))                               \
    INTEGERS(LEAF)                                                                                                     \
    LEAF(BOOL, '?', "BOOL", 1, *bytes != 0, PyBool_FromLong, write_bool(it, bytes))

/* All leaves but text. */
#define LEAVES(LEAF) NUMBERS(LEAF) TIMES(LEAF)

/* What bytes mean: the first character of what Python says of a Value or a Field. */
enum form {
#define LEAF(name, letter, ...) FORM_##name = letter,
    LEAVES(LEAF)
#undef LEAF
        FORM_CHARS = 's', /* UTF-8, ended by the first NUL or by the size */
    FORM_BYTES = 'x',     /* Value: exactly so many bytes */
    FORM_MEMBER = 'e',    /* Value: the number of a member of an enumeration */
    FORM_UUID = 'U',      /* Value: the 16 bytes of a UUID */
    FORM_PYTHON = 'v',    /* read(bytes) makes it, write(value) gives the bytes */
    FORM_TEXT = 't',      /* a slot that refers to UTF-8 text, ended by a NUL */
    FORM_BLOB = 'y',      /* a slot {offset, length} that refers to bytes */
    FORM_OPTION = 'n',    /* Value: an element, then a byte that says whether there is one */
    FORM_REFERENCE = 'N', /* Value: a slot that is 0 where there is nothing */
    FORM_ARRAY = 'a',     /* Value: elements in place, of a number that the type fixes */
    FORM_SEQUENCE = 'l',  /* Value: a slot {offset, own lengths ...} that refers to elements */
    FORM_RECORD = 'r',    /* Value */
    FORM_WINDOW = 'w',    /* Field: read(Window) makes a view of it, write(value) gives the bytes */
    FORM_KEPT = 'k',      /* Field: kept as an object once read or set; before, read(bytes of the record) makes it */
    FORM_PART = 'o',      /* Field: likewise, and read(source) makes it. So are TEXT and BLOB, from the source */
};

/* The cases of a switch over forms that returns a new reference to the value of `bytes`, or writes `it` there. */
#define LEAF_TO_READ(name, letter, kind, size, number, new_object, write)                                              \
    case FORM_##name:                                                                                                  \
        return new_object(number);
#define LEAF_TO_WRITE(name, letter, kind, size, number, new_object, write)                                             \
    case FORM_##name:                                                                                                  \
        return write;

/* The same for a switch that returns 0 or an outcome when it has done `count` values that stand side by side, in
 * bytes and among the items. No other code runs meanwhile. */
#define LEAVES_TO_READ(name, letter, kind, size, number, new_object, write)                                            \
    case FORM_##name:                                                                                                  \
        for (; count > 0; count--, bytes += (size), items++) {                                                         \
            *items = new_object(number);                                                                               \
            if (*items == NULL)                                                                                        \
                return -1;                                                                                             \
        }                                                                                                              \
        return 0;
#define LEAVES_TO_WRITE(name, letter, kind, size, number, new_object, write)                                           \
    case FORM_##name:                                                                                                  \
        for (; count > 0; count--, bytes += (size), items++) {                                                         \
            PyObject *it = *items;                                                                                     \
                                                                                                                       \
            if ((write) != GOOD)                                                                                       \
                return UNUSUAL;                                                                                        \
        }                                                                                                              \
        return GOOD;

/* How many bytes the form takes in place; 0: any number, or none of its own; -1: there is no such form. */
static inline Py_ssize_t size_of_form(int form)
{
    switch (form) {
#define LEAF(name, letter, kind, size, ...)                                                                            \
    case FORM_##name:                                                                                                  \
        return size;
        LEAVES(LEAF)
#undef LEAF
    case FORM_TEXT:
        return 8;
    case FORM_BLOB:
        return 16;
    default:
        return form > 0 && form < 128 && strchr("sxeUvnNalrwko", form) != NULL ? 0 : -1;
    }
}

/* The integer of such a form, as Python's `int` would have it but for the largest of 64 bits, which are below 0. */
static inline int64_t load_integer(int form, const uint8_t *bytes)
{
    switch (form) {
#define LEAF(name, letter, kind, size, number, ...)                                                                    \
    case FORM_##name:                                                                                                  \
        return (int64_t)number;
        INTEGERS(LEAF)
#undef LEAF
    default:
        Py_UNREACHABLE();
    }
}

static inline int is_number(int form)
{
    switch (form) {
#define LEAF(name, ...) case FORM_##name:
        NUMBERS(LEAF)
#undef LEAF
        return 1;
    default:
        return 0;
    }
}

static inline int is_leaf(int form)
{
    return is_number(form) || form == FORM_TIMESTAMP || form == FORM_DURATION;
}

static inline int is_integer(int form)
{
    return form > 0 && form < 128 && strchr("bhiqBHIQ", form) != NULL;
}

/* --- bytes to values --- */

static inline PyObject *new_complex128(const uint8_t *bytes)
{
    return PyComplex_FromDoubles(load_double(bytes), load_double(bytes + sizeof(double)));
}

static inline PyObject *new_complex64(const uint8_t *bytes)
{
    return PyComplex_FromDoubles(load_float(bytes), load_float(bytes + sizeof(float)));
}

/* --- values to bytes: GOOD, or UNUSUAL and nothing is written; that of times may be RAISED --- */

static inline enum outcome write_int(PyObject *value, uint8_t *bytes, Py_ssize_t size, int64_t low, int64_t high)
{
    int overflow;
    int64_t number;

    if (!PyLong_CheckExact(value))
        return UNUSUAL;
    if (!take_short_int(value, &number)) {
        number = PyLong_AsLongLongAndOverflow(value, &overflow); /* raises only for what is no int */
        if (overflow != 0)
            return UNUSUAL;
    }
    if (number < low || number > high)
        return UNUSUAL;
    store_number(bytes, size, number);
    return GOOD;
}

static inline enum outcome write_uint64(PyObject *value, uint8_t *bytes)
{
    unsigned long long number;

    if (!PyLong_CheckExact(value))
        return UNUSUAL;
    number = PyLong_AsUnsignedLongLong(value);
    if (number == (unsigned long long)-1 && PyErr_Occurred() != NULL) {
        PyErr_Clear();
        return UNUSUAL;
    }
    memcpy(bytes, &(uint64_t){number}, 8);
    return GOOD;
}

static inline enum outcome take_double(PyObject *value, double *out)
{
    if (PyFloat_CheckExact(value)) {
        *out = float_of(value);
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

static inline enum outcome write_double(PyObject *value, uint8_t *bytes)
{
    double number;

    if (take_double(value, &number) != GOOD)
        return UNUSUAL;
    memcpy(bytes, &number, sizeof number);
    return GOOD;
}

/* A finite number that becomes infinite does not fit. */
static inline enum outcome store_float(double number, uint8_t *bytes)
{
    float rounded = (float)number;

    if (__builtin_isinf(rounded) && !__builtin_isinf(number))
        return UNUSUAL;
    memcpy(bytes, &rounded, sizeof rounded);
    return GOOD;
}

static inline enum outcome write_float(PyObject *value, uint8_t *bytes)
{
    double number;

    return take_double(value, &number) == GOOD ? store_float(number, bytes) : UNUSUAL;
}

/* What a NaN becomes differs between Pythons. */
static inline enum outcome write_half(PyObject *value, uint8_t *bytes)
{
    double number;

    return take_double(value, &number) == GOOD && store_half(number, bytes) ? GOOD : UNUSUAL;
}

/* Real numbers are complex ones, too. */
static inline enum outcome take_complex(PyObject *value, double parts[2])
{
    if (!PyComplex_CheckExact(value)) {
        parts[1] = 0.0;
        return take_double(value, &parts[0]);
    }
    parts[0] = PyComplex_RealAsDouble(value);
    parts[1] = PyComplex_ImagAsDouble(value);
    return GOOD;
}

static inline enum outcome write_complex128(PyObject *value, uint8_t *bytes)
{
    double parts[2];

    if (take_complex(value, parts) != GOOD)
        return UNUSUAL;
    memcpy(bytes, parts, sizeof parts);
    return GOOD;
}

static inline enum outcome write_complex64(PyObject *value, uint8_t *bytes)
{
    uint8_t halves[2 * sizeof(float)];
    double parts[2];

    if (take_complex(value, parts) != GOOD || store_float(parts[0], halves) != GOOD ||
        store_float(parts[1], halves + sizeof(float)) != GOOD)
        return UNUSUAL;
    memcpy(bytes, halves, sizeof halves);
    return GOOD;
}

static inline enum outcome write_bool(PyObject *value, uint8_t *bytes)
{
    if (value != Py_True && value != Py_False)
        return UNUSUAL;
    *bytes = value == Py_True;
    return GOOD;
}

/* The UTF-8 of exact text; it stays with the text. NULL for any other. */
static inline const char *utf8_of(PyObject *value, Py_ssize_t *size)
{
    const char *text = NULL;

    if (!PyUnicode_CheckExact(value))
        return NULL;
    text = ascii_of(value, size);
    if (text == NULL)
        text = PyUnicode_AsUTF8AndSize(value, size);
    if (text == NULL)
        PyErr_Clear();
    return text;
}

/* --- text of fixed size: chars.c --- */

/* Copies ASCII or UTF-8 text into its place and fills the rest with zeros; -1 where it has a NUL or is too
 * long. */
int32_t echo_write_text(uint8_t *target, const uint8_t *text, int64_t length, int64_t size);

/* read_chars, for compiled code. */
PyObject *echo_read_text(const uint8_t *source, int64_t size);

/* A new str: up to the first NUL. NULL with UnicodeDecodeError. */
static inline PyObject *read_chars(const uint8_t *bytes, Py_ssize_t size)
{
    return PyUnicode_DecodeUTF8((const char *)bytes, text_length(bytes, size), NULL);
}

static inline enum outcome write_chars(PyObject *value, uint8_t *bytes, Py_ssize_t size)
{
    Py_ssize_t length;
    const char *text = utf8_of(value, &length);

    return text != NULL && echo_write_text(bytes, (const uint8_t *)text, length, size) == 0 ? GOOD : UNUSUAL;
}

/* --- objects --- */

/* A number of bytes that a type tells, such as __basicsize__. -1 can be an answer too: see PyErr_Occurred. A metaclass
 * may run any code. */
static inline Py_ssize_t size_attribute(PyObject *type, const char *name)
{
    PyObject *value = PyObject_GetAttrString(type, name);
    Py_ssize_t size = value != NULL ? PyLong_AsSsize_t(value) : -1;

    Py_XDECREF(value);
    return size;
}

/* Steals argument, which may be NULL with an exception. May run any code. */
static inline PyObject *call_and_release(PyObject *callable, PyObject *argument)
{
    PyObject *result = argument != NULL ? PyObject_CallFunctionObjArgs(callable, argument, NULL) : NULL;

    Py_XDECREF(argument);
    return result;
}

/* What a Python function makes of a copy of bytes: a new reference. May run any code. */
static inline PyObject *read_by_python(PyObject *function, const uint8_t *bytes, Py_ssize_t size)
{
    return call_and_release(function, PyBytes_FromStringAndSize((const char *)bytes, size));
}
