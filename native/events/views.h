/* The bytes of an argument that is bytes or any contiguous buffer, for one call. */
#pragma once

#include "events/outcome.h" /* first: it includes Python.h, which says what the C library is to offer */

#include "events/layouts.h"
#include "events/turns.h"

#include <stdint.h>

/* Lives on the stack; is not zeroed as a whole, which would be work in every call. */
struct view {
    uint8_t *bytes;   /* borrowed from the argument; never NULL */
    Py_ssize_t size;  /* how many there are */
    int is_exported;  /* 1: buffer is filled in and is ours to release, and others may change the bytes at any time,
                       * also when it is read-only: that binds us, not who else sees the memory. 0: bytes, immutable */
    Py_buffer buffer; /* keeps the bytes where they are */
};

/* From Python 3.12 on an exporter may be written in Python: this may run any code. */
static inline enum outcome open_buffer(struct view *view, PyObject *object, int flags)
{
    static uint8_t nothing[1]; /* an empty buffer may be NULL, which memcpy refuses even for 0 bytes */

    if (PyObject_GetBuffer(object, &view->buffer, flags) != 0)
        return outcome_of_error();
    view->bytes = view->buffer.buf != NULL ? view->buffer.buf : nothing;
    view->size = view->buffer.len;
    view->is_exported = 1;
    return GOOD;
}

/* Exact bytes need no export: the caller's reference keeps them, and they neither move nor change. */
static inline enum outcome open_view(struct view *view, PyObject *object)
{
    if (!PyBytes_CheckExact(object))
        return open_buffer(view, object, PyBUF_SIMPLE);
    view->bytes = (uint8_t *)(uintptr_t)bytes_of(object, &view->size);
    view->is_exported = 0;
    return GOOD;
}

/* May run any code, where an exporter is written in Python. */
static inline void close_view(struct view *view)
{
    if (view->is_exported)
        PyBuffer_Release(&view->buffer);
}

/* The argument, if it is bytes, or a copy of it: *out is a new reference when the outcome is GOOD. */
static inline enum outcome take_bytes(PyObject *object, PyObject **out)
{
    struct view view;
    enum outcome outcome;

    if (PyBytes_CheckExact(object)) {
        *out = Py_NewRef(object);
        return GOOD;
    }
    outcome = open_buffer(&view, object, PyBUF_SIMPLE);
    if (outcome != GOOD)
        return outcome;
    *out = bytes_in_turn(view.bytes, view.size);
    close_view(&view);
    return *out != NULL ? GOOD : RAISED;
}
