/* Executes programs, one step after another: the first tier, and what says which step fails. No Python, no allocation.
 *
 * Expected workload: ten steps, 1 ns each.
 */
#include "expressions/steps.h"

#include "code/numbers.h"
#include "code/text.h"

#include <math.h>
#include <string.h>

/* One execution. */
struct run {
    const struct step *steps;
    const uint8_t *pool;
    const struct input *input;
    struct value *values;
    uint16_t *errors;
};

/* --- what is in the record --- */

/* The bytes that a step reads; NULL: they are not in the record. */
static const uint8_t *place_of(const struct run *run, const struct step *step, uint64_t size)
{
    const uint8_t *record = run->input->record;
    const uint8_t *start = step->a == NO_STEP ? record : run->values[step->a].bytes;
    uint64_t before = (uint64_t)(start - record), offset = (uint64_t)step->imm;

    if (before > run->input->size || offset > run->input->size - before || size > run->input->size - before - offset)
        return NULL;
    return start + offset;
}

static double from_half(uint64_t bits)
{
    int exponent = bits >> 10 & 31;
    double fraction = (double)(bits & 1023), size;

    if (exponent == 31)
        size = fraction != 0.0 ? NAN : INFINITY;
    else
        size = exponent == 0 ? ldexp(fraction, -24) : ldexp(fraction + 1024.0, exponent - 25);
    return bits & 0x8000 ? -size : size;
}

static double from_float(uint32_t bits)
{
    float it;

    memcpy(&it, &bits, sizeof it);
    return it;
}

#define KEEP(it) (it)

/* A load of so many bits: in the other byte order where the step says so, and what is made of them. */
#define LOAD(name, size, swap, field, made)                                                                            \
    case OP_LOAD_##name: {                                                                                             \
        const uint8_t *bytes = place_of(run, step, size / 8);                                                          \
        uint##size##_t it;                                                                                             \
                                                                                                                       \
        if (bytes == NULL)                                                                                             \
            return -1;                                                                                                 \
        memcpy(&it, bytes, sizeof it);                                                                                 \
        it = step->b == IS_SWAPPED ? swap(it) : it;                                                                    \
        value->field = made;                                                                                           \
        return 0;                                                                                                      \
    }

/* 0, or -1 where the bytes are not there. */
static inline int load(const struct run *run, const struct step *step, struct value *value)
{
    switch (step->op) {
        LOAD(BOOL, 8, KEEP, i, it != 0)
        LOAD(I8, 8, KEEP, i, (int8_t)it)
        LOAD(I16, 16, __builtin_bswap16, i, (int16_t)it)
        LOAD(I32, 32, __builtin_bswap32, i, (int32_t)it)
        LOAD(I64, 64, __builtin_bswap64, u, it)
        LOAD(U8, 8, KEEP, u, it)
        LOAD(U16, 16, __builtin_bswap16, u, it)
        LOAD(U32, 32, __builtin_bswap32, u, it)
        LOAD(F16, 16, __builtin_bswap16, f, from_half(it))
        LOAD(F32, 32, __builtin_bswap32, f, from_float(it))
        LOAD(F64, 64, __builtin_bswap64, u, it) /* the bits are the same */
    default:
        return -1;
    }
}

/* Bytes of fixed size in the record. */
static int take_bytes_in_place(const struct run *run, const struct step *step, struct value *value)
{
    value->bytes = place_of(run, step, (uint64_t)step->aux);
    if (value->bytes == NULL)
        return -1;
    value->count = step->op == OP_CHARS ? echo_chars_size(value->bytes, (uint64_t)step->aux) : (uint64_t)step->aux;
    return 0;
}

/* The text that a slot refers to; none where it is 0. */
static int take_text(const struct run *run, const struct step *step, struct value *value)
{
    uint64_t offset = run->values[step->c].u;
    int64_t size = echo_slot_text_size(run->input->record, run->input->size, offset);

    if (size < 0)
        return -1;
    value->bytes = run->input->record + offset;
    value->count = (uint64_t)size;
    return 0;
}

/* The elements that a slot refers to. */
static int take_region(const struct run *run, const struct step *step, struct value *value)
{
    uint64_t offset = run->values[step->c].u, count = run->values[step->b].u, size = run->input->size;

    value->bytes = run->input->record;
    value->count = 0;
    if (count == 0 || offset == 0)
        return count == 0 ? 0 : -1;
    if (offset > size || count > (size - offset) / (uint64_t)step->imm)
        return -1;
    value->bytes = run->input->record + offset;
    value->count = count;
    return 0;
}

static int take_array(const struct run *run, const struct step *step, struct value *value)
{
    value->bytes = place_of(run, step, 0);
    value->count = (uint64_t)step->aux;
    return value->bytes != NULL ? 0 : -1;
}

static int64_t bound(int32_t given, int64_t count)
{
    int64_t it = given < 0 ? given + count : given;

    return it < 0 ? 0 : it > count ? count : it;
}

static void slice(const struct value *region, const struct step *step, struct value *value)
{
    int64_t count = (int64_t)region->count;
    int64_t start = bound((int32_t)(step->imm >> 32), count), stop = bound((int32_t)step->imm, count);

    value->bytes = region->bytes + (start < stop ? start * step->aux : 0);
    value->count = start < stop ? (uint64_t)(stop - start) : 0;
}

static int take_element(const struct value *region, int64_t index, const struct step *step, struct value *value)
{
    int64_t count = (int64_t)region->count, at = index < 0 ? index + count : index;

    if (at < 0 || at >= count)
        return -1;
    value->bytes = region->bytes + at * step->imm;
    return 0;
}

/* --- arithmetic: 0, or -1 where Python raises or 64 bits do not do --- */

static int floor_divide(int64_t a, int64_t b, int64_t *quotient, int64_t *rest)
{
    if (b == 0 || (b == -1 && a == INT64_MIN))
        return -1;
    *quotient = a / b;
    *rest = a % b;
    if (*rest != 0 && (*rest < 0) != (b < 0)) {
        *quotient -= 1;
        *rest += b;
    }
    return 0;
}

static int power_signed(int64_t a, int64_t exponent, int64_t *result)
{
    for (*result = 1; exponent > 0; exponent--) {
        if (__builtin_mul_overflow(*result, a, result))
            return -1;
    }
    return 0;
}

static int power_unsigned(uint64_t a, int64_t exponent, uint64_t *result)
{
    for (*result = 1; exponent > 0; exponent--) {
        if (__builtin_mul_overflow(*result, a, result))
            return -1;
    }
    return 0;
}

static int shift_left(int64_t a, int64_t by, int64_t *result)
{
    if (by < 0 || by >= 64)
        return -1;
    *result = (int64_t)((uint64_t)a << by);
    return *result >> by == a ? 0 : -1;
}

static int to_int(double a, int64_t *result)
{
    if (!(a >= -9223372036854775808.0 && a < 9223372036854775808.0))
        return -1;
    *result = (int64_t)a;
    return 0;
}

static int power_float(double a, int64_t exponent, double *result)
{
    *result = echo_power(a, exponent);
    return isinf(*result) && isfinite(a) ? -1 : 0;
}

/* What fails gives a value all the same: it may not be asked for. */
static inline int compute(const struct step *step, const struct value *a, const struct value *b, struct value *value)
{
    int64_t other;
    int failed = 0;

    switch (step->op) {
    case OP_ADD_I:
        return __builtin_add_overflow(a->i, b->i, &value->i) ? -1 : 0;
    case OP_SUB_I:
        return __builtin_sub_overflow(a->i, b->i, &value->i) ? -1 : 0;
    case OP_MUL_I:
        return __builtin_mul_overflow(a->i, b->i, &value->i) ? -1 : 0;
    case OP_FLOORDIV_I:
        return floor_divide(a->i, b->i, &value->i, &other);
    case OP_MOD_I: /* MIN % -1 is 0 */
        if (b->i == -1) {
            value->i = 0;
            return 0;
        }
        return floor_divide(a->i, b->i, &other, &value->i);
    case OP_POW_I:
        return power_signed(a->i, step->imm, &value->i);
    case OP_NEG_I:
        return __builtin_sub_overflow((int64_t)0, a->i, &value->i) ? -1 : 0;
    case OP_ABS_I:
        value->i = a->i;
        return a->i < 0 && __builtin_sub_overflow((int64_t)0, a->i, &value->i) ? -1 : 0;
    case OP_AND_I:
        value->i = a->i & b->i;
        return 0;
    case OP_OR_I:
        value->i = a->i | b->i;
        return 0;
    case OP_XOR_I:
        value->i = a->i ^ b->i;
        return 0;
    case OP_NOT_I:
        value->i = ~a->i;
        return 0;
    case OP_SHL_I:
        return shift_left(a->i, b->i, &value->i);
    case OP_SHR_I:
    case OP_SHR_U:
        failed = b->i < 0 || b->i >= 64;
        if (step->op == OP_SHR_I)
            value->i = a->i >> (failed ? 0 : b->i);
        else
            value->u = a->u >> (failed ? 0 : b->i);
        return -failed;
    case OP_SHL_U:
        failed = b->i < 0 || b->i >= 64;
        value->u = a->u << (failed ? 0 : b->i);
        return failed || value->u >> b->i != a->u ? -1 : 0;
    case OP_ADD_U:
        return __builtin_add_overflow(a->u, b->u, &value->u) ? -1 : 0;
    case OP_SUB_U:
        return __builtin_sub_overflow(a->u, b->u, &value->u) ? -1 : 0;
    case OP_MUL_U:
        return __builtin_mul_overflow(a->u, b->u, &value->u) ? -1 : 0;
    case OP_FLOORDIV_U:
    case OP_MOD_U:
        if (b->u == 0)
            return -1;
        value->u = step->op == OP_MOD_U ? a->u % b->u : a->u / b->u;
        return 0;
    case OP_POW_U:
        return power_unsigned(a->u, step->imm, &value->u);
    case OP_ADD_F:
        value->f = a->f + b->f;
        return 0;
    case OP_SUB_F:
        value->f = a->f - b->f;
        return 0;
    case OP_MUL_F:
        value->f = a->f * b->f;
        return 0;
    case OP_DIV_F:
        value->f = a->f / b->f;
        return b->f == 0.0 ? -1 : 0;
    case OP_FLOORDIV_F:
        value->f = b->f == 0.0 ? 0.0 : echo_floor_divide(a->f, b->f);
        return b->f == 0.0 ? -1 : 0;
    case OP_MOD_F:
        value->f = b->f == 0.0 ? 0.0 : echo_remainder(a->f, b->f);
        return b->f == 0.0 ? -1 : 0;
    case OP_POW_F:
        return power_float(a->f, step->imm, &value->f);
    case OP_NEG_F:
        value->f = -a->f;
        return 0;
    case OP_ABS_F:
        value->f = fabs(a->f);
        return 0;
    case OP_SQRT_F:
        value->f = sqrt(a->f);
        return a->f < 0.0 ? -1 : 0;
    case OP_FLOOR_F:
        return to_int(echo_floor(a->f), &value->i);
    case OP_CEIL_F:
        return to_int(echo_ceil(a->f), &value->i);
    case OP_F_TO_I:
        return to_int(a->f, &value->i);
    case OP_U_TO_I:
        value->i = a->i;
        return a->i < 0 ? -1 : 0;
    case OP_I_TO_F:
        value->f = (double)a->i;
        return 0;
    case OP_U_TO_F:
        value->f = (double)a->u;
        return 0;
    case OP_IS_NAN:
        value->i = a->f != a->f;
        return 0;
    case OP_IS_INF:
        value->i = fabs(a->f) == INFINITY;
        return 0;
    case OP_IS_FINITE:
        value->i = fabs(a->f) < INFINITY;
        return 0;
    case OP_LENGTH:
        value->u = a->count;
        return 0;
    case OP_CHARACTERS:
        value->u = echo_count_characters(a->bytes, a->count);
        return 0;
    case OP_DIGEST:
        value->u = echo_digest(a->bytes, a->count);
        return 0;
    default:
        return -1;
    }
}

static int order_of_bytes(const struct value *a, const struct value *b)
{
    return echo_compare_bytes(a->bytes, a->count, b->bytes, b->count);
}

static inline int compare(int op, const struct value *a, const struct value *b)
{
    switch (op) {
    case OP_EQ_I:
        return a->i == b->i;
    case OP_LT_I:
        return a->i < b->i;
    case OP_LE_I:
        return a->i <= b->i;
    case OP_LT_U:
        return a->u < b->u;
    case OP_LE_U:
        return a->u <= b->u;
    case OP_EQ_F:
        return a->f == b->f;
    case OP_LT_F:
        return a->f < b->f;
    case OP_LE_F:
        return a->f <= b->f;
    case OP_EQ_IU:
        return a->i >= 0 && a->u == b->u;
    case OP_LT_IU:
        return a->i < 0 || a->u < b->u;
    case OP_LE_IU:
        return a->i < 0 || a->u <= b->u;
    case OP_LT_UI:
        return b->i >= 0 && a->u < b->u;
    case OP_LE_UI:
        return b->i >= 0 && a->u <= b->u;
    case OP_EQ_IF:
        return echo_compare_int(a->i, b->f) == 0;
    case OP_LT_IF:
        return echo_compare_int(a->i, b->f) == -1;
    case OP_LE_IF:
        return echo_compare_int(a->i, b->f) <= 0;
    case OP_LT_FI:
        return echo_compare_int(b->i, a->f) == 1;
    case OP_LE_FI:
        return (echo_compare_int(b->i, a->f) & ~1) == 0;
    case OP_EQ_UF:
        return echo_compare_uint(a->u, b->f) == 0;
    case OP_LT_UF:
        return echo_compare_uint(a->u, b->f) == -1;
    case OP_LE_UF:
        return echo_compare_uint(a->u, b->f) <= 0;
    case OP_LT_FU:
        return echo_compare_uint(b->u, a->f) == 1;
    case OP_LE_FU:
        return (echo_compare_uint(b->u, a->f) & ~1) == 0;
    case OP_EQ_T:
        return a->count == b->count && order_of_bytes(a, b) == 0;
    case OP_LT_T:
        return order_of_bytes(a, b) < 0;
    case OP_LE_T:
        return order_of_bytes(a, b) <= 0;
    case OP_STARTS:
        return echo_starts(a->bytes, a->count, b->bytes, b->count);
    case OP_ENDS:
        return echo_ends(a->bytes, a->count, b->bytes, b->count);
    default:
        return echo_contains(a->bytes, a->count, b->bytes, b->count);
    }
}

/* --- guards: an error on the side that is not asked for is none --- */

static void guard(const struct run *run, const struct step *step, struct value *value, uint16_t *error)
{
    const struct value *a = &run->values[step->a], *b = &run->values[step->b];
    uint16_t first = run->errors[step->a], second = run->errors[step->b];
    int decided = step->op == OP_AND ? !a->i : a->i != 0;

    if (step->op == OP_CHOOSE) {
        uint16_t chosen = a->i ? step->b : step->c;

        *value = run->values[first != 0 ? step->b : chosen];
        *error = first != 0 ? first : run->errors[chosen];
        return;
    }
    value->i = decided ? a->i : b->i;
    *error = first != 0 ? first : decided ? 0 : second;
}

/* --- loops --- */

/* Before the first element. LEAST and GREATEST have no value yet: count says so. */
static void begin_reduction(const struct step *reduction, struct value *value)
{
    value->i = reduction->op == OP_ALL;
    value->count = 0;
    if (reduction->op == OP_SUM_F)
        value->f = 0.0;
}

/* A comparison as Python's min and max make it, so that what is no number stays where it stands. */
static int is_better(int op, const struct value *it, const struct value *best)
{
    switch (op) {
    case OP_MIN_I:
        return it->i < best->i;
    case OP_MIN_U:
        return it->u < best->u;
    case OP_MIN_F:
        return it->f < best->f;
    case OP_MAX_I:
        return it->i > best->i;
    case OP_MAX_U:
        return it->u > best->u;
    default:
        return it->f > best->f;
    }
}

/* One more element: 0, -1 where the sum does not fit; *is_done where no other can change anything. */
static int reduce(int op, const struct value *it, struct value *total, int *is_done)
{
    switch (op) {
    case OP_SUM_I:
        return __builtin_add_overflow(total->i, it->i, &total->i) ? -1 : 0;
    case OP_SUM_U:
        return __builtin_add_overflow(total->u, it->u, &total->u) ? -1 : 0;
    case OP_SUM_F:
        total->f += it->f;
        return 0;
    case OP_ANY:
    case OP_ALL:
        total->i = it->i;
        *is_done = (op == OP_ANY) == (it->i != 0);
        return 0;
    default:
        if (total->count == 0 || is_better(op, it, total))
            total->i = it->i;
        total->count = 1;
        return 0;
    }
}

/* At the end of a loop's body. The next step: the body once more, or what follows. */
static uint32_t end_of_body(const struct run *run, uint32_t at)
{
    const struct step *step = &run->steps[at], *loop = &run->steps[step->a];
    struct value *total = &run->values[at], *element = &run->values[step->a];
    uint16_t error = step->c != NO_STEP ? run->errors[step->c] : 0;
    int is_done = 0, is_taken = step->c == NO_STEP || run->values[step->c].i;

    if (error == 0 && is_taken)
        error = run->errors[step->b];
    if (error == 0 && is_taken && reduce(step->op, &run->values[step->b], total, &is_done) != 0)
        error = (uint16_t)(at + 1);
    run->errors[at] = error;
    element->count--;
    if (error == 0 && !is_done && element->count > 0) {
        element->bytes += loop->imm;
        return (uint32_t)step->a + 1;
    }
    if (error == 0 && step->op >= OP_MIN_I && total->count == 0)
        run->errors[at] = (uint16_t)(at + 1);
    return at + 1;
}

/* Into a loop, or past it where there is nothing to do. */
static uint32_t begin_loop(const struct run *run, uint32_t at)
{
    const struct step *step = &run->steps[at];
    uint16_t end = step->b;

    begin_reduction(&run->steps[end], &run->values[end]);
    run->values[at] = run->values[step->a];
    run->errors[at] = 0;
    run->errors[end] = run->errors[step->a];
    if (run->errors[end] != 0 || run->values[at].count == 0) {
        if (run->errors[end] == 0 && run->steps[end].op >= OP_MIN_I)
            run->errors[end] = (uint16_t)(end + 1);
        return (uint32_t)end + 1;
    }
    return at + 1;
}

/* --- all of them --- */

static int take(const struct run *run, const struct step *step, struct value *value)
{
    const struct parameter *parameter;

    switch (step->op) {
    case OP_CHARS:
    case OP_FIXED:
        return take_bytes_in_place(run, step, value);
    case OP_TEXT:
        return take_text(run, step, value);
    case OP_REGION:
        return take_region(run, step, value);
    case OP_ARRAY:
        return take_array(run, step, value);
    case OP_SLICE:
        slice(&run->values[step->a], step, value);
        return 0;
    case OP_INDEX:
        return take_element(&run->values[step->a], run->values[step->b].i, step, value);
    case OP_TEXT_CONST:
        value->bytes = run->pool + step->imm;
        value->count = (uint64_t)step->aux;
        return 0;
    case OP_TEXT_PARAM:
        parameter = (const struct parameter *)(const void *)run->input->parameters + step->imm;
        value->bytes = run->input->parameters + parameter->bits;
        value->count = parameter->size;
        return 0;
    case OP_STATE:
        value->i = run->input->states[step->imm].bits;
        return 0;
    case OP_STATE_COUNT:
        value->i = run->input->states[step->imm].count;
        return 0;
    default:
        return -1;
    }
}

/* The first error among operands: the left one's, as Python would meet it. */
static inline uint16_t first_error(const struct run *run, uint16_t a, uint16_t b)
{
    return run->errors[a] != 0 ? run->errors[a] : run->errors[b];
}

static inline uint16_t error_of(const struct run *run, uint16_t step)
{
    return step == NO_STEP ? 0 : run->errors[step];
}

/* The end of a step: what depends on an error is one, and has no value. */
static inline void finish(const struct run *run, uint32_t at, uint16_t error, int failed)
{
    error = error != 0 ? error : failed ? (uint16_t)(at + 1) : 0;
    if (error != 0)
        run->values[at] = (struct value){.i = 0};
    run->errors[at] = error;
}

/* What is taken from the record, a parameter, a state; its operands may be missing. */
static inline void execute_taking(const struct run *run, const struct step *step, uint32_t at)
{
    uint16_t error = error_of(run, step->a);

    if (error == 0 && step->op >= OP_REGION)
        error = error_of(run, step->b);
    if (error == 0 && (step->op == OP_TEXT || step->op == OP_REGION))
        error = error_of(run, step->c);
    finish(run, at, error, error == 0 && take(run, step, &run->values[at]) != 0);
}

/* One operand or two. */
static inline void execute_computing(const struct run *run, const struct step *step, uint32_t at)
{
    uint16_t second = step->b != NO_STEP ? step->b : step->a, error = first_error(run, step->a, second);

    finish(run, at, error,
           error == 0 && compute(step, &run->values[step->a], &run->values[second], &run->values[at]) != 0);
}

/* Writes one value. */
static inline void execute(const struct run *run, uint32_t at)
{
    const struct step *step = &run->steps[at];
    struct value *value = &run->values[at];

    if (step->op <= OP_PARAM && step->op != OP_TEXT_CONST) {
        value->i = step->op == OP_CONST
                       ? step->imm
                       : ((const struct parameter *)(const void *)run->input->parameters)[step->imm].bits;
        run->errors[at] = 0;
    } else if (step->op >= OP_LOAD_BOOL && step->op <= OP_LOAD_F64) {
        uint16_t error = error_of(run, step->a);

        finish(run, at, error, error == 0 && load(run, step, value) != 0);
    } else if (step->op >= OP_EQ_I && step->op <= OP_CONTAINS) {
        uint16_t error = first_error(run, step->a, step->b);

        value->i = error == 0 && compare(step->op, &run->values[step->a], &run->values[step->b]);
        run->errors[at] = error;
    } else if (step->op >= OP_AND) {
        guard(run, step, value, &run->errors[at]);
    } else if (step->op == OP_NOT) {
        value->i = !run->values[step->a].i;
        run->errors[at] = run->errors[step->a];
    } else if (step->op <= OP_FOR) {
        execute_taking(run, step, at);
    } else {
        execute_computing(run, step, at);
    }
}

void echo_interpret(const struct step *steps, uint16_t count, const uint8_t *pool, const struct input *input,
                    struct value *values, uint16_t *errors)
{
    const struct run run = {.steps = steps, .pool = pool, .input = input, .values = values, .errors = errors};
    uint32_t at = 0;

    while (at < count) {
        if (steps[at].op == OP_FOR) {
            at = begin_loop(&run, at);
        } else if (steps[at].op >= OP_SUM_I) {
            at = end_of_body(&run, at);
        } else {
            execute(&run, at);
            at++;
        }
    }
}
