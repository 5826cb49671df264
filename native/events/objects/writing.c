/* Values to the bytes of a record, by walking a tree of Values.
 *
 * codegen/plain/objects.py defines which values are valid. C code handles the common ones with the same result and
 * leaves all others to it; it never rejects a value itself. The bytes are those that codegen/plain/records.py writes:
 * variable parts follow the record in the order of their slots, each at the next multiple of its alignment.
 */
#include "events/objects/writing.h"

/* --- room --- */

enum outcome echo_out_grow(struct out *out, Py_ssize_t needed)
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

/* --- leaves --- */

static enum outcome write_bytes(PyObject *it, uint8_t *bytes, Py_ssize_t size)
{
    Py_ssize_t found;
    const uint8_t *from = PyBytes_CheckExact(it) ? bytes_of(it, &found) : NULL;

    if (from == NULL || found != size)
        return UNUSUAL;
    copy(bytes, from, size);
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

static enum outcome write_uuid(const struct value *value, PyObject *it, uint8_t *bytes)
{
    PyObject *number = Py_IS_TYPE(it, value->cls) ? *slot_at(it, value->number_slot) : NULL;
    uint64_t halves[2];

    if (number == NULL || !PyLong_CheckExact(number) || !echo_take_wide_int(number, halves))
        return UNUSUAL;
    halves[0] = __builtin_bswap64(halves[0]);
    halves[1] = __builtin_bswap64(halves[1]);
    memcpy(bytes, halves, sizeof halves);
    return GOOD;
}

static enum outcome write_by_python(const struct value *value, PyObject *it, uint8_t *bytes)
{
    PyObject *data = PyObject_CallFunctionObjArgs(value->write, it, NULL);
    enum outcome outcome = data != NULL ? write_bytes(data, bytes, value->size) : UNUSUAL;

    Py_XDECREF(data);
    return outcome;
}

/* --- records --- */

/* A field's bytes as they were received, or never set. */
static enum outcome write_inlined(struct out *out, const struct member *field, PyObject *object, Py_ssize_t at)
{
    const uint8_t *bytes = (uint8_t *)object + field->inlined;

    if (!field->value->is_free)
        return echo_values_copy(field->value, out->bytes + at, bytes, 1, 1) ? GOOD : UNUSUAL;
    copy(out->bytes + at, bytes, field->value->size);
    return GOOD;
}

/* Of an instance that keeps its fields where it is known. What a slot holds need not be held again by whoever runs no
 * other code. */
static inline enum outcome write_field(struct out *out, const struct member *field, PyObject *object, Py_ssize_t at,
                                       int64_t *lengths)
{
    PyObject *held = field->slot != 0 ? *slot_at(object, field->slot) : NULL;
    enum outcome outcome = UNUSUAL;

    if (held != NULL && field->value->is_quiet)
        return echo_write_value(out, field->value, held, at, lengths);
    if (held == NULL && field->inlined != 0)
        return write_inlined(out, field, object, at);
    held = held != NULL ? Py_NewRef(held) : PyObject_GetAttr(object, field->name);
    if (held != NULL)
        outcome = echo_write_value(out, field->value, held, at, lengths);
    Py_XDECREF(held);
    return outcome;
}

/* Of any other instance. */
static enum outcome write_attribute(struct out *out, const struct member *field, PyObject *object, Py_ssize_t at,
                                    int64_t *lengths)
{
    PyObject *held = PyObject_GetAttr(object, field->name);
    enum outcome outcome = held != NULL ? echo_write_value(out, field->value, held, at, lengths) : UNUSUAL;

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
static NOT_INLINE enum outcome write_record(struct out *out, const struct value *record, PyObject *object,
                                            Py_ssize_t at)
{
    int64_t lengths[MAX_TIES];
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
    for (i = 0; i < record->tie_count; i++)
        lengths[i] = 0;
    for (i = 0; i < record->count; i++) {
        const struct member *field = &record->fields[i];
        enum outcome outcome = is_exact ? write_field(out, field, object, at + field->at, lengths)
                                        : write_attribute(out, field, object, at + field->at, lengths);

        if (outcome != GOOD)
            return outcome;
    }
    return record->tie_count == 0 || are_tied(record, out->bytes + at, lengths) ? GOOD : UNUSUAL;
}

/* --- all of them --- */

static enum outcome write_option(struct out *out, const struct value *value, PyObject *it, Py_ssize_t at,
                                 int64_t *lengths)
{
    enum outcome outcome;

    if (it == Py_None)
        return GOOD; /* everything is 0 already */
    outcome = echo_write_value(out, value->element, it, at, lengths);
    if (value->form == FORM_OPTION)
        out->bytes[at + value->element->size] = 1;
    return outcome;
}

enum outcome echo_write_value(struct out *out, const struct value *value, PyObject *it, Py_ssize_t at, int64_t *lengths)
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
    case FORM_UUID:
        return write_uuid(value, it, bytes);
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
        return echo_write_elements(out, value, it, at, lengths);
    case FORM_RECORD:
        return write_record(out, value, it, at);
    default:
        Py_UNREACHABLE();
    }
}

/* --- for others --- */

/* Bytes of what has outgrown its room: the caller's alone, who may take from that that the room was too small. */
static enum outcome bytes_of_heap(const struct out *out, PyObject **result)
{
    *result = PyBytes_FromStringAndSize(NULL, out->size);
    if (*result != NULL)
        copy_in_turn((uint8_t *)PyBytes_AsString(*result), out->bytes, out->size);
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
        outcome = echo_write_value(&out, value, event, start, lengths);
    }
    *written = out.size;
    if (outcome == GOOD && out.heap != NULL)
        outcome = bytes_of_heap(&out, record);
    PyMem_Free(out.heap);
    return outcome == UNUSUAL ? outcome_of_error() : outcome;
}

enum outcome echo_value_check(const struct value *value, PyObject *it)
{
    uint8_t stack[STACK_BYTES];
    struct turn turn = {.done = 0};
    struct out out = {.bytes = stack, .capacity = STACK_BYTES, .turn = &turn, .is_trial = 1};
    int64_t lengths[MAX_TIES]; /* of a field alone: nobody counts */
    Py_ssize_t start;
    enum outcome outcome = append(&out, value->size, 1, &start);

    if (outcome == GOOD)
        outcome = echo_write_value(&out, value, it, start, lengths);
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
    outcome = echo_write_value(&out, fixed, it, 0, NULL);
    Py_DECREF(it);
    if (outcome == UNUSUAL)
        outcome_of_error();
    return outcome == GOOD ? 0 : -1;
}
