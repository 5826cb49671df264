/* Exceptions: echo_core's own, by their names, and those that wait until something is done. */
#pragma once

#include "stable_abi.h"

/* A class of echo_core.errors by its name, a new reference; NULL with an exception. GIL. */
PyObject *echo_error(const char *name);

/* Sets an exception of echo_core.errors by its name, with a message as of PyUnicode_FromFormat. -1. GIL. */
int echo_raise(const char *error, const char *format, ...);

/* The exception that is set, as an object of the caller's, which it is no more. GIL. */
PyObject *echo_take_exception(void);

/* Sets it, and takes the reference over. GIL. */
void echo_give_exception(PyObject *exception);

/* What is no Exception (KeyboardInterrupt) is the thread's, and no reason to leave out what is still to be done, nor is
 * BacklogError: one is kept until that is done. -1: another Exception or an interrupt that comes second is set, and
 * stays so; BacklogErrors behind the first are none. GIL. */
int echo_keep_interrupt(PyObject **kept);

/* After the last of it: sets what was kept, and takes the reference over. An exception that is set goes before it,
 * and has it as its context. -1. GIL. */
int echo_raise_interrupt(PyObject *kept);
