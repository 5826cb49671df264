/* What the files of the type Route know of each other. */
#ifndef ECHO_LINK_ROUTES_H
#define ECHO_LINK_ROUTES_H

#include "links/link.h"

#pragma GCC visibility push(hidden)

/* The Python object. The lane outlives it while frames of it wait. */
struct route {
    PyObject ob_base;
    struct link *link; /* owned */
    struct lane *lane; /* owned, or orphaned */
    PyObject *name;    /* owned str; whose events go where, for errors */
};

static inline struct route *route_of(PyObject *object)
{
    return (struct route *)(void *)object;
}

#pragma GCC visibility pop

#endif
