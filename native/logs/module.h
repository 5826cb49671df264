/* The types of echo_core._c.logs; module.c says what each is. */
#pragma once

#include "types.h"

enum type { STAGING, STAGE, BATCH, WATCH, LOOKBACK, LOOKBACK_STREAM, TYPE_COUNT };

/* Per module; borrowed by everything else, and freed with the module. */
struct module_state {
    PyTypeObject *types[TYPE_COUNT]; /* owned; by enum type */
};

static inline PyTypeObject *sibling(PyTypeObject *type, enum type which)
{
    return ((struct module_state *)PyType_GetModuleState(type))->types[which];
}

extern PyType_Spec echo_staging_spec;
extern PyType_Spec echo_stage_spec;
extern PyType_Spec echo_batch_spec;
extern PyType_Spec echo_watch_spec;
extern PyType_Spec echo_lookback_spec;
extern PyType_Spec echo_lookback_stream_spec;

int echo_is_staging(PyObject *object);

/* Functions of the module. */
extern PyMethodDef echo_scanning_functions[];
extern PyMethodDef echo_composing_functions[];
extern PyMethodDef echo_columns_functions[];
extern PyMethodDef echo_exchanging_functions[];
