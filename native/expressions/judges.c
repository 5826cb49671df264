/* Whether an event passes: the order is where, on_change, every, min_interval.
 *
 * A program's first root says whether it is selected, the second, if there is one, whether it has changed. An event for
 * which either fails does not pass.
 */
#include "expressions/judges.h"

#include <string.h>
#include <time.h>

#define JUDGED_ROWS 4096 /* at once, by compiled code */
#define MAX_RESULTS (MAX_ROOTS + MAX_STATES)

/* What became of one event, before `every` and `min_interval`. */
struct verdict {
    int is_selected;               /* the first root holds */
    int is_passing;                /* all roots hold */
    uint16_t failures[MAX_STATES]; /* of the update's step; 0: its bits count */
    int64_t updates[MAX_STATES];   /* bits */
};

int64_t echo_judge_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* --- one event --- */

static void interpret(struct judge *judge, const struct input *input, struct verdict *verdict)
{
    const struct program *program = judge->program;
    struct value values[MAX_STEPS];
    uint16_t errors[MAX_STEPS];
    int i;

    judge->interpreted++;
    echo_interpret(program->steps, program->step_count, program->pool, input, values, errors);
    verdict->is_passing = 1;
    for (i = 0; i < program->root_count && verdict->is_passing; i++) {
        uint16_t step = program->roots[i].step;

        verdict->is_passing = errors[step] == 0 && values[step].i != 0;
        if (i == 0)
            verdict->is_selected = verdict->is_passing;
        if (errors[step] != 0) {
            judge->failed++;
            judge->failure = errors[step];
        }
    }
    for (i = 0; i < program->update_count; i++) {
        verdict->failures[i] = errors[program->updates[i].step];
        verdict->updates[i] = values[program->updates[i].step].i;
    }
}

/* 0, or -1 where steps have to be interpreted. */
static int run_compiled(const struct judge *judge, const struct input *input, struct verdict *verdict)
{
    const struct program *program = judge->program;
    int64_t results[MAX_RESULTS];
    int64_t mask = judge->compiled(input->record, input->size, input->parameters, input->states, results);
    int i;

    if (mask < 0)
        return -1;
    verdict->is_selected = (int)(mask & 1);
    verdict->is_passing = mask == (INT64_C(1) << program->root_count) - 1;
    for (i = 0; i < program->update_count; i++) {
        verdict->failures[i] = 0;
        verdict->updates[i] = results[program->root_count + i];
    }
    return 0;
}

/* Those that have come so far: every so manieth, and not too soon after the last. */
static int passes_rates(struct judge *judge, int64_t now_ns)
{
    if (judge->every > 1 && judge->reached++ % judge->every != 0)
        return 0;
    if (judge->min_interval_ns > 0) {
        if (judge->passed_at_ns != INT64_MIN && now_ns - judge->passed_at_ns < judge->min_interval_ns)
            return 0;
        judge->passed_at_ns = now_ns;
    }
    return 1;
}

static double as_double(int64_t bits)
{
    double it;

    memcpy(&it, &bits, sizeof it);
    return it;
}

static int64_t as_bits(double it)
{
    int64_t bits;

    memcpy(&bits, &it, sizeof bits);
    return bits;
}

static int follows(const struct update *update, const struct verdict *verdict, int is_passed)
{
    switch (update->following) {
    case PASSED_VALUE:
        return is_passed;
    case SELECTED_VALUE:
        return verdict->is_selected;
    default:
        return 1;
    }
}

/* What is remembered advances with every event; a value that failed leaves it as it is. */
static void remember(struct judge *judge, const struct verdict *verdict, int is_passed)
{
    const struct program *program = judge->program;
    int i;

    for (i = 0; i < program->update_count; i++) {
        const struct update *update = &program->updates[i];
        struct state *state = &judge->states[update->state];
        double old = as_double(state->bits), new = as_double(verdict->updates[i]);

        if (verdict->failures[i] != 0 || !follows(update, verdict, is_passed))
            continue;
        if (update->following == ALWAYS_TOTAL)
            state->bits = as_bits(old + new);
        else if (update->following == ALWAYS_AVERAGE)
            state->bits = as_bits(state->count != 0 ? old + update->weight * (new - old) : new);
        else if (update->following != ALWAYS_COUNT)
            state->bits = verdict->updates[i];
        state->count++;
    }
}

static __attribute__((noinline)) int judge_by_steps(struct judge *judge, const uint8_t *record, uint64_t size,
                                                    int64_t now_ns)
{
    const struct input input = {.record = record, .size = size, .parameters = judge->snapshot, .states = judge->states};
    struct verdict verdict;
    int is_passed;

    if (judge->compiled == NULL || size < (uint64_t)judge->record_size || run_compiled(judge, &input, &verdict) != 0)
        interpret(judge, &input, &verdict);
    is_passed = verdict.is_passing && passes_rates(judge, now_ns);
    if (judge->program->update_count != 0)
        remember(judge, &verdict, is_passed);
    judge->passed += (unsigned)is_passed;
    return is_passed;
}

/* Where nothing is remembered, the compiled code's answer is all; what that cannot say is judged again. */
static inline int judge_one(struct judge *judge, const uint8_t *record, uint64_t size, int64_t now_ns)
{
    judge->judged++;
    if (judge->all >= 0 && judge->compiled != NULL && size >= (uint64_t)judge->record_size) {
        int64_t results[MAX_RESULTS];
        int64_t mask = judge->compiled(record, size, judge->snapshot, judge->states, results);

        if (mask >= 0) {
            judge->passed += (unsigned)(mask == judge->all);
            return mask == judge->all;
        }
    }
    return judge_by_steps(judge, record, size, now_ns);
}

int echo_judge_record(struct judge *judge, const uint8_t *record, uint64_t size, int64_t now_ns)
{
    return judge_one(judge, record, size, now_ns);
}

/* --- roots by themselves --- */

static uint16_t interpret_roots(struct judge *judge, const struct input *input, uint64_t *mask, uint64_t *failing,
                                int64_t *results)
{
    const struct program *program = judge->program;
    struct value values[MAX_STEPS];
    uint16_t errors[MAX_STEPS], failure = 0;
    int i;

    judge->interpreted++;
    echo_interpret(program->steps, program->step_count, program->pool, input, values, errors);
    for (i = 0; i < program->root_count; i++) {
        uint16_t step = program->roots[i].step;

        results[i] = values[step].i;
        if (errors[step] != 0) {
            failure = failure != 0 ? failure : errors[step];
            *failing |= UINT64_C(1) << i;
        } else if (program->roots[i].form == '?' && values[step].i) {
            *mask |= UINT64_C(1) << i;
        }
    }
    return failure;
}

uint16_t echo_judge_roots(struct judge *judge, const uint8_t *record, uint64_t size, uint64_t *mask, uint64_t *failing,
                          int64_t *results)
{
    const struct input input = {.record = record, .size = size, .parameters = judge->snapshot, .states = judge->states};
    int64_t compiled = -1;
    uint16_t failure = 0;

    *mask = *failing = 0;
    judge->judged++;
    if (judge->compiled != NULL && size >= (uint64_t)judge->record_size)
        compiled = judge->compiled(input.record, input.size, input.parameters, input.states, results);
    if (compiled >= 0)
        *mask = (uint64_t)compiled;
    else
        failure = interpret_roots(judge, &input, mask, failing, results);
    if (failure != 0) {
        judge->failed++;
        judge->failure = failure;
    }
    return failure;
}

/* --- objects --- */

#define ROOM_BYTES 4096

/* May run any code. */
static int judge_encoded(struct judge *judge, PyObject *event, int64_t now_ns)
{
    uint8_t room[ROOM_BYTES];
    PyObject *record = NULL;
    Py_ssize_t written = 0;
    int is_passed;

    judge->encoded++;
    if (judge->encode == NULL) {
        PyErr_Format(PyExc_TypeError, "Expected the bytes of a record, got %R", (PyObject *)Py_TYPE(event));
        return -1;
    }
    if (judge->raw.encode == NULL) {
        record = PyObject_CallFunctionObjArgs(judge->encode, event, NULL);
        if (record == NULL)
            return -1;
    } else if (judge->raw.encode(judge->raw.self, event, room, sizeof room, &record, &written) != 0) {
        return -1;
    }
    if (record == NULL)
        return echo_judge_record(judge, room, (uint64_t)written, now_ns);
    if (!PyBytes_Check(record)) {
        Py_DECREF(record);
        PyErr_SetString(PyExc_TypeError, "Expected bytes of an encoder, got another object");
        return -1;
    }
    is_passed =
        echo_judge_record(judge, (const uint8_t *)PyBytes_AsString(record), (uint64_t)PyBytes_Size(record), now_ns);
    Py_DECREF(record);
    return is_passed;
}

int echo_judge_object(struct judge *judge, PyObject *event, int64_t now_ns)
{
    const uint8_t *record = echo_access_record(&judge->access, event);

    if (record == NULL)
        return judge_encoded(judge, event, now_ns);
    return echo_judge_record(judge, record, (uint64_t)judge->record_size, now_ns);
}

int echo_judge_glance(struct judge *judge, PyObject *event, int64_t now_ns)
{
    const uint8_t *record = echo_access_record(&judge->access, event);

    return record != NULL ? judge_one(judge, record, (uint64_t)judge->record_size, now_ns) : -1;
}

/* --- rows --- */

static Py_ssize_t judge_one_by_one(struct judge *judge, const uint8_t *rows, Py_ssize_t count, uint32_t *indices,
                                   int64_t now_ns)
{
    Py_ssize_t i, passed = 0;

    for (i = 0; i < count; i++) {
        indices[passed] = (uint32_t)i;
        passed += echo_judge_record(judge, rows + i * judge->record_size, (uint64_t)judge->record_size, now_ns);
    }
    return passed;
}

/* What fails costs the rows of one block that they are judged one by one. */
static Py_ssize_t judge_block(struct judge *judge, const uint8_t *rows, Py_ssize_t count, uint32_t *indices,
                              int64_t now_ns)
{
    const uint8_t *parameters = judge->snapshot;
    int64_t passed = -1;

    if (judge->filter != NULL && judge->every <= 1 && judge->min_interval_ns == 0)
        passed = judge->filter(rows, (uint64_t)count, parameters, indices);
    if (passed < 0)
        return judge_one_by_one(judge, rows, count, indices, now_ns);
    judge->judged += (unsigned long long)count;
    judge->passed += (unsigned long long)passed;
    return (Py_ssize_t)passed;
}

Py_ssize_t echo_judge_rows(struct judge *judge, const uint8_t *rows, Py_ssize_t count, uint32_t *indices,
                           int64_t now_ns)
{
    Py_ssize_t at, i, more, passed = 0;

    for (at = 0; at < count; at += JUDGED_ROWS) {
        more = judge_block(judge, rows + at * judge->record_size, Py_MIN(count - at, JUDGED_ROWS), indices + passed,
                           now_ns);
        for (i = 0; at > 0 && i < more; i++)
            indices[passed + i] += (uint32_t)at;
        passed += more;
    }
    return passed;
}
