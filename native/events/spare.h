/* Large objects that the collector may know, whose memory is used again: kept_bytes.h says what for. The GIL guards
 * them. */
#pragma once

#include "stable_abi.h"

/* Smaller ones are malloc's business. */
#define LARGE_BYTES (64 * 1024)

/* The memory of an object of exactly that size that echo_spare_keep has taken, as PyObject_GC_New gives it; its content
 * is anything. NULL: there is none. */
PyObject *echo_spare_take(Py_ssize_t size);

/* Takes over an object that has ended, and that the collector does not know: 1. 0: it stays with the caller. Of a type
 * that has nothing before its objects but what the collector has. */
int echo_spare_keep(PyObject *ended, Py_ssize_t size);
