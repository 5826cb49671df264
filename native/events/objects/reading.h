/* A record being read, for the C files that do: reading.c, and reading_arrays.c for numpy's arrays. */
#pragma once

#include "events/objects/objects.h"
#include "events/turns.h"

/* A record being read. */
struct in {
    const uint8_t *bytes; /* borrowed; they stay as they are */
    Py_ssize_t size;      /* how many there are */
    Py_ssize_t end;       /* where the last part ended; ANYWHERE: the first one is still to come */
    PyObject *source;     /* borrowed bytes that an array is to be a view of; NULL: arrays are copies */
    PyObject *after;      /* owned list of methods to call when all has been read; NULL: none */
    struct turn *turn;    /* borrowed; NULL: whoever calls cannot bear that other code runs */
};
#define ANYWHERE (-1)

/* Numbers, or records, as numpy has them: a copy that its owner can write to, or a view. `count` elements, of these lengths.
 * NULL, with or without an exception. */
PyObject *echo_read_array(const struct in *in, const struct value *value, Py_ssize_t at, const int64_t *shape,
                          Py_ssize_t count);
