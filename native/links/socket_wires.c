/* The type SocketWire. What it does: core/wires/socket.c. */
#include "links/state.h"
#include "links/wires.h"

#include "core/wires/socket.h"

#include <errno.h>

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
