/* The memory that a link reads into: chunks.c. */
#pragma once

#include "types.h"

#include <stddef.h>
#include <stdint.h>

/* What is read at a time; a large frame has a larger chunk. */
#define CHUNK_BYTES 262144

/* From here on a frame is read by itself, so that little is moved when the next one comes. */
#define LARGE_FRAME_BYTES 65536

/* Memory that is read into: the Python object that views of received bytes refer to. */
struct chunk {
    PyObject ob_base;
    uint8_t *bytes; /* owned; at a multiple of 64 */
    size_t capacity;
};

#define CHUNKS 4

/* What has been read and not handed out. Only the thread that has the reader's role. */
struct intake {
    PyTypeObject *chunk_type;     /* borrowed from the module */
    struct chunk *chunks[CHUNKS]; /* owned; NULL: not yet needed. To be used again when nobody refers to them */
    int current;                  /* the one that is read into */
    size_t begin, end;            /* of what is in it */
    size_t need;                  /* bytes in all, at least, of the frame at `begin`; 0: nothing was read yet */
    unsigned small_reads;         /* since the last large frame */
};

static inline struct chunk *current_chunk(const struct intake *intake)
{
    return intake->chunks[intake->current];
}

/* Sees to it that the frame at `begin` can be completed. How many bytes to read at most; 0 with MemoryError. GIL. */
size_t echo_intake_prepare(struct intake *intake);

/* Lets go of all memory, where nothing is in it. GIL. */
void echo_intake_empty(struct intake *intake);

/* Whether `size` bytes of received ones are enough for a view that keeps the whole chunk. */
int echo_chunk_may_be_kept(PyObject *chunk, Py_ssize_t size, int is_queued);
