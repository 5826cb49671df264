/* What the files of the type OutgoingStream know of each other. */
#ifndef ECHO_OUTGOING_STREAM_H
#define ECHO_OUTGOING_STREAM_H

#include "links/link.h"

#pragma GCC visibility push(hidden)

/* The Python object. The outgoing outlives it while frames of it wait. */
struct outgoing_stream {
    PyObject ob_base;
    struct link *link; /* owned */
    struct outgoing *outgoing; /* owned, or orphaned */
    PyObject *name;    /* owned str; whose events go where, for errors */
};

static inline struct outgoing_stream *stream_of(PyObject *object)
{
    return (struct outgoing_stream *)(void *)object;
}

#pragma GCC visibility pop

#endif
