/* The memory that a link reads into, and where in it frames come to lie.
 *
 * Views of received arrays refer to their chunk; one that is referred to is written no more, behind what is
 * there excepted.
 */
#include "links/chunks.h"

#include "links/state.h"

#include "core/frames.h"

#include <stdlib.h>

/* A payload behind a header here lies at a multiple of 64. */
#define FIRST_FRAME_AT (64 - FRAME_HEADER_BYTES)

/* Less room is not worth a system call. */
#define LEAST_READ 65536

/* What is kept is not more than so many times what is in view of it. */
#define KEPT_PART 4

/* A chunk for large frames goes after so many reads without one. */
#define SMALL_READS 256

static struct chunk *chunk_new(PyTypeObject *type, size_t capacity)
{
    struct chunk *chunk = (struct chunk *)PyType_GenericAlloc(type, 0);

    if (chunk == NULL)
        return NULL;
    chunk->capacity = (capacity + 63) & ~(size_t)63;
    chunk->bytes = aligned_alloc(64, chunk->capacity);
    if (chunk->bytes == NULL) {
        Py_DECREF(chunk);
        PyErr_NoMemory();
        return NULL;
    }
    return chunk;
}

static int is_shared(struct chunk *chunk)
{
    return Py_REFCNT(&chunk->ob_base) > 1;
}

/* A slot with a chunk of that capacity which nobody uses; else the slot to put one in. */
static int slot_for(const struct intake *intake, size_t capacity)
{
    struct chunk *chunk;
    int best = -1;

    for (int i = 0; i < CHUNKS; i++) {
        chunk = intake->chunks[i];
        if (chunk == NULL || is_shared(chunk) || (i == intake->current && intake->end > intake->begin))
            continue;
        if (chunk->capacity >= capacity && (best < 0 || chunk->capacity < intake->chunks[best]->capacity))
            best = i;
    }
    for (int i = 0; best < 0 && i < CHUNKS; i++)
        if (intake->chunks[i] == NULL)
            best = i;
    return best >= 0 ? best : (intake->current + 1) % CHUNKS;
}

/* Moves what is there to the beginning of a chunk of that capacity, which becomes the current one. */
static int change_chunk(struct intake *intake, size_t capacity)
{
    int slot = slot_for(intake, capacity);
    struct chunk *from = current_chunk(intake), *to = intake->chunks[slot];
    size_t size = intake->end - intake->begin;

    if (to == NULL || is_shared(to) || to->capacity < capacity) {
        to = chunk_new(intake->chunk_type, capacity);
        if (to == NULL)
            return -1;
    }
    if (size > 0)
        memcpy(to->bytes + FIRST_FRAME_AT, from->bytes + intake->begin, size);
    if (to != intake->chunks[slot]) {
        Py_XDECREF((PyObject *)intake->chunks[slot]);
        intake->chunks[slot] = to;
    }
    intake->current = slot;
    intake->begin = FIRST_FRAME_AT;
    intake->end = FIRST_FRAME_AT + size;
    return 0;
}

static void move_to(struct intake *intake, size_t begin)
{
    uint8_t *bytes = current_chunk(intake)->bytes;
    size_t size = intake->end - intake->begin;

    if (size > 0)
        memmove(bytes + begin, bytes + intake->begin, size);
    intake->begin = begin;
    intake->end = begin + size;
}

/* Room for `wanted` bytes from `begin` on. */
static int make_room(struct intake *intake, size_t wanted)
{
    struct chunk *chunk = current_chunk(intake);
    size_t capacity = FIRST_FRAME_AT + wanted;

    if (chunk != NULL && wanted <= chunk->capacity - intake->begin)
        return 0;
    if (chunk == NULL || is_shared(chunk) || capacity > chunk->capacity)
        return change_chunk(intake, capacity > CHUNK_BYTES ? capacity : CHUNK_BYTES);
    move_to(intake, FIRST_FRAME_AT);
    return 0;
}

static void forget_large_chunks(struct intake *intake)
{
    struct chunk *chunk;

    for (int i = 0; i < CHUNKS; i++) {
        chunk = intake->chunks[i];
        if (chunk == NULL || chunk->capacity <= CHUNK_BYTES || (i == intake->current && intake->end > intake->begin))
            continue;
        intake->chunks[i] = NULL;
        Py_DECREF(chunk);
        if (i == intake->current)
            intake->begin = intake->end = 0;
    }
}

static size_t prepare_large(struct intake *intake)
{
    size_t have = intake->end - intake->begin;
    size_t wanted = intake->need + FRAME_HEADER_BYTES; /* with the next one's header, to know how large that one is */
    size_t begin;

    intake->small_reads = 0;
    if (make_room(intake, wanted) != 0)
        return 0;
    begin = ((intake->begin + FRAME_HEADER_BYTES + 63) & ~(size_t)63) - FRAME_HEADER_BYTES;
    if (have <= 64 && wanted <= current_chunk(intake)->capacity - begin)
        move_to(intake, begin);
    return wanted - have;
}

size_t echo_intake_prepare(struct intake *intake)
{
    struct chunk *chunk = current_chunk(intake);

    if (intake->need >= LARGE_FRAME_BYTES)
        return prepare_large(intake);
    if (++intake->small_reads > SMALL_READS) {
        intake->small_reads = 0;
        forget_large_chunks(intake);
        chunk = current_chunk(intake);
    }
    if (chunk != NULL && intake->end == intake->begin && !is_shared(chunk)) {
        intake->begin = intake->end = FIRST_FRAME_AT;
        return chunk->capacity - FIRST_FRAME_AT;
    }
    if (make_room(intake, intake->end - intake->begin + LEAST_READ) != 0)
        return 0;
    return current_chunk(intake)->capacity - intake->end;
}

void echo_intake_empty(struct intake *intake)
{
    if (intake->end > intake->begin)
        return;
    for (int i = 0; i < CHUNKS; i++)
        Py_CLEAR(intake->chunks[i]);
    intake->begin = intake->end = intake->need = 0;
}

/* A queued view pins its whole chunk, but only the view counts against the queue's limit: so a small view of a queue is
 * copied. Chunks for large frames are few and large, so a small view copies there too. A handler mostly drops its view
 * before the next read, which then uses a chunk of the usual size again: no copy is needed. */
int echo_chunk_may_be_kept(PyObject *object, Py_ssize_t size, int is_queued)
{
    size_t capacity = ((struct chunk *)(void *)object)->capacity;

    return (size_t)size >= capacity / KEPT_PART || (!is_queued && capacity <= CHUNK_BYTES);
}

/* --- the type --- */

static void chunk_dealloc(PyObject *self)
{
    free(((struct chunk *)self)->bytes);
    free_instance(self);
}

static PyType_Slot chunk_slots[] = {
    {Py_tp_doc, PyDoc_STR("Received bytes.")}, {Py_tp_dealloc, chunk_dealloc}, {0, NULL}};

PyType_Spec echo_link_chunk_spec = {
    .name = "echo_core._c.links.Chunk",
    .basicsize = sizeof(struct chunk),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = chunk_slots,
};
