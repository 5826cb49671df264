/* What came in the last seconds stands in spans of memory, in the order in which it came. A span goes as a whole when
 * its newest entry is too old, or there is no memory for others; so nothing is moved, and there is no allocation for
 * each event. Once it is wanted, all of it is handed on, oldest first, as fast as there is room; what comes meanwhile
 * stands behind it. From then on nothing is kept: what comes is passed on at once.
 */
#define _GNU_SOURCE 1 /* clocks */
#include "logs/lookback.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SPAN_BYTES ((size_t)256 * 1024)

/* So much of an array is handed on at once, for which there has to be room. */
#define PART_BYTES ((size_t)64 * 1024)

static int64_t time_by(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* --- spans --- */

static void free_oldest(struct lookback *lookback)
{
    struct span *span = lookback->oldest;

    lookback->oldest = span->next;
    if (lookback->oldest == NULL)
        lookback->newest = NULL;
    lookback->bytes -= sizeof *span + span->room;
    lookback->events -= span->events;
    lookback->handed = 0;
    free(span);
}

void echo_lookback_empty(struct lookback *lookback)
{
    while (lookback->oldest != NULL)
        free_oldest(lookback);
}

static void forget_old(struct lookback *lookback)
{
    lookback->since_ns = time_by(CLOCK_MONOTONIC_COARSE) - lookback->keeps_ns;
    while (lookback->oldest != NULL && lookback->oldest->newest_ns < lookback->since_ns)
        free_oldest(lookback);
}

void echo_lookback_trigger(struct lookback *lookback)
{
    if (lookback->state != LOOKING_BACK)
        return;
    forget_old(lookback);
    lookback->state = HANDING_ON;
}

/* Room for a new span of that size: what is old goes for it, unless it is wanted. 0: there is none. */
static int make_room(struct lookback *lookback, size_t size)
{
    forget_old(lookback);
    while (lookback->oldest != NULL && size > lookback->max_bytes - lookback->bytes) {
        lookback->forgotten += lookback->oldest->events;
        free_oldest(lookback);
    }
    return size <= lookback->max_bytes;
}

static struct span *add_span(struct lookback *lookback, size_t size)
{
    size_t room = size > SPAN_BYTES ? size : SPAN_BYTES, all = sizeof(struct span) + room;
    struct span *span;

    if (lookback->state == LOOKING_BACK ? !make_room(lookback, all) : all > lookback->max_bytes - lookback->bytes)
        return NULL;
    span = malloc(all);
    if (span == NULL)
        return NULL;
    *span = (struct span){.room = room};
    if (lookback->newest != NULL)
        lookback->newest->next = span;
    else
        lookback->oldest = span;
    lookback->newest = span;
    lookback->bytes += all;
    return span;
}

static size_t entry_size(size_t size)
{
    return sizeof(struct entry) + ((size + 7) & ~(size_t)7);
}

/* Behind all others; 0: there is no memory. */
static int append(struct lookback *lookback, struct entry entry, const void *bytes)
{
    struct span *span = lookback->newest;
    size_t size = entry_size(entry.size);

    if (span == NULL || size > span->room - span->used)
        span = add_span(lookback, size);
    if (span == NULL)
        return 0;
    entry.came_ns = time_by(CLOCK_MONOTONIC_COARSE);
    memcpy(span->bytes + span->used, &entry, sizeof entry);
    memcpy(span->bytes + span->used + sizeof entry, bytes, entry.size);
    span->used += size;
    span->newest_ns = entry.came_ns;
    span->events += entry.events;
    lookback->events += entry.events;
    return 1;
}

/* --- what comes --- */

static const char no_memory[] = "no memory";

/* What follows without memory is one run with it. */
static void note_lost(struct lookback_stream *stream, uint64_t first, uint64_t last)
{
    if (!stream->has_lost || first < stream->lost_first)
        stream->lost_first = first;
    if (!stream->has_lost || last > stream->lost_last)
        stream->lost_last = last;
    stream->has_lost = 1;
}

/* Before anything else of its stream is kept; 0: there is no memory for that either. */
static int keep_lost(struct lookback_stream *stream)
{
    struct entry entry = {
        .stream = stream, .size = sizeof no_memory, .number = stream->lost_first, .last = stream->lost_last};

    if (stream->has_lost && append(stream->lookback, entry, no_memory))
        stream->has_lost = 0;
    return !stream->has_lost;
}

/* Whether there is memory. Where there is none and all is wanted, nothing goes for it, and this is what is lost. */
static int keep(const struct entry *entry, const void *bytes)
{
    struct lookback_stream *stream = entry->stream;

    if (keep_lost(stream) && append(stream->lookback, *entry, bytes))
        return 1;
    if (stream->lookback->state == HANDING_ON)
        note_lost(stream, entry->number, entry->last);
    return 0;
}

/* How many of its events are a gap. */
static uint64_t take_part(const struct entry *entry, const uint8_t *bytes)
{
    struct lookback *lookback = entry->stream->lookback;

    if (keep(entry, bytes))
        return 0;
    if (lookback->state == HANDING_ON)
        return entry->events;
    lookback->forgotten += entry->events;
    return 0;
}

int64_t echo_lookback_take(struct lookback_stream *stream, const uint8_t *bytes, Py_ssize_t size, uint64_t events,
                           uint64_t number, int64_t time_ns)
{
    size_t each = (size_t)size / events, most = each > 0 && each < PART_BYTES ? PART_BYTES / each : 1;
    struct entry entry = {.stream = stream, .time_ns = time_ns != 0 ? time_ns : time_by(CLOCK_REALTIME_COARSE)};
    uint64_t lost = 0;

    for (uint64_t at = 0; at < events; at += entry.events) {
        entry.events = events - at < most ? events - at : most;
        entry.size = (size_t)entry.events * each;
        entry.number = number + at;
        entry.last = entry.number + entry.events - 1;
        lost += take_part(&entry, bytes + at * each);
    }
    return (int64_t)lost;
}

int echo_lookback_miss(struct lookback_stream *stream, uint64_t first, uint64_t last, const char *cause)
{
    struct entry entry = {.stream = stream, .size = strlen(cause) + 1, .number = first, .last = last};

    keep(&entry, cause); /* while it looks back, what comes before goes without memory, too */
    return 0;
}

/* --- what is wanted --- */

static int has_room(const struct entry *entry)
{
    return entry->events == 0 || entry->stream->taker->has_room(entry->stream->target, entry->size);
}

/* 0, or -1 with an exception. What finds no room all the same is a gap by now. */
static int hand_on(const struct entry *entry, const uint8_t *bytes)
{
    const struct record_taker *taker = entry->stream->taker;
    PyObject *target = entry->stream->target;

    if (entry->events == 0)
        return taker->miss(target, entry->number, entry->last, (const char *)bytes);
    return taker->take(target, bytes, (Py_ssize_t)entry->size, entry->events, entry->number, entry->time_ns) < 0 ? -1
                                                                                                                 : 0;
}

/* Of what came last, all that was kept having been handed on. 0, or -1 with an exception. */
static int tell_lost(const struct lookback *lookback)
{
    Py_ssize_t i;

    for (i = 0; i < PyList_Size(lookback->streams); i++) {
        struct lookback_stream *stream = (struct lookback_stream *)PyList_GetItem(lookback->streams, i);

        if (stream->has_lost &&
            stream->taker->miss(stream->target, stream->lost_first, stream->lost_last, no_memory) != 0)
            return -1;
        stream->has_lost = 0;
    }
    return 0;
}

int echo_lookback_hand_on(struct lookback *lookback)
{
    struct entry entry;
    const uint8_t *bytes;

    while (lookback->oldest != NULL) {
        if (lookback->handed == lookback->oldest->used) {
            free_oldest(lookback);
            continue;
        }
        bytes = lookback->oldest->bytes + lookback->handed;
        memcpy(&entry, bytes, sizeof entry);
        if (entry.came_ns >= lookback->since_ns && !has_room(&entry))
            return 0;
        lookback->handed += entry_size(entry.size);
        if (entry.came_ns >= lookback->since_ns && hand_on(&entry, bytes + sizeof entry) != 0)
            return -1;
    }
    if (tell_lost(lookback) != 0)
        return -1;
    lookback->state = PASSING;
    return 1;
}
