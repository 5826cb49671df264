/* Records are copied, never looked at. A chunk is a run of numbers: where these skip, another one begins. */
#define _GNU_SOURCE 1 /* clocks */
#include "logs/stages.h"
#include "logs/ranges.h"
#include "logs/taking.h"

#include <string.h>
#include <time.h>

static uint64_t tick(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Coarse: 5 ns in place of 20, and a mark every few milliseconds, not for each event. */
static int64_t wall_time(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* --- among the open ones --- */

static void enter(struct stage *stage)
{
    struct stage **head = &stage->staging->open;

    stage->next = *head;
    stage->place = head;
    if (stage->next != NULL)
        stage->next->place = &stage->next;
    *head = stage;
}

static void leave(struct stage *stage)
{
    if (stage->place == NULL)
        return;
    *stage->place = stage->next;
    if (stage->next != NULL)
        stage->next->place = stage->place;
    stage->place = NULL;
}

/* --- gaps --- */

#define GAP_BYTES BLOCK_BYTES /* of memory, beyond that of records */

/* 0, or -1 without an exception: no memory. */
static int put_gap(struct stage *stage, uint64_t first, uint64_t last, const char *cause)
{
    struct chunk *chunk = echo_new_chunk(GAP);
    uint64_t number = little64(last), size = strlen(cause);

    if (chunk == NULL || !echo_make_room(&chunk->payload, sizeof number + size)) {
        if (chunk != NULL)
            echo_free_chunk(chunk);
        return -1;
    }
    echo_put(&chunk->payload, &number, sizeof number);
    echo_put(&chunk->payload, cause, size);
    chunk->header.stream = stage->stream;
    chunk->header.format = stage->format;
    chunk->header.first = first;
    chunk->header.least_time = chunk->header.greatest_time = wall_time();
    stage->staging->staged += echo_chunk_room(chunk);
    echo_staging_put(stage->staging, chunk);
    return 0;
}

/* Gaps have memory of their own beside that of records: a log without room for these can tell of it. It is bounded, too,
 * as a source may have any number of gaps while the disk is slow. */
static int has_room_for_gap(const struct staging *staging)
{
    return has_room(staging, 0) || staging->staged < staging->max_staged + GAP_BYTES;
}

/* Where there is no memory for it they stay to be told later. */
static int tell_lost(struct stage *stage)
{
    if (stage->lost_count == 0)
        return 0;
    if ((!has_room_for_gap(stage->staging) && !stage->is_ending) ||
        put_gap(stage, stage->lost_first, stage->lost_first + stage->lost_count - 1, "log full") != 0)
        return -1;
    stage->lost_count = 0;
    return 0;
}

/* --- chunks --- */

static void close_chunk(struct stage *stage)
{
    struct staging *staging = stage->staging;
    struct chunk *chunk = stage->chunk;

    stage->chunk = NULL;
    if (chunk == NULL)
        return;
    staging->open_bytes -= chunk->payload.size;
    stage->room_wanted = chunk->payload.room <= BLOCK_BYTES ? chunk->payload.room : 0;
    if (chunk->header.count > 0)
        echo_staging_put(staging, chunk);
    else
        echo_staging_drop(staging, chunk); /* there was no room for its first record */
}

/* What is skipped between two that found no room is not in the log either, so one run tells of all. Only a number from
 * before that run begins another, where there is room to tell of the first. No record that comes later may stand in the
 * chunk that is open: it would have the number of a lost one there. */
static void note_lost(struct stage *stage, uint64_t number, uint64_t events)
{
    close_chunk(stage);
    if (stage->lost_count > 0 && number < stage->lost_first && has_room(stage->staging, BLOCK_BYTES))
        tell_lost(stage);
    if (stage->lost_count == 0)
        stage->lost_first = number;
    if (number >= stage->lost_first)
        stage->lost_count = number + events - stage->lost_first;
    stage->next_number = number + events;
    if (stage->place == NULL)
        enter(stage); /* so that a flush tells of them */
}

static void count_lost(struct stage *stage, uint64_t number, uint64_t events)
{
    note_lost(stage, number, events);
    stage->lost += events;
    stage->staging->lost += events;
}

void echo_stage_flush(struct stage *stage)
{
    close_chunk(stage);
    if (tell_lost(stage) == 0)
        leave(stage);
}

void echo_flush_all(struct staging *staging)
{
    struct stage *stage, *next;

    for (stage = staging->open; stage != NULL; stage = next) {
        next = stage->next;
        echo_stage_flush(stage);
    }
}

/* What is there goes to the disk before anything is dropped. What was dropped is told when there is room again. */
static void close_all(struct staging *staging)
{
    struct stage *stage;

    for (stage = staging->open_bytes > 0 ? staging->open : NULL; stage != NULL; stage = stage->next)
        close_chunk(stage);
    echo_staging_tell(staging);
}

/* A chunk for records from this number on: the one that is there, where they fit and follow. NULL: no room. */
static struct chunk *chunk_for(struct stage *stage, uint64_t number, uint64_t size)
{
    struct staging *staging = stage->staging;
    struct chunk *chunk = stage->chunk;
    uint64_t first;

    if (chunk != NULL && number == stage->next_number && chunk->payload.size + size <= BLOCK_BYTES &&
        chunk->marks.size + chunk->ends.size < BLOCK_BYTES)
        return chunk;
    close_chunk(stage);
    first = size > stage->room_wanted ? size : stage->room_wanted;
    if (!has_room(staging, sizeof *chunk + first) && !has_room(staging, sizeof *chunk + (first = size)))
        return NULL;
    if (tell_lost(stage) != 0)
        return NULL;
    chunk = echo_new_chunk(RECORDS);
    if (chunk == NULL)
        return NULL;
    staging->staged += sizeof *chunk;
    chunk->header.stream = stage->stream;
    chunk->header.format = stage->format;
    chunk->header.flags = stage->record_size == 0 ? VARIES : 0;
    chunk->header.first = number;
    chunk->oldest_tick = tick();
    chunk->ranged = echo_share_ranged_fields(stage->ranged);
    if (first <= BLOCK_BYTES && has_room(staging, first) && echo_make_room(&chunk->payload, first))
        staging->staged += chunk->payload.room;
    stage->chunk = chunk;
    if (stage->place == NULL)
        enter(stage);
    return chunk;
}

/* Room in one of a chunk's parts, within what the staging may take; false: none. */
static bool extend(struct staging *staging, struct bytes *bytes, uint64_t more)
{
    uint64_t before = bytes->room, wanted = echo_room_wanted(bytes, more);

    if (wanted == 0)
        return true;
    if (!has_room(staging, wanted))
        return false;
    if (!echo_make_room(bytes, more))
        return false;
    staging->staged += bytes->room - before;
    return true;
}

static void put_mark(struct chunk *chunk, int64_t time)
{
    struct mark mark = {little32(chunk->header.count), 0, (int64_t)little64((uint64_t)time)};
    bool is_first = chunk->marks.size == 0;

    if (!is_first && chunk->last_time == time)
        return;
    echo_put(&chunk->marks, &mark, sizeof mark);
    chunk->header.marks++;
    chunk->last_time = time;
    if (is_first || time < chunk->header.least_time)
        chunk->header.least_time = time;
    if (is_first || time > chunk->header.greatest_time)
        chunk->header.greatest_time = time;
}

/* Of a record that varies, where it is the next. */
static uint64_t zeros_before(const struct chunk *chunk)
{
    return chunk != NULL ? aligned(chunk->payload.size, RECORD_ALIGNMENT) - chunk->payload.size : 0;
}

static void put_records(struct chunk *chunk, const uint8_t *bytes, uint64_t size, uint64_t events, int64_t time)
{
    static const uint8_t zeros[RECORD_ALIGNMENT];
    uint32_t end;

    put_mark(chunk, time);
    if (chunk->header.flags & VARIES)
        echo_put(&chunk->payload, zeros, zeros_before(chunk));
    echo_put(&chunk->payload, bytes, size);
    if (chunk->header.flags & VARIES) {
        end = little32((uint32_t)chunk->payload.size);
        echo_put(&chunk->ends, &end, sizeof end);
    }
    chunk->header.count += (uint32_t)events;
}

/* Takes as many as fit in one chunk; 0: no room. */
static uint64_t take_some(struct stage *stage, const uint8_t *bytes, uint64_t size, uint64_t events, uint64_t number,
                          int64_t time)
{
    uint64_t each = stage->record_size > 0 ? stage->record_size : size + zeros_before(stage->chunk);
    struct chunk *chunk = chunk_for(stage, number, each);
    struct staging *staging = stage->staging;
    uint64_t before, fit = 1;

    if (chunk == NULL)
        return 0;
    if (stage->record_size > 0 && each < BLOCK_BYTES)
        fit = (BLOCK_BYTES - chunk->payload.size) / each;
    if (fit > events)
        fit = events;
    if (!extend(staging, &chunk->marks, sizeof(struct mark)) || !extend(staging, &chunk->ends, 4) ||
        !extend(staging, &chunk->payload, stage->record_size > 0 ? fit * each : each))
        return 0;
    before = chunk->payload.size;
    put_records(chunk, bytes, stage->record_size > 0 ? fit * each : size, fit, time);
    staging->open_bytes += chunk->payload.size - before;
    stage->next_number = number + fit;
    if (chunk->payload.size + stage->record_size > BLOCK_BYTES || chunk->payload.size == BLOCK_BYTES)
        close_chunk(stage);
    return fit;
}

/* 1: all are taken, 0: some found no room. */
static int take_all(struct stage *stage, const uint8_t *bytes, uint64_t size, uint64_t events, uint64_t number,
                    int64_t time)
{
    struct staging *staging = stage->staging;
    uint64_t taken = 0, some;

    while (taken < events && !staging->is_failed) {
        some = take_some(stage, bytes + taken * stage->record_size, size, events - taken, number + taken, time);
        if (some == 0)
            break;
        taken += some;
    }
    stage->events += taken;
    staging->events += taken;
    staging->bytes += stage->record_size > 0 ? taken * stage->record_size : taken * size;
    if (taken < events) {
        close_all(staging);
        count_lost(stage, number + taken, events - taken);
        return 0;
    }
    if (staging->flush_bytes > 0 && staging->open_bytes >= staging->flush_bytes)
        echo_flush_all(staging);
    return 1;
}

int echo_stage_take(PyObject *self, const uint8_t *bytes, Py_ssize_t size, uint64_t events, uint64_t number,
                    int64_t time)
{
    struct stage *stage = (struct stage *)self;
    uint64_t all = (uint64_t)size;

    if (stage->staging == NULL) {
        PyErr_SetString(PyExc_ValueError, "Expected an open stream of a log, got a closed one");
        return -1;
    }
    if (events == 0)
        return 1;
    if (stage->record_size > 0 ? all / stage->record_size != events || all % stage->record_size != 0 : events != 1) {
        PyErr_Format(PyExc_ValueError, "Expected %llu records of %llu bytes, got %llu bytes",
                     (unsigned long long)events, (unsigned long long)stage->record_size, (unsigned long long)all);
        return -1;
    }
    if (number + events < number) {
        PyErr_SetString(PyExc_OverflowError, "Expected numbers of 64 bits");
        return -1;
    }
    if ((stage->record_size > 0 ? stage->record_size : all) > MAX_EVENT_BYTES) {
        count_lost(stage, number, events);
        return 0;
    }
    return take_all(stage, bytes, all, events, number, time != 0 ? time : wall_time());
}

static int miss(PyObject *self, uint64_t first, uint64_t last, const char *cause)
{
    struct stage *stage = (struct stage *)self;

    if (stage->staging == NULL || last < first) {
        PyErr_SetString(PyExc_ValueError, stage->staging == NULL
                                              ? "Expected an open stream of a log, got a closed one"
                                              : "Expected the last number not to be before the first");
        return -1;
    }
    if (strlen(cause) > MAX_CAUSE_BYTES) {
        PyErr_Format(PyExc_ValueError, "Expected a cause of at most %u bytes, got %zu", MAX_CAUSE_BYTES, strlen(cause));
        return -1;
    }
    echo_stage_flush(stage);
    if (stage->lost_count > 0 || !has_room_for_gap(stage->staging) || put_gap(stage, first, last, cause) != 0)
        note_lost(stage, first, last - first + 1); /* one gap tells of all that is missing meanwhile */
    stage->next_number = last + 1;
    return 0;
}

static int room_in(PyObject *self, uint64_t bytes)
{
    struct stage *stage = (struct stage *)self;

    return stage->staging != NULL && !stage->staging->is_failed && has_room(stage->staging, bytes + BLOCK_BYTES);
}

static int64_t take_and_count(PyObject *self, const uint8_t *bytes, Py_ssize_t size, uint64_t events, uint64_t number,
                              int64_t time)
{
    const struct stage *stage = (struct stage *)self;
    uint64_t before = stage->lost;

    return echo_stage_take(self, bytes, size, events, number, time) < 0 ? -1 : (int64_t)(stage->lost - before);
}

const struct record_taker echo_stage_taker = {take_and_count, miss, room_in};

void echo_stage_end(struct stage *stage)
{
    struct staging *staging = stage->staging;

    if (staging == NULL)
        return;
    stage->is_ending = 1;
    echo_stage_flush(stage);
    leave(stage);
    stage->staging = NULL;
    Py_DECREF((PyObject *)staging);
}
