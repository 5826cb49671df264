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

int echo_keep_interrupt(PyObject **kept)
{
    if (*kept != NULL || PyErr_ExceptionMatches(PyExc_Exception))
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
