/* What a Judge is, for the files that it is made of. */
#pragma once

#include "expressions/programs.h"
#include "raw_codec.h"

/* Compiled steps. The mask of the roots that are bools and hold, by their numbers; below 0 where anything failed: then
 * steps are interpreted. results: the bits of each root that is none, then of each update. */
typedef int64_t judge_record(const uint8_t *record, uint64_t size, const uint8_t *parameters,
                             const struct state *states, int64_t *results);

/* Rows of the record's size, one behind another: which of them pass, and how many; below 0 where anything failed. */
typedef int64_t filter_rows(const uint8_t *rows, uint64_t count, const uint8_t *parameters, uint32_t *indices);

/* Copies the rows whose numbers these are. */
typedef void copy_rows(const uint8_t *rows, const uint32_t *indices, uint64_t count, uint8_t *target);

/* One field that the program reads, as instances of the class keep it: a leaf in a slot, perhaps of an object in a slot
 * and so on. */
#define MAX_SLOTS 4

struct leaf {
    Py_ssize_t at;                    /* offset in the record */
    Py_ssize_t size;                  /* CHARS: of it */
    Py_ssize_t slots[MAX_SLOTS];      /* offsets in the event, in the object there, and so on */
    PyTypeObject *classes[MAX_SLOTS]; /* borrowed from `details`; of what is in each slot but the last */
    PyObject *members;                /* borrowed; a tuple, of an enumeration */
    int64_t *numbers;                 /* owned; theirs */
    int slot_count;                   /* at least 1 */
    char form;                        /* enum form of leaves.h: a number, a bool, CHARS, MEMBER */
};

/* How events of one class are judged without encoding them. */
struct access {
    PyTypeObject *cls;   /* owned; NULL: all are encoded */
    PyObject *details;   /* owned tuple */
    Py_ssize_t inlined;  /* offset in an event of its record; 0: it has none that can be taken as it is */
    struct leaf *leaves; /* owned */
    Py_ssize_t count;    /* of leaves */
    uint8_t *room;       /* owned; a record of which only the leaves are filled in. Not shared: no Python code runs
                          * while it is used */
};

/* The Python object. */
struct judge {
    PyObject ob_base;        /* spelled out: PyObject_HEAD hides it */
    struct program *program; /* owned */
    PyObject *parameters;    /* owned bytes: the snapshot that counts now */
    const uint8_t *snapshot; /* its bytes */
    int64_t all; /* the mask of all roots where that decides alone, as nothing is remembered and any number may pass.
                  * -1: it does not */
    PyObject *encode;       /* owned callable for what is no such object, or NULL */
    PyObject *keep_alive;   /* owned; what owns the compiled code, or NULL */
    judge_record *compiled; /* NULL: interpreted */
    filter_rows *filter;    /* NULL likewise, and where there are states */
    copy_rows *copy;        /* NULL likewise */
    Py_ssize_t record_size; /* bytes of the fixed part */
    int is_fixed;           /* 1: that is all of a record */
    struct access access;
    struct raw_call raw; /* of encode */
    struct state states[MAX_STATES];
    unsigned long long every;   /* of those that pass so far, every so manieth passes; the first does */
    int64_t min_interval_ns;    /* after one that passed, none does for so long */
    unsigned long long reached; /* how many have come to `every` */
    int64_t passed_at_ns;       /* the last */
    unsigned long long judged;  /* counters */
    unsigned long long passed;
    unsigned long long failed; /* errors: these did not pass */
    unsigned long long interpreted;
    unsigned long long encoded; /* objects that could not be judged as they are */
    uint16_t failure;           /* the step that failed last, counted from 1 */
};

/* judges.c */
int echo_judge_record(struct judge *judge, const uint8_t *record, uint64_t size, int64_t now_ns);
int echo_judge_object(struct judge *judge, PyObject *event, int64_t now_ns);
int echo_judge_glance(struct judge *judge, PyObject *event, int64_t now_ns);
Py_ssize_t echo_judge_rows(struct judge *judge, const uint8_t *rows, Py_ssize_t count, uint32_t *indices,
                           int64_t now_ns);

/* All roots of a record, without states: a bit of *mask for each bool that holds and a word of results[] for each other
 * one. 0, or the step that failed, counted from 1; *failing then has a bit for each root that did. */
uint16_t echo_judge_roots(struct judge *judge, const uint8_t *record, uint64_t size, uint64_t *mask, uint64_t *failing,
                          int64_t *results);
int64_t echo_judge_clock(void);

/* Only where it counts: a clock takes longer than an event. */
static inline int64_t echo_judge_now(const struct judge *judge)
{
    return judge->min_interval_ns > 0 ? echo_judge_clock() : 0;
}

#define BLOCK_ROWS 256 /* that are filtered before any is copied */

/* objects.c */

/* Where the leaves of this event are in a record: in the event or in `room`. NULL: it is no such event, or holds what
 * has to be encoded. Runs no Python code. */
const uint8_t *echo_access_record(const struct access *access, PyObject *event);

/* details: (inlined, (at, form, size, slots, classes, members, numbers), ...). -1 with an exception. */
int echo_access_fill(struct access *access, PyTypeObject *cls, PyObject *details, Py_ssize_t record_size);
void echo_access_clear(struct access *access);
