/* echo_core._routines: makes the address of compiled code a built-in function of Python.
 *
 * Holds the way from a Python call to machine code and back, and nothing else: it knows no format, makes
 * no code and writes no error message about data. Whatever is unusual goes to a slow Python callable (the
 * fallback), whose result or exception is the call's. Expected workload: records of about 100 bytes, one
 * per call, millions of calls per second; hence no cffi here, whose call alone takes 200 ns.
 *
 * Python's stable ABI of 3.11 only. The GIL guards all state: every function below is called with it and
 * keeps it, save the two places marked "releases the GIL".
 */
#include "raw_codec.h"

#include <structmember.h>

/* A larger source is converted with the GIL released: below it the hand-over takes longer than the work. */
#define GIL_RELEASE_BYTES (64 * 1024)

/* What is compiled. None of these may call Python, block, or keep a pointer; each takes its source and
 * target at any alignment, and never reads back what it wrote to the target. 0 means success. */
typedef int32_t convert_fixed(const uint8_t *source, uint8_t *target, uint64_t count);
typedef int32_t verify_record(const uint8_t *record, uint64_t size);
typedef uint64_t measure_record(const uint8_t *record); /* UINT64_MAX: the result would be too large */
typedef int32_t convert_record(const uint8_t *record, uint8_t *target);

/* One set of installed functions. Never changed once published, only replaced. */
struct program {
    uint64_t users;              /* the Routine that publishes it and the calls that run it; 0 frees it */
    PyObject *keep_alive;        /* owned; whatever owns the machine code. Never NULL */
    convert_fixed *fixed;        /* NULL in a program of variable records */
    uint64_t source_size;        /* bytes of one fixed source record, at least 1 */
    uint64_t target_size;        /* bytes of one fixed target record, at least 1 */
    verify_record *verify;       /* this and the two below: NULL in a program of fixed records */
    measure_record *measure;     /* called only for a record that verify has passed */
    convert_record *convert;     /* likewise, into as many bytes as measure said. Both NULL, but not verify: a
                                  * verified record is the result as it is */
};

/* The bytes of an argument. */
struct view {
    uint8_t *bytes;    /* borrowed from the argument */
    uint64_t size;     /* how many there are */
    int is_immutable;  /* 1: nobody can change them, in this process or another */
    int is_exported;   /* 1: buffer is filled in and is ours to release; 0: buffer is not touched */
    Py_buffer buffer;  /* keeps the bytes where they are */
};

/* One call, from arguments to result; lives on the stack. */
struct call {
    const struct program *program; /* held by the caller */
    PyObject *argument;            /* borrowed; the first one */
    struct view source;            /* its bytes; open for the whole call */
    uint8_t *copy;                 /* owned, PyMem; NULL unless the source could change under verify */
    uint64_t count;                /* fixed records in the source */
    uint64_t size;                 /* bytes of the result; at most PY_SSIZE_T_MAX */
    uint8_t *target;               /* borrowed; where the result goes */
    int without_gil;               /* 1: native code runs with the GIL released */
    PyObject *result;              /* owned by whoever made the call; set only when the outcome is GOOD */
};

/* The Python object. */
struct routine {
    PyObject ob_base;               /* spelled out: PyObject_HEAD hides it */
    struct program *program;        /* counted in program->users; NULL: nothing is installed */
    PyObject *fallback;             /* owned; NULL only after tp_clear */
    PyObject *call;                 /* owned; holds this object too, so the cycle is left to the GC */
    unsigned long long compiled;    /* calls that native code answered */
    unsigned long long interpreted; /* calls that went to the fallback */
};

/* --- programs --- */

/* Returns a program with one user and no functions; NULL with MemoryError. Takes its own reference. */
static struct program *program_new(PyObject *keep_alive)
{
    struct program *program = PyMem_Calloc(1, sizeof *program);

    if (program == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    program->users = 1;
    program->keep_alive = Py_NewRef(keep_alive);
    return program;
}

/* Ends one use; the last one frees, and may run any finalizer. NULL is allowed. */
static void program_release(struct program *program)
{
    PyObject *keep_alive;

    if (program == NULL || --program->users > 0)
        return;
    keep_alive = program->keep_alive;
    PyMem_Free(program);
    Py_DECREF(keep_alive);
}

/* Takes over the caller's use of `program` (NULL: none). Calls that run the old one keep it. */
static void publish(struct routine *routine, struct program *program)
{
    struct program *old = routine->program;

    routine->program = program; /* first: the line below may run Python code that looks at it */
    program_release(old);
}

/* --- views --- */

/* What an exception of the C API means: trouble with an argument is the fallback's to name, but running
 * out of memory or being interrupted is not about the argument. */
static enum outcome outcome_of_exception(void)
{
    if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception))
        return RAISED;
    PyErr_Clear();
    return UNUSUAL;
}

/* From Python 3.12 on an exporter may be written in Python: this may run any code. */
static enum outcome open_buffer(struct view *view, PyObject *object, int flags)
{
    static uint8_t nothing[1]; /* an empty buffer may be NULL, which memcpy refuses even for 0 bytes */

    if (PyObject_GetBuffer(object, &view->buffer, flags) != 0)
        return outcome_of_exception();
    view->bytes = view->buffer.buf != NULL ? view->buffer.buf : nothing;
    view->size = (uint64_t)view->buffer.len;
    view->is_immutable = 0; /* also when read-only: that binds us, not the others who see the memory */
    view->is_exported = 1;
    return GOOD;
}

/* Exact bytes need no export: the caller's reference keeps them, and they neither move nor change. */
static enum outcome open_source(struct view *view, PyObject *object)
{
    char *bytes;
    Py_ssize_t size;

    if (!Py_IS_TYPE(object, &PyBytes_Type))
        return open_buffer(view, object, PyBUF_SIMPLE);
    PyBytes_AsStringAndSize(object, &bytes, &size); /* cannot fail on bytes */
    view->bytes = (uint8_t *)bytes;
    view->size = (uint64_t)size;
    view->is_immutable = 1;
    view->is_exported = 0;
    return GOOD;
}

/* May run any code, where an exporter is written in Python. */
static void close_view(struct view *view)
{
    if (view->is_exported)
        PyBuffer_Release(&view->buffer);
}

/* Whether `size` bytes at `target` touch the view. As numbers: C orders only pointers into one object. */
static int overlaps(const struct view *view, const uint8_t *target, uint64_t size)
{
    uintptr_t first = (uintptr_t)view->bytes;
    uintptr_t second = (uintptr_t)target;

    return first < second + size && second < first + view->size;
}

/* --- first step: how many bytes will the result have? --- */

static enum outcome fits_python(uint64_t size)
{
    return size <= (uint64_t)PY_SSIZE_T_MAX ? GOOD : UNUSUAL;
}

static enum outcome measure_fixed(struct call *call)
{
    const struct program *program = call->program;

    call->count = call->source.size / program->source_size;
    if (call->count * program->source_size != call->source.size)
        return UNUSUAL;
    if (__builtin_mul_overflow(call->count, program->target_size, &call->size))
        return UNUSUAL;
    return fits_python(call->size);
}

/* What native code reads: the source itself, or our copy of it. */
static const uint8_t *record_of(const struct call *call)
{
    return call->copy != NULL ? call->copy : call->source.bytes;
}

/* Needs no GIL and blocks nobody. Nonzero: an offset, a count or the size of the record does not hold. */
static int copy_verify_measure(struct call *call)
{
    if (call->copy != NULL)
        memcpy(call->copy, call->source.bytes, call->source.size);
    if (call->program->verify(record_of(call), call->source.size) != 0)
        return -1;
    if (call->program->measure != NULL)
        call->size = call->program->measure(record_of(call)); /* UINT64_MAX is found by fits_python */
    else
        call->size = call->source.size;
    return 0;
}

/* Whatever is not exact bytes is copied, whether the GIL is kept or not. Keeping it would not do: shared
 * memory is written by other processes, and a bytearray by native code that has let go of the GIL (another
 * Routine's target, for one). Fixed records need no copy: their code follows no offset found in the data, so
 * bytes that change under it give a wrong value, never a wrong address. Releases the GIL if the call does. */
static enum outcome measure_variable(struct call *call)
{
    int status;

    if (!call->source.is_immutable) {
        call->copy = PyMem_Malloc(call->source.size); /* not NULL for 0 bytes */
        if (call->copy == NULL) {
            PyErr_NoMemory();
            return RAISED;
        }
    }
    if (!call->without_gil) {
        status = copy_verify_measure(call);
    } else {
        Py_BEGIN_ALLOW_THREADS
        status = copy_verify_measure(call);
        Py_END_ALLOW_THREADS
    }
    return status == 0 ? fits_python(call->size) : UNUSUAL;
}

/* --- second step: the conversion --- */

/* Needs no GIL and blocks nobody. */
static int32_t run_native(const struct call *call)
{
    const struct program *program = call->program;

    if (program->fixed != NULL)
        return program->fixed(call->source.bytes, call->target, call->count);
    if (program->convert != NULL)
        return program->convert(record_of(call), call->target);
    memcpy(call->target, record_of(call), call->size);
    return 0;
}

/* Releases the GIL if the call does: the views, the copy and the program are held by then. */
static enum outcome convert(const struct call *call)
{
    int32_t status;

    if (!call->without_gil)
        return run_native(call) == 0 ? GOOD : UNUSUAL;
    Py_BEGIN_ALLOW_THREADS
    status = run_native(call);
    Py_END_ALLOW_THREADS
    return status == 0 ? GOOD : UNUSUAL;
}

/* Bytes that are the result already are it, and are not copied. */
static int is_result(const struct call *call)
{
    return call->program->verify != NULL && call->program->convert == NULL && call->source.is_immutable;
}

static enum outcome convert_to_new_bytes(struct call *call)
{
    PyObject *bytes;

    if (is_result(call)) {
        call->result = Py_NewRef(call->argument);
        return GOOD;
    }
    bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)call->size);
    if (bytes == NULL)
        return outcome_of_exception();
    call->target = (uint8_t *)PyBytes_AsString(bytes);
    if (convert(call) != GOOD) {
        Py_DECREF(bytes);
        return UNUSUAL;
    }
    call->result = bytes;
    return GOOD;
}

/* Only the bytes that will be written must not overlap the source; what follows them may. */
static enum outcome convert_to_view(struct call *call, const struct view *view)
{
    if (view->size < call->size || overlaps(&call->source, view->bytes, call->size))
        return UNUSUAL;
    call->target = view->bytes;
    return convert(call);
}

static enum outcome convert_to_target(struct call *call, PyObject *target)
{
    struct view view;
    enum outcome outcome = open_buffer(&view, target, PyBUF_WRITABLE);

    if (outcome != GOOD)
        return outcome;
    outcome = convert_to_view(call, &view);
    close_view(&view);
    if (outcome != GOOD)
        return outcome;
    call->result = PyLong_FromUnsignedLongLong(call->size);
    return call->result != NULL ? GOOD : RAISED;
}

/* --- the call --- */

/* Both steps, on an open source. target: borrowed; NULL for new bytes. */
static enum outcome measure_and_convert(struct call *call, PyObject *target)
{
    enum outcome outcome = call->program->fixed != NULL ? measure_fixed(call) : measure_variable(call);

    if (outcome != GOOD)
        return outcome;
    return target == NULL ? convert_to_new_bytes(call) : convert_to_target(call, target);
}

/* The caller holds the program for as long as this takes. Nothing stays open, whatever the outcome. */
static enum outcome run_program(struct call *call, PyObject *source, PyObject *target)
{
    enum outcome outcome = open_source(&call->source, source);

    if (outcome != GOOD)
        return outcome;
    call->argument = source;
    call->copy = NULL;
    call->without_gil = call->source.size > GIL_RELEASE_BYTES;
    outcome = measure_and_convert(call, target);
    if (call->copy != NULL)
        PyMem_Free(call->copy);
    close_view(&call->source);
    return outcome;
}

/* Runs what is installed now, also when it is replaced meanwhile. On GOOD *result is the caller's. */
static enum outcome attempt(struct routine *routine, PyObject *source, PyObject *target, PyObject **result)
{
    struct program *program = routine->program;
    struct call call; /* not zeroed as a whole: that would be work in every call */
    enum outcome outcome;

    if (program == NULL)
        return UNUSUAL;
    call.program = program;
    program->users++;
    outcome = run_program(&call, source, target);
    program_release(program);
    if (outcome == GOOD)
        *result = call.result;
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
    program = program_new(keep_alive);
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
    program = program_new(keep_alive);
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
    program = program_new(keep_alive);
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
    .name = "echo_core._routines.Routine",
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
    return add_raw_codecs(module, "echo_core._routines." RAW_CODECS, raw_codecs);
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "echo_core._routines",
    .m_doc = PyDoc_STR("Native code at a known address as a fast built-in function."),
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__routines(void)
{
    return PyModuleDef_Init(&module_definition);
}
