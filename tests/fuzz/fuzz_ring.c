/* Fuzzing the memory of a ring: whatever a peer writes into it, this side's moves stay within the rings and
 * within what they are told to move, and none waits for ever.
 *
 *   make fuzz FUZZ=ring
 *
 * An input is a row of steps, of this side and of the peer, each a byte and what it takes. The memory has pages
 * before and behind it that nobody can touch.
 */
#define munmap keep_mapped
static int keep_mapped(void *memory, unsigned long size);
#include "../../native/core/wires/ring.c" /* to know the memory, and to leave it where it is */
#undef munmap

#define RING_BYTES MIN_RING_BYTES
#define MEMORY_BYTES (SHARED_PAGE_BYTES + 2 * RING_BYTES)
#define GUARD_BYTES SHARED_PAGE_BYTES
#define MOST_AT_ONCE (3 * RING_BYTES)

static struct shared_rings *memory; /* of all runs */

/* --- in place of core/wires/memory.c --- */

static int keep_mapped(void *address, unsigned long size)
{
    (void)address;
    (void)size;
    return 0;
}

int echo_memory_create(const char *name, uint64_t size)
{
    (void)name;
    (void)size;
    return 0;
}

const char *echo_memory_refusal(int fd, uint64_t *size)
{
    (void)fd;
    *size = MEMORY_BYTES;
    return NULL;
}

void *echo_memory_map(int fd, uint64_t offset, uint64_t size, int protection)
{
    (void)fd;
    (void)offset;
    (void)size;
    (void)protection;
    return memory;
}

/* --- the input --- */

struct input {
    const uint8_t *bytes; /* what is left of it */
    size_t size;
};

static uint64_t take_number(struct input *input, size_t bytes)
{
    uint64_t number = 0;

    if (bytes > input->size)
        bytes = input->size;
    memcpy(&number, input->bytes, bytes);
    input->bytes += bytes;
    input->size -= bytes;
    return number;
}

static void require(int condition)
{
    if (!condition)
        abort();
}

/* --- steps --- */

/* A count of either direction, as the peer can set any. */
static _Atomic uint64_t *count_of(unsigned which)
{
    struct direction *direction = &memory->directions[which & 1];

    return which & 2 ? &direction->written : &direction->taken;
}

/* Copies of exactly the size, so that the sanitizer sees what goes beyond. */
static void move(struct wire *wire, size_t size, int is_read)
{
    uint8_t *bytes = calloc(1, size > 0 ? size : 1);
    ssize_t moved = is_read ? wire->operations->read(wire, bytes, size, 0)
                            : wire->operations->write(wire, &(struct iovec){bytes, size}, 1);

    require(moved <= (ssize_t)size && moved <= RING_BYTES);
    require(moved >= 0 || moved == -EPROTO || moved == -EPIPE || (is_read && moved == -EAGAIN));
    free(bytes);
}

static void write_parts_of(struct wire *wire, size_t size)
{
    uint8_t *bytes = calloc(1, size + 1);
    struct iovec parts[3] = {{bytes, size / 3}, {bytes, 0}, {bytes, size - size / 3}};
    ssize_t moved = wire->operations->write(wire, parts, 3);

    require(moved <= (ssize_t)size && moved <= RING_BYTES);
    free(bytes);
}

static void step(struct wire *wire, struct input *input)
{
    unsigned what = (unsigned)take_number(input, 1), which = what >> 4;

    switch (what & 15) {
    case 0: /* the peer: any count */
        atomic_store(count_of(which), take_number(input, 8));
        break;
    case 1: /* the peer: a count that is near */
        atomic_fetch_add(count_of(which), take_number(input, 2));
        break;
    case 2:
        atomic_fetch_sub(count_of(which), take_number(input, 2));
        break;
    case 3: /* the peer: any byte of the header */
        ((uint8_t *)memory)[take_number(input, 2) % sizeof *memory] = (uint8_t)take_number(input, 1);
        break;
    case 4:
        atomic_store(&memory->is_shut[which & 1], (uint32_t)take_number(input, 1));
        break;
    case 5:
    case 6:
        move(wire, take_number(input, 2) % MOST_AT_ONCE, 1);
        break;
    case 7:
    case 8:
        move(wire, take_number(input, 2) % MOST_AT_ONCE, 0);
        break;
    case 9:
        write_parts_of(wire, take_number(input, 2) % MOST_AT_ONCE);
        break;
    case 10:
        require(wire->operations->await_bytes(wire, 0) >= 0);
        break;
    case 11:
        require(wire->operations->await_room(wire, 0) >= 0);
        break;
    case 12:
        wire->operations->nudge(wire);
        wire->operations->rouse(wire);
        break;
    case 13: /* for ever, where something is to be had */
        if (has_bytes(wire))
            require(wire->operations->await_bytes(wire, -1) >= 0);
        break;
    case 14:
        wire->operations->shut(wire);
        break;
    }
}

/* --- runs --- */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    uint8_t *start = mmap(NULL, MEMORY_BYTES + 2 * GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)argc;
    (void)argv;
    require(start != MAP_FAILED);
    memory = (struct shared_rings *)(void *)(start + GUARD_BYTES);
    return mprotect(memory, MEMORY_BYTES, PROT_READ | PROT_WRITE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    int side = (int)take_number(&input, 1) & 1, fuzzes_header = (int)take_number(&input, 1) == 0;
    const char *refusal;
    struct wire *wire;

    memset(memory, 0, sizeof *memory);
    require(echo_ring_create(RING_BYTES) == 0);
    for (int i = 0; fuzzes_header && i < 4; i++)
        ((uint8_t *)memory)[take_number(&input, 1) % 32] = (uint8_t)take_number(&input, 1);
    wire = echo_ring_open(0, side, 0, -1, &refusal);
    require((wire == NULL) == (refusal != NULL));
    while (wire != NULL && input.size > 0)
        step(wire, &input);
    if (wire != NULL)
        wire->operations->free(wire);
    return 0;
}
