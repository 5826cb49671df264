/* How exceptions are set, kept and set again. */
#include "links/errors.h"

#include <stdarg.h>

PyObject *echo_error(const char *name)
{
    PyObject *errors = PyImport_ImportModule("echo_core.errors");
    PyObject *error = errors != NULL ? PyObject_GetAttrString(errors, name) : NULL;

    Py_XDECREF(errors);
    return error;
}

int echo_raise(const char *error, const char *format, ...)
{
    PyObject *type = echo_error(error);
    va_list values;

    va_start(values, format);
    if (type != NULL)
        PyErr_FormatV(type, format, values);
    va_end(values);
    Py_XDECREF(type);
    return -1;
}

PyObject *echo_take_exception(void)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

void echo_give_exception(PyObject *exception)
{
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(exception)), exception, PyException_GetTraceback(exception));
}

/* Whether the exception that is set is the fault of a full queue, which is no reason to serve no others. */
static int is_backlog_error(void)
{
    PyObject *exception, *backlog_error;
    int is_it;

    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return 0;
    exception = echo_take_exception(); /* what follows may not run with it */
    backlog_error = echo_error("BacklogError");
    is_it = backlog_error != NULL && PyErr_GivenExceptionMatches(exception, backlog_error);
    Py_XDECREF(backlog_error);
    PyErr_Clear();
    echo_give_exception(exception);
    return is_it;
}

int echo_keep_interrupt(PyObject **kept)
{
    int is_backlog = is_backlog_error();

    if (*kept != NULL && is_backlog) {
        PyErr_Clear();
        return 0;
    }
    if (*kept != NULL || (PyErr_ExceptionMatches(PyExc_Exception) && !is_backlog))
        return -1;
    *kept = echo_take_exception();
    return 0;
}

int echo_raise_interrupt(PyObject *kept)
{
    PyObject *exception;

    if (PyErr_Occurred() == NULL) {
        echo_give_exception(kept);
        return -1;
    }
    exception = echo_take_exception();
    if (exception == kept) /* raised twice: it is no context of its own */
        Py_DECREF(kept);
    else
        PyException_SetContext(exception, kept);
    echo_give_exception(exception);
    return -1;
}
