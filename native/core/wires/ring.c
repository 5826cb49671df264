/* A wire of two rings in shared memory, one for each direction.
 *
 *   0          SHARED_PAGE_BYTES       + ring_bytes           + ring_bytes
 *   | struct shared | ring of side 0            | ring of side 1            |
 *
 * A ring has one writer and one reader, who count the bytes since the beginning. Each keeps its own count to
 * itself and publishes it; of the other's it believes only what fits to the ring and never goes back. So
 * whatever is written into the memory, no access leaves it, and there is no lock that a killed peer could
 * hold. Waiting: signals.c.
 *
 * The bell is a socket between the two. Who moves bytes for a side that rests sends one there; what they are is no
 * matter, nor how many. When it closes, the peer is gone.
 */
#define _GNU_SOURCE
#include "core/wires/ring.h"

#include "core/clock.h"
#include "core/wires/signals.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Of what the bell holds at most so much is taken at a time: a peer may send for ever. */
#define BELL_BYTES 64
#define BELL_READS 64

/* Where one side writes, or reads. Touched by one thread at a time, but for the atomic count. */
struct port {
    ON_OWN_LINE struct direction *direction; /* borrowed from the memory, as is the next */
    uint8_t *bytes;                          /* the ring */
    _Atomic uint64_t moved;                  /* own count; others may look at it */
    uint64_t other;                          /* the other side's count, when it was last looked at */
    int is_last;                             /* reader: `other` will not grow any more, since the wire is shut */
};

/* Why a wait for bytes ends that brings none. */
#define SHUT 1     /* by this side */
#define RELEASED 2 /* and no read has ended since */

struct ring {
    struct wire wire;
    struct shared_rings *shared; /* owned mapping */
    uint64_t ring_bytes;         /* a power of two */
    int side;                    /* 0 or 1 */
    int64_t spin_ns;             /* how long a wait looks before it sleeps */
    _Atomic int ends;            /* of waits: bits, of which the peer can take back none */
    _Atomic int is_nudged;       /* and no await_bytes has ended since */
    _Atomic int awaits_room;     /* a thread of this side may sleep for it */
    struct port out, in;
};

static uint64_t memory_bytes(uint64_t ring_bytes)
{
    return SHARED_PAGE_BYTES + 2 * ring_bytes;
}

/* --- counts --- */

static int is_shut(struct ring *ring)
{
    return (atomic_load(&ring->ends) & SHUT) != 0 ||
           atomic_load_explicit(&ring->shared->is_shut[!ring->side], memory_order_acquire);
}

/* Takes the other side's count over if it is believable: between what it was and what the ring allows. */
static int accept_count(struct port *port, uint64_t count, uint64_t most)
{
    if (count - port->other > most - port->other) /* both differences are small unless the count is not */
        return -EPROTO;
    port->other = count;
    return 0;
}

/* How much can be written, at least `wanted` if there is so much; -EPROTO. */
static int64_t room_of(struct ring *ring, uint64_t wanted)
{
    struct port *out = &ring->out;
    uint64_t written = atomic_load_explicit(&out->moved, memory_order_relaxed);

    if (ring->ring_bytes - (written - out->other) < wanted &&
        accept_count(out, atomic_load_explicit(&out->direction->taken, memory_order_acquire), written) != 0)
        return -EPROTO;
    return (int64_t)(ring->ring_bytes - (written - out->other));
}

/* How much can be read; -EPROTO. What was written before the wire was shut counts. */
static int64_t bytes_of(struct ring *ring)
{
    struct port *in = &ring->in;
    uint64_t taken = atomic_load_explicit(&in->moved, memory_order_relaxed);
    int is_last = in->is_last || is_shut(ring); /* before the count, which so includes all */

    if (!in->is_last && accept_count(in, atomic_load_explicit(&in->direction->written, memory_order_acquire),
                                     taken + ring->ring_bytes) != 0)
        return -EPROTO;
    in->is_last = is_last;
    return (int64_t)(in->other - taken);
}

/* --- waiting --- */

/* As in `only_processor`. */
static uint32_t processor_of_thread(void)
{
    uint32_t processor = 0;
    cpu_set_t processors;

    if (sched_getaffinity(0, sizeof processors, &processors) != 0 || CPU_COUNT(&processors) != 1)
        return 0;
    while (!CPU_ISSET(processor, &processors))
        processor++;
    return processor + 1;
}

static void tell_processor(struct shared_rings *shared, int side)
{
    atomic_store_explicit(&shared->only_processor[side], processor_of_thread(), memory_order_relaxed);
}

/* While this side looks, the other one can run. */
static int can_spin(struct ring *ring)
{
    _Atomic uint32_t *only = ring->shared->only_processor;
    uint32_t own = atomic_load_explicit(&only[ring->side], memory_order_relaxed);
    uint32_t other = atomic_load_explicit(&only[!ring->side], memory_order_relaxed);

    return ring->spin_ns > 0 && (own == 0 || own != other);
}

/* What a wait is for. They look at atomics only: a thread that is about to leave a wait may still look while
 * another moves bytes. A count that is not believable ends a wait; the move after it says -EPROTO. */
static int has_room(void *subject)
{
    struct ring *ring = subject;
    uint64_t written = atomic_load_explicit(&ring->out.moved, memory_order_relaxed);

    return written - atomic_load(&ring->out.direction->taken) != ring->ring_bytes || is_shut(ring);
}

static int has_bytes(void *subject)
{
    struct ring *ring = subject;
    uint64_t taken = atomic_load_explicit(&ring->in.moved, memory_order_relaxed);

    return atomic_load(&ring->in.direction->written) != taken || is_shut(ring);
}

static int has_bytes_or_end(void *subject)
{
    struct ring *ring = subject;
    uint64_t taken = atomic_load_explicit(&ring->in.moved, memory_order_relaxed);

    return atomic_load(&ring->in.direction->written) != taken || atomic_load(&ring->ends) != 0 ||
           atomic_load_explicit(&ring->shared->is_shut[!ring->side], memory_order_acquire);
}

static int has_bytes_or_nudge(void *subject)
{
    struct ring *ring = subject;

    return has_bytes(ring) || atomic_load(&ring->is_nudged);
}

/* 1: it is over. 0: time is up. -EINTR. */
static int await(struct ring *ring, _Atomic uint32_t *signal, int (*is_over)(void *), int64_t deadline_ns, int may_spin)
{
    if (is_over(ring))
        return 1;
    if (may_spin && can_spin(ring)) {
        if (echo_signal_spin(is_over, ring, ring->spin_ns, deadline_ns))
            return 1;
        tell_processor(ring->shared, ring->side); /* it may have changed; before a sleep it costs little */
    }
    return echo_signal_sleep(signal, is_over, ring, deadline_ns);
}

/* --- bytes --- */

static uint64_t until_wrap(const struct ring *ring, uint64_t at, uint64_t size)
{
    uint64_t left = ring->ring_bytes - at;

    return size < left ? size : left;
}

static void copy_in(const struct ring *ring, uint64_t count, const uint8_t *bytes, uint64_t size)
{
    uint64_t at = count & (ring->ring_bytes - 1), first = until_wrap(ring, at, size);

    memcpy(ring->out.bytes + at, bytes, first);
    memcpy(ring->out.bytes, bytes + first, size - first);
}

static void copy_out(const struct ring *ring, uint64_t count, uint8_t *bytes, uint64_t size)
{
    uint64_t at = count & (ring->ring_bytes - 1), first = until_wrap(ring, at, size);

    memcpy(bytes, ring->in.bytes + at, first);
    memcpy(bytes + first, ring->in.bytes, size - first);
}

static void publish(struct port *port, _Atomic uint64_t *count, uint64_t moved)
{
    atomic_store_explicit(&port->moved, moved, memory_order_relaxed);
    atomic_store(count, moved);
}

/* One publication and one signal for all parts. */
static ssize_t ring_write(struct wire *wire, const struct iovec *parts, int count)
{
    struct ring *ring = (struct ring *)wire;
    uint64_t begin = atomic_load_explicit(&ring->out.moved, memory_order_relaxed), end = begin;
    int64_t room;

    if (is_shut(ring))
        return -EPIPE;
    room = room_of(ring, bytes_of_parts(parts, count));
    for (int i = 0; i < count && room > 0; i++) {
        size_t size = parts[i].iov_len < (uint64_t)room ? parts[i].iov_len : (size_t)room;

        copy_in(ring, end, parts[i].iov_base, size);
        end += size;
        room -= (int64_t)size;
    }
    if (end == begin)
        return room < 0 ? (ssize_t)room : 0;
    publish(&ring->out, &ring->out.direction->written, end);
    echo_signal_wake(&ring->out.direction->bytes_signal, wire->bell);
    return (ssize_t)(end - begin);
}

/* Nobody has to be woken. */
static int ring_is_cheap(struct wire *wire)
{
    return !echo_signal_has_waiter(&((struct ring *)wire)->out.direction->bytes_signal);
}

/* What comes behind `taken`. In line: a read is one call. */
static inline __attribute__((always_inline)) ssize_t copy_next(struct ring *ring, uint64_t taken, uint8_t *bytes,
                                                               size_t size)
{
    int64_t available = bytes_of(ring);

    if (available <= 0)
        return available < 0 ? (ssize_t)available : ring->in.is_last ? 0 : -EAGAIN;
    if (size > (uint64_t)available)
        size = (size_t)available;
    copy_out(ring, taken, bytes, size);
    return (ssize_t)size;
}

static ssize_t ring_peek(struct wire *wire, uint8_t *bytes, size_t size)
{
    struct ring *ring = (struct ring *)wire;

    return copy_next(ring, atomic_load_explicit(&ring->in.moved, memory_order_relaxed), bytes, size);
}

/* As ring_read, without waiting. */
static ssize_t take(struct ring *ring, uint8_t *bytes, size_t size)
{
    uint64_t taken = atomic_load_explicit(&ring->in.moved, memory_order_relaxed);
    ssize_t count = copy_next(ring, taken, bytes, size);

    if (count <= 0)
        return count;
    publish(&ring->in, &ring->in.direction->taken, taken + (uint64_t)count);
    echo_signal_wake(&ring->in.direction->room_signal, -1);
    return count;
}

static ssize_t ring_read(struct wire *wire, uint8_t *bytes, size_t size, int64_t timeout_ns)
{
    struct ring *ring = (struct ring *)wire;
    ssize_t count = take(ring, bytes, size);
    int64_t deadline_ns;
    int status;

    if (count != -EAGAIN || timeout_ns == 0)
        return count;
    deadline_ns = deadline_after(timeout_ns);
    while (count == -EAGAIN) { /* once, unless the peer's count is not believable */
        status = await(ring, &ring->in.direction->bytes_signal, has_bytes_or_end, deadline_ns, wire->is_lively);
        if (status <= 0)
            return status < 0 ? status : -EAGAIN;
        count = take(ring, bytes, size);
        if (count == -EAGAIN && (atomic_fetch_and(&ring->ends, ~RELEASED) & RELEASED) != 0)
            break;
    }
    return count;
}

static int ring_await_bytes(struct wire *wire, int64_t timeout_ns)
{
    struct ring *ring = (struct ring *)wire;
    int64_t deadline_ns = deadline_after(timeout_ns);
    int status = await(ring, &ring->in.direction->bytes_signal, has_bytes_or_nudge, deadline_ns, 1);

    return atomic_exchange(&ring->is_nudged, 0) && status > 0 ? 0 : status;
}

static int ring_await_room(struct wire *wire, int64_t timeout_ns)
{
    struct ring *ring = (struct ring *)wire;
    int status;

    atomic_store(&ring->awaits_room, 1);
    status = await(ring, &ring->out.direction->room_signal, has_room, deadline_after(timeout_ns), 1);
    atomic_store(&ring->awaits_room, 0);
    return status;
}

/* --- its life --- */

static void ring_nudge(struct wire *wire)
{
    struct ring *ring = (struct ring *)wire;

    atomic_store(&ring->is_nudged, 1);
    echo_signal_raise(&ring->in.direction->bytes_signal);
}

static void ring_release(struct wire *wire)
{
    struct ring *ring = (struct ring *)wire;

    atomic_fetch_or(&ring->ends, RELEASED);
    echo_signal_raise(&ring->in.direction->bytes_signal);
}

/* Who is about to wake by itself loses nothing by it. */
static void ring_rouse(struct wire *wire)
{
    struct ring *ring = (struct ring *)wire;

    if (has_bytes(ring))
        echo_signal_raise(&ring->in.direction->bytes_signal);
    if (atomic_load(&ring->awaits_room) && has_room(ring))
        echo_signal_raise(&ring->out.direction->room_signal);
}

/* What the bell held so far says nothing any more: the look at the count says it. */
static int ring_answer_bell(struct wire *wire)
{
    uint8_t bytes[BELL_BYTES];
    ssize_t count = wire->bell >= 0 ? 1 : -1;

    for (int i = 0; i < BELL_READS && count > 0; i++)
        count = recv(wire->bell, bytes, sizeof bytes, MSG_DONTWAIT);
    return count == 0 || (count < 0 && wire->bell >= 0 && errno != EAGAIN && errno != EINTR);
}

static int ring_rest(struct wire *wire)
{
    struct ring *ring = (struct ring *)wire;

    ring_answer_bell(wire);
    echo_signal_rest(&ring->in.direction->bytes_signal);
    return !has_bytes(ring);
}

static void ring_shut(struct wire *wire)
{
    struct ring *ring = (struct ring *)wire;

    atomic_fetch_or(&ring->ends, SHUT);
    atomic_store(&ring->shared->is_shut[ring->side], 1);
    for (int side = 0; side < 2; side++) {
        echo_signal_raise(&ring->shared->directions[side].bytes_signal);
        echo_signal_raise(&ring->shared->directions[side].room_signal);
    }
    if (wire->bell >= 0)
        shutdown(wire->bell, SHUT_RDWR); /* both sides may rest */
}

/* For abandon as well: memory that is unmapped tells nobody anything, nor does a bell that the parent has still. */
static void ring_free(struct wire *wire)
{
    struct ring *ring = (struct ring *)wire;

    if (wire->bell >= 0)
        close(wire->bell);
    munmap(ring->shared, memory_bytes(ring->ring_bytes));
    free(ring);
}

static const struct wire_operations ring_operations = {
    .name = "shm",
    .is_cheap = ring_is_cheap,
    .write = ring_write,
    .await_room = ring_await_room,
    .read = ring_read,
    .peek = ring_peek,
    .await_bytes = ring_await_bytes,
    .nudge = ring_nudge,
    .release = ring_release,
    .rouse = ring_rouse,
    .rest = ring_rest,
    .answer_bell = ring_answer_bell,
    .shut = ring_shut,
    .abandon = ring_free,
    .free = ring_free,
};

static struct port port_at(struct shared_rings *shared, uint64_t ring_bytes, int side)
{
    uint8_t *rings = (uint8_t *)shared + SHARED_PAGE_BYTES;

    return (struct port){.direction = &shared->directions[side], .bytes = rings + (uint64_t)side * ring_bytes};
}

/* Takes the mapping and the bell over, unless it returns NULL: no memory. */
static struct wire *ring_new(struct shared_rings *shared, uint64_t ring_bytes, int side, int64_t spin_ns, int bell)
{
    struct ring *ring = aligned_alloc(SHARED_LINE_BYTES, sizeof *ring);

    if (ring == NULL)
        return NULL;
    *ring = (struct ring){.wire = {.operations = &ring_operations, .bell = bell},
                          .shared = shared,
                          .ring_bytes = ring_bytes,
                          .side = side,
                          .spin_ns = spin_ns,
                          .out = port_at(shared, ring_bytes, side),
                          .in = port_at(shared, ring_bytes, !side)};
    tell_processor(shared, side);
    return &ring->wire;
}

static int is_ring_size(uint64_t ring_bytes)
{
    return ring_bytes >= MIN_RING_BYTES && ring_bytes <= MAX_RING_BYTES && (ring_bytes & (ring_bytes - 1)) == 0;
}

int echo_ring_create(uint64_t ring_bytes)
{
    struct shared_rings *shared;
    int fd;

    if (!is_ring_size(ring_bytes))
        return -EINVAL;
    fd = echo_memory_create("echo_core ring", memory_bytes(ring_bytes));
    if (fd < 0)
        return fd;
    shared = echo_memory_map(fd, 0, sizeof *shared, PROT_READ | PROT_WRITE);
    if (shared == NULL) {
        int error = errno;

        close(fd);
        return -error;
    }
    shared->ring_bytes = ring_bytes;
    shared->version = RING_VERSION;
    shared->magic = RING_MAGIC;
    munmap(shared, sizeof *shared);
    return fd;
}

/* NULL, and *ring_bytes: what the memory begins with is the start of rings that fill it. */
static const char *refusal_of(const volatile struct shared_rings *shared, uint64_t size, uint64_t *ring_bytes)
{
    *ring_bytes = shared->ring_bytes; /* once: the peer may change it at any time */
    if (shared->magic != RING_MAGIC)
        return "it does not begin as rings do";
    if (shared->version != RING_VERSION)
        return "its version is another";
    if (!is_ring_size(*ring_bytes) || memory_bytes(*ring_bytes) != size)
        return "its size is not that of the rings it tells of";
    return NULL;
}

struct wire *echo_ring_open(int fd, int side, int64_t spin_ns, int bell, const char **refusal)
{
    uint64_t size, ring_bytes;
    struct shared_rings *shared;
    struct wire *wire;

    *refusal = echo_memory_refusal(fd, &size);
    if (*refusal == NULL && size < SHARED_PAGE_BYTES)
        *refusal = "it is too small";
    if (*refusal != NULL)
        return NULL;
    shared = echo_memory_map(fd, 0, size, PROT_READ | PROT_WRITE);
    if (shared == NULL)
        return NULL;
    *refusal = refusal_of(shared, size, &ring_bytes);
    wire = *refusal == NULL ? ring_new(shared, ring_bytes, side, spin_ns, bell) : NULL;
    if (wire == NULL)
        munmap(shared, size);
    return wire;
}
