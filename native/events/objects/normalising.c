/* Copies values of fixed size from foreign bytes, and normalises the copy to what writing.c would have written.
 *
 * The bytes come from numpy arrays and from events that hold a received record. Padding, bytes behind the end of a
 * text and the bytes of absent options are zeroed, so that nothing of the sender's memory is passed on. A record that
 * is forwarded whole is not copied here, and stays as it was received.
 */
#include "code/text.h"
#include "events/objects/objects.h"

/* Values are copied and then changed so many at a time: they stay in the cache that is next to the processor. */
#define BLOCK_BYTES 4096

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
    Py_ssize_t length;

    if (size == 16 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && normalise_sixteen(bytes))
        return 1;
    length = text_length(bytes, size);
    memset(bytes + length, 0, (size_t)(size - length));
    return echo_is_utf8(bytes, (uint64_t)length);
}

/* Values of one type in memory, each so many bytes behind the one before. */
struct column {
    uint8_t *bytes;
    Py_ssize_t stride;
    Py_ssize_t count;
};

static int normalise(const struct value *value, struct column column, int strict);

static int normalise_texts(const struct value *value, struct column texts)
{
    for (; texts.count > 0; texts.count--, texts.bytes += texts.stride) {
        if (!normalise_chars(texts.bytes, value->size))
            return 0;
    }
    return 1;
}

static int are_members(const struct value *value, struct column members)
{
    for (; members.count > 0; members.count--, members.bytes += members.stride) {
        if (find_number(value->numbers, value->count, load_number(members.bytes, value->size)) < 0)
            return 0;
    }
    return 1;
}

static int normalise_option(const struct value *value, uint8_t *bytes, int strict)
{
    Py_ssize_t flag = value->element->size;
    int is_there = bytes[flag] != 0;

    memset(bytes + flag, 0, (size_t)(value->size - flag));
    bytes[flag] = (uint8_t)is_there;
    if (is_there)
        return normalise(value->element, (struct column){bytes, flag, 1}, strict);
    memset(bytes, 0, (size_t)flag);
    return 1;
}

static int normalise_options(const struct value *value, struct column options, int strict)
{
    for (; options.count > 0; options.count--, options.bytes += options.stride) {
        if (!normalise_option(value, options.bytes, strict))
            return 0;
    }
    return 1;
}

static int normalise_arrays(const struct value *value, struct column arrays, int strict)
{
    Py_ssize_t size = value->element->size;

    for (; arrays.count > 0; arrays.count--, arrays.bytes += arrays.stride) {
        if (!normalise(value->element, (struct column){arrays.bytes, size, value->size / size}, strict))
            return 0;
    }
    return 1;
}

/* Field by field, each of all records: what is to be done is looked up once for all of them. */
static int normalise_records(const struct value *value, struct column records, int strict)
{
    Py_ssize_t i, k;

    for (i = 0; i < value->gap_count; i++)
        for (k = 0; k < records.count; k++)
            zero(records.bytes + k * records.stride + value->gaps[i].at, value->gaps[i].size);
    for (i = 0; i < value->checked_count; i++) {
        const struct member *field = value->checked[i];
        struct column fields = {records.bytes + field->at, records.stride, records.count};

        if (!normalise(field->value, fields, strict))
            return 0;
    }
    return 1;
}

static int normalise(const struct value *value, struct column column, int strict)
{
    if (value->is_free)
        return 1;
    switch ((enum form)value->form) {
    case FORM_BOOL:
        for (; column.count > 0; column.count--, column.bytes += column.stride)
            *column.bytes = *column.bytes != 0;
        return 1;
    case FORM_CHARS:
        return normalise_texts(value, column);
    case FORM_MEMBER:
        return !strict || are_members(value, column);
    case FORM_OPTION:
        return normalise_options(value, column, strict);
    case FORM_ARRAY:
        return normalise_arrays(value, column, strict);
    case FORM_RECORD:
        return normalise_records(value, column, strict);
    default: /* any bytes will do */
        return 1;
    }
}

static Py_ssize_t block_of(const struct value *value, Py_ssize_t count)
{
    if (value->is_free || count <= 1)
        return count;
    return value->size < BLOCK_BYTES ? BLOCK_BYTES / value->size : 1;
}

int echo_values_copy(const struct value *value, uint8_t *target, const uint8_t *source, Py_ssize_t count, int strict)
{
    Py_ssize_t size = value->size, block = block_of(value, count);

    for (; count > 0; count -= block, target += block * size, source += block * size) {
        if (block > count)
            block = count;
        memcpy(target, source, (size_t)(block * size));
        if (!normalise(value, (struct column){target, size, block}, strict))
            return 0;
    }
    return 1;
}
