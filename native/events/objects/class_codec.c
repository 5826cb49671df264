/* The type ClassCodec: calls of compiled code for one direction between the events of a class and its records.
 *
 * The code that is installed here (a Code) is made at run time for one class: it reads an instance's slots and writes
 * its record, or makes an instance from a record. What it cannot do by itself it leaves to a Value (see
 * echo_write_field and echo_read_field); what they cannot do goes to the fallback.
 */
#include "events/module.h"
#include "events/objects/objects.h"
#include "events/programs.h"

/* Records up to this size are converted on the stack before they are decoded. */
#define STACK_BYTES 1024

/* The Python object. What is installed stays for ever, as calls may be in it. */
struct class_codec {
    struct shell shell;       /* first; the fallback does one event or one record */
    struct code *code;        /* owned; NULL until it is installed */
    PyObject *keep_alive;     /* owned; what holds the conversion's code. NULL like the above. Both stay until nobody
                               * can call any more: tp_clear takes only the fallback */
    PyObject *const *context; /* the code's, as are the functions below; here to be near */
    Py_ssize_t size;          /* of a native record */
    Py_ssize_t source_size;   /* of a sender's record; `size` where no conversion is needed */
    encode_function *encode;  /* NULL, as the two below: not installed, or not for this direction */
    encode_many_function *encode_many;
    decode_function *decode;
    convert_fixed *convert; /* NULL where the sender's layout is the native one */
};

/* --- encoding --- */

static inline enum outcome write_record(const struct class_codec *codec, PyObject *event, uint8_t *target)
{
    return codec->encode(event, target, codec->context) == 0 ? GOOD : outcome_of_error();
}

static inline enum outcome encode_one(const struct class_codec *codec, PyObject *event, PyObject **record)
{
    PyObject *bytes;

    if (codec->encode == NULL)
        return UNUSUAL;
    bytes = PyBytes_FromStringAndSize(NULL, codec->size);
    if (bytes == NULL)
        return RAISED;
    return settle(write_record(codec, event, (uint8_t *)PyBytes_AsString(bytes)), bytes, record);
}

static PyObject *codec_encode(PyObject *self, PyObject *event)
{
    struct class_codec *codec = (struct class_codec *)self;
    PyObject *record = NULL;
    enum outcome outcome = encode_one(codec, event, &record);

    return finish(&codec->shell, outcome, record, codec->shell.fallbacks[0], event);
}

static inline enum outcome encode_into(struct shell *shell, PyObject *event, uint8_t *room, Py_ssize_t size,
                                       PyObject **record, Py_ssize_t *written)
{
    const struct class_codec *codec = (struct class_codec *)shell;

    if (codec->encode == NULL || codec->size > size)
        return encode_one(codec, event, record);
    *written = codec->size;
    return write_record(codec, event, room);
}

WITH_STEP static int codec_encode_raw(PyObject *self, PyObject *event, uint8_t *room, Py_ssize_t size,
                                      PyObject **record, Py_ssize_t *written)
{
    return encode_raw((struct shell *)self, encode_into, event, room, size, record, written);
}

static Py_ssize_t codec_measure(PyObject *self, PyObject *event)
{
    (void)event;
    return ((struct class_codec *)self)->size;
}

/* --- encoding many --- */

/* One event into its place among many. -1 with an exception. */
static int encode_in_place(PyObject *self, PyObject *event, uint8_t *target)
{
    struct class_codec *codec = (struct class_codec *)self;
    PyObject *record = NULL;
    Py_ssize_t written = 0;

    if (codec_encode_raw(self, event, target, codec->size, &record, &written) != 0)
        return -1;
    if (record == NULL)
        return 0;
    if (PyBytes_Check(record) && PyBytes_Size(record) == codec->size) {
        memcpy(target, PyBytes_AsString(record), (size_t)codec->size);
        written = codec->size;
    } else
        PyErr_SetString(PyExc_SystemError, "the fallback gave something else than a record");
    Py_DECREF(record);
    return written == codec->size ? 0 : -1;
}

/* The events of a tuple that nobody else can change. -1 with an exception. */
static int encode_each(struct class_codec *codec, PyObject *events, uint8_t *target)
{
    struct turn turn = {.done = 0};
    Py_ssize_t i, count = PyTuple_Size(events);

    for (i = 0; i < count; i++, target += codec->size) {
        if (encode_in_place((PyObject *)codec, PyTuple_GetItem(events, i), target) != 0)
            return -1;
        turn_count(&turn, 1);
    }
    return 0;
}

/* What is left of a list after an event that compiled code could not do. The fallback may run any Python code, so the
 * rest is done from a tuple. */
static int encode_rest(struct class_codec *codec, PyObject *list, Py_ssize_t done, Py_ssize_t count, uint8_t *target)
{
    PyObject *rest = PyList_GetSlice(list, done, count), *events = rest != NULL ? PyList_AsTuple(rest) : NULL;
    int status = -1;

    if (events != NULL && PyTuple_Size(events) != count - done)
        PyErr_SetString(PyExc_RuntimeError, "the list changed its size while it was encoded");
    else if (events != NULL)
        status = encode_each(codec, events, target + done * codec->size);
    Py_XDECREF(rest);
    Py_XDECREF(events);
    return status;
}

/* How many of the items from `done` on compiled code has read by itself: a turn's, or what is left of the list. */
static Py_ssize_t encode_some(const struct class_codec *codec, PyObject *list, Py_ssize_t done, uint8_t *target)
{
    Py_ssize_t left = PyList_Size(list) - done;
    PyObject *const *items;

    /* PyListObject: head, size, items; held to a real list before code is installed */
    memcpy(&items, (const char *)list + sizeof(PyObject) + sizeof(Py_ssize_t), sizeof items);
    return (Py_ssize_t)codec->encode_many(items + done, left < TURN_OBJECTS ? left : TURN_OBJECTS,
                                          target + done * codec->size, codec->context);
}

/* A list that stays as long as it is: between turns others may have changed it. */
static int encode_list(struct class_codec *codec, PyObject *list, uint8_t *target)
{
    struct turn turn = {.done = 0};
    Py_ssize_t some = TURN_OBJECTS, done = 0, count = PyList_Size(list);

    while (some == TURN_OBJECTS && PyList_Size(list) == count) {
        some = encode_some(codec, list, done, target);
        done += some;
        turn_count(&turn, some);
    }
    codec->shell.compiled += (unsigned long long)done;
    if (done == count)
        return 0;
    return outcome_of_error() == RAISED ? -1 : encode_rest(codec, list, done, count, target);
}

static PyObject *new_records(const struct class_codec *codec, Py_ssize_t count)
{
    if (count > PY_SSIZE_T_MAX / codec->size)
        return PyErr_NoMemory();
    return PyBytes_FromStringAndSize(NULL, count * codec->size);
}

static PyObject *codec_encode_many(PyObject *self, PyObject *events)
{
    struct class_codec *codec = (struct class_codec *)self;
    int status, is_direct = PyList_CheckExact(events) && codec->encode_many != NULL && !codec->code->runs_python;
    PyObject *records, *held = is_direct ? Py_NewRef(events) : PySequence_Tuple(events);

    if (held == NULL)
        return NULL;
    records = new_records(codec, is_direct ? PyList_Size(held) : PyTuple_Size(held));
    if (records != NULL) {
        uint8_t *target = (uint8_t *)PyBytes_AsString(records);

        status = is_direct ? encode_list(codec, held, target) : encode_each(codec, held, target);
        if (status != 0)
            Py_CLEAR(records);
    }
    Py_DECREF(held);
    return records;
}

/* --- decoding --- */

/* A record of another layout is converted first, on the stack or else the heap. */
static PyObject *decode_converted(const struct class_codec *codec, const uint8_t *source)
{
    uint64_t stack[STACK_BYTES / sizeof(uint64_t)];
    uint8_t *heap = codec->size > STACK_BYTES ? PyMem_Malloc((size_t)codec->size) : NULL;
    uint8_t *record = codec->size > STACK_BYTES ? heap : (uint8_t *)stack;
    PyObject *event = NULL;

    if (record == NULL)
        return PyErr_NoMemory();
    if (codec->convert(source, record, 1) == 0)
        event = codec->decode(record, codec->context);
    PyMem_Free(heap);
    return event;
}

/* The bytes may change under the code, which follows nothing that it finds in them. */
static inline enum outcome decode_record(struct shell *shell, const uint8_t *record, Py_ssize_t size, PyObject *held,
                                         PyObject **event)
{
    const struct class_codec *codec = (struct class_codec *)shell;

    (void)held;
    if (codec->decode == NULL || size != codec->source_size)
        return UNUSUAL;
    *event = codec->convert != NULL ? decode_converted(codec, record) : codec->decode(record, codec->context);
    return *event != NULL ? GOOD : outcome_of_error();
}

WITH_STEP static PyObject *codec_decode(PyObject *self, PyObject *data)
{
    struct shell *shell = (struct shell *)self;

    return decode(shell, decode_record, shell->fallbacks[0], data);
}

WITH_STEP static PyObject *codec_decode_raw(PyObject *self, const uint8_t *record, Py_ssize_t size)
{
    struct shell *shell = (struct shell *)self;

    return decode_raw(shell, decode_record, shell->fallbacks[0], record, size);
}

/* Its own fallback is a Walker's function, which is no Python code. */
static const unsigned long long *count_of(PyObject *self, PyObject **next)
{
    *next = ((struct shell *)self)->fallbacks[0];
    return NULL;
}

/* One record it is not, so the fallback raises. */
static PyObject *refuse_records(struct shell *shell, PyObject *data)
{
    PyObject *event = fall_back(shell, shell->fallbacks[0], data);

    if (event == NULL)
        return NULL;
    Py_DECREF(event);
    PyErr_SetString(PyExc_SystemError, "the fallback took what is no whole number of records");
    return NULL;
}

static PyObject *decode_each(PyObject *self, const uint8_t *source, Py_ssize_t count)
{
    PyObject *event, *events = PyList_New(count);
    struct turn turn = {.done = 0};
    Py_ssize_t i, size = ((struct class_codec *)self)->source_size;

    for (i = 0; events != NULL && i < count; i++, source += size) {
        event = codec_decode_raw(self, source, size);
        if (event != NULL)
            PyList_SetItem(events, i, event);
        else
            Py_CLEAR(events);
        turn_count(&turn, 1);
    }
    return events;
}

static PyObject *codec_decode_many(PyObject *self, PyObject *buffer)
{
    struct class_codec *codec = (struct class_codec *)self;
    PyObject *data, *events;
    enum outcome outcome = take_bytes(buffer, &data);

    if (outcome != GOOD)
        return finish(&codec->shell, outcome, NULL, codec->shell.fallbacks[0], buffer);
    if (PyBytes_Size(data) % codec->source_size != 0)
        events = refuse_records(&codec->shell, data);
    else
        events = decode_each(self, (uint8_t *)PyBytes_AsString(data), PyBytes_Size(data) / codec->source_size);
    Py_DECREF(data);
    return events;
}

static const struct raw_codec raw_codecs[] = {
    {.call = codec_encode, .encode = codec_encode_raw, .measure = codec_measure},
    {.call = codec_decode, .decode = codec_decode_raw, .count = count_of},
    {.call = NULL}};

/* --- installing code --- */

/* install(code, encodes, decodes, convert, keep_alive): convert is an address, 0 where there is none. Once
 * only: what runs can then never be taken away from under it. */
static PyObject *codec_install(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"code", "encodes", "decodes", "convert", "keep_alive", NULL};
    struct class_codec *codec = (struct class_codec *)self;
    unsigned long long convert;
    PyObject *code, *keep_alive;
    int encodes, decodes;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!ppKO:install", names, sibling(Py_TYPE(self), CODE), &code,
                                     &encodes, &decodes, &convert, &keep_alive))
        return NULL;
    if (codec->code != NULL)
        return PyErr_Format(PyExc_RuntimeError, "code has been installed already");
    if (((struct code *)code)->size != codec->size)
        return PyErr_Format(PyExc_ValueError, "expected code for records of this size");
    codec->code = (struct code *)Py_NewRef(code);
    codec->keep_alive = Py_NewRef(keep_alive);
    codec->context = codec->code->context;
    codec->convert = (convert_fixed *)(uintptr_t)convert;
    codec->encode = encodes ? codec->code->encode : NULL;
    codec->encode_many = encodes ? codec->code->encode_many : NULL;
    codec->decode = decodes ? codec->code->decode : NULL;
    Py_RETURN_NONE;
}

/* --- the type --- */

static const Py_ssize_t owned[] = {offsetof(struct class_codec, code), offsetof(struct class_codec, keep_alive), 0};

static PyObject *codec_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fallback", "size", "source_size", NULL};
    PyObject *fallback;
    Py_ssize_t size, source_size;
    struct class_codec *codec;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Onn:ClassCodec", names, &fallback, &size, &source_size))
        return NULL;
    if (size <= 0 || source_size <= 0)
        return PyErr_Format(PyExc_ValueError, "expected sizes above 0");
    codec = (struct class_codec *)echo_shell_new(type, owned, fallback, NULL);
    if (codec == NULL)
        return NULL;
    codec->size = size;
    codec->source_size = source_size;
    return (PyObject *)codec;
}

static PyObject *codec_is_compiled(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct class_codec *)self)->code != NULL);
}

static PyMethodDef codec_methods[] = {
    {"encode", codec_encode, METH_O, PyDoc_STR("encode($self, event, /)\n--\n\nThe record of one event.")},
    {"encode_many", codec_encode_many, METH_O,
     PyDoc_STR("encode_many($self, events, /)\n--\n\nThe records of many events, one after another.")},
    {"decode", codec_decode, METH_O, PyDoc_STR("decode($self, data, /)\n--\n\nThe event of one record.")},
    {"decode_many", codec_decode_many, METH_O,
     PyDoc_STR("decode_many($self, data, /)\n--\n\nThe events of many records, as a list.")},
    {"install", (PyCFunction)(void (*)(void))codec_install, METH_VARARGS | METH_KEYWORDS,
     PyDoc_STR("install($self, /, code, encodes, decodes, convert, keep_alive)\n--\n\nCompiled code takes over.")},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef codec_properties[] = {
    {"is_compiled", codec_is_compiled, NULL, PyDoc_STR("Whether code has been installed."), NULL},
    RAW_CODECS_PROPERTY(raw_codecs),
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot codec_slots[] = {
    {Py_tp_doc, PyDoc_STR("ClassCodec(fallback, size, source_size)\n--\n\n"
                          "One direction between the events of a class and records of a size.")},
    {Py_tp_new, codec_new},
    {Py_tp_dealloc, echo_shell_dealloc},
    {Py_tp_traverse, echo_shell_traverse},
    {Py_tp_clear, echo_shell_clear},
    {Py_tp_methods, codec_methods},
    {Py_tp_members, echo_shell_members},
    {Py_tp_getset, codec_properties},
    {0, NULL}};

PyType_Spec echo_object_class_codec_spec = {
    .name = "echo_core._c.events.ClassCodec",
    .basicsize = sizeof(struct class_codec),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = codec_slots,
};
