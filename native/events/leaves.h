/* What echo_core._c.records and echo_core._c.objects have in common, and others use of it: numbers and text between Python objects and
 * bytes.
 *
 * Python's own checks are the truth. What is written here takes the common values as they would and leaves
 * all others to them: exactly the common types are taken, no value is refused, no exception is left set.
 * Nothing here runs Python code.
 */
#ifndef ECHO_LEAVES_H
#define ECHO_LEAVES_H

#include "types.h"

#include <stdint.h>
#include <string.h>

/* How far a call, or a step of it, has come. */
enum outcome {
    GOOD,    /* as it should be */
    UNUSUAL, /* the fallback decides; in _records and _routines no exception is set then */
    RAISED,  /* an exception is set; it is the call's */
};

/* Everything is at an offset below this: room for sums in 32 and 64 bits. */
#define MAX_OFFSET (INT32_MAX / 2)

/* --- bytes --- */

#define DEFINE_LOAD(type)                                                                                  \
    static inline type load_##type(const uint8_t *bytes)                                                   \
    {                                                                                                      \
        type number; /* memcpy, since a record may be packed */                                            \
                                                                                                           \
        memcpy(&number, bytes, sizeof number);                                                             \
        return number;                                                                                     \
    }
DEFINE_LOAD(int16_t)
DEFINE_LOAD(int32_t)
DEFINE_LOAD(int64_t)
DEFINE_LOAD(uint16_t)
DEFINE_LOAD(uint32_t)
DEFINE_LOAD(uint64_t)
DEFINE_LOAD(float)
DEFINE_LOAD(double)
#undef DEFINE_LOAD

static inline int64_t load_number(const uint8_t *bytes, Py_ssize_t size)
{
    switch (size) {
    case 1:
        return (int8_t)*bytes;
    case 2:
        return load_int16_t(bytes);
    case 4:
        return load_int32_t(bytes);
    default:
        return load_int64_t(bytes);
    }
}

static inline void store_number(uint8_t *bytes, Py_ssize_t size, int64_t number)
{
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
}

/* How much of a text of fixed size comes before its first NUL. */
static inline Py_ssize_t text_length(const uint8_t *bytes, Py_ssize_t size)
{
    const uint8_t *end = memchr(bytes, 0, (size_t)size);

    return end != NULL ? end - bytes : size;
}

/* --- values to bytes: GOOD or UNUSUAL --- */

static inline enum outcome write_int(PyObject *value, uint8_t *bytes, Py_ssize_t size, int64_t low,
                                     int64_t high)
{
    int overflow;
    int64_t number;

    if (!PyLong_CheckExact(value))
        return UNUSUAL;
    number = PyLong_AsLongLongAndOverflow(value, &overflow); /* raises only for what is no int */
    if (overflow != 0 || number < low || number > high)
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

static inline enum outcome write_double(PyObject *value, uint8_t *bytes)
{
    double number;

    if (take_double(value, &number) != GOOD)
        return UNUSUAL;
    memcpy(bytes, &number, sizeof number);
    return GOOD;
}

/* A finite number that becomes infinite does not fit. */
static inline enum outcome write_float(PyObject *value, uint8_t *bytes)
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
    const char *text = PyUnicode_CheckExact(value) ? PyUnicode_AsUTF8AndSize(value, size) : NULL;

    if (text == NULL)
        PyErr_Clear();
    return text;
}

/* --- objects --- */

/* A slot of Python's; holds NULL or an owned reference. */
static inline PyObject **slot_at(PyObject *object, Py_ssize_t offset)
{
    return (PyObject **)(void *)((uint8_t *)object + offset);
}

#endif
