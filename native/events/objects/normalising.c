/* Copies values of fixed size from foreign bytes, and normalises the copy to what writing.c would have written.
 *
 * The bytes come from numpy arrays and from events that hold a received record. Padding, bytes behind the end of a
 * text and the bytes of absent options are zeroed, so that nothing of the sender's memory is passed on. A record that
 * is forwarded whole is not copied here, and stays as it was received.
 */
#include "code/text.h"
#include "events/objects/objects.h"

/* Many values are copied and changed so many bytes at a time in memory of our own, and from there to their target, which
 * is so written once and never read: where it is lent, its lines are still with the processor of whoever read what
 * was there before, and each look at one of them waits for it. */
#define BLOCK_BYTES 32768

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

/* --- columns: `count` values of one type, each `stride` bytes behind the one before ---
 *
 * What describes a column goes from call to call in registers: read back from the stack, it would wait for the stores
 * of the block that was just copied. */

static int normalise(const struct value *value, uint8_t *bytes, Py_ssize_t stride, Py_ssize_t count, int strict);

static int normalise_texts(const struct value *value, uint8_t *bytes, Py_ssize_t stride, Py_ssize_t count)
{
    for (; count > 0; count--, bytes += stride) {
        if (!normalise_chars(bytes, value->size))
            return 0;
    }
    return 1;
}

static int are_members(const struct value *value, const uint8_t *bytes, Py_ssize_t stride, Py_ssize_t count)
{
    for (; count > 0; count--, bytes += stride) {
        if (find_number(value->numbers, value->count, load_number(bytes, value->size)) < 0)
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
        return normalise(value->element, bytes, flag, 1, strict);
    memset(bytes, 0, (size_t)flag);
    return 1;
}

static int normalise_options(const struct value *value, uint8_t *bytes, Py_ssize_t stride, Py_ssize_t count, int strict)
{
    for (; count > 0; count--, bytes += stride) {
        if (!normalise_option(value, bytes, strict))
            return 0;
    }
    return 1;
}

static int normalise_arrays(const struct value *value, uint8_t *bytes, Py_ssize_t stride, Py_ssize_t count, int strict)
{
    Py_ssize_t size = value->element->size;

    for (; count > 0; count--, bytes += stride) {
        if (!normalise(value->element, bytes, size, value->size / size, strict))
            return 0;
    }
    return 1;
}

/* Field by field, each of all records: what is to be done is looked up once for all of them. */
static int normalise_records(const struct value *value, uint8_t *bytes, Py_ssize_t stride, Py_ssize_t count, int strict)
{
    Py_ssize_t i, k;

    for (i = 0; i < value->gap_count; i++)
        for (k = 0; k < count; k++)
            zero(bytes + k * stride + value->gaps[i].at, value->gaps[i].size);
    for (i = 0; i < value->checked_count; i++) {
        const struct member *field = value->checked[i];

        if (!normalise(field->value, bytes + field->at, stride, count, strict))
            return 0;
    }
    return 1;
}

static int normalise(const struct value *value, uint8_t *bytes, Py_ssize_t stride, Py_ssize_t count, int strict)
{
    if (value->is_free)
        return 1;
    switch ((enum form)value->form) {
    case FORM_BOOL:
        for (; count > 0; count--, bytes += stride)
            *bytes = *bytes != 0;
        return 1;
    case FORM_CHARS:
        return normalise_texts(value, bytes, stride, count);
    case FORM_MEMBER:
        return !strict || are_members(value, bytes, stride, count);
    case FORM_OPTION:
        return normalise_options(value, bytes, stride, count, strict);
    case FORM_ARRAY:
        return normalise_arrays(value, bytes, stride, count, strict);
    case FORM_RECORD:
        return normalise_records(value, bytes, stride, count, strict);
    default: /* any bytes will do */
        return 1;
    }
}

static int copy_each(const struct value *value, uint8_t *target, const uint8_t *source, Py_ssize_t count, int strict)
{
    Py_ssize_t size = value->size;

    for (; count > 0; count--, target += size, source += size) {
        memcpy(target, source, (size_t)size);
        if (!normalise(value, target, size, 1, strict))
            return 0;
    }
    return 1;
}

static int copy_blocks(const struct value *value, uint8_t *target, const uint8_t *source, Py_ssize_t count, int strict)
{
    _Alignas(64) uint8_t bytes[BLOCK_BYTES];
    Py_ssize_t size = value->size, block = BLOCK_BYTES / size;

    for (; count > 0; count -= block, target += block * size, source += block * size) {
        if (block > count)
            block = count;
        memcpy(bytes, source, (size_t)(block * size));
        if (!normalise(value, bytes, size, block, strict))
            return 0;
        memcpy(target, bytes, (size_t)(block * size));
    }
    return 1;
}

int echo_values_copy(const struct value *value, uint8_t *target, const uint8_t *source, Py_ssize_t count, int strict)
{
    if (value->is_free) {
        memcpy(target, source, (size_t)(count * value->size));
        return 1;
    }
    return count > 1 && value->size <= BLOCK_BYTES ? copy_blocks(value, target, source, count, strict)
                                                   : copy_each(value, target, source, count, strict);
}
