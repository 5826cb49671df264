/* What the files of the type Route know of each other. */
#ifndef ECHO_LINK_ROUTES_H
#define ECHO_LINK_ROUTES_H

#include "link_links.h"

#pragma GCC visibility push(hidden)

/* The Python object. The lane outlives it while frames of it wait. */
struct route {
    PyObject ob_base;
    struct link *link; /* owned */
    struct lane *lane; /* owned, or orphaned */
    int is_closed;     /* 1: takes no more */
};

static inline struct route *route_of(PyObject *object)
{
    return (struct route *)(void *)object;
}

/* 0; -1 with ClosedError: it takes no more, or is in a forked child. GIL. */
int echo_route_check(const struct route *route);

#pragma GCC visibility pop

#endif
