/* The raw forms of built-in functions: how a type offers them, and how others find them. raw_codec.h has the rules. */
#include "raw_codec.h"

PyObject *echo_raw_codecs_get(PyObject *self, void *rows)
{
    (void)self;
    return PyCapsule_New(rows, RAW_CODECS, NULL);
}

/* Borrowed for ever; NULL with an exception, or without one where the object offers nothing. */
static const struct raw_codec *rows_of(PyObject *self)
{
    PyObject *capsule = PyObject_GetAttrString(self, RAW_CODECS);
    const struct raw_codec *rows = capsule != NULL ? PyCapsule_GetPointer(capsule, RAW_CODECS) : NULL;

    Py_XDECREF(capsule);
    if (rows == NULL && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    return rows;
}

int echo_raw_call_of(PyObject *callable, struct raw_call *raw)
{
    PyObject *self = PyCFunction_Check(callable) ? PyCFunction_GetSelf(callable) : NULL;
    const struct raw_codec *row = self != NULL ? rows_of(self) : NULL;

    *raw = (struct raw_call){.self = NULL};
    for (; row != NULL && row->call != NULL; row++) {
        if (row->call == PyCFunction_GetFunction(callable))
            *raw = (struct raw_call){.encode = row->encode,
                                     .decode = row->decode,
                                     .decode_shared = row->decode_shared,
                                     .measure = row->measure,
                                     .count = row->count,
                                     .self = self};
    }
    return PyErr_Occurred() == NULL ? 0 : -1;
}
