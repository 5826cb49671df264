/* How a call runs compiled code: measures the result, converts into it, and lets go of the GIL where that pays.
 *
 * Every function is called with the GIL and keeps it, save the two places marked "releases the GIL".
 */
#include "events/programs.h"

#include <string.h>

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

/* --- programs --- */

PyObject *echo_runner_install(PyObject *self, const struct program *program)
{
    struct program *installed = PyMem_Malloc(sizeof *installed);

    if (installed == NULL)
        return PyErr_NoMemory();
    *installed = *program;
    installed->users = 1;
    Py_INCREF(installed->keep_alive);
    program_publish(&((struct runner *)self)->program, installed);
    Py_RETURN_NONE;
}

PyObject *echo_runner_clear(PyObject *self, PyObject *unused)
{
    (void)unused;
    program_publish(&((struct runner *)self)->program, NULL);
    Py_RETURN_NONE;
}

PyObject *echo_runner_is_compiled(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct runner *)self)->program != NULL);
}

/* A program that was replaced is not visited: the calls that still run it are on some stack, alive. */
int echo_runner_traverse(PyObject *self, visitproc visit, void *arg)
{
    const struct program *program = ((struct runner *)self)->program;

    if (program != NULL)
        Py_VISIT(program->keep_alive);
    return echo_shell_traverse(self, visit, arg);
}

int echo_runner_tp_clear(PyObject *self)
{
    program_publish(&((struct runner *)self)->program, NULL);
    return echo_shell_clear(self);
}

void echo_program_free(struct program *program)
{
    PyObject *keep_alive = program->keep_alive;

    PyMem_Free(program);
    Py_DECREF(keep_alive);
}

/* Whether `size` bytes at `target` touch the view. As numbers: C orders only pointers into one object. */
static int overlaps(const struct view *view, const uint8_t *target, uint64_t size)
{
    uintptr_t first = (uintptr_t)view->bytes;
    uintptr_t second = (uintptr_t)target;

    return first < second + size && second < first + (uint64_t)view->size;
}

/* --- first step: how many bytes will the result have? --- */

static enum outcome fits_python(uint64_t size)
{
    return size <= (uint64_t)PY_SSIZE_T_MAX ? GOOD : UNUSUAL;
}

static enum outcome measure_fixed(struct call *call)
{
    const struct program *program = call->program;

    call->count = (uint64_t)call->source.size / program->source_size;
    if (call->count * program->source_size != (uint64_t)call->source.size)
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
        memcpy(call->copy, call->source.bytes, (size_t)call->source.size);
    if (call->program->verify(record_of(call), (uint64_t)call->source.size) != 0)
        return -1;
    if (call->program->measure != NULL)
        call->size = call->program->measure(record_of(call)); /* UINT64_MAX is found by fits_python */
    else
        call->size = (uint64_t)call->source.size;
    return 0;
}

/* Whatever is not exact bytes is copied, whether the GIL is kept or not. Keeping it would not do: shared
 * memory is written by other processes, and a bytearray by native code that has let go of the GIL (another
 * Routine's target, for one). Fixed records need no copy: their code follows no offset found in the data, so
 * bytes that change under it give a wrong value, never a wrong address. Releases the GIL if the call does. */
static enum outcome measure_variable(struct call *call)
{
    PyThreadState *released;
    int status;

    if (call->source.is_exported) {
        call->copy = PyMem_Malloc((size_t)call->source.size); /* not NULL for 0 bytes */
        if (call->copy == NULL) {
            PyErr_NoMemory();
            return RAISED;
        }
    }
    released = call->without_gil ? PyEval_SaveThread() : NULL;
    status = copy_verify_measure(call);
    if (released != NULL)
        PyEval_RestoreThread(released);
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
    PyThreadState *released = call->without_gil ? PyEval_SaveThread() : NULL;
    int32_t status = run_native(call);

    if (released != NULL)
        PyEval_RestoreThread(released);
    return status == 0 ? GOOD : UNUSUAL;
}

/* Bytes that are the result already are it, and are not copied. */
static int is_result(const struct call *call)
{
    return call->program->verify != NULL && call->program->convert == NULL && !call->source.is_exported;
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
        return outcome_of_error();
    call->target = (uint8_t *)PyBytes_AsString(bytes);
    return settle(convert(call), bytes, &call->result);
}

/* Only the bytes that will be written must not overlap the source; what follows them may. */
static enum outcome convert_to_view(struct call *call, const struct view *view)
{
    if ((uint64_t)view->size < call->size || overlaps(&call->source, view->bytes, call->size))
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

enum outcome echo_program_run(const struct program *program, PyObject *source, PyObject *target, PyObject **result)
{
    struct call call; /* not zeroed as a whole: that would be work in every call */
    enum outcome outcome = open_view(&call.source, source);

    if (outcome != GOOD)
        return outcome;
    call.program = program;
    call.argument = source;
    call.copy = NULL;
    call.without_gil = call.source.size > GIL_RELEASE_BYTES;
    outcome = measure_and_convert(&call, target);
    if (call.copy != NULL)
        PyMem_Free(call.copy);
    close_view(&call.source);
    if (outcome == GOOD)
        *result = call.result;
    return outcome;
}
