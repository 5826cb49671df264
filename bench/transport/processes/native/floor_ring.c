/* Messages in a ring of slots in shared memory, one writer and several readers, who read in place. */
#define _GNU_SOURCE
#include "floor.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 64 };

struct cursor {
    _Alignas(64) _Atomic uint32_t tail; /* messages that the reader has done with; it alone writes */
    _Atomic uint32_t is_asleep;         /* the writer has to wake it */
};

struct shared {
    _Alignas(64) _Atomic uint32_t head; /* messages written; readers wait for it to change */
    struct cursor cursors[MOST_RECEIVERS];
};

struct ring {
    struct carrier carrier;
    struct shared *shared;
    char *slots;                        /* shared too */
    size_t slot_bytes;                  /* a multiple of 64, so that no two slots share a cache line */
    size_t size;                        /* of a message */
    int sleeps, receivers;
    const struct timespec *limit;       /* of one sleep; NULL: none */
    uint32_t position;                  /* own: messages written, or messages taken */
    uint32_t seen_tails[MOST_RECEIVERS]; /* own: saves a look at the reader's cache line while there is room */
};

static const struct timespec one_second = {.tv_sec = 1};

static void futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *limit)
{
    syscall(SYS_futex, word, operation, value, limit, NULL, 0);
}

static void await_room(struct ring *ring, int reader)
{
    while (ring->position - ring->seen_tails[reader] >= SLOTS) {
        if (ring->receivers > 1 || ring->sleeps)
            sched_yield(); /* the reader may need this core */
        else
            _mm_pause();
        ring->seen_tails[reader] =
            atomic_load_explicit(&ring->shared->cursors[reader].tail, memory_order_acquire);
    }
}

static void wake_sleepers(struct ring *ring)
{
    int sleepers = 0;

    for (int i = 0; i < ring->receivers; i++)
        sleepers += atomic_load(&ring->shared->cursors[i].is_asleep);
    if (sleepers > 0)
        futex(&ring->shared->head, FUTEX_WAKE, ring->receivers, NULL);
}

static void put(struct carrier *carrier, const void *message)
{
    struct ring *ring = (struct ring *)carrier;

    for (int i = 0; i < ring->receivers; i++)
        await_room(ring, i);
    memcpy(ring->slots + ring->position % SLOTS * ring->slot_bytes, message, ring->size);
    ring->position++;
    if (ring->sleeps) {
        atomic_store(&ring->shared->head, ring->position);
        wake_sleepers(ring);
    } else
        atomic_store_explicit(&ring->shared->head, ring->position, memory_order_release);
}

static void nothing_to_flush(struct carrier *carrier)
{
    (void)carrier;
}

static void await_message(struct ring *ring, struct cursor *cursor)
{
    while (atomic_load_explicit(&ring->shared->head, memory_order_acquire) == ring->position) {
        if (ring->sleeps) {
            atomic_store(&cursor->is_asleep, 1);
            futex(&ring->shared->head, FUTEX_WAIT, ring->position, ring->limit);
            atomic_store(&cursor->is_asleep, 0);
        } else if (ring->receivers > 1)
            sched_yield(); /* there may be more of us than cores */
        else
            _mm_pause();
    }
}

static const void *take(struct carrier *carrier, int receiver)
{
    struct ring *ring = (struct ring *)carrier;
    struct cursor *cursor = &ring->shared->cursors[receiver];

    atomic_store_explicit(&cursor->tail, ring->position, memory_order_release);
    await_message(ring, cursor);
    return ring->slots + ring->position++ % SLOTS * ring->slot_bytes;
}

struct carrier *ring_carrier(const char *name, size_t size, int receivers)
{
    struct ring *ring = calloc(1, sizeof *ring);

    ring->carrier = (struct carrier){.put = put, .flush = nothing_to_flush, .take = take};
    ring->slot_bytes = (size + 63) / 64 * 64;
    ring->shared = shared_memory(sizeof *ring->shared);
    ring->slots = shared_memory(ring->slot_bytes * SLOTS);
    ring->size = size;
    ring->sleeps = strcmp(name, "shm-spin") != 0;
    ring->limit = strcmp(name, "shm-timed") == 0 ? &one_second : NULL;
    ring->receivers = receivers;
    return &ring->carrier;
}
