/* How many bytes the record of an event would have, by walking a tree of Values as writing.c does.
 *
 * Only parts of variable size are visited, and no value is checked: the size is exact for every event that can be
 * encoded. Where the size cannot be told without encoding, the caller encodes.
 */
#include "events/objects/objects.h"

/* One more part: `count` elements at the next multiple of their alignment. */
static enum outcome add_part(Py_ssize_t *total, int64_t count, Py_ssize_t size, Py_ssize_t alignment)
{
    if (!fit(count, size, PY_SSIZE_T_MAX / 4) || *total > PY_SSIZE_T_MAX / 4)
        return UNUSUAL;
    *total = round_up(*total, alignment) + (Py_ssize_t)count * size;
    return GOOD;
}

static enum outcome measure_text(PyObject *it, Py_ssize_t *total)
{
    Py_ssize_t size;

    return utf8_of(it, &size) != NULL ? add_part(total, size + 1, 1, 1) : UNUSUAL; /* with its NUL */
}

static enum outcome measure_blob(PyObject *it, Py_ssize_t *total)
{
    return PyBytes_CheckExact(it) ? add_part(total, PyBytes_Size(it), 1, 1) : UNUSUAL;
}

/* --- arrays and sequences --- */

/* A value, but for its bytes in place. */
static enum outcome measure_parts(const struct value *value, PyObject *it, Py_ssize_t *total);

/* What the elements have besides their bytes in place. */
static enum outcome measure_rows(const struct value *element, PyObject *items, const Py_ssize_t *shape,
                                 Py_ssize_t levels, Py_ssize_t *total)
{
    enum outcome outcome = GOOD;
    Py_ssize_t i;

    for (i = 0; outcome == GOOD && i < *shape; i++) {
        PyObject *item = item_at(items, i, *shape);

        if (item == NULL)
            outcome = UNUSUAL;
        else if (levels == 1)
            outcome = measure_parts(element, item, total);
        else
            outcome = is_list(item) && count_items(item) == shape[1]
                          ? measure_rows(element, item, shape + 1, levels - 1, total)
                          : UNUSUAL;
        Py_XDECREF(item);
    }
    return outcome;
}

static enum outcome measure_items(const struct value *value, PyObject *items, Py_ssize_t *total)
{
    const struct value *element = value->element;
    Py_ssize_t shape[MAX_DIMENSIONS], count = shape_of_lists(items, shape, value->count);
    enum outcome outcome = count >= 0 ? GOOD : UNUSUAL;

    if (outcome == GOOD && value->form == FORM_SEQUENCE)
        outcome = add_part(total, count, element->size, element->alignment);
    return outcome == GOOD && !element->is_fixed ? measure_rows(element, items, shape, value->count, total) : outcome;
}

/* How many there are in an ndarray; -1 where it cannot be the value's. */
static int64_t count_elements(const struct value *value, const Py_buffer *buffer)
{
    int64_t count = 1, extent = 1;
    Py_ssize_t i;

    if (buffer->ndim != value->count)
        return -1;
    for (i = 0; i < value->count; i++) {
        if (!extend(&extent, buffer->shape[i]))
            return -1;
        count *= buffer->shape[i];
    }
    return count;
}

/* Of any dtype and strides: what has to be converted becomes as many elements. */
static enum outcome measure_array(const struct value *value, PyObject *it, Py_ssize_t *total)
{
    const struct value *element = value->element;
    Py_buffer buffer;
    int64_t count;

    if (PyObject_GetBuffer(it, &buffer, PyBUF_STRIDES) != 0)
        return UNUSUAL;
    count = count_elements(value, &buffer);
    PyBuffer_Release(&buffer);
    return count >= 0 ? add_part(total, count, element->size, element->alignment) : UNUSUAL;
}

static enum outcome measure_elements(const struct value *value, PyObject *it, Py_ssize_t *total)
{
    if (is_list(it))
        return measure_items(value, it, total);
    if (value->form == FORM_SEQUENCE && value->dtype != NULL && Py_IS_TYPE(it, value->container))
        return measure_array(value, it, total);
    return UNUSUAL;
}

/* --- records --- */

/* A field of an instance, as a new reference; NULL with an exception. May run any code. */
static PyObject *field_of(PyObject *object, const struct member *field, int is_exact)
{
    PyObject *held = is_exact && field->slot != 0 ? *slot_at(object, field->slot) : NULL;

    return held != NULL ? Py_NewRef(held) : PyObject_GetAttr(object, field->name);
}

static enum outcome measure_record(const struct value *record, PyObject *object, Py_ssize_t *total)
{
    int is_exact = Py_IS_TYPE(object, record->cls);
    enum outcome outcome = is_exact || PyType_IsSubtype(Py_TYPE(object), record->cls) ? GOOD : UNUSUAL;
    Py_ssize_t i;

    for (i = 0; outcome == GOOD && i < record->count; i++) {
        const struct member *field = &record->fields[i];
        PyObject *held;

        if (field->value->is_fixed)
            continue;
        held = field_of(object, field, is_exact);
        outcome = held != NULL ? measure_parts(field->value, held, total) : UNUSUAL;
        Py_XDECREF(held);
    }
    return outcome;
}

/* --- all of them --- */

static enum outcome measure_parts(const struct value *value, PyObject *it, Py_ssize_t *total)
{
    if (value->is_fixed)
        return GOOD;
    switch ((enum form)value->form) {
    case FORM_TEXT:
        return measure_text(it, total);
    case FORM_BLOB:
        return measure_blob(it, total);
    case FORM_OPTION:
    case FORM_REFERENCE:
        return it != Py_None ? measure_parts(value->element, it, total) : GOOD;
    case FORM_ARRAY:
    case FORM_SEQUENCE:
        return measure_elements(value, it, total);
    case FORM_RECORD:
        return measure_record(value, it, total);
    default:
        Py_UNREACHABLE();
    }
}

/* --- for others --- */

enum outcome echo_value_measure(const struct value *value, PyObject *event, Py_ssize_t *size)
{
    enum outcome outcome;

    *size = value->size;
    outcome = measure_parts(value, event, size);
    return outcome == UNUSUAL ? outcome_of_error() : outcome;
}
