/* Python's API, as all of our C sees it: the stable ABI of 3.11, whichever Python's headers it is compiled with.
 *
 * A module says of itself that it is for 3.11 and later (cp311-abi3), also where a later Python has compiled it. The
 * limited API sees to it that all functions it calls are in 3.11; not that the macros which are compiled into it do
 * what 3.11 needs:
 *
 * - From 3.12 on None, True and the like are immortal, and Py_RETURN_NONE and its kin lend a reference instead of
 *   giving one (there `return Py_None`, without a look at Py_LIMITED_API). 3.11 counts: each call takes a reference of
 *   None away, and with the last one the process ends. They are what they were, below.
 * - Formats with a # (y#, s#) are for functions of other names where PY_SSIZE_T_CLEAN is defined; from 3.13 on headers
 *   name the plain ones, which in 3.11 refuse such a format. So no format has a #, and with PY_SSIZE_T_CLEAN not
 *   defined one would fail in 3.11 wherever it was compiled.
 *
 * Py_INCREF and Py_DECREF of later headers leave alone what has 2^31 references and more, which here is nothing.
 */
#pragma once

#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#undef Py_RETURN_NONE
#define Py_RETURN_NONE return Py_NewRef(Py_None)
#undef Py_RETURN_TRUE
#define Py_RETURN_TRUE return Py_NewRef(Py_True)
#undef Py_RETURN_FALSE
#define Py_RETURN_FALSE return Py_NewRef(Py_False)
#undef Py_RETURN_NOTIMPLEMENTED
#define Py_RETURN_NOTIMPLEMENTED return Py_NewRef(Py_NotImplemented)
