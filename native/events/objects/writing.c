/* Values to the bytes of a record, by walking a tree of Values.
 *
 * codegen/plain/objects.py defines which values are valid. C code handles the common ones with the same result and
 * leaves all others to it; it never rejects a value itself. The bytes are those that codegen/plain/records.py writes:
 * variable parts follow the record in the order of their slots, each at the next multiple of its alignment.
 */
#include "events/objects/objects.h"
#include "events/turns.h"

/* Records up to this size, parts included, are made on the stack. */
#define STACK_BYTES 1024

/* A record under way. Places in it are offsets, since it moves when it grows. */
struct out {
    uint8_t *bytes;      /* the stack's, the heap's, or a place of fixed size that never grows */
    Py_ssize_t size;     /* how many are in use */
    Py_ssize_t capacity; /* how many there are */
    uint8_t *heap;       /* owned, PyMem; NULL: not on the heap */
    struct turn *turn;   /* borrowed; NULL: whoever calls cannot bear that other code runs */
};

/* --- room --- */

static enum outcome grow(struct out *out, Py_ssize_t needed)
{
    Py_ssize_t capacity = needed + needed / 4 + STACK_BYTES;
    uint8_t *heap = PyMem_Realloc(out->heap, (size_t)capacity);

    if (heap == NULL) {
        PyErr_NoMemory();
        return RAISED;
    }
    if (out->heap == NULL)
        memcpy(heap, out->bytes, (size_t)out->size);
    out->bytes = out->heap = heap;
    out->capacity = capacity;
    return GOOD;
}

/* Room for one more part, whose offset is written to *start. Only the bytes before it are made 0. */
static enum outcome append(struct out *out, Py_ssize_t size, Py_ssize_t alignment, Py_ssize_t *start)
{
    enum outcome outcome;

    if (size > PY_SSIZE_T_MAX / 2 || out->size > PY_SSIZE_T_MAX / 4)
        return UNUSUAL;
    *start = round_up(out->size, alignment);
    if (*start + size > out->capacity && (outcome = grow(out, *start + size)) != GOOD)
        return outcome;
    memset(out->bytes + out->size, 0, (size_t)(*start - out->size));
    out->size = *start + size;
    return GOOD;
}

/* From an object that whoever calls holds, and that does not change. */
static void copy_out(struct out *out, Py_ssize_t start, const uint8_t *source, Py_ssize_t size)
{
    if (out->turn != NULL)
        copy_in_turn(out->bytes + start, source, size);
    else
        memcpy(out->bytes + start, source, (size_t)size);
}

static void store_word(struct out *out, Py_ssize_t at, Py_ssize_t word)
{
    store_number(out->bytes + at, 8, word);
}

/* --- leaves --- */

static enum outcome write_bytes(PyObject *it, uint8_t *bytes, Py_ssize_t size)
{
    if (!PyBytes_CheckExact(it) || PyBytes_Size(it) != size)
        return UNUSUAL;
    memcpy(bytes, PyBytes_AsString(it), (size_t)size);
    return GOOD;
}

/* Members are few, and each exists once. */
static enum outcome write_member(const struct value *value, PyObject *it, uint8_t *bytes)
{
    Py_ssize_t i;

    for (i = 0; i < value->count; i++) {
        if (value->members[i] == it) {
            store_number(bytes, value->size, value->numbers[i]);
            return GOOD;
        }
    }
    return UNUSUAL;
}

static enum outcome write_by_python(const struct value *value, PyObject *it, uint8_t *bytes)
{
    PyObject *data = PyObject_CallFunctionObjArgs(value->write, it, NULL);
    enum outcome outcome = data != NULL ? write_bytes(data, bytes, value->size) : UNUSUAL;

    Py_XDECREF(data);
    return outcome;
}

/* --- parts --- */

static enum outcome write_text(struct out *out, PyObject *it, Py_ssize_t at)
{
    Py_ssize_t size, start;
    const char *text = utf8_of(it, &size);
    enum outcome outcome;

    if (text == NULL || memchr(text, 0, (size_t)size) != NULL)
        return UNUSUAL;
    outcome = append(out, size + 1, 1, &start);
    if (outcome != GOOD)
        return outcome;
    copy_out(out, start, (const uint8_t *)text, size + 1); /* with its NUL */
    store_word(out, at, start);
    return GOOD;
}

static enum outcome write_blob(struct out *out, PyObject *it, Py_ssize_t at)
{
    Py_ssize_t size, start;
    enum outcome outcome;

    if (!PyBytes_CheckExact(it))
        return UNUSUAL;
    size = PyBytes_Size(it);
    outcome = append(out, size, 1, &start);
    if (outcome != GOOD)
        return outcome;
    copy_out(out, start, (const uint8_t *)PyBytes_AsString(it), size);
    store_word(out, at, start);
    store_word(out, at + 8, size);
    return GOOD;
}

/* --- arrays and sequences --- */

static enum outcome write_value(struct out *out, const struct value *value, PyObject *it, Py_ssize_t at,
                                int64_t *lengths);

/* Holds a length to what the type says, and notes it where that is to be said elsewhere. */
static int is_length(const struct dimension *dimension, int64_t length, int64_t *lengths)
{
    if (dimension->length == TIED)
        lengths[dimension->tie] = length;
    return dimension->length < 0 || dimension->length == length;
}

/* Whether the elements stand in place, and if not, room for them and a slot that refers to it. */
static enum outcome place_elements(struct out *out, const struct value *value, const Py_ssize_t *shape, int64_t count,
                                   Py_ssize_t *at)
{
    Py_ssize_t i, size, start, slot = *at;
    enum outcome outcome;

    if (value->form == FORM_ARRAY)
        return GOOD;
    size = value->element->size;
    if (count > PY_SSIZE_T_MAX / 4 / size)
        return UNUSUAL;
    outcome = append(out, (Py_ssize_t)count * size, value->element->alignment, &start);
    if (outcome != GOOD)
        return outcome;
    store_word(out, slot, start);
    for (i = 0; i < value->count; i++) {
        if (value->dimensions[i].length == OWN)
            store_word(out, slot += 8, shape[i]);
    }
    *at = start;
    return GOOD;
}

/* The elements of an ndarray that lies in memory as the record does. */
static enum outcome copy_elements(struct out *out, const struct value *value, const Py_buffer *buffer, Py_ssize_t at,
                                  int64_t *lengths)
{
    const struct value *element = value->element;
    int64_t count = 1, extent = 1;
    enum outcome outcome;
    Py_ssize_t i;

    if (buffer->ndim != value->count || buffer->itemsize != element->size || element->has_after)
        return UNUSUAL;
    for (i = 0; i < value->count; i++) {
        int64_t length = buffer->shape[i];

        if (!is_length(&value->dimensions[i], length, lengths) || !extend(&extent, length))
            return UNUSUAL;
        count *= length;
    }
    if (is_bare(value, count))
        return UNUSUAL;
    outcome = place_elements(out, value, buffer->shape, count, &at);
    if (outcome != GOOD)
        return outcome;
    if (element->form == FORM_RECORD)
        return echo_values_copy(element, out->bytes + at, buffer->buf, count, 1) ? GOOD : UNUSUAL;
    copy_out(out, at, buffer->buf, count * element->size);
    return GOOD;
}

/* 1, 0 or -1 with an exception. */
static int is_of_dtype(const struct value *value, PyObject *array)
{
    PyObject *dtype = PyObject_GetAttr(array, value->dtype_name);
    int answer = -1;

    if (dtype != NULL)
        answer = dtype == value->dtype ? 1 : PyObject_RichCompareBool(dtype, value->dtype, Py_EQ);
    Py_XDECREF(dtype);
    return answer;
}

static enum outcome write_array(struct out *out, const struct value *value, PyObject *it, Py_ssize_t at,
                                int64_t *lengths)
{
    Py_buffer buffer;
    enum outcome outcome;

    if (is_of_dtype(value, it) != 1 || PyObject_GetBuffer(it, &buffer, PyBUF_ND | PyBUF_C_CONTIGUOUS) != 0)
        return UNUSUAL;
    outcome = copy_elements(out, value, &buffer, at, lengths);
    PyBuffer_Release(&buffer);
    return outcome;
}

static int has_shape(const struct value *array, const Py_buffer *buffer)
{
    int is_it = buffer->ndim == array->count && buffer->itemsize == array->element->size;

    for (Py_ssize_t i = 0; is_it && i < array->count; i++)
        is_it = buffer->shape[i] == array->dimensions[i].length;
    return is_it;
}

/* It may be a view of the place itself. */
static void copy_numbers(uint8_t *target, const uint8_t *source, Py_ssize_t size)
{
    if (source + size <= target || target + size <= source)
        copy_in_turn(target, source, size);
    else
        memmove(target, source, (size_t)size);
}

enum outcome echo_value_take_numbers(const struct value *array, PyObject *it, uint8_t *target)
{
    Py_buffer buffer;
    int fits;

    if (!Py_IS_TYPE(it, array->container) || is_of_dtype(array, it) != 1 ||
        PyObject_GetBuffer(it, &buffer, PyBUF_ND | PyBUF_C_CONTIGUOUS) != 0)
        return outcome_of_error();
    fits = has_shape(array, &buffer);
    if (fits)
        copy_numbers(target, buffer.buf, array->size);
    PyBuffer_Release(&buffer);
    return fits ? GOOD : UNUSUAL;
}

static enum outcome write_items(struct out *out, const struct value *value, PyObject *items, Py_ssize_t at,
                                int64_t *lengths)
{
    const struct value *element = value->element;
    Py_ssize_t i, count = PyList_CheckExact(items) ? PyList_Size(items) : PyTuple_Size(items);
    int64_t extent = 1;
    enum outcome outcome;

    if (value->count != 1 || !is_length(value->dimensions, count, lengths) || !extend(&extent, count))
        return UNUSUAL;
    outcome = place_elements(out, value, &count, count, &at);
    if (outcome != GOOD)
        return outcome;
    if (value->form == FORM_SEQUENCE)
        memset(out->bytes + at, 0, (size_t)(count * element->size));
    for (i = 0; i < count; i++, at += element->size) {
        PyObject *item = item_at(items, i, count);

        if (item == NULL)
            return UNUSUAL;
        outcome = write_value(out, element, item, at, NULL);
        Py_DECREF(item);
        if (outcome != GOOD)
            return outcome;
        if (out->turn != NULL)
            turn_count(out->turn, element->objects);
    }
    return GOOD;
}

static enum outcome write_elements(struct out *out, const struct value *value, PyObject *it, Py_ssize_t at,
                                   int64_t *lengths)
{
    if (PyList_CheckExact(it) || PyTuple_CheckExact(it))
        return write_items(out, value, it, at, lengths);
    if (value->dtype != NULL && Py_IS_TYPE(it, value->container))
        return write_array(out, value, it, at, lengths);
    return UNUSUAL;
}

/* --- records --- */

/* A field of an instance: its bytes, or else a new reference in *held; neither: it was never set. */
static const uint8_t *take(const struct member *field, PyObject *object, int is_exact, PyObject **held)
{
    *held = is_exact && field->slot != 0 ? *slot_at(object, field->slot) : NULL;
    if (*held != NULL) {
        Py_INCREF(*held);
        return NULL;
    }
    if (is_exact && field->inlined != 0)
        return (uint8_t *)object + field->inlined;
    *held = PyObject_GetAttr(object, field->name);
    return NULL;
}

static enum outcome write_field(struct out *out, const struct member *field, PyObject *object, int is_exact,
                                Py_ssize_t at, int64_t *lengths)
{
    PyObject *held;
    const uint8_t *bytes = take(field, object, is_exact, &held);
    enum outcome outcome = UNUSUAL;

    if (bytes != NULL) /* as they were received, or never set */
        return echo_values_copy(field->value, out->bytes + at, bytes, 1, 1) ? GOOD : UNUSUAL;
    if (held != NULL)
        outcome = write_value(out, field->value, held, at, lengths);
    Py_XDECREF(held);
    return outcome;
}

/* Whether the fields that count others hold what was counted. */
static int are_tied(const struct value *record, const uint8_t *bytes, const int64_t *lengths)
{
    Py_ssize_t i;

    for (i = 0; i < record->tie_count; i++) {
        if (load_integer(record->ties[i].form, bytes + record->ties[i].at) != lengths[i])
            return 0;
    }
    return 1;
}

/* The place is all 0. */
static enum outcome write_record(struct out *out, const struct value *record, PyObject *object, Py_ssize_t at)
{
    int64_t lengths[MAX_TIES] = {0};
    int is_exact = Py_IS_TYPE(object, record->cls);
    Py_ssize_t i;

    if (!is_exact && !PyType_IsSubtype(Py_TYPE(object), record->cls))
        return UNUSUAL;
    if (record->code != NULL) {
        if (record->code->encode(object, out->bytes + at, record->code->context) == 0)
            return GOOD;
        if (PyErr_Occurred() != NULL && outcome_of_error() == RAISED)
            return RAISED;
        memset(out->bytes + at, 0, (size_t)record->size);
    }
    for (i = 0; i < record->count; i++) {
        const struct member *field = &record->fields[i];
        enum outcome outcome = write_field(out, field, object, is_exact, at + field->at, lengths);

        if (outcome != GOOD)
            return outcome;
    }
    return are_tied(record, out->bytes + at, lengths) ? GOOD : UNUSUAL;
}

/* --- all of them --- */

static enum outcome write_option(struct out *out, const struct value *value, PyObject *it, Py_ssize_t at,
                                 int64_t *lengths)
{
    enum outcome outcome;

    if (it == Py_None)
        return GOOD; /* everything is 0 already */
    outcome = write_value(out, value->element, it, at, lengths);
    if (value->form == FORM_OPTION)
        out->bytes[at + value->element->size] = 1;
    return outcome;
}

/* A value at its place, which is all 0. lengths: those of the record that it is a field of. */
static enum outcome write_value(struct out *out, const struct value *value, PyObject *it, Py_ssize_t at,
                                int64_t *lengths)
{
    uint8_t *bytes = out->bytes + at;

    switch ((enum form)value->form) {
        LEAVES(LEAF_TO_WRITE)
    case FORM_CHARS:
        return write_chars(it, bytes, value->size);
    case FORM_BYTES:
        return write_bytes(it, bytes, value->size);
    case FORM_MEMBER:
        return write_member(value, it, bytes);
    case FORM_PYTHON:
        return write_by_python(value, it, bytes);
    case FORM_TEXT:
        return write_text(out, it, at);
    case FORM_BLOB:
        return write_blob(out, it, at);
    case FORM_OPTION:
    case FORM_REFERENCE:
        return write_option(out, value, it, at, lengths);
    case FORM_ARRAY:
    case FORM_SEQUENCE:
        return write_elements(out, value, it, at, lengths);
    case FORM_RECORD:
        return write_record(out, value, it, at);
    default:
        Py_UNREACHABLE();
    }
}

/* --- for others --- */

/* Bytes of what has outgrown its room. */
static enum outcome bytes_of_heap(const struct out *out, PyObject **result)
{
    *result = bytes_in_turn(out->bytes, out->size);
    return *result != NULL ? GOOD : RAISED;
}

enum outcome echo_value_write(const struct value *value, PyObject *event, uint8_t *room, Py_ssize_t size,
                              PyObject **record, Py_ssize_t *written)
{
    struct turn turn = {.done = 0};
    struct out out = {.bytes = room, .capacity = size, .turn = &turn};
    int64_t lengths[MAX_TIES]; /* of a field alone: nobody counts */
    Py_ssize_t start;
    enum outcome outcome = append(&out, value->size, 1, &start);

    if (outcome == GOOD) {
        memset(out.bytes, 0, (size_t)value->size);
        outcome = write_value(&out, value, event, start, lengths);
    }
    *written = out.size;
    if (outcome == GOOD && out.heap != NULL)
        outcome = bytes_of_heap(&out, record);
    PyMem_Free(out.heap);
    return outcome == UNUSUAL ? outcome_of_error() : outcome;
}

enum outcome echo_value_encode(const struct value *value, PyObject *event, PyObject **result)
{
    uint8_t stack[STACK_BYTES];
    Py_ssize_t size;
    enum outcome outcome = echo_value_write(value, event, stack, STACK_BYTES, result, &size);

    if (outcome != GOOD || *result != NULL)
        return outcome;
    *result = PyBytes_FromStringAndSize((char *)stack, size);
    return *result != NULL ? GOOD : RAISED;
}

int32_t echo_write_field(PyObject *value, PyObject *it, uint8_t *target)
{
    const struct value *fixed = (struct value *)value;
    struct out out = {.bytes = target, .size = fixed->size, .capacity = fixed->size};
    enum outcome outcome;

    memset(target, 0, (size_t)fixed->size);
    Py_INCREF(it);
    outcome = write_value(&out, fixed, it, 0, NULL);
    Py_DECREF(it);
    if (outcome == UNUSUAL)
        outcome_of_error();
    return outcome == GOOD ? 0 : -1;
}
