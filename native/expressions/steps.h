/* Programs: what a tree becomes for records of one layout. codegen/expressions/lowering.py makes them.
 *
 * A program is a list of steps; step i writes value i, and reads values of earlier steps alone. There are no jumps but
 * those of loops. Every step is total: whatever it is given, it gives some value. Where Python would raise, the value
 * carries an error, and so does what is computed from it, unless a guard (AND, OR, CHOOSE) says that it is not asked
 * for. So nothing has to be skipped, and equal parts are computed once.
 *
 * Nothing outside the record is read, whatever its bytes are.
 */
#pragma once

#include <stdint.h>

/* Room for their values is on the stack: 28 bytes each. */
#define MAX_STEPS 1024
#define NO_STEP 0xffff /* an operand that is not there */

/* What a step reads besides its operands; of LOADs in a big-endian record on a little-endian machine, and back. */
#define IS_SWAPPED 0x100

struct step {
    uint16_t op; /* enum op */
    uint16_t a, b, c;
    int64_t imm;
    int64_t aux;
};

/* OP(name). i, u, f: the type of numbers. A "place" is an address in the record; a "region" also has a count. */
#define OPS(OP)                                                                                                        \
    OP(CONST)       /* imm: the bits */                                                                                \
    OP(TEXT_CONST)  /* imm: where in the pool; aux: how many bytes */                                                  \
    OP(PARAM)       /* imm: which */                                                                                   \
    OP(TEXT_PARAM)  /* imm: which */                                                                                   \
    OP(STATE)       /* imm: which; its value */                                                                        \
    OP(STATE_COUNT) /* imm: which; of how many events it is */                                                         \
    OP(LOAD_BOOL)   /* loads: a: place or none, for the record; imm: offset; b: IS_SWAPPED or 0 */                     \
    OP(LOAD_I8)                                                                                                        \
    OP(LOAD_I16)                                                                                                       \
    OP(LOAD_I32)                                                                                                       \
    OP(LOAD_I64)                                                                                                       \
    OP(LOAD_U8)                                                                                                        \
    OP(LOAD_U16)                                                                                                       \
    OP(LOAD_U32)                                                                                                       \
    OP(LOAD_F16)                                                                                                       \
    OP(LOAD_F32)                                                                                                       \
    OP(LOAD_F64)                                                                                                       \
    OP(CHARS)      /* likewise; aux: size; up to a NUL */                                                              \
    OP(FIXED)      /* likewise; aux: size; all of it */                                                                \
    OP(TEXT)       /* c: the slot's offset, loaded */                                                                  \
    OP(REGION)     /* c: the slot's offset, loaded; b: count; imm: bytes of an element */                              \
    OP(ARRAY)      /* a, imm as loads; aux: count */                                                                   \
    OP(SLICE)      /* a: region; imm: start, stop of 32 bits each; aux: bytes of an element */                         \
    OP(INDEX)      /* a: region, b: which; imm: bytes of an element. A place */                                        \
    OP(FOR)        /* a: region; b: the step that reduces; imm: bytes of an element. A place, each in turn */          \
    OP(LENGTH)     /* of a region, or of bytes */                                                                      \
    OP(CHARACTERS) /* of text */                                                                                       \
    OP(DIGEST)     /* of text or bytes: a word */                                                                      \
    OP(ADD_I)                                                                                                          \
    OP(SUB_I)                                                                                                          \
    OP(MUL_I)                                                                                                          \
    OP(FLOORDIV_I)                                                                                                     \
    OP(MOD_I)                                                                                                          \
    OP(POW_I) /* imm: exponent; so is it below */                                                                      \
    OP(NEG_I)                                                                                                          \
    OP(ABS_I)                                                                                                          \
    OP(AND_I)                                                                                                          \
    OP(OR_I)                                                                                                           \
    OP(XOR_I)                                                                                                          \
    OP(NOT_I)                                                                                                          \
    OP(SHL_I)                                                                                                          \
    OP(SHR_I)                                                                                                          \
    OP(ADD_U)                                                                                                          \
    OP(SUB_U)                                                                                                          \
    OP(MUL_U)                                                                                                          \
    OP(FLOORDIV_U)                                                                                                     \
    OP(MOD_U)                                                                                                          \
    OP(POW_U)                                                                                                          \
    OP(SHL_U)                                                                                                          \
    OP(SHR_U)                                                                                                          \
    OP(ADD_F)                                                                                                          \
    OP(SUB_F)                                                                                                          \
    OP(MUL_F)                                                                                                          \
    OP(DIV_F)                                                                                                          \
    OP(FLOORDIV_F)                                                                                                     \
    OP(MOD_F)                                                                                                          \
    OP(POW_F)                                                                                                          \
    OP(NEG_F)                                                                                                          \
    OP(ABS_F)                                                                                                          \
    OP(SQRT_F)                                                                                                         \
    OP(FLOOR_F) /* to int, as the next two */                                                                          \
    OP(CEIL_F)                                                                                                         \
    OP(F_TO_I)                                                                                                         \
    OP(U_TO_I)                                                                                                         \
    OP(I_TO_F)                                                                                                         \
    OP(U_TO_F)                                                                                                         \
    OP(IS_NAN)                                                                                                         \
    OP(IS_INF)                                                                                                         \
    OP(IS_FINITE)                                                                                                      \
    OP(EQ_I) /* also of unsigned numbers, bools, members */                                                            \
    OP(LT_I)                                                                                                           \
    OP(LE_I)                                                                                                           \
    OP(LT_U)                                                                                                           \
    OP(LE_U)                                                                                                           \
    OP(EQ_F)                                                                                                           \
    OP(LT_F)                                                                                                           \
    OP(LE_F)                                                                                                           \
    OP(EQ_IU) /* a: signed, b: unsigned; and so on */                                                                  \
    OP(LT_IU)                                                                                                          \
    OP(LE_IU)                                                                                                          \
    OP(LT_UI)                                                                                                          \
    OP(LE_UI)                                                                                                          \
    OP(EQ_IF)                                                                                                          \
    OP(LT_IF)                                                                                                          \
    OP(LE_IF)                                                                                                          \
    OP(LT_FI)                                                                                                          \
    OP(LE_FI)                                                                                                          \
    OP(EQ_UF)                                                                                                          \
    OP(LT_UF)                                                                                                          \
    OP(LE_UF)                                                                                                          \
    OP(LT_FU)                                                                                                          \
    OP(LE_FU)                                                                                                          \
    OP(EQ_T) /* of bytes */                                                                                            \
    OP(LT_T)                                                                                                           \
    OP(LE_T)                                                                                                           \
    OP(STARTS)                                                                                                         \
    OP(ENDS)                                                                                                           \
    OP(CONTAINS)                                                                                                       \
    OP(NOT)                                                                                                            \
    OP(AND)                                                                                                            \
    OP(OR)                                                                                                             \
    OP(CHOOSE) /* a: condition */                                                                                      \
    OP(SUM_I)  /* reductions: a: its FOR, b: the value, c: condition or none */                                        \
    OP(SUM_U)                                                                                                          \
    OP(SUM_F)                                                                                                          \
    OP(ANY)                                                                                                            \
    OP(ALL)                                                                                                            \
    OP(MIN_I)                                                                                                          \
    OP(MIN_U)                                                                                                          \
    OP(MIN_F)                                                                                                          \
    OP(MAX_I)                                                                                                          \
    OP(MAX_U)                                                                                                          \
    OP(MAX_F)

enum op {
#define OP(name) OP_##name,
    OPS(OP)
#undef OP
        OP_COUNT
};

/* A value: a number, or bytes somewhere with their number. Of a place, `bytes` alone; of a FOR, `count` is left. */
struct value {
    union {
        int64_t i;
        uint64_t u;
        double f;
        const uint8_t *bytes;
    };
    uint64_t count;
};

/* A parameter as it lies in a snapshot of all: a number, or where in the snapshot a text begins, and its size. */
struct parameter {
    int64_t bits;
    uint64_t size;
};

/* What is remembered of earlier events. */
struct state {
    int64_t count; /* of events; 0: there is none */
    int64_t bits;  /* MEAN: the total */
};

#define MAX_STATES 16

/* How a state follows an event, and whether only one that passed. */
enum following {
    ALWAYS_VALUE,
    ALWAYS_TOTAL,
    ALWAYS_AVERAGE, /* weight: of the newest */
    ALWAYS_COUNT,
    PASSED_VALUE,
    SELECTED_VALUE, /* where the first root holds, whatever comes after it */
};

struct update {
    uint16_t state;
    uint16_t step;      /* its new value */
    uint16_t following; /* enum following */
    uint16_t unused;
    double weight;
};

/* What is judged, and by what. */
struct input {
    const uint8_t *record;
    uint64_t size;
    const uint8_t *parameters; /* a snapshot */
    const struct state *states;
};

/* Fills in values[] and errors[] of each step that is not in a loop without elements. An error is the number of the step
 * that failed, counted from 1; 0: there is none. */
void echo_interpret(const struct step *steps, uint16_t count, const uint8_t *pool, const struct input *input,
                    struct value *values, uint16_t *errors);
