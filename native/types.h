/* What every extension type needs: how its instances end, and how it gets into its module. */
#pragma once

#include "stable_abi.h"

/* A slot of Python's, or a field of ours; holds NULL or an owned reference. */
static inline PyObject **slot_at(PyObject *object, Py_ssize_t offset)
{
    return (PyObject **)(void *)((char *)object + offset);
}

/* tp_traverse of a type that says in a table where in an instance what it owns stands; a 0 ends the table. */
static inline int visit_owned(PyObject *self, const Py_ssize_t *owned, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    for (; *owned != 0; owned++)
        Py_VISIT(*slot_at(self, *owned));
    return 0;
}

static inline void clear_owned(PyObject *self, const Py_ssize_t *owned)
{
    for (; *owned != 0; owned++)
        Py_CLEAR(*slot_at(self, *owned));
}

/* The last line of a tp_dealloc, when nothing is owned any more. May run any code, as the type may go too. */
static inline void free_instance(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    release(self);
    Py_DECREF(type); /* every instance of a heap type holds it */
}

/* Gives *out, unless out is NULL, a reference; also on failure, if it then is not NULL. */
static inline int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    int status = type != NULL ? PyModule_AddType(module, type) : -1; /* takes a reference of its own */

    if (out != NULL)
        *out = type;
    else
        Py_XDECREF((PyObject *)type);
    return status;
}

/* m_traverse, m_clear and m_free of a module whose state is nothing but owned references. */
static inline int visit_state(PyObject *module, visitproc visit, void *arg)
{
    PyObject **state = PyModule_GetState(module), **end = state + PyModule_GetDef(module)->m_size / sizeof *state;

    for (; state < end; state++)
        Py_VISIT(*state);
    return 0;
}

static inline int clear_state(PyObject *module)
{
    PyObject **state = PyModule_GetState(module), **end = state + PyModule_GetDef(module)->m_size / sizeof *state;

    for (; state < end; state++)
        Py_CLEAR(*state);
    return 0;
}

static inline void free_state(void *module)
{
    clear_state((PyObject *)module);
}
