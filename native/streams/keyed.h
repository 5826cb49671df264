/* The newest records of each value of a key, bounded in events for each, keys and bytes. The GIL guards it; nothing here
 * runs Python code. history.h has whose they are. */
#pragma once

#include "streams/history.h"

/* Where a record has its key. */
struct key_place {
    Py_ssize_t offset; /* of the field */
    Py_ssize_t size;   /* of it; of text, of its slot */
    int is_text;       /* 1: the field is a slot that has where text begins, which a NUL ends */
    int is_big;        /* 1: the most significant byte of the slot comes first */
};

struct keyed;

/* As those of a history. `max_events`: of each value. */
struct keyed *echo_keyed_new(struct key_place place, size_t max_events, size_t max_keys, size_t max_bytes);
void echo_keyed_free(struct keyed *keyed);
void echo_keyed_forget(struct keyed *keyed);
size_t echo_keyed_bytes(const struct keyed *keyed);

/* One record; takes the reference to it over, unless it fails. The value that was longest without one is forgotten where
 * there are too many, or too many bytes. What has no key, as it breaks the rules of records, is not kept. 0, or -1 with
 * MemoryError: nothing is kept of that value. */
int echo_keyed_add(struct keyed *keyed, struct kept kept);

/* How many values were forgotten. */
uint64_t echo_keyed_forgotten(const struct keyed *keyed);

/* All that is kept, in no order: into room for so many, or how many where that is NULL. */
size_t echo_keyed_all(const struct keyed *keyed, struct kept *room);
