/* Long work gives other threads their turn: the GIL is let go of for a moment whenever it has been held for
 * TURN_NS, and while many bytes are copied.
 *
 * What is under way then must bear that any other code runs, as it does where a value is made by Python code.
 */
#pragma once

#include "kept_bytes.h"

#include <stdint.h>
#include <string.h>

#define TURN_NS 2000000

/* The clock is looked at once for so many objects, which take some 100 us. */
#define TURN_OBJECTS 2048

/* A larger copy is made without the GIL: below this, handing it over costs more than the copy. */
#define TURN_BYTES (256 * 1024)

/* Where a piece of long work is in its turn. Zeroed at the start, so that short work does not look at the clock. */
struct turn {
    int64_t done;     /* objects since the clock was last looked at */
    int64_t since_ns; /* when the turn began; 0: the clock has not been looked at */
};

/* Looks at the clock, and releases the GIL for a moment if the turn is over. May run any code. */
void echo_turn_check(struct turn *turn);

/* So many more objects have been made or read. May run any code. */
static inline void turn_count(struct turn *turn, int64_t objects)
{
    turn->done += objects;
    if (turn->done >= TURN_OBJECTS)
        echo_turn_check(turn);
}

/* memcpy; releases the GIL where it is large. Both places stay, whatever other threads do. */
static inline void copy_in_turn(uint8_t *target, const uint8_t *source, Py_ssize_t size)
{
    PyThreadState *released = size > TURN_BYTES ? PyEval_SaveThread() : NULL;

    memcpy(target, source, (size_t)size);
    if (released != NULL)
        PyEval_RestoreThread(released);
}

/* Bytes that nobody else knows of while they are copied, of kept_bytes.h; NULL with an exception. */
static inline PyObject *bytes_in_turn(const uint8_t *source, Py_ssize_t size)
{
    PyObject *bytes = bytes_to_fill(size);

    if (bytes != NULL)
        copy_in_turn((uint8_t *)PyBytes_AsString(bytes), source, size);
    return bytes;
}
