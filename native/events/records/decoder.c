/* The type Decoder: decode(data) and decode_many(data) to events.
 *
 * A new event is made and its record filled in, by native code that was installed or by a copy; an event of
 * a class with variable parts holds on to the bytes they are in, which the caller has verified. Whatever does
 * not pass the checks is the fallback's.
 */
#include "events/module.h"
#include "events/objects/allowance.h"
#include "events/programs.h"
#include "events/records/checks.h"

/* The Python object. */
struct decoder {
    struct runner runner; /* first; the fallbacks are for one record and for many, the program for fixed records, or it
                           * copies */
    struct shape *shape;  /* owned; bound, unless the GC has cleared it */
    PyObject *after;      /* owned; called with each event that was made, unless None */
    PyObject *convert;    /* owned; verifies a sender's record and makes it ours. NULL: it is, see install_copy */
    struct runner *routine;      /* borrowed from convert: whose call it is; NULL where it is any other callable */
    struct allowance *allowance; /* owned; of what convert has made; NULL: it may be any number of objects */
};

/* --- one event --- */

/* Fills in the record of a new object. Runs no Python code. */
static inline enum outcome fill(const struct shape *shape, const struct program *program, PyObject *object,
                                const uint8_t *source)
{
    uint8_t *record = record_of(shape, object);
    int changed = 0;

    if (program->fixed == NULL)
        copy(record, source, shape->size);
    else if (program->fixed(source, record, 1) != 0)
        return UNUSUAL;
    if (!is_readable(shape, record, &changed))
        return UNUSUAL;
    if (changed && shape->state != 0)
        ((uint8_t *)object)[shape->state] = STALE;
    return GOOD;
}

/* Runs what the class wants to be run on a new event. */
static enum outcome call_after(const struct decoder *decoder, PyObject *object)
{
    PyObject *result;

    if (decoder->after == Py_None)
        return GOOD;
    result = PyObject_CallFunctionObjArgs(decoder->after, object, NULL);
    Py_XDECREF(result);
    return result != NULL ? GOOD : RAISED;
}

/* One event from as many bytes as the sender's record has; whole: what it is to hold on to, or NULL. On GOOD *result is
 * the caller's. */
static inline enum outcome decode_one(const struct decoder *decoder, const struct program *program,
                                      const uint8_t *source, PyObject *whole, PyObject **result)
{
    const struct shape *shape = decoder->shape;
    PyObject *object = echo_record_new(shape);
    enum outcome outcome;

    if (object == NULL)
        return RAISED;
    if (whole != NULL) {
        ((uint8_t *)object)[shape->state] = PRISTINE;
        *slot_at(object, shape->source) = Py_NewRef(whole);
    }
    outcome = fill(shape, program, object, source);
    if (outcome == GOOD)
        outcome = call_after(decoder, object);
    return settle(outcome, object, result);
}

/* A whole record with its parts: the event holds bytes that hold nothing else. */
static enum outcome decode_whole(const struct decoder *decoder, const struct program *program, const uint8_t *record,
                                 Py_ssize_t size, PyObject *held, PyObject **result)
{
    PyObject *whole;
    Py_ssize_t whole_size;
    enum outcome outcome;

    if (size < decoder->shape->size)
        return UNUSUAL;
    whole = held != NULL ? Py_NewRef(held) : bytes_in_turn(record, size);
    if (whole == NULL)
        return RAISED;
    outcome = decode_one(decoder, program, bytes_of(whole, &whole_size), whole, result);
    Py_DECREF(whole);
    return outcome;
}

static inline int is_installed(const struct decoder *decoder)
{
    return decoder->runner.program != NULL && decoder->shape->owner != NULL;
}

/* Runs what is installed now, also when it is replaced meanwhile. */
static inline enum outcome decode_record(struct shell *shell, const uint8_t *record, Py_ssize_t size, PyObject *held,
                                         PyObject **result)
{
    struct decoder *decoder = (struct decoder *)shell;
    struct program *program = decoder->runner.program;
    enum outcome outcome = UNUSUAL;

    if (!is_installed(decoder))
        return UNUSUAL;
    program->users++;
    if (decoder->shape->source != 0)
        outcome = decode_whole(decoder, program, record, size, held, result);
    else if ((uint64_t)size == program->source_size)
        outcome = decode_one(decoder, program, record, NULL, result);
    program_release(program);
    return outcome;
}

/* --- many events --- */

/* list: new, of `count` NULLs; filled from the start. */
static enum outcome decode_each(const struct decoder *decoder, const struct program *program, const uint8_t *source,
                                PyObject *list, Py_ssize_t count)
{
    PyObject *event = NULL;
    struct turn turn = {.done = 0};
    Py_ssize_t i;

    for (i = 0; i < count; i++, source += program->source_size) {
        enum outcome outcome = decode_one(decoder, program, source, NULL, &event);

        if (outcome != GOOD)
            return outcome;
        PyList_SetItem(list, i, event); /* steals; cannot fail */
        turn_count(&turn, 1);
    }
    return GOOD;
}

/* Records with parts have no size by which many could be told apart. */
static enum outcome decode_all(struct shell *shell, const uint8_t *records, Py_ssize_t size, PyObject *held,
                               PyObject **result)
{
    struct decoder *decoder = (struct decoder *)shell;
    struct program *program = decoder->runner.program;
    enum outcome outcome;
    PyObject *list;

    (void)held;
    if (!is_installed(decoder) || decoder->shape->source != 0 || (uint64_t)size % program->source_size != 0)
        return UNUSUAL;
    list = PyList_New((Py_ssize_t)((uint64_t)size / program->source_size));
    if (list == NULL)
        return RAISED;
    program->users++;
    outcome = decode_each(decoder, program, records, list, PyList_Size(list));
    program_release(program);
    return settle(outcome, list, result);
}

/* --- the calls --- */

/* An event of a record that is ours. */
WITH_STEP static PyObject *decode_ours(struct decoder *decoder, PyObject *data)
{
    return decode(&decoder->runner.shell, decode_record, decoder->runner.shell.fallbacks[0], data);
}

/* What all fields would become when they are read. */
static inline int is_allowed(const struct decoder *decoder, PyObject *ours)
{
    Py_ssize_t size;
    const uint8_t *bytes;

    if (decoder->allowance == NULL || !PyBytes_CheckExact(ours))
        return 1;
    bytes = bytes_of(ours, &size);
    return allows(decoder->allowance, bytes, size) == GOOD;
}

/* An event of a sender's record, which is verified first, and made ours unless it is. */
static PyObject *decode_converted(struct decoder *decoder, PyObject *data)
{
    PyObject *result, *ours;

    if (decoder->routine != NULL)
        ours = echo_routine_convert(decoder->routine, data);
    else
        ours = PyObject_CallFunctionObjArgs(decoder->convert, data, NULL);
    if (ours == NULL)
        return NULL;
    result = is_allowed(decoder, ours) ? decode_ours(decoder, ours) : NULL;
    Py_DECREF(ours);
    return result;
}

static PyObject *decoder_decode(PyObject *self, PyObject *data)
{
    struct decoder *decoder = (struct decoder *)self;

    return decoder->convert != NULL ? decode_converted(decoder, data) : decode_ours(decoder, data);
}

WITH_STEP static PyObject *decoder_decode_raw(PyObject *self, const uint8_t *record, Py_ssize_t size)
{
    struct decoder *decoder = (struct decoder *)self;
    PyObject *data, *result;

    if (decoder->convert == NULL)
        return decode_raw(&decoder->runner.shell, decode_record, decoder->runner.shell.fallbacks[0], record, size);
    data = bytes_in_turn(record, size);
    result = data != NULL ? decode_converted(decoder, data) : NULL;
    Py_XDECREF(data);
    return result;
}

/* Whether a record is copied into its event before anything looks at it. */
static int is_copied_first(const struct decoder *decoder, Py_ssize_t size)
{
    return is_installed(decoder) && decoder->runner.program->fixed == NULL && decoder->convert == NULL &&
           decoder->shape->source == 0 && size == decoder->shape->size;
}

/* What is not good is copied, and said of the copy. */
static PyObject *decoder_decode_shared(PyObject *self, const uint8_t *record, Py_ssize_t size)
{
    struct shell *shell = (struct shell *)self;
    PyObject *data, *result = NULL;
    enum outcome outcome = UNUSUAL;

    if (is_copied_first((struct decoder *)self, size))
        outcome = decode_record(shell, record, size, NULL, &result);
    shell->compiled += outcome == GOOD;
    if (outcome != UNUSUAL)
        return result;
    data = bytes_in_turn(record, size);
    result = data != NULL ? decoder_decode_raw(self, (uint8_t *)PyBytes_AsString(data), size) : NULL;
    Py_XDECREF(data);
    return result;
}

WITH_STEP static PyObject *decoder_decode_many(PyObject *self, PyObject *data)
{
    struct shell *shell = (struct shell *)self;

    return decode(shell, decode_all, shell->fallbacks[1], data);
}

static const unsigned long long *count_of(PyObject *self, PyObject **next)
{
    struct decoder *decoder = (struct decoder *)self;

    *next = decoder->convert;
    return &decoder->runner.shell.interpreted;
}

static const struct raw_codec raw_codecs[] = {
    {.call = decoder_decode, .decode = decoder_decode_raw, .decode_shared = decoder_decode_shared, .count = count_of},
    {.call = NULL}};

/* --- installing --- */

static PyObject *decoder_install_fixed(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"convert", "source_size", "keep_alive", NULL};
    struct decoder *decoder = (struct decoder *)self;
    struct program program = {.users = 0};
    unsigned long long convert, source_size;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KKO:install_fixed", names, &convert, &source_size,
                                     &program.keep_alive))
        return NULL;
    if (convert == 0 || convert > UINTPTR_MAX || source_size == 0 || decoder->shape->source != 0)
        return PyErr_Format(PyExc_ValueError, "Expected a native function, records of a size, and no variable parts");
    program.fixed = (convert_fixed *)(uintptr_t)convert;
    program.source_size = source_size;
    return echo_runner_install(self, &program);
}

static PyObject *decoder_install_copy(PyObject *self, PyObject *unused)
{
    uint64_t size = (uint64_t)((struct decoder *)self)->shape->size;

    (void)unused;
    return echo_runner_install(self, &(struct program){.source_size = size, .keep_alive = Py_None});
}

/* install_converted(convert, allowance): a callable from a sender's record to one of ours, as bytes. */
static PyObject *decoder_install_converted(PyObject *self, PyObject *args)
{
    struct decoder *decoder = (struct decoder *)self;
    PyObject *convert, *allowance = Py_None;

    if (!PyArg_ParseTuple(args, "O|O:install_converted", &convert, &allowance))
        return NULL;
    if (allowance != Py_None && !Py_IS_TYPE(allowance, sibling(Py_TYPE(self), ALLOWANCE)))
        return PyErr_Format(PyExc_TypeError, "Expected an Allowance or None, got %R", allowance);
    if (decoder->convert != NULL)
        return PyErr_Format(PyExc_RuntimeError, "a conversion has been installed already");
    decoder->convert = Py_NewRef(convert);
    decoder->routine = echo_routine_of(Py_TYPE(self), convert);
    decoder->allowance = allowance != Py_None ? (struct allowance *)Py_NewRef(allowance) : NULL;
    return decoder_install_copy(self, NULL);
}

/* --- the type --- */

static const Py_ssize_t owned[] = {offsetof(struct decoder, shape), offsetof(struct decoder, after),
                                   offsetof(struct decoder, convert), offsetof(struct decoder, allowance), 0};

static PyObject *decoder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"shape", "after", "fallback", "fallback_many", NULL};
    PyObject *shape, *after, *fallback, *fallback_many;
    struct decoder *decoder;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOO:Decoder", names, sibling(type, SHAPE), &shape, &after,
                                     &fallback, &fallback_many))
        return NULL;
    if (echo_record_demand_bound(shape) != 0)
        return NULL;
    decoder = (struct decoder *)echo_shell_new(type, owned, fallback, fallback_many);
    if (decoder == NULL)
        return NULL;
    decoder->shape = (struct shape *)Py_NewRef(shape);
    decoder->after = Py_NewRef(after);
    return (PyObject *)decoder;
}

static int decoder_tp_clear(PyObject *self)
{
    struct decoder *decoder = (struct decoder *)self;
    int status = echo_runner_tp_clear(self); /* first: without a program nothing below is used */

    Py_CLEAR(decoder->after);
    decoder->routine = NULL;
    Py_CLEAR(decoder->convert);
    return status;
}

static PyMethodDef decoder_methods[] = {
    {"decode", decoder_decode, METH_O, PyDoc_STR("decode($self, data, /)\n--\n\nThe event of one record.")},
    {"decode_many", decoder_decode_many, METH_O,
     PyDoc_STR("decode_many($self, data, /)\n--\n\nThe events of many records, one after another.")},
    {"install_fixed", (PyCFunction)(void (*)(void))decoder_install_fixed, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("install_fixed($self, /, convert, source_size, keep_alive)\n--\n\n"
               "From now on native code converts the sender's records straight into new events.")},
    {"install_copy", decoder_install_copy, METH_NOARGS,
     PyDoc_STR("install_copy($self, /)\n--\n\n"
               "From now on a sender's records are taken to be of this layout; the caller has verified their "
               "variable parts.")},
    {"install_converted", decoder_install_converted, METH_VARARGS,
     PyDoc_STR("install_converted($self, convert, allowance=None, /)\n--\n\n"
               "From now on events are made of what convert(data) makes of a sender's record. Once.")},
    {"clear", echo_runner_clear, METH_NOARGS,
     PyDoc_STR("clear($self, /)\n--\n\nFrom now on calls go to the fallbacks.")},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef decoder_properties[] = {
    {"is_compiled", echo_runner_is_compiled, NULL, PyDoc_STR("Whether something is installed."), NULL},
    RAW_CODECS_PROPERTY(raw_codecs),
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot decoder_slots[] = {
    {Py_tp_doc, PyDoc_STR("Decoder(shape, after, fallback, fallback_many)\n--\n\n"
                          "Records to events, by the fallbacks until something is installed.")},
    {Py_tp_new, decoder_new},
    {Py_tp_dealloc, echo_shell_dealloc},
    {Py_tp_traverse, echo_runner_traverse},
    {Py_tp_clear, decoder_tp_clear},
    {Py_tp_methods, decoder_methods},
    {Py_tp_members, echo_shell_members},
    {Py_tp_getset, decoder_properties},
    {0, NULL}};

PyType_Spec echo_record_decoder_spec = {
    .name = "echo_core._c.events.Decoder",
    .basicsize = sizeof(struct decoder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = decoder_slots,
};
