/* The C core's face towards Python: declarations only, no preprocessor lines.
 *
 * Two readers: cffi's ffi.cdef(), which knows no preprocessor, and the C compiler. Whoever includes
 * this file includes <stdint.h> before it.
 */

/* How the compiler that built this module lays out memory. */
struct echo_abi {
    uint8_t big_endian;    /* 1: the most significant byte of a number comes first; 0: it comes last */
    uint8_t pointer_size;  /* bytes in a void * */
    uint8_t long_size;     /* bytes in a long: 4 or 8 on the ABIs we know */
    uint8_t max_alignment; /* alignment of int64_t and of double inside a struct: 4 on i386, 2 on m68k */
};

/* Fills *out, which the caller owns. Cannot fail, does not block, takes no lock. */
void echo_native_abi(struct echo_abi *out);
