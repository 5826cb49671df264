/* The types of echo_core._c.expressions; module.c says what each is. */
#pragma once

#include "types.h"

enum type { PROGRAM, JUDGE, TABLE, INDEX, TYPE_COUNT };

/* Per module; borrowed by everything else, and freed with the module. */
struct module_state {
    PyTypeObject *types[TYPE_COUNT]; /* owned; by enum type */
};

static inline PyTypeObject *sibling(PyTypeObject *type, enum type which)
{
    return ((struct module_state *)PyType_GetModuleState(type))->types[which];
}

extern PyType_Spec echo_judge_spec;
extern PyType_Spec echo_table_spec;
extern PyType_Spec echo_index_spec;

/* programs.c: {name: number} of the operations. */
PyObject *echo_new_operations(void);
