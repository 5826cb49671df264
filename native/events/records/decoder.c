/* The type Decoder: call(data) and call_many(data) to events.
 *
 * A new event is made and its record filled in, by native code that was installed or by a copy; an event of
 * a class with variable parts holds on to the bytes they are in, which the caller has verified. Whatever does
 * not pass the checks is the fallback's.
 */
#include "events/records/checks.h"
#include "events/records/codec.h"

/* What is compiled. It may not call Python, block, or keep a pointer; it takes its source and target at any
 * alignment, and never reads back what it wrote to the target. 0 means success. */
typedef int32_t convert_fixed(const uint8_t *source, uint8_t *target, uint64_t count);

/* An installed conversion. Never changed once published, only replaced. */
struct program {
    uint64_t users;         /* the Decoder that publishes it and the calls that run it; 0 frees it */
    PyObject *keep_alive;   /* owned; whatever owns the machine code. Never NULL */
    convert_fixed *convert; /* NULL: the sender's record is ours, and is copied */
    uint64_t source_size;   /* bytes of one source record, at least 1 */
};

/* The Python object. */
struct decoder {
    struct codec codec;      /* first */
    struct program *program; /* counted in program->users; NULL: nothing is installed */
    PyObject *after;         /* owned; called with each event that was made, unless None */
    PyObject *convert;       /* owned; verifies a sender's record and makes it ours. NULL: it is, see install_copy */
};

/* --- programs --- */

/* Returns a program with one user; NULL with MemoryError. Takes its own reference. */
static struct program *program_new(convert_fixed *convert, uint64_t source_size, PyObject *keep_alive)
{
    struct program *program = PyMem_Calloc(1, sizeof *program);

    if (program == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    program->users = 1;
    program->convert = convert;
    program->source_size = source_size;
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
static void publish(struct decoder *decoder, struct program *program)
{
    struct program *old = decoder->program;

    decoder->program = program; /* first: the line below may run Python code that looks at it */
    program_release(old);
}

/* --- one event --- */

/* A new object whose record is not filled in. The slots are NULL, the state is ABSENT. */
static inline PyObject *event_new(const struct shape *shape)
{
    PyObject *object;

    if (!shape->is_plain)
        return PyType_GenericAlloc(shape->owner, 0); /* zeroed */
    object = PyObject_Malloc((size_t)shape->object_size);
    if (object == NULL)
        return PyErr_NoMemory();
    return PyObject_Init(object, shape->owner);
}

/* Fills in the record of a new object. Runs no Python code. */
static inline enum outcome fill(const struct shape *shape, const struct program *program, PyObject *object,
                                const uint8_t *source)
{
    uint8_t *record = record_of(shape, object);
    int changed = 0;

    if (program->convert == NULL)
        copy(record, source, shape->size);
    else if (program->convert(source, record, 1) != 0)
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
    result = call_one(decoder->after, object);
    Py_XDECREF(result);
    return result != NULL ? GOOD : RAISED;
}

/* One event from as many bytes as the sender's record has. On GOOD *result is the caller's. */
static inline enum outcome decode_one(const struct decoder *decoder, const struct program *program,
                                      const uint8_t *source, PyObject *whole, PyObject **result)
{
    const struct shape *shape = decoder->codec.shape;
    PyObject *object = event_new(shape);
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
    if (outcome == GOOD)
        *result = object;
    else
        Py_DECREF(object);
    return outcome;
}

/* --- the bytes of an argument --- */

/* Open for one call; lives on the stack. */
struct view {
    uint8_t *bytes;   /* borrowed from the argument */
    Py_ssize_t size;  /* how many there are */
    int is_exported;  /* 1: buffer is filled in and is ours to release; 0: buffer is not touched */
    Py_buffer buffer; /* keeps the bytes where they are */
};

/* Exact bytes need no export: the caller's reference keeps them, and they neither move nor change. */
static enum outcome open_view(struct view *view, PyObject *data)
{
    char *bytes;

    view->is_exported = 0;
    if (PyBytes_CheckExact(data)) {
        PyBytes_AsStringAndSize(data, &bytes, &view->size); /* cannot fail on bytes */
        view->bytes = (uint8_t *)bytes;
        return GOOD;
    }
    if (PyObject_GetBuffer(data, &view->buffer, PyBUF_SIMPLE) != 0) {
        if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception))
            return RAISED;
        PyErr_Clear();
        return UNUSUAL;
    }
    view->is_exported = 1;
    view->bytes = view->buffer.buf;
    view->size = view->buffer.len;
    return GOOD;
}

/* May run any code, where an exporter is written in Python. */
static void close_view(struct view *view)
{
    if (view->is_exported)
        PyBuffer_Release(&view->buffer);
}

/* --- all that a call brings --- */

/* A whole record with its parts: the event holds bytes that hold nothing else. */
static enum outcome decode_whole(const struct decoder *decoder, const struct program *program,
                                 const struct view *view, PyObject *data, PyObject **result)
{
    PyObject *whole;
    enum outcome outcome;

    if (view->size < decoder->codec.shape->size)
        return UNUSUAL;
    whole = view->is_exported ? PyBytes_FromStringAndSize((char *)view->bytes, view->size) : Py_NewRef(data);
    if (whole == NULL)
        return RAISED;
    outcome = decode_one(decoder, program, (uint8_t *)PyBytes_AsString(whole), whole, result);
    Py_DECREF(whole);
    return outcome;
}

static enum outcome decode_view(const struct decoder *decoder, const struct program *program,
                                const struct view *view, PyObject *data, PyObject **result)
{
    if (decoder->codec.shape->source != 0)
        return decode_whole(decoder, program, view, data, result);
    if ((uint64_t)view->size != program->source_size)
        return UNUSUAL;
    return decode_one(decoder, program, view->bytes, NULL, result);
}

/* list: new, of `count` NULLs; filled from the start. */
static enum outcome decode_each(const struct decoder *decoder, const struct program *program,
                                const struct view *view, PyObject *list, Py_ssize_t count)
{
    const uint8_t *source = view->bytes;
    PyObject *event = NULL;
    Py_ssize_t i;

    for (i = 0; i < count; i++, source += program->source_size) {
        enum outcome outcome = decode_one(decoder, program, source, NULL, &event);

        if (outcome != GOOD)
            return outcome;
        PyList_SetItem(list, i, event); /* steals; cannot fail */
    }
    return GOOD;
}

/* Records with parts have no size by which many could be told apart. */
static enum outcome decode_all(const struct decoder *decoder, const struct program *program,
                               const struct view *view, PyObject *data, PyObject **result)
{
    uint64_t size = (uint64_t)view->size, count = size / program->source_size;
    enum outcome outcome;
    PyObject *list;

    (void)data;
    if (decoder->codec.shape->source != 0 || count * program->source_size != size)
        return UNUSUAL;
    list = PyList_New((Py_ssize_t)count);
    if (list == NULL)
        return RAISED;
    outcome = decode_each(decoder, program, view, list, (Py_ssize_t)count);
    if (outcome == GOOD)
        *result = list;
    else
        Py_DECREF(list);
    return outcome;
}

/* What attempt runs. On GOOD *result is the caller's. */
typedef enum outcome decode_step(const struct decoder *, const struct program *, const struct view *,
                                 PyObject *data, PyObject **result);

/* --- the calls --- */

/* Runs what is installed now, also when it is replaced meanwhile. Inlined together with its step. */
static inline enum outcome run_step(struct decoder *decoder, decode_step *step, const struct view *view,
                                    PyObject *data, PyObject **result)
{
    struct program *program = decoder->program;
    enum outcome outcome;

    program->users++;
    outcome = step(decoder, program, view, data, result);
    program_release(program);
    return outcome;
}

static inline int is_installed(const struct decoder *decoder)
{
    return decoder->program != NULL && decoder->codec.shape != NULL && decoder->codec.shape->owner != NULL;
}

static inline enum outcome attempt(struct decoder *decoder, decode_step *step, PyObject *data,
                                   PyObject **result)
{
    struct view view; /* not zeroed as a whole: that would be work in every call */
    enum outcome outcome;

    if (!is_installed(decoder))
        return UNUSUAL;
    outcome = open_view(&view, data);
    if (outcome != GOOD)
        return outcome;
    if (is_installed(decoder)) /* a buffer may be opened by Python code */
        outcome = run_step(decoder, step, &view, data, result);
    else
        outcome = UNUSUAL;
    close_view(&view);
    return outcome;
}

/* An event of a record that is ours. */
static PyObject *decode_ours(struct decoder *decoder, PyObject *data)
{
    PyObject *result = NULL;
    enum outcome outcome = attempt(decoder, decode_view, data, &result);

    return finish(&decoder->codec, outcome, result, decoder->codec.fallback, data);
}

/* An event of a sender's record, which is verified first, and made ours unless it is. */
static PyObject *decode_converted(struct decoder *decoder, PyObject *data)
{
    PyObject *result, *ours = call_one(decoder->convert, data);

    if (ours == NULL)
        return NULL;
    result = decode_ours(decoder, ours);
    Py_DECREF(ours);
    return result;
}

PyObject *echo_record_decode(PyObject *self, PyObject *data)
{
    struct decoder *decoder = (struct decoder *)self;

    return decoder->convert != NULL ? decode_converted(decoder, data) : decode_ours(decoder, data);
}

PyObject *echo_record_decode_raw(PyObject *self, const uint8_t *record, Py_ssize_t size)
{
    struct decoder *decoder = (struct decoder *)self;
    /* As if it were another's buffer: an event copies what it keeps. */
    struct view view = {.bytes = (uint8_t *)(uintptr_t)record, .size = size, .is_exported = 1};
    PyObject *data, *result = NULL;
    enum outcome outcome = UNUSUAL;

    if (decoder->convert == NULL && is_installed(decoder))
        outcome = run_step(decoder, decode_view, &view, NULL, &result);
    if (outcome != UNUSUAL)
        return finish(&decoder->codec, outcome, result, NULL, NULL);
    data = PyBytes_FromStringAndSize((const char *)record, size);
    if (data != NULL)
        result = decoder->convert != NULL ? decode_converted(decoder, data)
                                          : finish(&decoder->codec, UNUSUAL, NULL, decoder->codec.fallback, data);
    Py_XDECREF(data);
    return result;
}

const unsigned long long *echo_record_count(PyObject *self, PyObject **next)
{
    struct decoder *decoder = (struct decoder *)self;

    *next = decoder->convert;
    return &decoder->codec.interpreted;
}

static PyObject *decoder_call_many(PyObject *self, PyObject *data)
{
    struct decoder *decoder = (struct decoder *)self;
    PyObject *result = NULL;
    enum outcome outcome = attempt(decoder, decode_all, data, &result);

    return finish(&decoder->codec, outcome, result, decoder->codec.fallback_many, data);
}

/* --- installing --- */

static PyObject *decoder_install_fixed(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"convert", "source_size", "keep_alive", NULL};
    struct decoder *decoder = (struct decoder *)self;
    unsigned long long convert, source_size;
    PyObject *keep_alive;
    struct program *program;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KKO:install_fixed", names, &convert, &source_size,
                                     &keep_alive))
        return NULL;
    if (convert == 0 || convert > UINTPTR_MAX || source_size == 0 || decoder->codec.shape == NULL ||
        decoder->codec.shape->source != 0) {
        PyErr_SetString(PyExc_ValueError,
                        "Expected a native function, records of a size, and no variable parts");
        return NULL;
    }
    program = program_new((convert_fixed *)(uintptr_t)convert, source_size, keep_alive);
    if (program == NULL)
        return NULL;
    publish(decoder, program);
    Py_RETURN_NONE;
}

static PyObject *decoder_install_copy(PyObject *self, PyObject *unused)
{
    struct decoder *decoder = (struct decoder *)self;
    struct program *program;

    (void)unused;
    if (decoder->codec.shape == NULL)
        Py_RETURN_NONE;
    program = program_new(NULL, (uint64_t)decoder->codec.shape->size, Py_None);
    if (program == NULL)
        return NULL;
    publish(decoder, program);
    Py_RETURN_NONE;
}

/* install_converted(convert): a callable from a sender's record to one of ours, as bytes. */
static PyObject *decoder_install_converted(PyObject *self, PyObject *convert)
{
    struct decoder *decoder = (struct decoder *)self;

    if (decoder->convert != NULL)
        return PyErr_Format(PyExc_RuntimeError, "a conversion has been installed already");
    decoder->convert = Py_NewRef(convert);
    return decoder_install_copy(self, NULL);
}

static PyObject *decoder_clear(PyObject *self, PyObject *unused)
{
    (void)unused;
    publish((struct decoder *)self, NULL);
    Py_RETURN_NONE;
}

/* --- the type --- */

static PyMethodDef decode_method = {
    "decode", echo_record_decode, METH_O, PyDoc_STR("decode($self, data, /)\n--\n\nThe event of one record.")};

static PyMethodDef decode_many_method = {
    "decode_many", decoder_call_many, METH_O,
    PyDoc_STR("decode_many($self, data, /)\n--\n\nThe events of many records, one after another.")};

static PyObject *decoder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"shape", "after", "fallback", "fallback_many", NULL};
    const struct module_state *state = PyType_GetModuleState(type);
    PyObject *shape, *after, *fallback, *fallback_many;
    struct decoder *decoder;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOO:Decoder", names, state->shape_type, &shape, &after,
                                     &fallback, &fallback_many))
        return NULL;
    decoder = (struct decoder *)PyType_GenericAlloc(type, 0); /* zeroed */
    if (decoder == NULL)
        return NULL;
    decoder->after = Py_NewRef(after);
    if (echo_record_codec_init(&decoder->codec, shape, &decode_method, fallback, &decode_many_method,
                               fallback_many) != 0)
        Py_CLEAR(decoder);
    return (PyObject *)decoder;
}

/* A program that was replaced is not visited: the calls that still run it are on some stack, alive. */
static int decoder_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct decoder *decoder = (struct decoder *)self;

    Py_VISIT(decoder->after);
    Py_VISIT(decoder->convert);
    if (decoder->program != NULL)
        Py_VISIT(decoder->program->keep_alive);
    return echo_record_codec_traverse(self, visit, arg);
}

static int decoder_tp_clear(PyObject *self)
{
    struct decoder *decoder = (struct decoder *)self;

    publish(decoder, NULL); /* first: without a program nothing below is used but the fallbacks */
    Py_CLEAR(decoder->after);
    Py_CLEAR(decoder->convert);
    return echo_record_codec_clear(self);
}

static PyObject *decoder_is_compiled(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct decoder *)self)->program != NULL);
}

static PyMethodDef decoder_methods[] = {
    {"install_fixed", (PyCFunction)(void (*)(void))decoder_install_fixed, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("install_fixed($self, /, convert, source_size, keep_alive)\n--\n\n"
               "From now on native code converts the sender's records straight into new events.")},
    {"install_copy", decoder_install_copy, METH_NOARGS,
     PyDoc_STR("install_copy($self, /)\n--\n\n"
               "From now on a sender's records are taken to be of this layout; the caller has verified their "
               "variable parts.")},
    {"install_converted", decoder_install_converted, METH_O,
     PyDoc_STR("install_converted($self, convert, /)\n--\n\n"
               "From now on events are made of what convert(data) makes of a sender's record. Once.")},
    {"clear", decoder_clear, METH_NOARGS,
     PyDoc_STR("clear($self, /)\n--\n\nFrom now on calls go to the fallbacks.")},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef decoder_properties[] = {
    {"is_compiled", decoder_is_compiled, NULL, PyDoc_STR("Whether something is installed."), NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot decoder_slots[] = {
    {Py_tp_doc, PyDoc_STR("Decoder(shape, after, fallback, fallback_many)\n--\n\n"
                          "Records to events, by the fallbacks until something is installed.")},
    {Py_tp_new, decoder_new},
    {Py_tp_dealloc, echo_record_codec_dealloc},
    {Py_tp_traverse, decoder_traverse},
    {Py_tp_clear, decoder_tp_clear},
    {Py_tp_methods, decoder_methods},
    {Py_tp_members, echo_record_codec_members},
    {Py_tp_getset, decoder_properties},
    {0, NULL}};

PyType_Spec echo_record_decoder_spec = {
    .name = "echo_core._c.records.Decoder",
    .basicsize = sizeof(struct decoder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = decoder_slots,
};
