/* What every extension type needs: how its instances end, and how it gets into its module. */
#ifndef ECHO_TYPES_H
#define ECHO_TYPES_H

#include "stable_abi.h"

/* A slot of Python's, or a field of ours; holds NULL or an owned reference. */
static inline PyObject **slot_at(PyObject *object, Py_ssize_t offset)
{
    return (PyObject **)(void *)((char *)object + offset);
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

#endif
