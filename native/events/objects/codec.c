/* The type Codec: calls of compiled code for one direction between the events of a class and its records.
 *
 * The code that is installed here is made at run time for one class: it reads an instance's slots and writes
 * its record, or makes an instance from a record. What it cannot do by itself it leaves to a Value (see
 * echo_write_field and echo_read_field); what they cannot do goes to the fallback, which does it or raises
 * the right error. Failure with an exception set is final; failure without one asks for the fallback.
 *
 * Every function here is called with the GIL held, keeps it, and does not block.
 */
#include "events/objects/objects.h"

/* Records up to this size are converted on the stack before they are decoded. */
#define STACK_BYTES 1024

/* As in routines.c: 0 is success. */
typedef int32_t convert_function(const uint8_t *source, uint8_t *target, uint64_t count);

struct codec {
    PyObject ob_base;        /* spelled out: PyObject_HEAD hides it */
    PyObject *fallback;      /* owned; the same for one event, slowly and with words */
    struct code *code;       /* owned; NULL until it is installed, and then for ever */
    PyObject *keep_alive;    /* owned; what holds the conversion's code, NULL like the above */
    PyObject *const *context; /* the code's, as are the functions below; here to be near */
    Py_ssize_t size;         /* of a native record */
    Py_ssize_t source_size;  /* of a sender's record; `size` where no conversion is needed */
    int runs_python;         /* whether the code may call Python functions, which may change a list */
    encode_function *encode;
    encode_many_function *encode_many;
    decode_function *decode;
    convert_function *convert; /* NULL where the sender's layout is the native one */
    uint64_t compiled;         /* events done by compiled code */
    uint64_t interpreted;      /* events done by the fallback */
};

static int codec_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct codec *codec = (struct codec *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(codec->fallback);
    Py_VISIT(codec->code);
    Py_VISIT(codec->keep_alive);
    return 0;
}

/* Only what can be part of a cycle: the code stays until nobody can call any more. */
static int codec_clear(PyObject *self)
{
    Py_CLEAR(((struct codec *)self)->fallback);
    return 0;
}

static void codec_dealloc(PyObject *self)
{
    struct codec *codec = (struct codec *)self;
    PyObject_GC_UnTrack(self);
    codec_clear(self);
    Py_XDECREF((PyObject *)codec->code);
    Py_XDECREF(codec->keep_alive);
    free_instance(self);
}

static PyObject *codec_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *fallback;
    Py_ssize_t size, source_size;
    static char *names[] = {"fallback", "size", "source_size", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Onn:Codec", names, &fallback, &size, &source_size)) {
        return NULL;
    }
    if (size <= 0 || source_size <= 0) {
        PyErr_SetString(PyExc_ValueError, "expected sizes above 0");
        return NULL;
    }
    struct codec *codec = (struct codec *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (codec != NULL) {
        codec->fallback = Py_NewRef(fallback);
        codec->size = size;
        codec->source_size = source_size;
    }
    return (PyObject *)codec;
}

static PyObject *fall_back(struct codec *codec, PyObject *argument)
{
    codec->interpreted++;
    if (codec->fallback == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this codec has been cleared");
        return NULL;
    }
    return PyObject_CallFunctionObjArgs(codec->fallback, argument, NULL);
}

/* --- Encoding --- */

PyObject *echo_codec_encode(PyObject *self, PyObject *event)
{
    struct codec *codec = (struct codec *)self;
    if (codec->encode == NULL) {
        return fall_back(codec, event);
    }
    PyObject *record = PyBytes_FromStringAndSize(NULL, codec->size);
    if (record == NULL) {
        return NULL;
    }
    if (codec->encode(event, (uint8_t *)PyBytes_AsString(record), codec->context) == 0) {
        codec->compiled++;
        return record;
    }
    Py_DECREF(record);
    return PyErr_Occurred() ? NULL : fall_back(codec, event);
}

int echo_codec_encode_raw(PyObject *self, PyObject *event, uint8_t *room, Py_ssize_t size, PyObject **record,
                          Py_ssize_t *written)
{
    struct codec *codec = (struct codec *)self;
    if (codec->encode == NULL && echo_walker_of(codec->fallback, echo_walker_encode) != NULL) {
        codec->interpreted++;
        return echo_walker_encode_raw(PyCFunction_GetSelf(codec->fallback), event, room, size, record, written);
    }
    if (codec->encode == NULL || codec->size > size) {
        *record = echo_codec_encode(self, event);
    } else if (codec->encode(event, room, codec->context) == 0) {
        codec->compiled++;
        *written = codec->size;
        return 0;
    } else {
        *record = PyErr_Occurred() ? NULL : fall_back(codec, event);
    }
    return *record != NULL ? 0 : -1;
}

Py_ssize_t echo_codec_measure(PyObject *self, PyObject *event)
{
    (void)event;
    return ((struct codec *)self)->size;
}

/* One event by the fallback, into its place among many. -1 with an exception set. */
static int encode_slowly(struct codec *codec, PyObject *event, uint8_t *target)
{
    PyObject *record = PyErr_Occurred() ? NULL : fall_back(codec, event);
    if (record == NULL) {
        return -1;
    }
    int result = 0;
    if (PyBytes_Check(record) && PyBytes_Size(record) == codec->size) {
        memcpy(target, PyBytes_AsString(record), (size_t)codec->size);
    } else {
        PyErr_SetString(PyExc_SystemError, "the fallback gave something else than a record");
        result = -1;
    }
    Py_DECREF(record);
    return result;
}

/* The events of a tuple that nobody else can change. -1 with an exception set. */
static int encode_all(struct codec *codec, PyObject *events, uint8_t *target)
{
    Py_ssize_t count = PyTuple_Size(events);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *event = PyTuple_GetItem(events, i);
        uint8_t *place = target + i * codec->size;
        if (codec->encode != NULL && codec->encode(event, place, codec->context) == 0) {
            codec->compiled++;
        } else if (encode_slowly(codec, event, place) < 0) {
            return -1;
        }
    }
    return 0;
}

/* A list whose items compiled code reads by itself. An event that fails goes to the fallback, which may run
 * any Python code; so what is left is then done from a tuple. */
static int encode_list(struct codec *codec, PyObject *list, PyObject *const *items, Py_ssize_t count,
                       uint8_t *target)
{
    Py_ssize_t done = (Py_ssize_t)codec->encode_many(items, count, target, codec->context);
    codec->compiled += (uint64_t)done;
    if (done == count) {
        return 0;
    }
    if (PyErr_Occurred()) {
        return -1;
    }
    PyObject *rest = PyList_GetSlice(list, done, count);
    PyObject *events = rest ? PyList_AsTuple(rest) : NULL;
    int result = -1;
    if (events != NULL && PyTuple_Size(events) != count - done) {
        PyErr_SetString(PyExc_RuntimeError, "the list changed its size while it was encoded");
    } else if (events != NULL) {
        result = encode_all(codec, events, target + done * codec->size);
    }
    Py_XDECREF(rest);
    Py_XDECREF(events);
    return result;
}

static PyObject *records_for(struct codec *codec, Py_ssize_t count)
{
    if (codec->size > 0 && count > PY_SSIZE_T_MAX / codec->size) {
        return PyErr_NoMemory();
    }
    return PyBytes_FromStringAndSize(NULL, count * codec->size);
}

static PyObject *codec_encode_many(PyObject *self, PyObject *events)
{
    struct codec *codec = (struct codec *)self;
    int is_direct = PyList_CheckExact(events) && codec->encode_many != NULL && !codec->runs_python;
    PyObject *kept = is_direct ? Py_NewRef(events) : PySequence_Tuple(events);
    if (kept == NULL) {
        return NULL;
    }
    Py_ssize_t count = is_direct ? PyList_Size(kept) : PyTuple_Size(kept);
    PyObject *records = records_for(codec, count);
    if (records != NULL) {
        uint8_t *target = (uint8_t *)PyBytes_AsString(records);
        PyObject *const *items = NULL;
        if (is_direct) { /* PyListObject: head, size, items; held to a real list before code is installed */
            memcpy(&items, (const char *)kept + sizeof(PyObject) + sizeof(Py_ssize_t), sizeof items);
        }
        int failed = is_direct ? encode_list(codec, kept, items, count, target)
                               : encode_all(codec, kept, target);
        if (failed) {
            Py_CLEAR(records);
        }
    }
    Py_DECREF(kept);
    return records;
}

/* --- Decoding --- */

/* A new event from one record, converted first where the sender's layout is another. NULL with an exception
 * set, or without one where the fallback has to do it. */
static PyObject *decode_one(struct codec *codec, const uint8_t *source)
{
    uint64_t room[STACK_BYTES / 8];
    uint8_t *record = (uint8_t *)room;
    if (codec->convert == NULL) {
        return codec->decode(source, codec->context);
    }
    if (codec->size > STACK_BYTES && (record = PyMem_Malloc((size_t)codec->size)) == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *event = codec->convert(source, record, 1) ? NULL : codec->decode(record, codec->context);
    if (record != (uint8_t *)room) {
        PyMem_Free(record);
    }
    return event;
}

/* What the fallback says to a record that compiled code did not decode. */
static PyObject *decode_slowly(struct codec *codec, PyObject *data)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        return NULL;
    }
    PyErr_Clear();
    return fall_back(codec, data);
}

/* A record from any contiguous buffer, which is held meanwhile. Its bytes may change under the code, which
 * follows nothing that it finds in them. */
static PyObject *decode_buffer(struct codec *codec, PyObject *data)
{
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0) {
        PyErr_Clear();
        return fall_back(codec, data);
    }
    int fits = view.len == codec->source_size;
    PyObject *event = fits ? decode_one(codec, view.buf) : NULL;
    PyBuffer_Release(&view);
    if (event == NULL) {
        return decode_slowly(codec, data);
    }
    codec->compiled++;
    return event;
}

PyObject *echo_codec_decode(PyObject *self, PyObject *data)
{
    struct codec *codec = (struct codec *)self;
    if (codec->decode == NULL) {
        return fall_back(codec, data);
    }
    if (!PyBytes_CheckExact(data) || PyBytes_Size(data) != codec->source_size) {
        return decode_buffer(codec, data);
    }
    PyObject *event = decode_one(codec, (const uint8_t *)PyBytes_AsString(data));
    if (event == NULL) {
        return decode_slowly(codec, data);
    }
    codec->compiled++;
    return event;
}

/* A bytes object of the same content, or NULL without an exception for what is no contiguous buffer. */
static PyObject *bytes_of(PyObject *buffer)
{
    Py_buffer view;
    if (PyBytes_CheckExact(buffer)) {
        return Py_NewRef(buffer);
    }
    if (PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE) < 0) {
        PyErr_Clear();
        return NULL;
    }
    PyObject *data = PyBytes_FromStringAndSize(view.buf, view.len);
    PyBuffer_Release(&view);
    return data;
}

PyObject *echo_codec_decode_raw(PyObject *self, const uint8_t *record, Py_ssize_t size)
{
    struct codec *codec = (struct codec *)self;
    if (codec->decode == NULL && echo_walker_of(codec->fallback, echo_walker_decode) != NULL) {
        codec->interpreted++;
        return echo_walker_decode_raw(PyCFunction_GetSelf(codec->fallback), record, size);
    }
    if (codec->decode != NULL && size == codec->source_size) {
        PyObject *event = decode_one(codec, record);
        if (event != NULL) {
            codec->compiled++;
            return event;
        }
        if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
            return NULL;
        }
        PyErr_Clear();
    }
    PyObject *data = PyBytes_FromStringAndSize((const char *)record, size);
    PyObject *event = data ? fall_back(codec, data) : NULL;
    Py_XDECREF(data);
    return event;
}

/* Its own fallback is a Walker's function, which is no Python code. */
const unsigned long long *echo_codec_count(PyObject *self, PyObject **next)
{
    *next = ((struct codec *)self)->fallback;
    return NULL;
}

static PyObject *codec_decode_many(PyObject *self, PyObject *buffer)
{
    struct codec *codec = (struct codec *)self;
    PyObject *data = bytes_of(buffer);
    if (data == NULL) {
        return PyErr_Occurred() ? NULL : fall_back(codec, buffer);
    }
    Py_ssize_t size = PyBytes_Size(data);
    if (codec->source_size == 0 || size % codec->source_size != 0) {
        PyObject *refusal = fall_back(codec, data); /* one record it is not, so this raises */
        Py_XDECREF(refusal);
        Py_DECREF(data);
        if (refusal != NULL) {
            PyErr_SetString(PyExc_SystemError, "the fallback took what is no whole number of records");
        }
        return NULL;
    }
    PyObject *events = PyList_New(size / codec->source_size);
    for (Py_ssize_t i = 0; events != NULL && i < size / codec->source_size; i++) {
        const char *source = PyBytes_AsString(data) + i * codec->source_size;
        PyObject *event = echo_codec_decode_raw(self, (const uint8_t *)source, codec->source_size);
        if (event == NULL) {
            Py_CLEAR(events);
        } else {
            PyList_SetItem(events, i, event);
        }
    }
    Py_DECREF(data);
    return events;
}

/* --- Installing code --- */

/* install(code, encodes, decodes, convert, keep_alive): convert is an address, 0 where there is none. Once
 * only: what runs can then never be taken away from under it. */
static PyObject *codec_install(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct codec *codec = (struct codec *)self;
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    static char *names[] = {"code", "encodes", "decodes", "convert", "keep_alive", NULL};
    unsigned long long convert;
    PyObject *code, *keep_alive;
    int encodes, decodes;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!ppKO:install", names, state->code_type, &code, &encodes,
                                     &decodes, &convert, &keep_alive)) {
        return NULL;
    }
    if (codec->code != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "code has been installed already");
        return NULL;
    }
    if (((struct code *)code)->size != codec->size) {
        PyErr_SetString(PyExc_ValueError, "expected code for records of this size");
        return NULL;
    }
    codec->code = (struct code *)Py_NewRef(code);
    codec->keep_alive = Py_NewRef(keep_alive);
    codec->context = codec->code->context;
    codec->runs_python = codec->code->runs_python;
    codec->convert = (convert_function *)(uintptr_t)convert;
    if (encodes) {
        codec->encode = codec->code->encode;
        codec->encode_many = codec->code->encode_many;
    }
    if (decodes) {
        codec->decode = codec->code->decode;
    }
    Py_RETURN_NONE;
}

static PyObject *codec_compiled(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLongLong(((struct codec *)self)->compiled);
}

static PyObject *codec_interpreted(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLongLong(((struct codec *)self)->interpreted);
}

static PyObject *codec_is_compiled(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((struct codec *)self)->code != NULL);
}

static PyMethodDef codec_methods[] = {
    {"encode", echo_codec_encode, METH_O, "The record of one event."},
    {"encode_many", codec_encode_many, METH_O, "The records of many events, one after another."},
    {"decode", echo_codec_decode, METH_O, "The event of one record."},
    {"decode_many", codec_decode_many, METH_O, "The events of many records, as a list."},
    {"install", (PyCFunction)(void (*)(void))codec_install, METH_VARARGS | METH_KEYWORDS,
     "Compiled code takes over."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef codec_properties[] = {
    {"compiled", codec_compiled, NULL, "Events done by compiled code.", NULL},
    {"interpreted", codec_interpreted, NULL, "Events done by the fallback.", NULL},
    {"is_compiled", codec_is_compiled, NULL, "Whether code has been installed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot codec_slots[] = {
    {Py_tp_new, codec_new},         {Py_tp_dealloc, codec_dealloc},   {Py_tp_traverse, codec_traverse},
    {Py_tp_clear, codec_clear},     {Py_tp_methods, codec_methods},   {Py_tp_getset, codec_properties},
    {Py_tp_doc, "One direction between the events of a class and records of a size."},
    {0, NULL},
};

PyType_Spec echo_object_codec_spec = {
    .name = "echo_core._c.objects.Codec",
    .basicsize = sizeof(struct codec),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = codec_slots,
};

