/* How a call, or a step of it, came out. */
#pragma once

#include "stable_abi.h"

enum outcome {
    GOOD,    /* as it should be */
    UNUSUAL, /* the fallback decides; no exception is set */
    RAISED,  /* an exception is set; it is the call's */
};

/* What a failure means, with or without an exception. An ordinary exception is cleared: the fallback raises it
 * again, with better words. Running out of memory and interrupts are not about the value, and stay. */
static inline enum outcome outcome_of_error(void)
{
    if (PyErr_Occurred() == NULL)
        return UNUSUAL;
    if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception))
        return RAISED;
    PyErr_Clear();
    return UNUSUAL;
}

/* The end of a step that has made an object: *result gets it if all is good; otherwise it goes. */
static inline enum outcome settle(enum outcome outcome, PyObject *made, PyObject **result)
{
    if (outcome == GOOD)
        *result = made;
    else
        Py_DECREF(made);
    return outcome;
}
