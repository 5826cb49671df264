/* Lists, tuples and arrays to the bytes of a record.
 *
 * A list is written element by element: numbers in a loop of their own, other leaves without holding each, and what may
 * run other code from references. Lists in lists that are one array of several dimensions have one length at each
 * level, as their first ones say. An ndarray that lies in memory as the record does is copied.
 */
#include "events/arrays.h"
#include "events/objects/writing.h"

/* Holds a length to what the type says, and notes it where that is to be said elsewhere. */
static int is_length(const struct dimension *dimension, int64_t length, int64_t *lengths)
{
    if (dimension->length == TIED)
        lengths[dimension->tie] = length;
    return dimension->length < 0 || dimension->length == length;
}

/* Whether the elements stand in place, and if not, room for them and a slot that refers to it. */
static inline enum outcome place_elements(struct out *out, const struct value *value, const Py_ssize_t *shape,
                                          Py_ssize_t dimensions, int64_t count, Py_ssize_t *at)
{
    Py_ssize_t i, size, start, slot = *at;
    enum outcome outcome;

    if (value->form == FORM_ARRAY)
        return GOOD;
    size = value->element->size;
    if (!fit(count, size, PY_SSIZE_T_MAX / 4))
        return UNUSUAL;
    outcome = append(out, (Py_ssize_t)count * size, value->element->alignment, &start);
    if (outcome != GOOD)
        return outcome;
    store_word(out, slot, start);
    for (i = 0; i < dimensions; i++) {
        if (value->dimensions[i].length == OWN)
            store_word(out, slot += 8, shape[i]);
    }
    *at = start;
    return GOOD;
}

/* The elements of an ndarray that lies in memory as the record does. */
struct elements {
    PyObject *holder; /* borrowed; keeps the bytes where they are */
    const void *bytes;
    const Py_ssize_t *lengths;
    Py_ssize_t dimension_count;
};

static enum outcome copy_elements(struct out *out, const struct value *value, const struct elements *from,
                                  Py_ssize_t at, int64_t *lengths)
{
    const struct value *element = value->element;
    int64_t count = 1, extent = 1;
    enum outcome outcome;
    Py_ssize_t i;

    if (from->dimension_count != value->count || element->has_after)
        return UNUSUAL;
    for (i = 0; i < value->count; i++) {
        int64_t length = from->lengths[i];

        if (!is_length(&value->dimensions[i], length, lengths) || !extend(&extent, length))
            return UNUSUAL;
        count *= length;
    }
    if (is_bare(value, count))
        return UNUSUAL;
    if (out->is_trial && element->form != FORM_RECORD)
        return GOOD;
    outcome = place_elements(out, value, from->lengths, value->count, count, &at);
    if (outcome != GOOD)
        return outcome;
    if (element->form == FORM_RECORD)
        return echo_values_copy(element, out->bytes + at, from->bytes, count, 1) ? GOOD : UNUSUAL;
    copy_out(out, at, from->holder, from->bytes, count * element->size);
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

/* By Python's protocols. */
static enum outcome write_any_array(struct out *out, const struct value *value, PyObject *it, Py_ssize_t at,
                                    int64_t *lengths)
{
    Py_buffer buffer;
    struct elements from;
    enum outcome outcome = UNUSUAL;

    if (is_of_dtype(value, it) != 1 || PyObject_GetBuffer(it, &buffer, PyBUF_ND | PyBUF_C_CONTIGUOUS) != 0)
        return UNUSUAL;
    from = (struct elements){buffer.obj, buffer.buf, buffer.shape, buffer.ndim};
    if (buffer.itemsize == value->element->size)
        outcome = copy_elements(out, value, &from, at, lengths);
    PyBuffer_Release(&buffer);
    return outcome;
}

/* Whether an array that arrays.h knows has the value's dtype, and still has it when that has been looked at. */
static int has_dtype(const struct value *value, const struct array_fields *found)
{
    PyObject *dtype = found->dtype;
    int is_equal;

    if (dtype == value->dtype)
        return 1;
    Py_INCREF(dtype);
    is_equal = echo_arrays.are_equal(dtype, value->dtype) && found->dtype == dtype;
    Py_DECREF(dtype);
    return is_equal;
}

static enum outcome write_array(struct out *out, const struct value *value, PyObject *it, Py_ssize_t at,
                                int64_t *lengths)
{
    const struct array_fields *found = array_fields_of(it);
    struct elements from;

    if (!value->is_known_array)
        return write_any_array(out, value, it, at, lengths);
    if (!has_dtype(value, found))
        return UNUSUAL;
    if (!(found->flags & ARRAY_IS_CONTIGUOUS))
        return write_any_array(out, value, it, at, lengths);
    from = (struct elements){it, found->bytes, found->lengths, found->dimension_count};
    return copy_elements(out, value, &from, at, lengths);
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

static enum outcome write_some_numbers(char form, PyObject *const *items, Py_ssize_t count, uint8_t *bytes)
{
    switch ((enum form)form) {
        NUMBERS(LEAVES_TO_WRITE)
    default:
        Py_UNREACHABLE();
    }
}

/* Elements that are numbers: a turn of them at once, as nobody can change the list meanwhile. */
static enum outcome write_numbers(struct out *out, const struct value *element, PyObject *items, Py_ssize_t count,
                                  Py_ssize_t at)
{
    Py_ssize_t some, done;

    for (done = 0; done < count; done += some) {
        enum outcome outcome;

        some = count - done < TURN_OBJECTS ? count - done : TURN_OBJECTS;
        if (count_items(items) != count)
            return UNUSUAL;
        outcome =
            write_some_numbers(element->form, items_of(items) + done, some, out->bytes + at + done * element->size);
        if (outcome != GOOD)
            return outcome;
        if (out->turn != NULL)
            turn_count(out->turn, some);
    }
    return GOOD;
}

/* One leaf that is no number by itself. */
static inline enum outcome write_leaf(struct out *out, const struct value *element, PyObject *it, Py_ssize_t at)
{
    switch ((enum form)element->form) {
    case FORM_TEXT:
        return write_text(out, it, at);
    case FORM_BLOB:
        return write_blob(out, it, at);
    default:
        return echo_write_value(out, element, it, at, NULL);
    }
}

/* Elements that are leaves otherwise, or maybe one: each is looked for anew, as a long text gives others their turn. */
static enum outcome write_leaves(struct out *out, const struct value *element, PyObject *items, Py_ssize_t count,
                                 Py_ssize_t at)
{
    int is_option = element->form == FORM_OPTION;
    const struct value *leaf = is_option ? element->element : element;
    Py_ssize_t i;

    for (i = 0; i < count; i++, at += element->size) {
        PyObject *it = peek_at(items, i, count);
        enum outcome outcome;

        if (is_option && it == Py_None)
            continue;
        outcome = it != NULL ? write_leaf(out, leaf, it, at) : UNUSUAL;
        if (outcome != GOOD)
            return outcome;
        if (is_option)
            out->bytes[at + leaf->size] = 1;
        if (out->turn != NULL)
            turn_count(out->turn, 1);
    }
    return GOOD;
}

static enum outcome write_each(struct out *out, const struct value *element, PyObject *items, Py_ssize_t count,
                               Py_ssize_t at)
{
    Py_ssize_t i;

    for (i = 0; i < count; i++, at += element->size) {
        PyObject *item = item_at(items, i, count);
        enum outcome outcome = item != NULL ? echo_write_value(out, element, item, at, NULL) : UNUSUAL;

        Py_XDECREF(item);
        if (outcome != GOOD)
            return outcome;
        if (out->turn != NULL)
            turn_count(out->turn, element->objects);
    }
    return GOOD;
}

/* One row: elements that stand side by side. */
static enum outcome write_row(struct out *out, const struct value *element, PyObject *items, Py_ssize_t count,
                              Py_ssize_t at)
{
    if (is_number(element->form) && items_of(items) != NULL)
        return write_numbers(out, element, items, count, at);
    return element->is_quiet ? write_leaves(out, element, items, count, at)
                             : write_each(out, element, items, count, at);
}

/* shape: the lengths from this level on; `levels` of them. *at: moves on. */
static enum outcome write_rows(struct out *out, const struct value *element, PyObject *items, const Py_ssize_t *shape,
                               Py_ssize_t levels, Py_ssize_t *at)
{
    enum outcome outcome = GOOD;
    Py_ssize_t i;

    if (levels == 1) {
        outcome = write_row(out, element, items, *shape, *at);
        *at += *shape * element->size;
        return outcome;
    }
    for (i = 0; outcome == GOOD && i < *shape; i++) {
        PyObject *row = item_at(items, i, *shape);
        int fits = row != NULL && is_list(row) && count_items(row) == shape[1];

        outcome = fits ? write_rows(out, element, row, shape + 1, levels - 1, at) : UNUSUAL;
        Py_XDECREF(row);
    }
    return outcome;
}

static inline __attribute__((always_inline)) enum outcome write_dimensions(struct out *out, const struct value *value,
                                                                           PyObject *items, Py_ssize_t at,
                                                                           int64_t *lengths, Py_ssize_t dimensions)
{
    Py_ssize_t i, shape[MAX_DIMENSIONS], count = shape_of_lists(items, shape, dimensions);
    int64_t extent = 1;
    enum outcome outcome;

    if (count < 0)
        return UNUSUAL;
    for (i = 0; i < dimensions; i++) {
        if (!is_length(&value->dimensions[i], shape[i], lengths) || !extend(&extent, shape[i]))
            return UNUSUAL;
    }
    outcome = place_elements(out, value, shape, dimensions, count, &at);
    if (outcome != GOOD)
        return outcome;
    if (value->form == FORM_SEQUENCE && !is_number(value->element->form))
        zero(out->bytes + at, count * value->element->size);
    if (dimensions == 1)
        return write_row(out, value->element, items, count, at);
    return write_rows(out, value->element, items, shape, dimensions, &at);
}

/* Nearly all have one dimension: the compiler leaves out for them what others need. */
static enum outcome write_items(struct out *out, const struct value *value, PyObject *items, Py_ssize_t at,
                                int64_t *lengths)
{
    return value->count == 1 ? write_dimensions(out, value, items, at, lengths, 1)
                             : write_dimensions(out, value, items, at, lengths, value->count);
}

enum outcome echo_write_elements(struct out *out, const struct value *value, PyObject *it, Py_ssize_t at,
                                 int64_t *lengths)
{
    if (is_list(it))
        return write_items(out, value, it, at, lengths);
    if (value->dtype != NULL && Py_IS_TYPE(it, value->container))
        return write_array(out, value, it, at, lengths);
    return UNUSUAL;
}
