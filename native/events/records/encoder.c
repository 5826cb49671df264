/* The type Encoder: encode(event) and encode_many(events) to bytes.
 *
 * A record is copied as it lies in the event; then what is kept as objects is written over the copy, and
 * what others may have written to is checked there. An event of any other class, or one whose variable parts
 * may have changed, is the fallback's.
 */
#include "events/module.h"
#include "events/records/checks.h"

/* The Python object. */
struct encoder {
    struct shell shell;  /* first; the fallbacks are for one event and for a list of them */
    struct shape *shape; /* owned; bound, unless the GC has cleared it */
};

/* --- one record --- */

static inline int copy_record(const struct shape *shape, PyObject *object, uint8_t *target);

/* Writes over the copy of a record what is kept as objects; 0 when only Python knows how. */
static int copy_kept(const struct shape *shape, PyObject *object, uint8_t *target)
{
    Py_ssize_t i;

    for (i = 0; i < shape->kept_count; i++) {
        const struct kept *kept = &shape->kept[i];
        PyObject *value = *slot_at(object, kept->slot);

        if (value == NULL)
            continue;
        if (kept->nested == NULL || kept->nested->owner != Py_TYPE(value) ||
            !copy_record(kept->nested, value, target + kept->at))
            return 0;
    }
    return 1;
}

/* What others may have written to is checked, in the copy, where nobody else writes. */
static int is_copy_readable(const struct shape *shape, uint8_t *target)
{
    int changed = 0; /* for the better */

    return is_readable(shape, target, &changed);
}

/* Copies a record; 0 when it is not what may be sent, or only Python knows. Runs no Python code. The nesting
 * is that of formats, at most a few dozen deep. */
static inline int copy_record(const struct shape *shape, PyObject *object, uint8_t *target)
{
    copy(target, record_of(shape, object), shape->size);
    return (shape->kept_count == 0 || copy_kept(shape, object, target)) &&
           (!shape->is_exposed || is_copy_readable(shape, target));
}

/* The source itself: bytes never change. */
static enum outcome encode_whole(const struct shape *shape, PyObject *event, PyObject **result)
{
    PyObject *source = *slot_at(event, shape->source);

    if (((uint8_t *)event)[shape->state] != PRISTINE || source == NULL)
        return UNUSUAL;
    *result = Py_NewRef(source);
    return GOOD;
}

static enum outcome encode_one(const struct shape *shape, PyObject *event, PyObject **result)
{
    PyObject *bytes;

    if (Py_TYPE(event) != shape->owner)
        return UNUSUAL;
    if (shape->source != 0)
        return encode_whole(shape, event, result);
    bytes = PyBytes_FromStringAndSize(NULL, shape->size);
    if (bytes == NULL)
        return RAISED;
    return settle(copy_record(shape, event, (uint8_t *)PyBytes_AsString(bytes)) ? GOOD : UNUSUAL, bytes, result);
}

/* events: an exact list. No Python code runs here, so it stays as it is. */
static enum outcome encode_each(const struct shape *shape, PyObject *events, Py_ssize_t count, uint8_t *target)
{
    Py_ssize_t i;

    for (i = 0; i < count; i++, target += shape->size) {
        PyObject *event = PyList_GetItem(events, i); /* borrowed; cannot fail */

        if (Py_TYPE(event) != shape->owner || !copy_record(shape, event, target))
            return UNUSUAL;
    }
    return GOOD;
}

static enum outcome encode_list(const struct shape *shape, PyObject *events, PyObject **result)
{
    Py_ssize_t count = PyList_Size(events);
    PyObject *bytes;

    if (shape->source != 0 || count > PY_SSIZE_T_MAX / shape->size)
        return UNUSUAL;
    bytes = PyBytes_FromStringAndSize(NULL, count * shape->size);
    if (bytes == NULL)
        return RAISED;
    return settle(encode_each(shape, events, count, (uint8_t *)PyBytes_AsString(bytes)), bytes, result);
}

/* --- the calls --- */

/* The fallback's record, of a Walker mostly: made on the stack, without a call by Python's protocol. */
static PyObject *encode_slowly(struct shell *shell, PyObject *event)
{
    uint8_t room[ROOM_BYTES];
    PyObject *record = NULL;
    Py_ssize_t written;

    if (shell->raw.encode == NULL)
        return fall_back(shell, shell->fallbacks[0], event);
    shell->interpreted++;
    if (shell->raw.encode(shell->raw.self, event, room, ROOM_BYTES, &record, &written) != 0)
        return NULL;
    return record != NULL ? record : PyBytes_FromStringAndSize((char *)room, written);
}

static PyObject *encoder_encode(PyObject *self, PyObject *event)
{
    struct encoder *encoder = (struct encoder *)self;
    PyObject *result = NULL;
    enum outcome outcome = encode_one(encoder->shape, event, &result);

    if (outcome == UNUSUAL)
        return encode_slowly(&encoder->shell, event);
    return finish(&encoder->shell, outcome, result, NULL, event);
}

static inline enum outcome encode_into(struct shell *shell, PyObject *event, uint8_t *room, Py_ssize_t size,
                                       PyObject **record, Py_ssize_t *written)
{
    const struct shape *shape = ((struct encoder *)shell)->shape;

    if (Py_TYPE(event) != shape->owner || shape->source != 0 || shape->size > size)
        return encode_one(shape, event, record);
    *written = shape->size;
    return copy_record(shape, event, room) ? GOOD : UNUSUAL;
}

WITH_STEP static int encoder_encode_raw(PyObject *self, PyObject *event, uint8_t *room, Py_ssize_t size,
                                        PyObject **record, Py_ssize_t *written)
{
    return encode_raw((struct shell *)self, encode_into, event, room, size, record, written);
}

/* A source that is what the record encodes to has its size. */
static Py_ssize_t encoder_measure(PyObject *self, PyObject *event)
{
    const struct shape *shape = ((struct encoder *)self)->shape;
    int is_exact = Py_TYPE(event) == shape->owner;
    PyObject *source = NULL;

    if (is_exact && shape->source == 0)
        return shape->size;
    if (is_exact && encode_whole(shape, event, &source) == GOOD)
        return size_of_record(source);
    return measure_slowly((struct shell *)self, event);
}

/* Any other iterable is made a list first, so that the fallback finds what we have taken out of it. */
static PyObject *encoder_encode_many(PyObject *self, PyObject *events)
{
    struct encoder *encoder = (struct encoder *)self;
    PyObject *result = NULL, *list = PyList_CheckExact(events) ? Py_NewRef(events) : PySequence_List(events);
    enum outcome outcome = list != NULL ? encode_list(encoder->shape, list, &result) : RAISED;

    result = finish(&encoder->shell, outcome, result, encoder->shell.fallbacks[1], list);
    Py_XDECREF(list);
    return result;
}

/* --- the type --- */

static const Py_ssize_t owned[] = {offsetof(struct encoder, shape), 0};

static PyObject *encoder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"shape", "fallback", "fallback_many", NULL};
    PyObject *shape, *fallback, *fallback_many;
    struct encoder *encoder;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OO:Encoder", names, sibling(type, SHAPE), &shape, &fallback,
                                     &fallback_many))
        return NULL;
    if (echo_record_demand_bound(shape) != 0)
        return NULL;
    encoder = (struct encoder *)echo_shell_new(type, owned, fallback, fallback_many);
    if (encoder != NULL)
        encoder->shape = (struct shape *)Py_NewRef(shape);
    return (PyObject *)encoder;
}

static const struct raw_codec raw_codecs[] = {
    {.call = encoder_encode, .encode = encoder_encode_raw, .measure = encoder_measure}, {.call = NULL}};

static PyMethodDef encoder_methods[] = {
    {"encode", encoder_encode, METH_O, PyDoc_STR("encode($self, event, /)\n--\n\nThe record of one event.")},
    {"encode_many", encoder_encode_many, METH_O,
     PyDoc_STR("encode_many($self, events, /)\n--\n\nThe records of many events, one after another.")},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef encoder_properties[] = {RAW_CODECS_PROPERTY(raw_codecs), {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot encoder_slots[] = {
    {Py_tp_doc, PyDoc_STR("Encoder(shape, fallback, fallback_many)\n--\n\n"
                          "Events to records, by the fallbacks where they are not exactly of the class.")},
    {Py_tp_new, encoder_new},
    {Py_tp_dealloc, echo_shell_dealloc},
    {Py_tp_traverse, echo_shell_traverse},
    {Py_tp_clear, echo_shell_clear},
    {Py_tp_methods, encoder_methods},
    {Py_tp_members, echo_shell_members},
    {Py_tp_getset, encoder_properties},
    {0, NULL}};

PyType_Spec echo_record_encoder_spec = {
    .name = "echo_core._c.events.Encoder",
    .basicsize = sizeof(struct encoder),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = encoder_slots,
};
