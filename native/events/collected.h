/* Classes of events that refer to objects, made here instead of by a class statement: their instances come from a list
 * of free ones, and Python's collector learns of one only when it refers to something that may refer to it.
 *
 * What is derived from them by a class statement is as any class is: tracked from the start, and without a list.
 */
#pragma once

#include "types.h"

/* A class of its own. Behind the room that its first base makes lie so many slots, each NULL or an owned reference; so
 * do those of a base that was made here. name is copied. NULL with an exception. */
PyObject *echo_collected_class(const char *name, PyObject *bases, Py_ssize_t room, Py_ssize_t slots);

/* Whether instances of exactly this class are made by the two functions below. */
int echo_is_collected(PyTypeObject *type);

/* A new object of exactly such a class, whose instances have so many bytes. All of it is 0. NULL with an exception. */
PyObject *echo_collected_new(PyTypeObject *type, Py_ssize_t size);

/* The same for a large one, but for so many bytes from there on, which are anything. */
PyObject *echo_collected_new_but(PyTypeObject *type, Py_ssize_t size, Py_ssize_t from, Py_ssize_t count);

/* tp_alloc of such classes: the same. */
PyObject *echo_collected_alloc(PyTypeObject *type, Py_ssize_t items);

/* Whether the collector has to know of who refers to a value. */
static inline int may_be_in_a_cycle(PyObject *value)
{
    if (PyUnicode_CheckExact(value) || PyBytes_CheckExact(value))
        return 0;
    return PyList_CheckExact(value) || PyType_HasFeature(Py_TYPE(value), Py_TPFLAGS_HAVE_GC);
}

/* Says that a slot of an instance of such a class, or of one derived from it, now refers to a value. Runs no code. */
static inline void track_for(PyObject *object, PyObject *value)
{
    if (may_be_in_a_cycle(value) && !PyObject_GC_IsTracked(object))
        PyObject_GC_Track(object);
}
