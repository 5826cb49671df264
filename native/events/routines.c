/* The type Routine: the address of compiled code as a built-in function of Python.
 *
 * It knows no format, makes no code and writes no error message about data. Expected workload: records of about 100
 * bytes, one per call, millions of calls per second; hence no cffi here, whose call alone takes 200 ns. Called with
 * the GIL; programs.c, which runs the code, lets go of it in two places.
 */
#include "events/module.h"
#include "events/programs.h"

#include <string.h>

/* --- the call --- */

/* Runs what is installed now, also when it is replaced meanwhile. On GOOD *result is the caller's. */
static enum outcome attempt(struct runner *routine, PyObject *source, PyObject *target, PyObject **result)
{
    struct program *program = routine->program;
    enum outcome outcome;

    if (program == NULL)
        return UNUSUAL;
    program->users++;
    outcome = echo_program_run(program, source, target, result);
    program_release(program);
    return outcome;
}

/* Whether a record that is bytes, and not long, is the result as it is: all that most calls ask. */
static inline int is_verified(const struct program *program, PyObject *source)
{
    const uint8_t *bytes;
    Py_ssize_t size;

    if (program == NULL || program->verify == NULL || program->convert != NULL || !PyBytes_CheckExact(source))
        return 0;
    bytes = bytes_of(source, &size);
    return size <= GIL_RELEASE_BYTES && program->verify(bytes, (uint64_t)size) == 0;
}

/* What is unusual goes to the fallback with the same arguments. target: borrowed; NULL or None for new bytes. */
static PyObject *convert(struct runner *routine, PyObject *source, PyObject *target)
{
    PyObject *result = NULL;
    enum outcome outcome = GOOD;
    int is_new = target == NULL || target == Py_None;

    if (is_new && is_verified(routine->program, source))
        result = Py_NewRef(source);
    else
        outcome = attempt(routine, source, is_new ? NULL : target, &result);
    if (outcome == UNUSUAL) {
        routine->shell.interpreted++;
        return PyObject_CallFunctionObjArgs(routine->shell.fallbacks[0], source, target, NULL);
    }
    routine->shell.compiled += outcome == GOOD;
    return result;
}

static PyObject *routine_call(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs < 1 || nargs > 2)
        return PyErr_Format(PyExc_TypeError, "Expected 1 or 2 arguments (source, target), got %zd", nargs);
    return convert((struct runner *)self, args[0], nargs == 2 ? args[1] : NULL);
}

struct runner *echo_routine_of(PyTypeObject *sibling_type, PyObject *function)
{
    PyObject *self = PyCFunction_Check(function) ? PyCFunction_GetSelf(function) : NULL;

    return self != NULL && Py_IS_TYPE(self, sibling(sibling_type, ROUTINE)) &&
                   PyCFunction_GetFunction(function) == (PyCFunction)(void (*)(void))routine_call
               ? (struct runner *)self
               : NULL;
}

PyObject *echo_routine_convert(struct runner *routine, PyObject *source)
{
    return convert(routine, source, NULL);
}

/* --- installing --- */

/* Converters for PyArg_Parse*: 1 and *out, or 0 with an exception. */
static int size_from(PyObject *object, void *out)
{
    uint64_t size = PyLong_AsUnsignedLongLong(object);

    if (size == UINT64_MAX && PyErr_Occurred() != NULL)
        return 0;
    if (size == 0)
        PyErr_SetString(PyExc_ValueError, "Expected records of at least 1 byte, got a size of 0");
    *(uint64_t *)out = size;
    return size != 0;
}

static int address_from(PyObject *object, void *out)
{
    unsigned long long address = PyLong_AsUnsignedLongLong(object);

    if (address == (unsigned long long)-1 && PyErr_Occurred() != NULL)
        return 0;
    if (address == 0 || address > UINTPTR_MAX) {
        PyErr_Format(PyExc_ValueError, "Expected the address of a native function, got %llu", address);
        return 0;
    }
    memcpy(out, &(uintptr_t){(uintptr_t)address}, sizeof(uintptr_t)); /* to a pointer of any type */
    return 1;
}

static PyObject *routine_install_fixed(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"convert", "source_size", "target_size", "keep_alive", NULL};
    struct program program = {.users = 0};

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&O&O:install_fixed", names, address_from, &program.fixed,
                                     size_from, &program.source_size, size_from, &program.target_size,
                                     &program.keep_alive))
        return NULL;
    return echo_runner_install(self, &program);
}

static PyObject *routine_install_variable(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"verify", "measure", "convert", "keep_alive", NULL};
    struct program program = {.users = 0};

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&O&O:install_variable", names, address_from, &program.verify,
                                     address_from, &program.measure, address_from, &program.convert,
                                     &program.keep_alive))
        return NULL;
    return echo_runner_install(self, &program);
}

static PyObject *routine_install_verified(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"verify", "keep_alive", NULL};
    struct program program = {.users = 0};

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O:install_verified", names, address_from, &program.verify,
                                     &program.keep_alive))
        return NULL;
    return echo_runner_install(self, &program);
}

/* --- the type --- */

static PyObject *routine_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fallback", NULL};
    static const Py_ssize_t nothing[] = {0};
    PyObject *fallback;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Routine", names, &fallback))
        return NULL;
    return (PyObject *)echo_shell_new(type, nothing, fallback, NULL);
}

static const unsigned long long *count_of(PyObject *self, PyObject **next)
{
    (void)next; /* its fallback is Python code */
    return &((struct shell *)self)->interpreted;
}

static const struct raw_codec raw_codecs[] = {{.call = (PyCFunction)(void (*)(void))routine_call, .count = count_of},
                                              {.call = NULL}};

static PyMethodDef routine_methods[] = {
    {"call", (PyCFunction)(void (*)(void))routine_call, METH_FASTCALL,
     PyDoc_STR("call($self, source, target=None, /)\n--\n\n"
               "The converted records as new bytes; or, written to the start of target, how many bytes.")},
    {"install_fixed", (PyCFunction)(void (*)(void))routine_install_fixed, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("install_fixed($self, /, convert, source_size, target_size, keep_alive)\n--\n\n"
               "From now on calls run native code that converts any number of records of fixed size.")},
    {"install_variable", (PyCFunction)(void (*)(void))routine_install_variable, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("install_variable($self, /, verify, measure, convert, keep_alive)\n--\n\n"
               "From now on calls run native code that verifies and converts one record of any size.")},
    {"install_verified", (PyCFunction)(void (*)(void))routine_install_verified, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("install_verified($self, /, verify, keep_alive)\n--\n\n"
               "From now on calls run native code that verifies one record of any size, which is then the result.")},
    {"clear", echo_runner_clear, METH_NOARGS,
     PyDoc_STR("clear($self, /)\n--\n\nFrom now on calls go to the fallback.")},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef routine_properties[] = {
    {"is_compiled", echo_runner_is_compiled, NULL, PyDoc_STR("Whether native code is installed."), NULL},
    RAW_CODECS_PROPERTY(raw_codecs),
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot routine_slots[] = {
    {Py_tp_doc, PyDoc_STR("Routine(fallback)\n--\n\n"
                          "A conversion that runs native code once it is installed, and fallback until then "
                          "or when something is unusual.")},
    {Py_tp_new, routine_new},
    {Py_tp_dealloc, echo_shell_dealloc},
    {Py_tp_traverse, echo_runner_traverse},
    {Py_tp_clear, echo_runner_tp_clear},
    {Py_tp_methods, routine_methods},
    {Py_tp_members, echo_shell_members},
    {Py_tp_getset, routine_properties},
    {0, NULL}};

PyType_Spec echo_routine_spec = {
    .name = "echo_core._c.events.Routine",
    .basicsize = sizeof(struct runner),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = routine_slots,
};
