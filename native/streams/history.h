/* A history: the newest records of one source, bounded in events and bytes, or the newest of each value of a key. The GIL
 * guards it. */
#pragma once

#include "links/incoming.h"

#include <stdint.h>

struct history;

struct kept {
    PyObject *record; /* owned; bytes */
    uint64_t number;
    int64_t submitted_ns; /* as that of a record */
};

/* What may be kept, as Python says it: to parse "nnO", and of it a history, or NULL where that is none. */
struct keeping {
    Py_ssize_t events, bytes; /* in all */
    PyObject *key; /* borrowed; (field's offset, its size, whether it is text, whether its slot is big-endian,
                               * values at most), and `events` are for each of these. NULL, None: there is no key */
};

/* 0; -1 with ValueError, MemoryError ... It is empty, and takes memory only for what it has. */
int echo_history_new(const struct keeping *keeping, struct history **history);

/* One that has nothing but what sinks follow, while there are any: what comes meanwhile. NULL with MemoryError. */
struct history *echo_history_of_followers(void);

/* NULL is none. Runs no Python code, as the next. */
void echo_history_free(struct history *history);

/* It is empty again. */
void echo_history_forget(struct history *history);

/* Of all records that are kept. */
size_t echo_history_bytes(const struct history *history);

/* What is in a record: several side by side, `size` bytes each, or one of that size. The first has that number in the
 * source. As many of the last as may be kept push out the oldest. One that is larger than all that may be kept pushes out
 * all, as none may be missing between two that are had; so does memory that fails. 0, or -1 with MemoryError. */
int echo_history_add(struct history *history, const struct record *record, Py_ssize_t size, uint64_t number);

/* One sink more, or less, that is handed what is kept while others get what is new: until it has come up with these, much
 * more than usual is kept, but by key. NULL is none. Runs no Python code. */
void echo_history_follow(struct history *history, int more);

/* Whether there are such sinks. NULL: there are none. */
int echo_history_is_followed(const struct history *history);

/* What `hold` of both ends of a source takes: 1, 0 or -1. 0, or -1 with an exception. */
int echo_parse_hold(PyObject *argument, int *change);

/* What has that number or a higher one, the oldest first, for a sink that follows with all that is kept for these: a new
 * tuple of a list of (number, record, time of submission or 0), empty where the history is NULL, and `next`, the number
 * of the next event. NULL with MemoryError. May run any code, which sees nothing of what this has begun with. */
PyObject *echo_history_since(const struct history *history, uint64_t number, uint64_t next, int is_following);

/* All that is kept, by number, with references of its own; free() is the caller's. NULL with MemoryError. Runs no Python
 * code. */
struct kept *echo_history_all(const struct history *history, size_t *count);

/* The same with what is kept for those that follow. */
struct kept *echo_history_followed(const struct history *history, size_t *count);

/* How many values of the key were forgotten, as there were too many of them or of their bytes. */
uint64_t echo_history_forgotten(const struct history *history);
