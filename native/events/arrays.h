/* numpy's arrays: where they keep what they are, and how one is made.
 *
 * By Python's protocols reading an array takes 30 ns and making one 150. numpy's own C interface, which every module that
 * is compiled for numpy relies on, takes 2 and 40. Nothing of it is taken for granted: it is tried on real arrays
 * (arrays.c), and where it does not hold Python's protocols are used.
 */
#pragma once

#include "events/layouts.h"

/* Of an array as numpy's API shows it, behind the object's head. */
struct array_fields {
    uint8_t *bytes;
    int dimension_count;
    Py_ssize_t *lengths;
    Py_ssize_t *strides;
    PyObject *base;
    PyObject *dtype;
    int flags;
};

/* In flags. */
#define ARRAY_IS_CONTIGUOUS 0x1
#define ARRAY_IS_ALIGNED 0x100
#define ARRAY_IS_WRITEABLE 0x400

/* numpy's functions; all NULL as long as nothing is known. */
struct arrays {
    PyTypeObject *type; /* borrowed; numpy.ndarray, which stays as long as the process */
    /* Steals dtype. bytes: NULL for memory of its own. */
    PyObject *(*make)(PyTypeObject *type, PyObject *dtype, int dimension_count, const Py_ssize_t *lengths,
                      const Py_ssize_t *strides, void *bytes, int flags, PyObject *like);
    int (*set_base)(PyObject *array, PyObject *base); /* steals base */
    /* Whether two dtypes are equal: what their == says. May run any code where they are of records. */
    unsigned char (*are_equal)(PyObject *dtype, PyObject *other);
};
extern struct arrays echo_arrays;

/* Whether they are known and do as they should: tried when a dtype is known. No exception. May run any code. */
int echo_arrays_find(PyObject *dtype);

static inline const struct array_fields *array_fields_of(PyObject *array)
{
    return (struct array_fields *)(void *)((char *)array + BEHIND_HEAD);
}

/* A new array whose elements are still to be written; NULL with an exception. */
static inline PyObject *new_own_array(PyObject *dtype, int dimension_count, const Py_ssize_t *lengths)
{
    return echo_arrays.make(echo_arrays.type, Py_NewRef(dtype), dimension_count, lengths, NULL, NULL, 0, NULL);
}

/* A new array of the memory of an object, read-only; NULL with an exception. */
PyObject *echo_new_array_view(PyObject *dtype, int dimension_count, const Py_ssize_t *lengths, const uint8_t *bytes,
                              PyObject *base);
