/* Bytes of fixed values that others have written, made what object_writing.c would have made of the values.
 *
 * They come from numpy's arrays and from events that keep their record as they received it. Nothing of a
 * sender's memory travels on with them: not what stands in gaps, behind the end of a text, or beside what is
 * absent.
 */
#include "objects.h"

/* memset to 0, inlined: gaps are small. */
static inline void clear(uint8_t *bytes, Py_ssize_t size)
{
    static const uint64_t zero;

    for (; size >= 8; bytes += 8, size -= 8)
        memcpy(bytes, &zero, 8);
    if (size >= 4) {
        memcpy(bytes, &zero, 4);
        memcpy(bytes + size - 4, &zero, 4);
        return;
    }
    for (; size > 0; size--)
        *bytes++ = 0;
}

/* The bits of a little-endian number that come before the first byte of 0. */
static inline uint64_t before_zero(uint64_t bytes)
{
    uint64_t marks = (bytes - UINT64_C(0x0101010101010101)) & ~bytes & UINT64_C(0x8080808080808080);

    return marks == 0 ? UINT64_MAX : ((marks & -marks) >> 7) - 1; /* the lowest mark is no carry */
}

/* ASCII of at most 16 bytes in 16, the commonest place. 0: it is no ASCII, and nothing has changed. */
static inline int normalise_sixteen(uint8_t *bytes)
{
    uint64_t low, high, mask;

    memcpy(&low, bytes, 8);
    memcpy(&high, bytes + 8, 8);
    mask = before_zero(low);
    low &= mask;
    high &= mask == UINT64_MAX ? before_zero(high) : 0;
    if ((low | high) & UINT64_C(0x8080808080808080))
        return 0;
    memcpy(bytes, &low, 8);
    memcpy(bytes + 8, &high, 8);
    return 1;
}

static int normalise_chars(uint8_t *bytes, Py_ssize_t size)
{
    Py_ssize_t i, length;
    PyObject *text;

    if (size == 16 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && normalise_sixteen(bytes))
        return 1;
    length = text_length(bytes, size);
    memset(bytes + length, 0, (size_t)(size - length));
    for (i = 0; i < length && bytes[i] < 0x80; i++)
        ;
    if (i == length)
        return 1;
    text = PyUnicode_DecodeUTF8((char *)bytes, length, NULL);
    if (text == NULL)
        PyErr_Clear();
    Py_XDECREF(text);
    return text != NULL;
}

static int has_number(const struct value *value, int64_t number)
{
    Py_ssize_t i;

    for (i = 0; i < value->count && value->numbers[i] != number; i++)
        ;
    return i < value->count;
}

static int normalise_option(const struct value *value, uint8_t *bytes, int strict)
{
    Py_ssize_t flag = value->element->size;
    int is_there = bytes[flag] != 0;

    memset(bytes + flag, 0, (size_t)(value->size - flag));
    bytes[flag] = (uint8_t)is_there;
    if (is_there)
        return echo_value_normalise(value->element, bytes, strict);
    memset(bytes, 0, (size_t)flag);
    return 1;
}

static int normalise_record(const struct value *record, uint8_t *bytes, int strict)
{
    Py_ssize_t i;

    for (i = 0; i < record->gap_count; i++)
        clear(bytes + record->gaps[i].at, record->gaps[i].size);
    for (i = 0; i < record->bound_count; i++) {
        const struct member *field = record->bound[i];

        if (!echo_value_normalise(field->value, bytes + field->at, strict))
            return 0;
    }
    return 1;
}

int echo_value_normalise(const struct value *value, uint8_t *bytes, int strict)
{
    Py_ssize_t at;

    if (value->is_free)
        return 1;
    switch ((enum form)value->form) {
    case FORM_BOOL:
        *bytes = *bytes != 0;
        return 1;
    case FORM_CHARS:
        return normalise_chars(bytes, value->size);
    case FORM_MEMBER:
        return !strict || has_number(value, load_number(bytes, value->size));
    case FORM_OPTION:
        return normalise_option(value, bytes, strict);
    case FORM_ARRAY:
        for (at = 0; at < value->size; at += value->element->size) {
            if (!echo_value_normalise(value->element, bytes + at, strict))
                return 0;
        }
        return 1;
    case FORM_RECORD:
        return normalise_record(value, bytes, strict);
    default: /* any bytes will do */
        return 1;
    }
}
