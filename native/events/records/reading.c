/* What reading a field of an event gives: a value made from the record's bytes, or the one that is kept.
 *
 * Expected workload: tens of millions of reads of numbers per second, so that everything between the slot
 * tp_descr_get and the number is in this file or inline.
 */
#include "events/records/records.h"

/* --- made by Python --- */

static PyObject *read_window(const struct field *field, PyObject *object)
{
    if (field->is_shared)
        mark_stale(field->shape, object);
    return call_and_release(field->read, echo_record_window_new(field, object));
}

/* --- kept values, which are made when they are first read --- */

/* The bytes behind the source slot; 0 when it is empty, which means that the field was never set. */
static int open_source(const struct field *field, PyObject *object, const char **bytes, Py_ssize_t *size)
{
    PyObject *source = *slot_at(object, field->shape->source);

    if (source == NULL || !PyBytes_CheckExact(source)) {
        PyErr_SetObject(PyExc_AttributeError, field->name);
        return 0;
    }
    *bytes = (const char *)bytes_of(source, size);
    return 1;
}

/* Text and bytes straight from the source. Whoever gave it has verified it, and yet it is checked here that
 * nothing outside it is read: then no mistake elsewhere can become more than a wrong value. */
static PyObject *text_from_source(const struct field *field, PyObject *object)
{
    const char *bytes;
    Py_ssize_t size, length;
    uint64_t start;
    PyObject *source, *text;

    if (!open_source(field, object, &bytes, &size))
        return NULL;
    memcpy(&start, bytes + (field->at - field->shape->record), sizeof start);
    if (start >= (uint64_t)size)
        start = 0, length = 0;
    else
        length = text_length((uint8_t *)bytes + start, size - (Py_ssize_t)start);
    text = PyUnicode_DecodeUTF8(bytes + start, length, NULL);
    if (text != NULL || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        return text;
    PyErr_Clear();
    source = Py_NewRef(*slot_at(object, field->shape->source));
    return call_and_release(field->read, source); /* says what is wrong, and where */
}

static PyObject *blob_from_source(const struct field *field, PyObject *object)
{
    const char *bytes;
    Py_ssize_t size;
    uint64_t word[2]; /* offset and length, as in the record */

    if (!open_source(field, object, &bytes, &size))
        return NULL;
    memcpy(word, bytes + (field->at - field->shape->record), sizeof word);
    if (word[0] > (uint64_t)size || word[1] > (uint64_t)size - word[0])
        word[0] = word[1] = 0;
    return PyBytes_FromStringAndSize(bytes + word[0], (Py_ssize_t)word[1]);
}

static PyObject *part_from_source(const struct field *field, PyObject *object)
{
    PyObject *source, *result;
    const char *bytes;
    Py_ssize_t size;

    if (!open_source(field, object, &bytes, &size))
        return NULL;
    source = Py_NewRef(*slot_at(object, field->shape->source));
    if (field->reader == NULL)
        return call_and_release(field->read, source);
    result = echo_part_read(field->reader, source);
    Py_DECREF(source);
    return result;
}

/* Of the field's own bytes. */
static PyObject *read_inline(const struct field *field, PyObject *object)
{
    const uint8_t *bytes = (uint8_t *)object + field->at;

    if (field->reader != NULL)
        return echo_part_read_inline(field->reader, bytes);
    if (field->raw.decode != NULL)
        return field->raw.decode(field->raw.self, bytes, field->size);
    return read_by_python(field->read, bytes, field->size);
}

static PyObject *make_kept(const struct field *field, PyObject *object)
{
    switch (field->form) {
    case FORM_TEXT:
        return text_from_source(field, object);
    case FORM_BLOB:
        return blob_from_source(field, object);
    case FORM_PART:
        return part_from_source(field, object);
    default:
        return read_inline(field, object);
    }
}

/* Made when first read, and then kept. Making it may run any code, which may have set it meanwhile. */
static PyObject *read_kept(const struct field *field, PyObject *object)
{
    PyObject *value = *slot_at(object, field->slot);

    if (value == NULL) {
        value = make_kept(field, object);
        if (value == NULL)
            return NULL;
        if (*slot_at(object, field->slot) == NULL)
            *slot_at(object, field->slot) = value;
        else
            Py_DECREF(value);
        value = *slot_at(object, field->slot);
        if (field->shape->is_collected)
            track_for(object, value);
    }
    if (field->is_shared)
        mark_stale(field->shape, object);
    return Py_NewRef(value);
}

/* --- the descriptor --- */

static PyObject *read_value(const struct field *field, PyObject *object)
{
    const uint8_t *bytes = (uint8_t *)object + field->at;

    switch ((enum form)field->form) {
        LEAVES(LEAF_TO_READ)
    case FORM_CHARS:
        return read_chars(bytes, field->size);
    case FORM_PYTHON:
        return read_inline(field, object);
    case FORM_WINDOW:
        return read_window(field, object);
    case FORM_KEPT:
    case FORM_TEXT:
    case FORM_BLOB:
    case FORM_PART:
        return read_kept(field, object);
    default:
        Py_UNREACHABLE();
    }
}

/* On a class there is no value, as in a dataclass without slots: so no dataclass that inherits from an event
 * takes the descriptor for a default. */
PyObject *echo_record_field_get(PyObject *self, PyObject *object, PyObject *type)
{
    struct field *field = (struct field *)self;

    if (object == NULL)
        return PyErr_Format(PyExc_AttributeError, "%R has the field %R in its instances only",
                            type != NULL ? type : Py_None, field->name);
    field = field_in(field, object);
    return field != NULL ? read_value(field, object) : NULL;
}
