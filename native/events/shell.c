/* The shell of built-in functions as Python sees it: how it is made, visited, freed; and its slow ends. */
#include "events/shell.h"
#include "events/leaves.h"

struct shell *echo_shell_new(PyTypeObject *type, const Py_ssize_t *owned, PyObject *first, PyObject *second)
{
    struct shell *shell;

    if (!PyCallable_Check(first) || (second != NULL && !PyCallable_Check(second))) {
        PyErr_Format(PyExc_TypeError, "Expected a callable as fallback, got %R",
                     PyCallable_Check(first) ? second : first);
        return NULL;
    }
    shell = (struct shell *)PyType_GenericAlloc(type, 0); /* zeroed */
    if (shell == NULL)
        return NULL;
    shell->owned = owned;
    shell->fallbacks[0] = Py_NewRef(first);
    shell->fallbacks[1] = Py_XNewRef(second);
    if (echo_raw_call_of(first, &shell->raw) != 0)
        Py_CLEAR(shell);
    return shell;
}

int echo_shell_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct shell *shell = (struct shell *)self;

    Py_VISIT(shell->fallbacks[0]);
    Py_VISIT(shell->fallbacks[1]);
    return visit_owned(self, shell->owned, visit, arg);
}

int echo_shell_clear(PyObject *self)
{
    struct shell *shell = (struct shell *)self;

    shell->raw = (struct raw_call){.self = NULL};
    Py_CLEAR(shell->fallbacks[0]);
    Py_CLEAR(shell->fallbacks[1]);
    return 0;
}

void echo_shell_dealloc(PyObject *self)
{
    inquiry clear = (inquiry)PyType_GetSlot(Py_TYPE(self), Py_tp_clear);

    PyObject_GC_UnTrack(self);
    clear(self);
    clear_owned(self, ((struct shell *)self)->owned);
    free_instance(self);
}

PyMemberDef echo_shell_members[] = {
    {"compiled", T_ULONGLONG, offsetof(struct shell, compiled), READONLY, PyDoc_STR("How much was answered in C.")},
    {"interpreted", T_ULONGLONG, offsetof(struct shell, interpreted), READONLY,
     PyDoc_STR("How much was left to a fallback.")},
    {NULL, 0, 0, 0, NULL}};

PyObject *echo_shell_decode_slowly(struct shell *shell, PyObject *fallback, const uint8_t *record, Py_ssize_t size)
{
    shell->interpreted++;
    if (shell->raw.decode != NULL)
        return shell->raw.decode(shell->raw.self, record, size);
    return read_by_python(fallback, record, size);
}
