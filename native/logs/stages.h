/* Stage: the way of one stream's events into a log. stages.c has the rules, stage_type.c the Python face. */
#pragma once

#include "logs/staging.h"
#include "logs/taking.h"

/* The Python object. */
struct stage {
    PyObject ob_base;
    struct staging *staging;         /* owned; NULL: closed */
    struct stage *next, **place;     /* among the staging's open ones; place is NULL where it is not among them */
    struct chunk *chunk;             /* what it fills; owned, NULL: nothing yet */
    uint64_t record_size;            /* 0: records vary */
    uint64_t room_wanted;            /* of the last chunk: the next one begins with as much */
    uint64_t next_number;            /* that would follow what it has */
    uint64_t lost_first, lost_count; /* those that found no room, and of which no block tells yet */
    uint64_t events, lost;
    uint32_t stream, format;
    struct ranged_fields *ranged; /* owned share; NULL: none */
    int is_ending;                /* 1: what is lost is told now, or never */
};

/* Closes its chunk, if it has one. */
void echo_stage_flush(struct stage *stage);

/* Of all that are open, and says which events found no room. */
void echo_flush_all(struct staging *staging);

/* 1: all are taken, 0: some found no room, -1 with an exception. The rest is as in struct record_taker. */
int echo_stage_take(PyObject *self, const uint8_t *bytes, Py_ssize_t size, uint64_t events, uint64_t number,
                    int64_t time);

extern const struct record_taker echo_stage_taker;

/* Nothing more comes of it. */
void echo_stage_end(struct stage *stage);
