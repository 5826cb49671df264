/* Wires as Python objects: wires.c has what all of them do, wire_types.c makes them. */
#pragma once

#include "types.h"

#include "core/wires/wire.h"

/* The Python object that hands a wire to a Link, which takes it over (then `wire` is NULL). Its type, Wire, is
 * the base of those that make one: their tp_new fills all of it, and all else is inherited. GIL guards it. */
struct wire_object {
    PyObject ob_base;  /* spelled out: PyObject_HEAD hides it */
    struct wire *wire; /* owned; NULL: taken over, or closed */
    const char *name;  /* operations->name, which outlives the wire */
    unsigned forks;    /* echo_forks when it was made */
    unsigned users;    /* calls of its methods that are under way; 0 in a new one */
    int is_closed;     /* the last of them frees the wire; 0 in a new one */
};

/* The wire, which is the caller's from now on; NULL with ClosedError. GIL. */
struct wire *echo_wire_take(PyObject *object);

/* For a tp_new: a Wire of that type which owns the wire. NULL with MemoryError, and the wire is freed. GIL. */
PyObject *echo_wire_object(PyTypeObject *type, struct wire *wire);

/* ring_memory of the module; wire_types.c. GIL. */
PyObject *echo_ring_memory(PyObject *module, PyObject *ring_bytes);
