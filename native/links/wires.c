/* The type Wire, which every kind of wire is: its operations for Python code. A Link takes the wire out of it
 * and calls them itself; what is here serves handshakes and tests.
 */
#include "links/wires.h"

#include "links/errors.h"
#include "links/state.h"

#include "core/forks.h"

#include <errno.h>
#include <structmember.h>

static void let_go(struct wire_object *self)
{
    struct wire *wire = self->wire;

    self->wire = NULL;
    if (wire == NULL)
        return;
    if (has_forked_since(self->forks)) {
        wire->operations->abandon(wire);
        return;
    }
    wire->operations->shut(wire);
    wire->operations->free(wire);
}

/* The wire, for a call that may release the GIL; NULL with ClosedError. */
static struct wire *enter(PyObject *self)
{
    struct wire_object *object = (struct wire_object *)self;

    if (object->wire == NULL || object->is_closed || has_forked_since(object->forks)) {
        echo_raise("ClosedError", "The wire is closed, or a link or the parent process has it");
        return NULL;
    }
    object->users++;
    return object->wire;
}

static void leave(PyObject *self)
{
    struct wire_object *object = (struct wire_object *)self;

    if (--object->users == 0 && object->is_closed)
        let_go(object);
}

PyObject *echo_wire_object(PyTypeObject *type, struct wire *wire)
{
    struct wire_object *object = (struct wire_object *)PyType_GenericAlloc(type, 0); /* zeroed */

    if (object == NULL) {
        wire->operations->free(wire);
        return NULL;
    }
    object->wire = wire;
    object->name = wire->operations->name;
    object->forks = echo_forks;
    return (PyObject *)object;
}

struct wire *echo_wire_take(PyObject *self)
{
    struct wire_object *object = (struct wire_object *)self;
    struct wire *wire = object->wire;

    if (wire == NULL || object->is_closed || object->users > 0 || has_forked_since(object->forks)) {
        echo_raise("ClosedError", "The wire is closed, or in use elsewhere");
        return NULL;
    }
    object->wire = NULL;
    return wire;
}

/* Sets OSError for a negative status. After a signal its handler's exception, or InterruptedError. */
static PyObject *raise_status(int64_t status)
{
    if (status == -EINTR && PyErr_CheckSignals() != 0)
        return NULL;
    errno = (int)-status;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static PyObject *wire_write(PyObject *self, PyObject *data)
{
    struct wire *wire = enter(self);
    Py_buffer view;
    ssize_t count;

    if (wire == NULL)
        return NULL;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) != 0) {
        leave(self);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    count = wire->operations->write(wire, &(struct iovec){view.buf, (size_t)view.len}, 1);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    leave(self);
    return count >= 0 ? PyLong_FromSsize_t(count) : raise_status(count);
}

static PyObject *wire_read(PyObject *self, PyObject *args)
{
    struct wire *wire;
    Py_ssize_t size;
    long long timeout_ns = -1;
    ssize_t count;
    uint8_t *bytes;
    PyObject *result;

    if (!PyArg_ParseTuple(args, "n|L:read", &size, &timeout_ns) || (wire = enter(self)) == NULL)
        return NULL;
    bytes = size > 0 ? PyMem_Malloc((size_t)size) : NULL;
    count = -ENOMEM;
    if (bytes != NULL) {
        Py_BEGIN_ALLOW_THREADS
        count = wire->operations->read(wire, bytes, (size_t)size, timeout_ns);
        Py_END_ALLOW_THREADS
    }
    leave(self);
    result = count >= 0 ? PyBytes_FromStringAndSize((const char *)bytes, count) : raise_status(count);
    PyMem_Free(bytes);
    return result;
}

static PyObject *await_with(PyObject *self, PyObject *args, int wants_room)
{
    struct wire *wire;
    long long timeout_ns = -1;
    int status;

    if (!PyArg_ParseTuple(args, "|L", &timeout_ns) || (wire = enter(self)) == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = (wants_room ? wire->operations->await_room : wire->operations->await_bytes)(wire, timeout_ns);
    Py_END_ALLOW_THREADS
    leave(self);
    return status >= 0 ? PyBool_FromLong(status) : raise_status(status);
}

static PyObject *wire_await_bytes(PyObject *self, PyObject *args)
{
    return await_with(self, args, 0);
}

static PyObject *wire_await_room(PyObject *self, PyObject *args)
{
    return await_with(self, args, 1);
}

/* What takes no argument and does not block. */
#define DEFINE_CALL(operation)                                                                                         \
    static PyObject *wire_##operation(PyObject *self, PyObject *Py_UNUSED(unused))                                     \
    {                                                                                                                  \
        struct wire *wire = enter(self);                                                                               \
                                                                                                                       \
        if (wire == NULL)                                                                                              \
            return NULL;                                                                                               \
        if (wire->operations->operation != NULL)                                                                       \
            wire->operations->operation(wire);                                                                         \
        leave(self);                                                                                                   \
        Py_RETURN_NONE;                                                                                                \
    }

DEFINE_CALL(nudge)
DEFINE_CALL(rouse)
DEFINE_CALL(shut)

/* Threads that wait return; the last of them frees. In a forked child there are none. */
static PyObject *wire_close(PyObject *self, PyObject *Py_UNUSED(unused))
{
    struct wire_object *object = (struct wire_object *)self;

    object->is_closed = 1;
    if (object->users == 0 || has_forked_since(object->forks))
        let_go(object);
    else if (object->wire != NULL)
        object->wire->operations->shut(object->wire);
    Py_RETURN_NONE;
}

static void wire_dealloc(PyObject *self)
{
    let_go((struct wire_object *)self);
    free_instance(self);
}

static PyMethodDef wire_methods[] = {
    {"write", wire_write, METH_O, PyDoc_STR("write($self, data, /)\n--\n\nHow many of the bytes were taken.")},
    {"read", wire_read, METH_VARARGS,
     PyDoc_STR("read($self, size, timeout_ns=-1, /)\n--\n\nWhat is there; b\"\" at the end.")},
    {"await_bytes", wire_await_bytes, METH_VARARGS,
     PyDoc_STR("await_bytes($self, timeout_ns=-1, /)\n--\n\nWhether read would return at once.")},
    {"await_room", wire_await_room, METH_VARARGS,
     PyDoc_STR("await_room($self, timeout_ns=-1, /)\n--\n\nWhether write would take something.")},
    {"nudge", wire_nudge, METH_NOARGS, PyDoc_STR("nudge($self, /)\n--\n\nEnds an await_bytes.")},
    {"rouse", wire_rouse, METH_NOARGS, PyDoc_STR("rouse($self, /)\n--\n\nHas all that wait look again.")},
    {"shut", wire_shut, METH_NOARGS, PyDoc_STR("shut($self, /)\n--\n\nEnds both directions.")},
    {"close", wire_close, METH_NOARGS, PyDoc_STR("close($self, /)\n--\n\nEnds and frees the wire.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef wire_members[] = {
    {"name", T_STRING, offsetof(struct wire_object, name), READONLY, PyDoc_STR("What kind of wire it is.")},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot wire_slots[] = {{Py_tp_doc, PyDoc_STR("Bytes from process to process. A Link takes it over.")},
                                   {Py_tp_dealloc, wire_dealloc},
                                   {Py_tp_methods, wire_methods},
                                   {Py_tp_members, wire_members},
                                   {0, NULL}};

PyType_Spec echo_link_wire_spec = {
    .name = "echo_core._c.links.Wire",
    .basicsize = sizeof(struct wire_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = wire_slots,
};
