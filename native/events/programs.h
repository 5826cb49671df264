/* Compiled conversions of records: what is installed in a Routine or a Decoder, and how a Routine's call runs it. */
#pragma once

#include "events/shell.h"

/* A larger source is converted with the GIL released: below it the hand-over takes longer than the work. */
#define GIL_RELEASE_BYTES (64 * 1024)

/* What is compiled. None of these may call Python, block, or keep a pointer; each takes its source and
 * target at any alignment, and never reads back what it wrote to the target. 0 means success. */
typedef int32_t convert_fixed(const uint8_t *source, uint8_t *target, uint64_t count);
typedef int32_t verify_record(const uint8_t *record, uint64_t size);
typedef uint64_t measure_record(const uint8_t *record); /* UINT64_MAX: the result would be too large */
typedef int32_t convert_record(const uint8_t *record, uint8_t *target);

/* One set of installed functions. Never changed once published, only replaced. */
struct program {
    uint64_t users;          /* the object that publishes it and the calls that run it; 0 frees it */
    PyObject *keep_alive;    /* owned; whatever owns the machine code. Never NULL */
    convert_fixed *fixed;    /* NULL in a program of variable records, and in a Decoder's that copies */
    uint64_t source_size;    /* bytes of one fixed source record, at least 1 */
    uint64_t target_size;    /* bytes of one fixed target record, at least 1 */
    verify_record *verify;   /* this and the two below: NULL in a program of fixed records */
    measure_record *measure; /* called only for a record that verify has passed */
    convert_record *convert; /* likewise, into as many bytes as measure said. Both NULL, but not verify: a
                                  * verified record is the result as it is */
};

/* Frees a program without users; may run any finalizer. */
void echo_program_free(struct program *program);

/* Ends one use, perhaps the last. NULL is allowed. */
static inline void program_release(struct program *program)
{
    if (program != NULL && --program->users == 0)
        echo_program_free(program);
}

/* Publishes a program where calls find it, and takes over the caller's use of it (NULL: none). Calls that run the old
 * one keep it. May run any finalizer. */
static inline void program_publish(struct program **published, struct program *program)
{
    struct program *old = *published;

    *published = program; /* first: the line below may run Python code that looks at it */
    program_release(old);
}

/* A shell whose calls run what is installed: the first part of a Routine and of a Decoder. */
struct runner {
    struct shell shell;      /* first */
    struct program *program; /* counted in program->users; NULL: nothing is installed */
};

/* Installs a copy of these functions, and takes a reference to what keeps them alive. None, or NULL with MemoryError.
 * May run any finalizer. */
PyObject *echo_runner_install(PyObject *self, const struct program *program);

/* The method `clear`, the getter of `is_compiled`, tp_traverse and tp_clear. */
PyObject *echo_runner_clear(PyObject *self, PyObject *unused);
PyObject *echo_runner_is_compiled(PyObject *self, void *unused);
int echo_runner_traverse(PyObject *self, visitproc visit, void *arg);
int echo_runner_tp_clear(PyObject *self);

/* Converts the records of `source` to new bytes, or to the start of `target`, which may be NULL: then there is none.
 * The caller holds the program for as long as this takes. On GOOD *result is the caller's. Nothing stays open,
 * whatever the outcome. */
enum outcome echo_program_run(const struct program *program, PyObject *source, PyObject *target, PyObject **result);

/* --- routines.c: what others call of a Routine without Python's protocol --- */

/* The Routine whose `call` a function is, borrowed from it; NULL for any other callable. sibling_type: a type of the same
 * module. */
struct runner *echo_routine_of(PyTypeObject *sibling_type, PyObject *function);

/* What its call makes of bytes. NULL with an exception. May run any code. */
PyObject *echo_routine_convert(struct runner *routine, PyObject *source);
