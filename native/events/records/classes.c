/* Classes of events that hold their record inline.
 *
 * An event class is a Python class over a base type made here (base_type), which reserves room for the bytes
 * of a record behind the object's head. What follows knows where things lie in such an object:
 *
 *     head | ... | record bytes (8-aligned) | state byte, if there are parts | ... | slots | ...
 *
 * The slots are visited, cleared and freed by collected.c, or where the class had to be made by a class statement by
 * Python, whose ordinary __slots__ they are then: one for each field whose value is kept as an object, and one (the
 * source) for the bytes that hold a whole received record with its variable parts. Python says which fields there are
 * and where (record_types.py). All offsets are checked against the object's size, so wrong ones cannot make C code
 * access other memory.
 */
#include "events/collected.h"
#include "events/module.h"
#include "events/records/records.h"

/* Room and nothing else: all that Python does with instances, it does as for any class of its own. */
PyObject *echo_record_base_type(PyObject *module, PyObject *args)
{
    PyType_Slot slots[] = {{Py_tp_doc, PyDoc_STR("Room for the record of an event.")}, {0, NULL}};
    PyType_Spec spec = {
        .name = "echo_core._c.events.Room",
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
        .slots = slots,
    };
    PyObject *base;
    Py_ssize_t basicsize;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!n:base_type", &PyType_Type, &base, &basicsize))
        return NULL;
    if (!is_offset(basicsize, 0) || basicsize % 8 != 0 || basicsize < size_attribute(base, "__basicsize__"))
        return PyErr_Format(PyExc_ValueError, "Expected a size with room for %R, got %zd", base, basicsize);
    spec.basicsize = (int)basicsize;
    return PyType_FromSpecWithBases(&spec, base);
}

/* The size of what the first base makes room for; -1 with an exception. */
static Py_ssize_t size_of_room(PyObject *bases)
{
    PyObject *room = PyTuple_GetItem(bases, 0);

    return room != NULL ? size_attribute(room, "__basicsize__") : -1;
}

static int has_gc(PyObject *bases)
{
    return (PyType_GetFlags((PyTypeObject *)PyTuple_GetItem(bases, 0)) & Py_TPFLAGS_HAVE_GC) != 0;
}

/* A class whose instances refer to nothing but their class, and so have no GC header. One that has replaced the only
 * field that its base kept in a slot has that slot all the same, and Python's memory with a header. */
static PyObject *new_untracked_class(const char *name, PyObject *bases, Py_ssize_t room)
{
    PyType_Slot slots[] = {{0, NULL}, {Py_tp_free, echo_large_free}, {0, NULL}};
    PyType_Spec spec = {.name = name, .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = slots};

    if (room >= LARGE_BYTES && !has_gc(bases))
        slots[0] = (PyType_Slot){Py_tp_alloc, echo_large_alloc};
    return PyType_FromSpecWithBases(&spec, bases);
}

/* plain_type(name, bases, slots): a class of its own that no class statement could make. What that would put into it
 * is for the caller to put there. Classes that a class statement derives from it get their memory as others do. */
PyObject *echo_record_plain_type(PyObject *module, PyObject *args)
{
    const char *name;
    PyObject *bases;
    Py_ssize_t room, slots;

    (void)module;
    if (!PyArg_ParseTuple(args, "sO!n:plain_type", &name, &PyTuple_Type, &bases, &slots))
        return NULL;
    room = size_of_room(bases);
    if (room < 0)
        return NULL;
    if (slots < 0 || slots > MAX_OFFSET / 16 || !is_offset(room, slots * 8))
        return PyErr_Format(PyExc_ValueError, "Expected room for the record and a number of slots, got %R", args);
    return slots == 0 ? new_untracked_class(name, bases, room) : echo_collected_class(name, bases, room, slots);
}
