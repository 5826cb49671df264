/* The bytes of a record to values, by walking a tree of Values.
 *
 * codegen/plain/records.py defines which records are valid, and C code accepts the same: each variable part begins
 * where the one before it ended, at the next multiple of its alignment, and lies within the record. Everything else
 * goes to the fallback, which raises an error that says what is wrong.
 */
#include "events/objects/reading.h"

static PyObject *read_value(struct in *in, const struct value *value, Py_ssize_t at, const int64_t *lengths);

/* --- parts --- */

/* Where the slot's part begins; -1 for one that is not where it has to be, or not within the record. */
static Py_ssize_t open_part(struct in *in, Py_ssize_t slot, uint64_t size, Py_ssize_t alignment)
{
    uint64_t start = load_uint64_t(in->bytes + slot);

    if (start > (uint64_t)in->size || size > (uint64_t)in->size - start)
        return -1;
    if ((Py_ssize_t)start != round_up(in->end == ANYWHERE ? (Py_ssize_t)start : in->end, alignment))
        return -1;
    in->end = (Py_ssize_t)(start + size);
    return (Py_ssize_t)start;
}

static PyObject *read_text(struct in *in, Py_ssize_t at)
{
    uint64_t start = load_uint64_t(in->bytes + at);
    int64_t length;

    if (start >= (uint64_t)in->size)
        return NULL;
    length = find_nul(in->bytes + start, in->size - (Py_ssize_t)start);
    if (length < 0 || open_part(in, at, (uint64_t)length + 1, 1) < 0)
        return NULL;
    return PyUnicode_DecodeUTF8((const char *)in->bytes + start, length, NULL);
}

static PyObject *read_blob(struct in *in, Py_ssize_t at)
{
    uint64_t size = load_uint64_t(in->bytes + at + 8);
    Py_ssize_t start = open_part(in, at, size, 1);

    return start >= 0 ? bytes_in_turn(in->bytes + start, (Py_ssize_t)size) : NULL;
}

/* --- arrays and sequences --- */

static int read_some_leaves(char form, const uint8_t *bytes, PyObject **items, Py_ssize_t count)
{
    switch ((enum form)form) {
        LEAVES(LEAVES_TO_READ)
    default:
        Py_UNREACHABLE();
    }
}

/* Into a new list or tuple: a turn of them at once, as nobody can change the list meanwhile. */
static int read_leaves(struct in *in, const struct value *element, Py_ssize_t at, PyObject *items, Py_ssize_t count)
{
    Py_ssize_t some, done;

    for (done = 0; done < count; done += some) {
        some = count - done < TURN_OBJECTS ? count - done : TURN_OBJECTS;
        if (count_items(items) != count)
            return -1;
        if (read_some_leaves(element->form, in->bytes + at + done * element->size, items_of(items) + done, some) != 0)
            return -1;
        if (in->turn != NULL)
            turn_count(in->turn, some);
    }
    return 0;
}

/* Steals item. Into a new list or tuple of so many, which only the GC can have shown to others. */
static int set_item(PyObject *items, Py_ssize_t i, Py_ssize_t count, PyObject *item)
{
    PyObject **all = items_of(items);

    if (all == NULL || count_items(items) != count || all[i] != NULL)
        return PyTuple_CheckExact(items) ? PyTuple_SetItem(items, i, item) : PyList_SetItem(items, i, item);
    all[i] = item;
    return 0;
}

static int read_each(struct in *in, const struct value *element, Py_ssize_t at, PyObject *items, Py_ssize_t count)
{
    int is_text = element->form == FORM_TEXT;
    Py_ssize_t i;

    for (i = 0; i < count; i++, at += element->size) {
        PyObject *item = is_text ? read_text(in, at) : read_value(in, element, at, NULL);

        if (item == NULL || set_item(items, i, count, item) != 0)
            return -1;
        if (in->turn != NULL)
            turn_count(in->turn, element->objects);
    }
    return 0;
}

static PyObject *read_items(struct in *in, const struct value *value, Py_ssize_t at, Py_ssize_t count)
{
    const struct value *element = value->element;
    PyObject *items = value->container == &PyTuple_Type ? PyTuple_New(count) : PyList_New(count);
    int status;

    if (items == NULL)
        return NULL;
    if (is_leaf(element->form) && items_of(items) != NULL)
        status = read_leaves(in, element, at, items, count);
    else
        status = read_each(in, element, at, items, count);
    if (status != 0)
        Py_CLEAR(items);
    return items;
}

/* Lists of so many dimensions, the first of them as long as `shape` says. *at: moves on. Each list has elements. */
static PyObject *read_rows(struct in *in, const struct value *value, const int64_t *shape, Py_ssize_t dimensions,
                           Py_ssize_t *at)
{
    Py_ssize_t i, count = (Py_ssize_t)*shape;
    PyObject *rows;

    if (dimensions == 1) {
        rows = read_items(in, value, *at, count);
        *at += count * value->element->size;
        return rows;
    }
    rows = PyList_New(count);
    for (i = 0; rows != NULL && i < count; i++) {
        PyObject *row = read_rows(in, value, shape + 1, dimensions - 1, at);

        if (row == NULL)
            Py_CLEAR(rows);
        else
            PyList_SetItem(rows, i, row);
    }
    return rows;
}

static PyObject *read_elements(struct in *in, const struct value *value, Py_ssize_t at, const int64_t *shape,
                               Py_ssize_t count)
{
    if (value->container == &PyList_Type || value->container == &PyTuple_Type)
        return count == 0 ? read_items(in, value, at, 0) : read_rows(in, value, shape, value->count, &at);
    return echo_read_array(in, value, at, shape, count);
}

static PyObject *read_sequence(struct in *in, const struct value *value, Py_ssize_t at, const int64_t *lengths)
{
    int64_t shape[MAX_DIMENSIONS], count = lengths_of(value, in->bytes + at, lengths, shape);
    Py_ssize_t start, size = value->element->size;

    if (count < 0 || !fit(count, size, in->size))
        return NULL;
    start = open_part(in, at, (uint64_t)(count * size), value->element->alignment);
    return start >= 0 ? read_elements(in, value, start, shape, (Py_ssize_t)count) : NULL;
}

static PyObject *read_in_place(struct in *in, const struct value *value, Py_ssize_t at)
{
    int64_t shape[MAX_DIMENSIONS], count = lengths_of(value, in->bytes + at, NULL, shape);

    return count >= 0 ? read_elements(in, value, at, shape, (Py_ssize_t)count) : NULL;
}

/* --- records --- */

/* Puts a new reference into an instance that nobody else has seen. */
static int put(const struct value *record, const struct member *field, PyObject *object, PyObject *value)
{
    int status = 0;

    if (field->slot != 0 && *slot_at(object, field->slot) == NULL) {
        *slot_at(object, field->slot) = value;
        if (record->is_collected)
            track_for(object, value);
        return 0;
    }
    status = PyObject_GenericSetAttr(object, field->name, value);
    Py_DECREF(value);
    return status;
}

/* Bytes that count in place of a value are what the sender's are, made sound. */
static int fill_field(struct in *in, const struct value *record, const struct member *field, PyObject *object,
                      Py_ssize_t at, const int64_t *lengths)
{
    uint8_t *inlined = (uint8_t *)object + field->inlined;
    PyObject *value;

    if (field->inlined != 0)
        return echo_values_copy(field->value, inlined, in->bytes + at + field->at, 1, 1) ? 0 : -1;
    value = read_value(in, field->value, at + field->at, lengths);
    return value != NULL ? put(record, field, object, value) : -1;
}

static int fill(struct in *in, const struct value *record, PyObject *object, Py_ssize_t at)
{
    int64_t lengths[MAX_TIES];
    Py_ssize_t i;

    if (!load_ties(record, in->bytes + at, lengths))
        return -1;
    for (i = 0; i < record->count; i++) {
        if (fill_field(in, record, &record->fields[i], object, at, lengths) != 0)
            return -1;
    }
    return 0;
}

/* An instance that holds its record inline. */
static int fill_inlined(const struct in *in, const struct value *record, PyObject *object, Py_ssize_t at)
{
    return echo_values_copy(record, (uint8_t *)object + record->inlined, in->bytes + at, 1, 1) ? 0 : -1;
}

/* Without `__init__`, as pickle makes one. */
static PyObject *new_instance(struct in *in, const struct value *record, Py_ssize_t at)
{
    PyObject *object = record->new_instance != NULL ? record->new_instance(record->cls, 0) : NULL; /* zeroed */
    int status;

    if (object == NULL)
        return NULL;
    status = record->inlined != 0 ? fill_inlined(in, record, object, at) : fill(in, record, object, at);
    if (status != 0)
        Py_CLEAR(object);
    return object;
}

/* Has a method of a new instance called, once it is known that the whole record is good. */
static int note_after(struct in *in, PyObject *object, PyObject *name)
{
    PyObject *method = PyObject_GetAttr(object, name);
    int status = -1;

    if (method != NULL && in->after == NULL)
        in->after = PyList_New(0);
    if (method != NULL && in->after != NULL)
        status = PyList_Append(in->after, method);
    Py_XDECREF(method);
    return status;
}

static PyObject *read_record(struct in *in, const struct value *record, Py_ssize_t at)
{
    PyObject *object = record->code != NULL ? record->code->decode(in->bytes + at, record->code->context) : NULL;

    if (object == NULL && (PyErr_Occurred() == NULL || outcome_of_error() == UNUSUAL))
        object = new_instance(in, record, at);

    if (object != NULL && record->after != NULL && note_after(in, object, record->after) != 0)
        Py_CLEAR(object);
    return object;
}

/* --- the rest --- */

static PyObject *read_option(struct in *in, const struct value *value, Py_ssize_t at, const int64_t *lengths)
{
    if (in->bytes[at + value->element->size] == 0)
        Py_RETURN_NONE;
    return read_value(in, value->element, at, lengths);
}

/* Where there is nothing, there is no length either, be it in the slot or in another field. */
static PyObject *read_reference(struct in *in, const struct value *value, Py_ssize_t at, const int64_t *lengths)
{
    const struct value *element = value->element;
    Py_ssize_t i;

    if (load_uint64_t(in->bytes + at) != 0)
        return read_value(in, element, at, lengths);
    for (i = 8; i < value->size; i++) {
        if (in->bytes[at + i] != 0)
            return NULL;
    }
    for (i = 0; element->form == FORM_SEQUENCE && i < element->count; i++) {
        if (element->dimensions[i].length == TIED && lengths[element->dimensions[i].tie] != 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *read_member(const struct value *value, const uint8_t *bytes)
{
    int64_t found = find_number(value->numbers, value->count, load_number(bytes, value->size));

    return found >= 0 ? Py_NewRef(value->members[found]) : NULL;
}

/* Without `__init__`, which is Python code: the class says by its slots what an instance is. */
static PyObject *read_uuid(const struct value *value, const uint8_t *bytes)
{
    uint64_t halves[2] = {__builtin_bswap64(load_uint64_t(bytes)), __builtin_bswap64(load_uint64_t(bytes + 8))};
    PyObject *number = echo_new_wide_int(halves), *uuid = number != NULL ? PyType_GenericAlloc(value->cls, 0) : NULL;

    if (uuid == NULL) {
        Py_XDECREF(number);
        return NULL;
    }
    *slot_at(uuid, value->number_slot) = number;
    *slot_at(uuid, value->safety_slot) = Py_NewRef(value->safety);
    return uuid;
}

/* A value at its place, as a new reference; NULL, with or without an exception, where there is none. lengths:
 * those that the record holds that it is a field of. */
static PyObject *read_value(struct in *in, const struct value *value, Py_ssize_t at, const int64_t *lengths)
{
    const uint8_t *bytes = in->bytes + at;

    switch ((enum form)value->form) {
        LEAVES(LEAF_TO_READ)
    case FORM_CHARS:
        return read_chars(bytes, value->size);
    case FORM_BYTES:
        return PyBytes_FromStringAndSize((const char *)bytes, value->size);
    case FORM_MEMBER:
        return read_member(value, bytes);
    case FORM_UUID:
        return read_uuid(value, bytes);
    case FORM_PYTHON:
        return read_by_python(value->read, bytes, value->size);
    case FORM_TEXT:
        return read_text(in, at);
    case FORM_BLOB:
        return read_blob(in, at);
    case FORM_OPTION:
        return read_option(in, value, at, lengths);
    case FORM_REFERENCE:
        return read_reference(in, value, at, lengths);
    case FORM_ARRAY:
        return read_in_place(in, value, at);
    case FORM_SEQUENCE:
        return read_sequence(in, value, at, lengths);
    case FORM_RECORD:
        return read_record(in, value, at);
    default:
        Py_UNREACHABLE();
    }
}

/* --- for others --- */

/* Steals what a method has returned; its exception is the call's. */
static enum outcome outcome_of_method(PyObject *returned)
{
    Py_XDECREF(returned);
    return returned != NULL ? GOOD : RAISED;
}

/* Calls what is to be called when all has been read; last the result's own method, if `after` names one. */
static enum outcome conclude(struct in *in, PyObject **result, PyObject *after)
{
    enum outcome outcome = *result != NULL ? GOOD : outcome_of_error();
    Py_ssize_t i;

    for (i = 0; outcome == GOOD && in->after != NULL && i < PyList_Size(in->after); i++)
        outcome = outcome_of_method(PyObject_CallNoArgs(PyList_GetItem(in->after, i)));
    if (outcome == GOOD && after != NULL)
        outcome = outcome_of_method(PyObject_CallMethodObjArgs(*result, after, NULL));
    Py_XDECREF(in->after);
    if (outcome != GOOD)
        Py_CLEAR(*result);
    return outcome;
}

enum outcome echo_value_decode(const struct value *value, const uint8_t *record, Py_ssize_t size, PyObject **result)
{
    struct turn turn = {.done = 0};
    struct in in = {.bytes = record, .size = size, .end = value->size, .turn = &turn};

    if (size < value->size)
        return UNUSUAL;
    *result = new_instance(&in, value, 0);
    if (*result != NULL && in.end != size)
        Py_CLEAR(*result);
    return conclude(&in, result, value->after);
}

enum outcome echo_value_decode_field(const struct value *record, const struct member *field, PyObject *source,
                                     int is_view, PyObject **result)
{
    struct turn turn = {.done = 0};
    struct in in = {.end = ANYWHERE, .source = is_view ? source : NULL, .turn = &turn};
    int64_t lengths[MAX_TIES];

    in.bytes = bytes_of(source, &in.size);
    if (in.size < record->size || !load_ties(record, in.bytes, lengths))
        return UNUSUAL;
    *result = read_value(&in, field->value, field->at, lengths);
    return conclude(&in, result, NULL);
}

PyObject *echo_read_field(PyObject *value, const uint8_t *source)
{
    const struct value *fixed = (struct value *)value;
    struct in in = {.bytes = source, .size = fixed->size, .end = fixed->size};
    PyObject *result = read_value(&in, fixed, 0, NULL);

    conclude(&in, &result, NULL);
    return result;
}
