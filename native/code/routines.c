/* echo_core._c.routines: makes the address of compiled code a built-in function of Python.
 *
 * Holds the way from a Python call to machine code and back, and nothing else: it knows no format, makes
 * no code and writes no error message about data. Whatever is unusual goes to a slow Python callable (the
 * fallback), whose result or exception is the call's. Expected workload: records of about 100 bytes, one
 * per call, millions of calls per second; hence no cffi here, whose call alone takes 200 ns.
 *
 * Python's stable ABI of 3.11 only. The GIL guards all state: every function below is called with it and
 * keeps it; routine_programs.c, which runs the code, lets go of it in two places.
 */
#include "events/raw_codec.h"
#include "code/routine_programs.h"

#include <structmember.h>

/* The Python object. */
struct routine {
    PyObject ob_base;               /* spelled out: PyObject_HEAD hides it */
    struct program *program;        /* counted in program->users; NULL: nothing is installed */
    PyObject *fallback;             /* owned; NULL only after tp_clear */
    PyObject *call;                 /* owned; holds this object too, so the cycle is left to the GC */
    unsigned long long compiled;    /* calls that native code answered */
    unsigned long long interpreted; /* calls that went to the fallback */
};

/* Takes over the caller's use of `program` (NULL: none). Calls that run the old one keep it. */
static void publish(struct routine *routine, struct program *program)
{
    struct program *old = routine->program;

    routine->program = program; /* first: the line below may run Python code that looks at it */
    echo_program_release(old);
}

/* --- the call --- */

/* Runs what is installed now, also when it is replaced meanwhile. On GOOD *result is the caller's. */
static enum outcome attempt(struct routine *routine, PyObject *source, PyObject *target, PyObject **result)
{
    struct program *program = routine->program;
    enum outcome outcome;

    if (program == NULL)
        return UNUSUAL;
    program->users++;
    outcome = echo_program_run(program, source, target, result);
    echo_program_release(program);
    return outcome;
}

/* The target as native code wants it: None is none. Borrowed. */
static PyObject *target_among(PyObject *const *args, Py_ssize_t nargs)
{
    return nargs == 2 && args[1] != Py_None ? args[1] : NULL;
}

/* After tp_clear, which only another object's finalizer can notice, this is a SystemError. */
static PyObject *fall_back(struct routine *routine, PyObject *const *args, Py_ssize_t nargs)
{
    routine->interpreted++;
    return PyObject_CallFunctionObjArgs(routine->fallback, args[0], nargs == 2 ? args[1] : NULL, NULL);
}

static PyObject *routine_call(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    struct routine *routine = (struct routine *)self;
    PyObject *result = NULL;

    if (nargs < 1 || nargs > 2)
        return PyErr_Format(PyExc_TypeError, "Expected 1 or 2 arguments (source, target), got %zd", nargs);
    switch (attempt(routine, args[0], target_among(args, nargs), &result)) {
    case GOOD:
        routine->compiled++;
        return result;
    case UNUSUAL:
        return fall_back(routine, args, nargs);
    case RAISED:
        break;
    }
    return NULL;
}

static PyMethodDef call_method = {
    "call", (PyCFunction)(void (*)(void))routine_call, METH_FASTCALL,
    PyDoc_STR("call($self, source, target=None, /)\n--\n\n"
              "The converted records as new bytes; or, written to the start of target, how many bytes.")};

/* --- installing --- */

/* A converter for PyArg_Parse*: 1 and *out, or 0 with an exception. */
static int address_from(PyObject *object, void *out)
{
    unsigned long long address = PyLong_AsUnsignedLongLong(object);

    if (address == (unsigned long long)-1 && PyErr_Occurred() != NULL)
        return 0;
    if (address == 0 || address > UINTPTR_MAX) {
        PyErr_Format(PyExc_ValueError, "Expected the address of a native function, got %llu", address);
        return 0;
    }
    *(uintptr_t *)out = (uintptr_t)address;
    return 1;
}

/* A converter for PyArg_Parse*. */
static int size_from(PyObject *object, void *out)
{
    unsigned long long size = PyLong_AsUnsignedLongLong(object);

    if (size == (unsigned long long)-1 && PyErr_Occurred() != NULL)
        return 0;
    if (size == 0) {
        PyErr_SetString(PyExc_ValueError, "Expected records of at least 1 byte, got a size of 0");
        return 0;
    }
    *(uint64_t *)out = size;
    return 1;
}

static PyObject *routine_install_fixed(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"convert", "source_size", "target_size", "keep_alive", NULL};
    uintptr_t convert;
    uint64_t source_size, target_size;
    PyObject *keep_alive;
    struct program *program;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&O&O:install_fixed", names, address_from, &convert,
                                     size_from, &source_size, size_from, &target_size, &keep_alive))
        return NULL;
    program = echo_program_new(keep_alive);
    if (program == NULL)
        return NULL;
    program->fixed = (convert_fixed *)convert;
    program->source_size = source_size;
    program->target_size = target_size;
    publish((struct routine *)self, program);
    Py_RETURN_NONE;
}

static PyObject *routine_install_variable(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"verify", "measure", "convert", "keep_alive", NULL};
    uintptr_t verify, measure, convert;
    PyObject *keep_alive;
    struct program *program;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&O&O:install_variable", names, address_from, &verify,
                                     address_from, &measure, address_from, &convert, &keep_alive))
        return NULL;
    program = echo_program_new(keep_alive);
    if (program == NULL)
        return NULL;
    program->verify = (verify_record *)verify;
    program->measure = (measure_record *)measure;
    program->convert = (convert_record *)convert;
    publish((struct routine *)self, program);
    Py_RETURN_NONE;
}

static PyObject *routine_install_verified(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"verify", "keep_alive", NULL};
    uintptr_t verify;
    PyObject *keep_alive;
    struct program *program;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O:install_verified", names, address_from, &verify,
                                     &keep_alive))
        return NULL;
    program = echo_program_new(keep_alive);
    if (program == NULL)
        return NULL;
    program->verify = (verify_record *)verify;
    publish((struct routine *)self, program);
    Py_RETURN_NONE;
}

static PyObject *routine_clear(PyObject *self, PyObject *unused)
{
    (void)unused;
    publish((struct routine *)self, NULL);
    Py_RETURN_NONE;
}

/* --- the type --- */

static PyObject *fallback_among(PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fallback", NULL};
    PyObject *fallback;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Routine", names, &fallback))
        return NULL;
    if (!PyCallable_Check(fallback))
        return PyErr_Format(PyExc_TypeError, "Expected a callable as fallback, got %R", fallback);
    return fallback;
}

static PyObject *routine_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *fallback = fallback_among(args, kwargs);
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct routine *routine;

    if (fallback == NULL)
        return NULL;
    routine = (struct routine *)allocate(type, 0); /* zeroed */
    if (routine == NULL)
        return NULL;
    routine->fallback = Py_NewRef(fallback);
    routine->call = PyCFunction_NewEx(&call_method, (PyObject *)routine, NULL);
    if (routine->call == NULL)
        Py_CLEAR(routine);
    return (PyObject *)routine;
}

/* A program that was replaced is not visited: the calls that still run it are on some stack, alive. */
static int routine_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct routine *routine = (struct routine *)self;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(routine->fallback);
    Py_VISIT(routine->call);
    if (routine->program != NULL)
        Py_VISIT(routine->program->keep_alive);
    return 0;
}

static int routine_tp_clear(PyObject *self)
{
    struct routine *routine = (struct routine *)self;

    publish(routine, NULL);
    Py_CLEAR(routine->fallback);
    Py_CLEAR(routine->call);
    return 0;
}

static void routine_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

    PyObject_GC_UnTrack(self);
    routine_tp_clear(self);
    release(self);
    Py_DECREF(type); /* every instance of a heap type holds it */
}

static PyObject *routine_is_compiled(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct routine *)self)->program != NULL);
}

static PyMethodDef routine_methods[] = {
    {"install_fixed", (PyCFunction)(void (*)(void))routine_install_fixed, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("install_fixed($self, /, convert, source_size, target_size, keep_alive)\n--\n\n"
               "From now on calls run native code that converts any number of records of fixed size.")},
    {"install_variable", (PyCFunction)(void (*)(void))routine_install_variable, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("install_variable($self, /, verify, measure, convert, keep_alive)\n--\n\n"
               "From now on calls run native code that verifies and converts one record of any size.")},
    {"install_verified", (PyCFunction)(void (*)(void))routine_install_verified, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("install_verified($self, /, verify, keep_alive)\n--\n\n"
               "From now on calls run native code that verifies one record of any size, which is then the result.")},
    {"clear", routine_clear, METH_NOARGS,
     PyDoc_STR("clear($self, /)\n--\n\nFrom now on calls go to the fallback.")},
    {NULL, NULL, 0, NULL}};

static PyMemberDef routine_members[] = {
    {"call", T_OBJECT_EX, offsetof(struct routine, call), READONLY,
     PyDoc_STR("The built-in function: call(source[, target]). Keep it; do not look it up per call.")},
    {"compiled", T_ULONGLONG, offsetof(struct routine, compiled), READONLY,
     PyDoc_STR("How many calls native code has answered.")},
    {"interpreted", T_ULONGLONG, offsetof(struct routine, interpreted), READONLY,
     PyDoc_STR("How many calls went to the fallback.")},
    {NULL, 0, 0, 0, NULL}};

static PyGetSetDef routine_properties[] = {
    {"is_compiled", routine_is_compiled, NULL, PyDoc_STR("Whether native code is installed."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot routine_slots[] = {
    {Py_tp_doc, PyDoc_STR("Routine(fallback)\n--\n\n"
                          "A conversion that runs native code once it is installed, and fallback until then "
                          "or when something is unusual.")},
    {Py_tp_new, routine_new},
    {Py_tp_dealloc, routine_dealloc},
    {Py_tp_traverse, routine_traverse},
    {Py_tp_clear, routine_tp_clear},
    {Py_tp_methods, routine_methods},
    {Py_tp_members, routine_members},
    {Py_tp_getset, routine_properties},
    {0, NULL}};

static PyType_Spec routine_spec = {
    .name = "echo_core._c.routines.Routine",
    .basicsize = sizeof(struct routine),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = routine_slots,
};

/* --- the module --- */

static const unsigned long long *count_of(PyObject *self, PyObject **next)
{
    (void)next; /* its fallback is Python code */
    return &((struct routine *)self)->interpreted;
}

static const struct raw_codec raw_codecs[] = {{.call = (PyCFunction)(void (*)(void))routine_call, .count = count_of},
                                              {.call = NULL}};

static int module_exec(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &routine_spec, NULL);
    int status;

    if (type == NULL)
        return -1;
    status = PyModule_AddType(module, (PyTypeObject *)type); /* takes a reference of its own */
    Py_DECREF(type);
    if (status != 0)
        return -1;
    if (PyModule_AddIntMacro(module, GIL_RELEASE_BYTES) != 0)
        return -1;
    return add_raw_codecs(module, "echo_core._c.routines." RAW_CODECS, raw_codecs);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "echo_core._c.routines",
    .m_doc = PyDoc_STR("Native code at a known address as a fast built-in function."),
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit_routines(void)
{
    return PyModuleDef_Init(&module_definition);
}
