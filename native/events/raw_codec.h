/* What built-in codecs offer to other C modules: events to plain memory and back, without a bytes object
 * between. The rules are those of the built-in function; so are its fallbacks, its counters and its errors. And
 * where they, and conversions, count what they have left to Python code.
 *
 * A module that has such functions exports a capsule RAW_CODECS with a table of them. Whoever is given a
 * callable looks it up (echo_raw_call_of) by the C function that a built-in one was made of, which tells its
 * type as well:
 *
 *     callable --PyCFunction_GetFunction--> a row's `call`;  --PyCFunction_GetSelf--> `self` below
 *
 * All of it is called with the GIL, and may run any code.
 */
#ifndef ECHO_RAW_CODEC_H
#define ECHO_RAW_CODEC_H

#include "events/leaves.h"

/* The record of an event. GOOD: *written bytes of `room`, and *record stays NULL; or, where `room` is too small
 * or a fallback made it, a new reference in *record to what the function returned. -1 with an exception. */
typedef int raw_encode(PyObject *self, PyObject *event, uint8_t *room, Py_ssize_t size, PyObject **record,
                       Py_ssize_t *written);

/* The event of a record, a new reference; NULL with an exception. The bytes stay as they are during the call,
 * and may lie at any alignment. */
typedef PyObject *raw_decode(PyObject *self, const uint8_t *record, Py_ssize_t size);

/* How many bytes the record of an event would take; exact for every event that can be encoded. It is encoded only
 * where that does not show otherwise. -1 with an exception. */
typedef Py_ssize_t raw_measure(PyObject *self, PyObject *event);

/* Where a built-in function counts the calls that it left to Python code, as long as `self` lives; NULL: it leaves
 * none. *next: borrowed; a callable that it calls, and which may leave some in turn. Stays NULL: there is none. */
typedef const unsigned long long *raw_count(PyObject *self, PyObject **next);

/* One built-in function. */
struct raw_codec {
    PyCFunction call;     /* what the function is made of; NULL in the row that ends a table */
    raw_encode *encode;   /* NULL: it does not encode */
    raw_decode *decode;   /* NULL: it does not decode */
    raw_measure *measure; /* NULL exactly where encode is */
    raw_count *count;     /* NULL: it leaves nothing to Python code, or does not count it */
};

/* How a callable encodes and decodes without bytes objects; zeroes where it is no built-in codec's function. */
struct raw_call {
    raw_encode *encode;
    raw_decode *decode;
    raw_measure *measure;
    raw_count *count;
    PyObject *self; /* of all; borrowed from the callable */
};

/* raw_codec.c, which is part of each module that asks. Fills in *raw. 0, or -1 with an exception. */
__attribute__((visibility("hidden"))) int echo_raw_call_of(PyObject *callable, struct raw_call *raw);

/* The size of a record that a function has returned, which goes; -1 with an exception, also where it is no bytes. */
static inline Py_ssize_t size_of_record(PyObject *record)
{
    Py_ssize_t size = record != NULL ? PyBytes_Size(record) : -1;

    Py_XDECREF(record);
    return size;
}

/* The attribute of the module, and what its capsule's name ends with. */
#define RAW_CODECS "raw_codecs"

/* name: of the capsule, which is the module's, a dot, and RAW_CODECS. rows: live as long as the process. */
static inline int add_raw_codecs(PyObject *module, const char *name, const struct raw_codec *rows)
{
    PyObject *capsule = PyCapsule_New((void *)(uintptr_t)rows, name, NULL);
    int status = capsule != NULL ? PyModule_AddObjectRef(module, RAW_CODECS, capsule) : -1;

    Py_XDECREF(capsule);
    return status;
}

#endif
