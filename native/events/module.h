/* The types of echo_core._c.events; events/module.c says what each is. */
#pragma once

#include "types.h"

/* Those that others ask for by number come first. */
enum type {
    VALUE,
    CODE,
    SHAPE,
    FIELD,
    WINDOW,
    ALLOWANCE,
    WALKER,
    PART,
    CLASS_CODEC,
    ENCODER,
    DECODER,
    ROUTINE,
    TYPE_COUNT
};

/* Per module; borrowed by everything else, and freed with the module. */
struct module_state {
    PyTypeObject *types[TYPE_COUNT]; /* owned; by enum type */
};

/* By a type of the module, or by the module. */
static inline PyTypeObject *sibling(PyTypeObject *type, enum type which)
{
    return ((struct module_state *)PyType_GetModuleState(type))->types[which];
}

/* Each type's own file. Read once per module, and never changed; not const only because Python's API wants
 * it so. */
extern PyType_Spec echo_object_value_spec;
extern PyType_Spec echo_object_code_spec;
extern PyType_Spec echo_object_allowance_spec;
extern PyType_Spec echo_object_walker_spec;
extern PyType_Spec echo_object_part_spec;
extern PyType_Spec echo_object_class_codec_spec;
extern PyType_Spec echo_record_shape_spec;
extern PyType_Spec echo_record_field_spec;
extern PyType_Spec echo_record_window_spec;
extern PyType_Spec echo_record_encoder_spec;
extern PyType_Spec echo_record_decoder_spec;
extern PyType_Spec echo_routine_spec;

/* records/classes.c: functions of the module. */
PyObject *echo_record_base_type(PyObject *module, PyObject *args);
PyObject *echo_record_plain_type(PyObject *module, PyObject *args);
