/* The memory layout of the compiler at hand, asked of the compiler itself.
 *
 * Holds no knowledge of any particular machine; it is what the Python side's guess is tested against.
 */
#include <stddef.h>
#include <stdint.h>

#include "core/api/api.h"

/* The distance from `before` to `value` is the alignment a struct gives to `value`. _Alignof is not
 * asked: gcc 7 and older answer 8 for both types on i386, where a struct puts them at 4. */
struct int64_in_struct {
    char before;   /* pushes value to its alignment */
    int64_t value; /* measured */
};

struct double_in_struct {
    char before;  /* pushes value to its alignment */
    double value; /* measured */
};

enum {
    INT64_ALIGNMENT = offsetof(struct int64_in_struct, value),
    DOUBLE_ALIGNMENT = offsetof(struct double_in_struct, value),
};

_Static_assert(sizeof(double) == sizeof(int64_t), "an 8-byte double is what the wire carries");
_Static_assert((int)INT64_ALIGNMENT == (int)DOUBLE_ALIGNMENT,
               "one max_alignment cannot describe an ABI that aligns int64_t and double differently");

static uint8_t first_byte_is_most_significant(void)
{
    const uint16_t one = 1;

    return *(const uint8_t *)&one == 0;
}

void echo_native_abi(struct echo_abi *out)
{
    out->big_endian = first_byte_is_most_significant();
    out->pointer_size = sizeof(void *);
    out->long_size = sizeof(long);
    out->max_alignment = INT64_ALIGNMENT;
}
