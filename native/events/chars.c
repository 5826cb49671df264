/* Text of fixed size, in and out of its place in a record. */
#include "events/leaves.h"

/* Text of at most 16 bytes into 16, the commonest place: 2 ns where memchr, memcpy and memset take 6. For
 * little-endian machines. */
static int32_t write_sixteen(uint8_t *target, const uint8_t *text, int64_t length)
{
    uint64_t low, high = 0, low_unused, high_unused;

    if (length >= 8) {
        memcpy(&low, text, 8);
        high = load_short(text + 8, length - 8);
    } else {
        low = load_short(text, length);
    }
    low_unused = length < 8 ? UINT64_MAX << 8 * length : 0;
    high_unused = length < 16 ? UINT64_MAX << 8 * (length > 8 ? length - 8 : 0) : 0;
    if (has_zero(low | low_unused) || has_zero(high | high_unused))
        return -1;
    memcpy(target, &low, 8);
    memcpy(target + 8, &high, 8);
    return 0;
}

int32_t echo_write_text(uint8_t *target, const uint8_t *text, int64_t length, int64_t size)
{
    if (length > size)
        return -1;
    if (size == 16 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
        return write_sixteen(target, text, length);
    if (memchr(text, 0, (size_t)length) != NULL)
        return -1;
    memcpy(target, text, (size_t)length);
    memset(target + length, 0, (size_t)(size - length));
    return 0;
}

PyObject *echo_read_text(const uint8_t *source, int64_t size)
{
    return read_chars(source, (Py_ssize_t)size);
}
