/* The state of the module echo_core._c.links: its types, which all of its files look up here. */
#pragma once

#include "stable_abi.h"

/* The types that links are made of, each in its own file; the other ones' are in the headers of streams/. Read once
 * per module, and never changed; not const only because Python's API wants it so. */
extern PyType_Spec echo_link_wire_spec;                         /* wires.c */
extern PyType_Spec echo_link_socket_wire_spec;                  /* wire_types.c */
extern PyType_Spec echo_link_ring_wire_spec;                    /* wire_types.c */
extern PyType_Spec echo_link_link_spec;                         /* link_type.c */
extern PyType_Spec echo_link_chunk_spec;                        /* chunks.c */
extern PyType_Spec echo_link_pool_spec;                         /* pools.c */
extern PyType_Spec echo_link_block_spec;                        /* blocks.c */
extern PyType_Spec echo_link_mapping_spec, echo_link_loan_spec; /* mappings.c */

/* scan of the module; scan.c. GIL. */
PyObject *echo_scan(PyObject *module, PyObject *args);

/* Per module; freed with it. Borrowed by everything else. */
struct module_state {
    PyTypeObject *wire_type, *socket_wire_type, *ring_wire_type, *link_type, *outgoing_type, *incoming_type,
        *delivery_type, *sharers_type, *span_type, *chunk_type, *queue_type, *outlet_type, *follower_type, *branch_type,
        *fan_type, *pool_type, *block_type, *mapping_type, *loan_type;
    PyObject *dtype_word; /* "dtype", interned */
};

/* Of one of the module's types, or of a class of Python's that has one as its base. GIL. */
static inline const struct module_state *echo_state_of(PyTypeObject *type)
{
    const struct module_state *state = PyType_GetModuleState(type);

    while (state == NULL) { /* TypeError: the class was made by Python code */
        PyErr_Clear();
        type = (PyTypeObject *)PyType_GetSlot(type, Py_tp_base);
        state = PyType_GetModuleState(type);
    }
    return state;
}
