/* Two folders, or files, change places in one step: whoever opens either finds the one or the other. */
#define _GNU_SOURCE 1 /* syscall */
#include "logs/module.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXCHANGE 2 /* RENAME_EXCHANGE: C libraries older than the kernel do not have it, nor the call */

static int exchange_names(const char *first, const char *second)
{
#ifdef SYS_renameat2
    return (int)syscall(SYS_renameat2, AT_FDCWD, first, AT_FDCWD, second, EXCHANGE);
#else
    (void)first;
    (void)second;
    errno = ENOSYS;
    return -1;
#endif
}

/* exchange(first, second): OSError, such as EINVAL where the file system cannot. */
static PyObject *exchange(PyObject *module, PyObject *args)
{
    PyObject *first, *second = NULL, *result = NULL;
    int status;

    (void)module;
    if (!PyArg_ParseTuple(args, "O&O&:exchange", PyUnicode_FSConverter, &first, PyUnicode_FSConverter, &second))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = exchange_names(PyBytes_AsString(first), PyBytes_AsString(second));
    Py_END_ALLOW_THREADS
    if (status == 0)
        result = Py_NewRef(Py_None);
    else
        PyErr_SetFromErrnoWithFilenameObjects(PyExc_OSError, first, second);
    Py_DECREF(first);
    Py_DECREF(second);
    return result;
}

PyMethodDef echo_exchanging_functions[] = {{"exchange", exchange, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
