/* Both sides of a ring in one mapping, each with its own threads: what ThreadSanitizer cannot see of two
 * processes. tests/sanitize.sh builds and runs it.
 *
 * Two threads for each side: one writes what the other side's reads. The content is checked, and every wait
 * is a short one, so that the sleeping and the waking are gone through often.
 */
#define _GNU_SOURCE
#include "core/wires/ring.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define RING_BYTES MIN_RING_BYTES
#define TOTAL_BYTES (UINT32_C(1) << 24)
#define MOST_AT_ONCE 1500 /* no divisor of the ring, so that it wraps everywhere */
#define WAIT_NS 1000000

/* --- one mapping: the linker's --wrap puts this in between --- */

static void *rings; /* NULL: not yet mapped */

void *__real_echo_memory_map(int fd, uint64_t offset, uint64_t size, int protection);
void *__wrap_echo_memory_map(int fd, uint64_t offset, uint64_t size, int protection);

void *__wrap_echo_memory_map(int fd, uint64_t offset, uint64_t size, int protection)
{
    if (size <= SHARED_PAGE_BYTES) /* the header by itself, while the rings are made */
        return __real_echo_memory_map(fd, offset, size, protection);
    if (rings == NULL)
        rings = __real_echo_memory_map(fd, offset, size, protection);
    return rings;
}

/* --- threads --- */

static void require(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "ring_threads: %s\n", what);
    abort();
}

static uint8_t byte_at(uint32_t at)
{
    return (uint8_t)(at * 31 + (at >> 8));
}

static void *write_all(void *argument)
{
    struct wire *wire = argument;
    uint8_t bytes[MOST_AT_ONCE];
    uint32_t at = 0;
    ssize_t taken;

    while (at < TOTAL_BYTES) {
        uint32_t left = TOTAL_BYTES - at, size = 1 + at % MOST_AT_ONCE;

        if (size > left)
            size = left;
        for (uint32_t i = 0; i < size; i++)
            bytes[i] = byte_at(at + i);
        taken = wire->operations->write(wire, &(struct iovec){bytes, size}, 1);
        require(taken >= 0, "a write was refused");
        at += (uint32_t)taken;
        if ((uint32_t)taken < size)
            require(wire->operations->await_room(wire, WAIT_NS) >= 0, "a wait for room failed");
    }
    return NULL;
}

static void *read_all(void *argument)
{
    struct wire *wire = argument;
    uint8_t bytes[MOST_AT_ONCE];
    uint32_t at = 0;
    ssize_t count;

    while (at < TOTAL_BYTES) {
        if (at % 3 == 0)
            require(wire->operations->await_bytes(wire, WAIT_NS) >= 0, "a wait for bytes failed");
        count = wire->operations->read(wire, bytes, 1 + at % MOST_AT_ONCE, WAIT_NS);
        require(count > 0 || count == -EAGAIN, "a read was refused");
        for (ssize_t i = 0; i < count; i++)
            require(bytes[i] == byte_at(at + (uint32_t)i), "a byte is another");
        at += count > 0 ? (uint32_t)count : 0;
    }
    return NULL;
}

/* The other side shuts the wire meanwhile: what came before can be read, then the end. */
static void *read_to_the_end(void *argument)
{
    struct wire *wire = argument;
    uint8_t byte;
    ssize_t count;

    while ((count = wire->operations->read(wire, &byte, 1, -1)) > 0)
        continue;
    require(count == 0, "the end is none");
    return NULL;
}

static pthread_t start(void *(*work)(void *), struct wire *wire)
{
    pthread_t thread;

    require(pthread_create(&thread, NULL, work, wire) == 0, "there is no thread");
    return thread;
}

static struct wire *open_side(int fd, int side, int64_t spin_ns)
{
    const char *refusal;
    struct wire *wire = echo_ring_open(fd, side, spin_ns, -1, &refusal);

    require(wire != NULL, "the memory was refused");
    return wire;
}

/* Frees nothing: there is one mapping, and two sides that would unmap it. */
static void run(int64_t spin_ns)
{
    int fd = echo_ring_create(RING_BYTES);
    struct wire *sides[2] = {open_side(fd, 0, spin_ns), open_side(fd, 1, spin_ns)};
    pthread_t threads[4], last;

    for (int side = 0; side < 2; side++) {
        threads[side] = start(write_all, sides[side]);
        threads[2 + side] = start(read_all, sides[side]);
    }
    for (int i = 0; i < 200; i++)
        (i % 3 == 0 ? sides[0]->operations->nudge : sides[0]->operations->rouse)(sides[i % 2]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    last = start(read_to_the_end, sides[0]);
    sides[1]->operations->write(sides[1], &(struct iovec){"end", 3}, 1);
    sides[1]->operations->shut(sides[1]);
    pthread_join(last, NULL);
}

int main(void)
{
    static const int64_t spins[] = {0, 20000};

    for (size_t i = 0; i < sizeof spins / sizeof *spins; i++) {
        rings = NULL;
        run(spins[i]);
    }
    puts("ring_threads: all bytes came as they went");
    return 0;
}
