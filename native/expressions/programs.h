/* The type Program: steps that have been checked, and what they are asked. */
#pragma once

#include "types.h" /* first: it includes Python.h, which says what the C library is to offer */

#include "expressions/steps.h"

#define MAX_ROOTS 62 /* their answers fit in a mask that is not negative */

/* What a root is: how its value becomes a Python object. */
struct root {
    uint16_t step;
    char form; /* '?', 'q', 'Q', 'd', 't' text, 'y' bytes */
};

/* The Python object. Fixed at creation. */
struct program {
    PyObject ob_base;         /* spelled out: PyObject_HEAD hides it */
    PyObject *steps_bytes;    /* owned; holds `steps` */
    PyObject *pool_bytes;     /* owned; holds `pool` */
    PyObject *updates_bytes;  /* owned; holds `updates` */
    const struct step *steps; /* at most MAX_STEPS */
    const uint8_t *pool;      /* texts of constants */
    struct update *updates;   /* what is remembered */
    uint16_t step_count;
    uint16_t update_count;
    uint16_t root_count;  /* at least 1 */
    uint16_t state_count; /* at most MAX_STATES */
    uint16_t parameter_count;
    struct root roots[MAX_ROOTS];
};

/* Whether a snapshot of parameters has all that the program reads. -1 with ValueError. */
int echo_parameters_check(const struct program *program, PyObject *parameters);

extern PyType_Spec echo_program_spec;
