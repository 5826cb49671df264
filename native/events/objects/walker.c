/* The type Walker: the events of one class to records and back by a tree of Values, without compiled code.
 *
 * It does every declaration, at once and in a tenth of the time of Python code; whatever is unusual goes to a
 * slow Python callable, whose result or exception counts.
 */
#include "events/module.h"
#include "events/objects/allowance.h"
#include "events/programs.h"
#include "events/turns.h"

/* The Python object. Its tp_clear leaves the tree: a cycle through it leads through a class, which has one. */
struct walker {
    struct shell shell;          /* first; the fallbacks are for encoding and decoding */
    struct value *value;         /* owned; of a record */
    struct runner *routine;      /* borrowed from convert: whose call it is; NULL where it is any other callable */
    PyObject *convert;           /* owned; makes a sender's bytes ours, and checks them. None: they are */
    struct allowance *allowance; /* owned; NULL: an event may become any number of objects */
};

/* --- events to records --- */

static enum outcome encode_walking(struct shell *shell, PyObject *event, uint8_t *room, Py_ssize_t size,
                                   PyObject **record, Py_ssize_t *written)
{
    return echo_value_write(((struct walker *)shell)->value, event, room, size, record, written);
}

static PyObject *walker_encode(PyObject *self, PyObject *event)
{
    struct walker *walker = (struct walker *)self;
    PyObject *result = NULL;
    enum outcome outcome = echo_value_encode(walker->value, event, &result);

    return finish(&walker->shell, outcome, result, walker->shell.fallbacks[0], event);
}

static int walker_encode_raw(PyObject *self, PyObject *event, uint8_t *room, Py_ssize_t size, PyObject **record,
                             Py_ssize_t *written)
{
    return encode_raw((struct shell *)self, encode_walking, event, room, size, record, written);
}

static Py_ssize_t walker_measure(PyObject *self, PyObject *event)
{
    Py_ssize_t size;
    enum outcome outcome = echo_value_measure(((struct walker *)self)->value, event, &size);

    if (outcome == UNUSUAL)
        return measure_slowly((struct shell *)self, event);
    return outcome == GOOD ? size : -1;
}

/* --- records to events --- */

/* A record of our own layout. */
static inline enum outcome decode_ours(const struct walker *walker, const uint8_t *record, Py_ssize_t size,
                                       PyObject **event)
{
    if (allows(walker->allowance, record, size) != GOOD)
        return RAISED;
    return echo_value_decode(walker->value, record, size, event);
}

static inline enum outcome decode_bytes(const struct walker *walker, PyObject *ours, PyObject **event)
{
    Py_ssize_t size;
    const uint8_t *bytes = bytes_of(ours, &size);

    return decode_ours(walker, bytes, size, event);
}

/* A sender's record is made ours first, and what others may change is copied. */
static __attribute__((noinline)) enum outcome decode_other(const struct walker *walker, PyObject *data,
                                                           PyObject **event)
{
    PyObject *ours = NULL;
    enum outcome outcome = GOOD;

    if (walker->convert == Py_None)
        outcome = take_bytes(data, &ours);
    else if (walker->routine != NULL)
        ours = echo_routine_convert(walker->routine, data);
    else
        ours = PyObject_CallFunctionObjArgs(walker->convert, data, NULL);
    if (ours == NULL)
        return outcome == GOOD ? outcome_of_error() : outcome;
    outcome = PyBytes_CheckExact(ours) ? decode_bytes(walker, ours, event) : UNUSUAL;
    Py_DECREF(ours);
    return outcome;
}

static PyObject *walker_decode(PyObject *self, PyObject *data)
{
    struct walker *walker = (struct walker *)self;
    PyObject *event = NULL;
    enum outcome outcome;

    if (walker->convert == Py_None && PyBytes_CheckExact(data))
        outcome = decode_bytes(walker, data, &event);
    else
        outcome = decode_other(walker, data, &event);
    return finish(&walker->shell, outcome, event, walker->shell.fallbacks[1], data);
}

static enum outcome decode_walking(struct shell *shell, const uint8_t *record, Py_ssize_t size, PyObject *held,
                                   PyObject **event)
{
    (void)held;
    return decode_ours((struct walker *)shell, record, size, event);
}

static PyObject *walker_decode_raw(PyObject *self, const uint8_t *record, Py_ssize_t size)
{
    struct walker *walker = (struct walker *)self;
    PyObject *data, *event;

    if (walker->convert == Py_None)
        return decode_raw(&walker->shell, decode_walking, walker->shell.fallbacks[1], record, size);
    data = bytes_in_turn(record, size);
    event = data != NULL ? walker_decode(self, data) : NULL;
    Py_XDECREF(data);
    return event;
}

static const unsigned long long *count_of(PyObject *self, PyObject **next)
{
    struct walker *walker = (struct walker *)self;

    *next = walker->convert;
    return &walker->shell.interpreted;
}

static const struct raw_codec raw_codecs[] = {
    {.call = walker_encode, .encode = walker_encode_raw, .measure = walker_measure},
    {.call = walker_decode, .decode = walker_decode_raw, .count = count_of},
    {.call = NULL}};

/* --- the type --- */

static const Py_ssize_t owned[] = {offsetof(struct walker, value), offsetof(struct walker, convert),
                                   offsetof(struct walker, allowance), 0};

static PyObject *walker_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"value", "convert", "encode", "decode", "allowance", NULL};
    PyObject *value, *convert, *encode, *decode, *allowance = Py_None;
    struct walker *walker;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOO|O:Walker", names, sibling(type, VALUE), &value, &convert,
                                     &encode, &decode, &allowance))
        return NULL;
    if (allowance != Py_None && !Py_IS_TYPE(allowance, sibling(type, ALLOWANCE)))
        return PyErr_Format(PyExc_TypeError, "Expected an Allowance or None, got %R", allowance);
    if (((struct value *)value)->form != FORM_RECORD)
        return PyErr_Format(PyExc_ValueError, "Expected the Value of a record, got %R", value);
    walker = (struct walker *)echo_shell_new(type, owned, encode, decode);
    if (walker == NULL)
        return NULL;
    walker->value = (struct value *)Py_NewRef(value);
    walker->convert = Py_NewRef(convert);
    walker->routine = echo_routine_of(type, convert);
    walker->allowance = allowance != Py_None ? (struct allowance *)Py_NewRef(allowance) : NULL;
    return (PyObject *)walker;
}

static PyMethodDef walker_methods[] = {
    {"encode", walker_encode, METH_O, PyDoc_STR("encode($self, event, /)\n--\n\nThe record of one event.")},
    {"decode", walker_decode, METH_O, PyDoc_STR("decode($self, data, /)\n--\n\nThe event of one record.")},
    {NULL, NULL, 0, NULL}};

static PyObject *walker_value(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef((PyObject *)((struct walker *)self)->value);
}

static PyGetSetDef walker_properties[] = {{"value", walker_value, NULL, PyDoc_STR("The tree."), NULL},
                                          RAW_CODECS_PROPERTY(raw_codecs),
                                          {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot walker_slots[] = {
    {Py_tp_doc, PyDoc_STR("Walker(value, convert, encode, decode, allowance=None)\n--\n\n"
                          "Events to records and back, by the fallbacks where they are unusual.")},
    {Py_tp_new, walker_new},
    {Py_tp_dealloc, echo_shell_dealloc},
    {Py_tp_traverse, echo_shell_traverse},
    {Py_tp_clear, echo_shell_clear},
    {Py_tp_methods, walker_methods},
    {Py_tp_members, echo_shell_members},
    {Py_tp_getset, walker_properties},
    {0, NULL}};

PyType_Spec echo_object_walker_spec = {
    .name = "echo_core._c.events.Walker",
    .basicsize = sizeof(struct walker),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = walker_slots,
};
