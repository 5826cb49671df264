/* Staging: what a log holds in memory until it is written. Each stream fills a chunk; those that are closed queue up,
 * and whoever writes takes them from there. The GIL guards all of it; only waiting has a lock of its own. */
#pragma once

#include "logs/chunks.h"
#include "stable_abi.h"

#include <pthread.h>

struct stage;

/* The Python object. */
struct staging {
    PyObject ob_base;           /* spelled out: PyObject_HEAD hides it */
    struct chunk *first, *last; /* closed, oldest first; owned */
    struct stage *open;         /* stages that fill a chunk; borrowed, each leaves when it closes its chunk */
    uint64_t staged;            /* bytes of memory of all chunks, also of those that batches have */
    uint64_t max_staged;
    uint64_t open_bytes;    /* of records in chunks that are not closed */
    uint64_t flush_bytes;   /* when those reach this, all are closed; 0: never */
    uint64_t closed;        /* chunks, ever */
    uint64_t events, bytes; /* taken, ever */
    uint64_t lost;          /* events for which there was no room, ever */
    int is_failed;          /* nothing is taken any more, and all of it counted */

    pthread_mutex_t mutex; /* of these; never held while the GIL is waited for */
    pthread_cond_t changed;
    int waiting;
    uint64_t turns; /* how often something happened that a waiter may want */
    unsigned forks; /* echo_forks when it was made: in a child nobody waits, and the mutex may be held for ever */
};

/* Closed chunks belong to the staging from here on. */
void echo_staging_put(struct staging *staging, struct chunk *chunk);

/* The memory of a chunk that is written, or dropped. */
void echo_staging_drop(struct staging *staging, struct chunk *chunk);

/* Whoever waits looks again. */
void echo_staging_tell(struct staging *staging);

/* Whether `more` bytes of memory may be taken; a large event may where next to nothing is staged. */
static inline int has_room(const struct staging *staging, uint64_t more)
{
    return staging->staged + more <= staging->max_staged || staging->staged < BLOCK_BYTES;
}
