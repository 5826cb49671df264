/* A record under way, for the C files that write one: writing.c, and elements.c for arrays and sequences. */
#pragma once

#include "events/objects/objects.h"
#include "events/turns.h"

#define NOT_INLINE __attribute__((noinline))

/* Records up to this size, parts included, are made on the stack. */
#define STACK_BYTES 1024

/* A record under way. Places in it are offsets, since it moves when it grows. */
struct out {
    uint8_t *bytes;      /* the stack's, the heap's, or a place of fixed size that never grows */
    Py_ssize_t size;     /* how many are in use */
    Py_ssize_t capacity; /* how many there are */
    uint8_t *heap;       /* owned, PyMem; NULL: not on the heap */
    struct turn *turn;   /* borrowed; NULL: whoever calls cannot bear that other code runs */
    int is_trial;        /* 1: nobody will look at the bytes */
};

/* --- room --- */

/* Room for so many bytes altogether: RAISED where memory runs out. */
enum outcome echo_out_grow(struct out *out, Py_ssize_t needed);

/* Room for one more part, whose offset is written to *start. Only the bytes before it are made 0. */
static inline enum outcome append(struct out *out, Py_ssize_t size, Py_ssize_t alignment, Py_ssize_t *start)
{
    enum outcome outcome;

    if (size > PY_SSIZE_T_MAX / 2 || out->size > PY_SSIZE_T_MAX / 4)
        return UNUSUAL;
    *start = round_up(out->size, alignment);
    if (*start + size > out->capacity && (outcome = echo_out_grow(out, *start + size)) != GOOD)
        return outcome;
    for (; out->size < *start; out->size++)
        out->bytes[out->size] = 0;
    out->size = *start + size;
    return GOOD;
}

/* From an object that does not change. Where its reference is only borrowed it is held while the GIL may be released. */
static inline void copy_out(struct out *out, Py_ssize_t start, PyObject *object, const void *source, Py_ssize_t size)
{
    if (size <= TURN_BYTES || out->turn == NULL) {
        memcpy(out->bytes + start, source, (size_t)size);
        return;
    }
    Py_INCREF(object);
    copy_in_turn(out->bytes + start, source, size);
    Py_DECREF(object);
}

static inline void store_word(struct out *out, Py_ssize_t at, Py_ssize_t word)
{
    store_number(out->bytes + at, 8, word);
}

/* --- what the two files have for each other --- */

static inline enum outcome write_text(struct out *out, PyObject *it, Py_ssize_t at)
{
    Py_ssize_t size, start;
    const char *text = utf8_of(it, &size);
    enum outcome outcome;

    if (text == NULL || (size > TURN_BYTES && memchr(text, 0, (size_t)size) != NULL))
        return UNUSUAL;
    outcome = append(out, size + 1, 1, &start);
    if (outcome != GOOD)
        return outcome;
    if (size > TURN_BYTES)
        copy_out(out, start, it, text, size);
    else if (!copy_text(out->bytes + start, (const uint8_t *)text, size))
        return UNUSUAL;
    out->bytes[start + size] = 0;
    store_word(out, at, start);
    return GOOD;
}

static inline enum outcome write_blob(struct out *out, PyObject *it, Py_ssize_t at)
{
    Py_ssize_t size, start;
    const uint8_t *bytes;
    enum outcome outcome;

    if (!PyBytes_CheckExact(it))
        return UNUSUAL;
    bytes = bytes_of(it, &size);
    outcome = append(out, size, 1, &start);
    if (outcome != GOOD)
        return outcome;
    if (size > TURN_BYTES)
        copy_out(out, start, it, bytes, size);
    else
        copy(out->bytes + start, bytes, size);
    store_word(out, at, start);
    store_word(out, at + 8, size);
    return GOOD;
}

/* A value at its place, which is all 0. lengths: those of the record that it is a field of. */
enum outcome echo_write_value(struct out *out, const struct value *value, PyObject *it, Py_ssize_t at,
                              int64_t *lengths);

/* An array or a sequence. */
enum outcome echo_write_elements(struct out *out, const struct value *value, PyObject *it, Py_ssize_t at,
                                 int64_t *lengths);
