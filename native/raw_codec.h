/* What built-in codecs offer to other C modules: events to plain memory and back, without a bytes object
 * between. The rules are those of the built-in function; so are its fallbacks, its counters and its errors. And
 * where codecs and conversions count what they have left to Python code.
 *
 * The object that a built-in function is bound to says what its type's functions can do: its attribute
 * RAW_CODECS is a capsule of that name, with a table of them. So whoever is given a callable finds its raw form
 * (echo_raw_call_of), and needs to know no module or type by name:
 *
 *     callable --PyCFunction_GetSelf--> `self` below --RAW_CODECS--> table
 *     callable --PyCFunction_GetFunction--> `call` of a row of the table
 *
 * All of it is called with the GIL, and may run any code.
 */
#pragma once

#include "types.h"

#include <stdint.h>

/* The record of an event. GOOD: *written bytes of `room`, and *record stays NULL; or, where `room` is too small
 * or a fallback made it, a new reference in *record to what the function returned. -1 with an exception. */
typedef int raw_encode(PyObject *self, PyObject *event, uint8_t *room, Py_ssize_t size, PyObject **record,
                       Py_ssize_t *written);

/* The event of a record, a new reference; NULL with an exception. The bytes stay as they are during the call,
 * and may lie at any alignment. */
typedef PyObject *raw_decode(PyObject *self, const uint8_t *record, Py_ssize_t size);

/* The same of a record of fixed size that another process may write to meanwhile, so that nothing is verified in place. */
typedef PyObject *raw_decode_shared(PyObject *self, const uint8_t *record, Py_ssize_t size);

/* How many bytes the record of an event would take; exact for every event that can be encoded. It is encoded only
 * where that does not show otherwise. -1 with an exception. */
typedef Py_ssize_t raw_measure(PyObject *self, PyObject *event);

/* Where a built-in function counts the calls that it left to Python code, as long as `self` lives; NULL: it leaves
 * none. *next: borrowed; a callable that it calls, and which may leave some in turn. Stays NULL: there is none. */
typedef const unsigned long long *raw_count(PyObject *self, PyObject **next);

/* One built-in function of a type. */
struct raw_codec {
    PyCFunction call;                 /* what the function is made of; NULL in the row that ends a table */
    raw_encode *encode;               /* NULL: it does not encode */
    raw_decode *decode;               /* NULL: it does not decode */
    raw_decode_shared *decode_shared; /* NULL: such records are copied for `decode` */
    raw_measure *measure;             /* NULL exactly where encode is */
    raw_count *count;                 /* NULL: it leaves nothing to Python code, or does not count it */
};

/* How a callable encodes and decodes without bytes objects; zeroes where it has no raw form. */
struct raw_call {
    raw_encode *encode;
    raw_decode *decode;
    raw_decode_shared *decode_shared;
    raw_measure *measure;
    raw_count *count;
    PyObject *self; /* of all; borrowed from the callable */
};

/* The attribute, and the capsule's name. A new layout of struct raw_codec takes a new number. */
#define RAW_CODECS "__echo_raw_codecs_2__"

/* A type's entry in its tp_getset. rows: a static table, or at least one that lives as long as the process. */
#define RAW_CODECS_PROPERTY(rows)                                                                                      \
    {RAW_CODECS, echo_raw_codecs_get, NULL, PyDoc_STR("Its functions, for C code."), (void *)(uintptr_t)(rows)}

/* --- raw_codec.c, which is part of each module that offers or asks --- */

/* A getter: the rows in a new capsule. */
PyObject *echo_raw_codecs_get(PyObject *self, void *rows);

/* Fills in *raw. 0, or -1 with an exception. */
int echo_raw_call_of(PyObject *callable, struct raw_call *raw);

/* The size of a record that a function has returned, which goes; -1 with an exception, also where it is no bytes. */
static inline Py_ssize_t size_of_record(PyObject *record)
{
    Py_ssize_t size = record != NULL ? PyBytes_Size(record) : -1;

    Py_XDECREF(record);
    return size;
}
