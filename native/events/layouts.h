/* Where CPython's own objects keep what they hold: ints, floats, text, bytes, lists, datetimes and
 * timedeltas.
 *
 * The stable ABI has functions for all of it, and each takes longer than its work. So what is read here is read where
 * it lies. Nothing is taken for granted: at import every fact is tried on real objects (layouts.c), and where one does
 * not hold the functions of the ABI are called, or the value is left to Python code. The same is done for compiled code
 * in codegen/cpython.py.
 */
#pragma once

#include "stable_abi.h"

#include <stdint.h>
#include <string.h>

/* Behind the object's head, which is a count of references and a type. */
#define BEHIND_HEAD ((Py_ssize_t)sizeof(PyObject))

/* How ints lie. A tag, since 3.12: the number of digits times 8, and a sign in its lowest two bits (0, 1 for the number
 * 0, 2 for negative ones). Before, the number of digits, negative for negative numbers. A digit has 30 bits. */
enum int_layout { INTS_UNKNOWN, INTS_HAVE_SIZE, INTS_HAVE_TAG };
#define INT_DIGITS_AT (BEHIND_HEAD + 8)
#define DIGIT_BITS 30

/* What is known in this process: set once, at import, and only read after. */
struct layouts {
    enum int_layout ints;
    int has_floats;          /* 1: a double behind the head */
    int has_items;           /* 1: a list has a pointer to its items behind its size, a tuple the items themselves */
    int has_bytes;           /* 1: bytes have their size behind the head, then a hash and what they are */
    int has_times;           /* 1: datetimes and timedeltas are as times.c reads them */
    Py_ssize_t text_data_at; /* of compact ASCII text; 0: not known where that lies */

    /* In classes, and 0 where it is not known: */
    Py_ssize_t type_dict_at;  /* the dictionary of their attributes */
    Py_ssize_t vectorcall_at; /* what a call of the class runs; NULL for nearly all, which have type.__call__ run */
    Py_ssize_t version_at;    /* 32 bits that no two classes share, and no two states of one class; 0: none as yet */
};
extern struct layouts echo_layouts;

/* A function that is called with arguments in an array: PEP 590. */
typedef PyObject *vectorcall(PyObject *callable, PyObject *const *args, size_t count_and_flag, PyObject *names);

/* Tries all facts. -1 with an exception, which none of them is. */
int echo_layouts_find(void);

static inline const char *behind_head(PyObject *object)
{
    return (const char *)object + BEHIND_HEAD;
}

/* --- ints --- */

/* The magnitude of an int of at most two digits, and its sign; 0 where it has more, or nobody knows. */
static inline int take_short_int(PyObject *exact_int, int64_t *number)
{
    int64_t count, sign;
    uint32_t digits[2];

    memcpy(&count, behind_head(exact_int), 8);
    memcpy(digits, behind_head(exact_int) + 8, 8); /* an int has room for one digit and is padded to 8 bytes */
    if (echo_layouts.ints == INTS_HAVE_TAG) {
        sign = 1 - (count & 3);
        count >>= 3;
    } else if (echo_layouts.ints == INTS_HAVE_SIZE) {
        sign = count < 0 ? -1 : 1;
        count *= sign;
    } else {
        return 0;
    }
    if (count == 1)
        *number = sign * (int64_t)digits[0];
    else if (count == 2)
        *number = sign * (int64_t)(digits[0] | (uint64_t)digits[1] << DIGIT_BITS);
    else if (count == 0)
        *number = 0;
    else
        return 0;
    return 1;
}

/* An unsigned number of 128 bits, the high half first. 0: the int is none, or nobody knows how it lies. */
int echo_take_wide_int(PyObject *exact_int, uint64_t halves[2]);

/* A new int of them; NULL with an exception. */
PyObject *echo_new_wide_int(const uint64_t halves[2]);

/* --- floats and text --- */

static inline double float_of(PyObject *exact_float)
{
    double number;

    if (!echo_layouts.has_floats)
        return PyFloat_AsDouble(exact_float);
    memcpy(&number, behind_head(exact_float), sizeof number);
    return number;
}

/* Compact ASCII, as nearly all text is: its characters, which are its UTF-8; NULL for any other. */
static inline const char *ascii_of(PyObject *exact_text, Py_ssize_t *size)
{
    static const uint32_t is_compact_ascii = 0x60; /* both bits of the state, which stands behind length and hash */
    uint32_t state;

    if (echo_layouts.text_data_at == 0)
        return NULL;
    memcpy(&state, behind_head(exact_text) + 16, sizeof state);
    if ((state & is_compact_ascii) != is_compact_ascii)
        return NULL;
    memcpy(size, behind_head(exact_text), sizeof *size);
    return (const char *)exact_text + echo_layouts.text_data_at;
}

/* --- bytes --- */

static inline const uint8_t *bytes_of(PyObject *exact_bytes, Py_ssize_t *size)
{
    if (!echo_layouts.has_bytes) {
        *size = PyBytes_Size(exact_bytes); /* neither can fail on bytes */
        return (uint8_t *)PyBytes_AsString(exact_bytes);
    }
    memcpy(size, behind_head(exact_bytes), sizeof *size);
    return (const uint8_t *)exact_bytes + BEHIND_HEAD + 16;
}

/* --- lists and tuples --- */

/* The items of an exact list or tuple, which stay there as long as no other code runs; NULL: ask for each. */
static inline PyObject **items_of(PyObject *list_or_tuple)
{
    PyObject **items;

    if (!echo_layouts.has_items)
        return NULL;
    if (PyTuple_CheckExact(list_or_tuple))
        return (PyObject **)(void *)((char *)list_or_tuple + BEHIND_HEAD + 8);
    memcpy(&items, behind_head(list_or_tuple) + 8, sizeof items);
    return items;
}

static inline Py_ssize_t count_items(PyObject *list_or_tuple)
{
    Py_ssize_t count;

    if (!echo_layouts.has_items)
        return PyList_CheckExact(list_or_tuple) ? PyList_Size(list_or_tuple) : PyTuple_Size(list_or_tuple);
    memcpy(&count, behind_head(list_or_tuple), sizeof count);
    return count;
}

/* --- classes --- */

/* 0: it has none as yet, or nobody knows where. */
static inline uint32_t version_of(PyObject *class)
{
    uint32_t version = 0;

    if (echo_layouts.version_at != 0)
        memcpy(&version, (char *)class + echo_layouts.version_at, sizeof version);
    return version;
}
