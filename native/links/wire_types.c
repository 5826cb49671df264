/* The types SocketWire and RingWire, and the memory for rings. What they do: core/wires/socket.c, core/wires/ring.c. */
#include "links/errors.h"
#include "links/state.h"
#include "links/wires.h"

#include "core/wires/ring.h"
#include "core/wires/socket.h"

#include <errno.h>

/* --- sockets --- */

static PyObject *socket_wire_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fd", NULL};
    struct wire *wire;
    int fd, kind = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "i:SocketWire", names, &fd))
        return NULL;
    wire = echo_socket_open(fd, &kind);
    if (wire != NULL)
        return echo_wire_object(type, wire);
    if (errno == EPROTOTYPE)
        return PyErr_Format(PyExc_ValueError, "Expected a stream socket, got one of type %d", kind);
    return PyErr_SetFromErrno(PyExc_OSError);
}

static PyType_Slot socket_wire_slots[] = {
    {Py_tp_doc, PyDoc_STR("SocketWire(fd)\n--\n\nA connected stream socket; takes the descriptor over.")},
    {Py_tp_new, socket_wire_new},
    {0, NULL}};

PyType_Spec echo_link_socket_wire_spec = {
    .name = "echo_core._c.links.SocketWire",
    .basicsize = sizeof(struct wire_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = socket_wire_slots,
};

/* --- rings --- */

PyObject *echo_ring_memory(PyObject *Py_UNUSED(module), PyObject *argument)
{
    unsigned long long ring_bytes = PyLong_AsUnsignedLongLong(argument);
    int fd;

    if (ring_bytes == (unsigned long long)-1 && PyErr_Occurred() != NULL)
        return NULL;
    fd = echo_ring_create(ring_bytes);
    if (fd >= 0)
        return PyLong_FromLong(fd);
    if (fd == -EINVAL)
        return PyErr_Format(PyExc_ValueError, "Expected a power of two from %llu to %llu bytes, got %llu",
                            (unsigned long long)MIN_RING_BYTES, (unsigned long long)MAX_RING_BYTES, ring_bytes);
    errno = -fd;
    return PyErr_SetFromErrno(PyExc_OSError);
}

/* NULL with an exception. */
static struct wire *open_ring(int fd, int side, int64_t spin_ns, int bell)
{
    const char *refusal;
    struct wire *wire = echo_ring_open(fd, side, spin_ns, bell, &refusal);

    if (wire == NULL && refusal != NULL)
        echo_raise("WireError", "Expected a peer's memory for rings: %s", refusal);
    else if (wire == NULL)
        PyErr_SetFromErrno(PyExc_OSError);
    return wire;
}

static PyObject *ring_wire_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"memory_fd", "side", "spin_ns", "bell", NULL};
    struct wire *wire;
    long long spin_ns = 0;
    int fd, side, bell = -1;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ii|$Li:RingWire", names, &fd, &side, &spin_ns, &bell))
        return NULL;
    if ((side != 0 && side != 1) || spin_ns < 0)
        return PyErr_Format(PyExc_ValueError, "Expected side 0 or 1 and spin_ns from 0, got %d and %lld", side,
                            spin_ns);
    wire = open_ring(fd, side, spin_ns, bell);
    return wire != NULL ? echo_wire_object(type, wire) : NULL;
}

static PyType_Slot ring_wire_slots[] = {{Py_tp_doc, PyDoc_STR("RingWire(memory_fd, side, *, spin_ns=0, bell=-1)\n--\n\n"
                                                              "Two rings in shared memory, one for each direction.")},
                                        {Py_tp_new, ring_wire_new},
                                        {0, NULL}};

PyType_Spec echo_link_ring_wire_spec = {
    .name = "echo_core._c.links.RingWire",
    .basicsize = sizeof(struct wire_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = ring_wire_slots,
};
