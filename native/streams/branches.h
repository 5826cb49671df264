/* Branches: from the events of one outlet to those of another one, which is derived from it. branches.c judges,
 * passes.c has what becomes of what passes, branch_type.c the Python face; fans.h has many of one shape. */
#pragma once

#include "streams/submissions.h"

#include "raw_judge.h"

struct subject;
struct passes;
struct fan;

/* What follows the events of an outlet, and stands in its tuple of branches: a Branch, or a Fan. GIL. */
struct follower {
    PyObject ob_base; /* spelled out: PyObject_HEAD hides it */

    /* Whether anybody takes what comes of it. */
    int (*is_wanted)(struct follower *self);

    /* Judges what is submitted, whose first event has that number: what passes is added. 0; -1 with an exception:
     * somebody needs its record, which cannot be made. May run any code. */
    int (*follow)(struct follower *self, const struct subject *subject, uint64_t number, struct passes *passes);
};

/* The Python object. The outlet it leads to has no history. */
struct branch {
    struct follower follower;
    PyObject *judge;             /* owned; says which events pass. NULL: all do */
    const struct raw_judge *raw; /* of the judge; static */
    PyObject *outlet;            /* owned Outlet, of those that pass */
    PyObject *convert;           /* owned; called with bytes of a record, makes a derived one. NULL: nothing does */
    PyObject *computing;         /* owned judge of what is computed for that. NULL: nothing is */
    PyObject *write;             /* owned; its write_roots. NULL likewise */
    PyObject *offsets;           /* owned tuple; where in a derived record that is written */
    Py_ssize_t derived_size;     /* of the fixed part of a derived record; 0: records pass as they are */
    int takes_objects;           /* 1: the judge needs no record */
    int has_clock;               /* 1: the judge asks for the time */
    unsigned long long filtered; /* events that did not pass */
    unsigned long long failed;   /* of them, those whose derived record could not be made */
    uint64_t deriving;           /* events that were judged to pass, and whose records are being made */
    uint64_t waiting;            /* events that have passed, and get their numbers in a moment */
    unsigned long long come_to;  /* the number of the source's event behind the last that was judged */
    struct fan *fan;             /* borrowed, which has it as one of many; NULL: it stands by itself */
    uint32_t row;                /* there */
    int is_counted;              /* 1: it is wanted, and what the fan judges is judged for it as well */
    unsigned long long since;    /* events that the fan had judged when that began */
};

/* What branches have said of an event at a glance, one after the other: those before `done` let it not pass, or nobody wants
 * what does. */
struct glance {
    Py_ssize_t done;
    int is_passing; /* 1: the one that follows has judged that it passes. 0: it has not judged, if there is one */
};

/* What is submitted, on its way through the branches of its outlet, and of those derived from it. */
struct subject {
    PyObject *event;              /* borrowed; NULL: records alone */
    struct submission *what;      /* borrowed; its record has no bytes until somebody needs them */
    const struct outlet *encoder; /* borrowed; of the event */
    uint8_t *room;                /* borrowed; where the record is encoded */
    Py_ssize_t room_size;
    Py_ssize_t record_size; /* of one of several records */
    int is_selected;        /* 1: a receiver has said what is in the record */
    struct glance glance;   /* of the outlet's branches, by which it goes first; zeros: none has judged */
};

/* One outlet that something goes to by a branch, from when it has passed until everybody has it. */
struct pass {
    struct pass *next;
    struct branch *branch;         /* owned */
    PyObject *event;               /* borrowed; NULL: records alone */
    const struct submission *lies; /* borrowed; whose record it is. NULL: that of its own submission */
    PyObject *streams;             /* owned tuple; to other processes, when it got its number. NULL: it has none yet */
    struct sinks sinks;            /* here, likewise */
    int is_selected;               /* as the subject's */
    struct submission submission;
};

struct passes {
    struct pass *first, *last;
};

static inline struct outlet *outlet_of(const struct branch *branch)
{
    return (struct outlet *)(void *)branch->outlet;
}

/* Whether somebody takes records of what leaves by an outlet, or has to know their size. */
static inline int echo_needs_records(const struct outlet *outlet)
{
    return outlet->takes_records || outlet->measures;
}

/* Its record, unless that was made before. 0; -1 with an exception. May run any code. */
int echo_subject_encode(const struct subject *subject);

/* Whether anybody takes what is derived from an outlet's events. */
int echo_branches_are_wanted(const struct outlet *outlet);

/* Judges an event as it is, where nobody takes its record: as most are rejected, these pay for nothing else. 1: it passes
 * nobody, nobody takes it, and it has had its number. 0: the rest is the caller's. Runs no Python code. GIL. */
int echo_branches_reject(struct outlet *outlet, PyObject *event, struct glance *glance);

/* What a branch is in its outlet's tuple. */
int echo_branch_is_wanted(struct follower *self);
int echo_branch_follow(struct follower *self, const struct subject *subject, uint64_t number, struct passes *passes);

/* One event that was judged to pass, and is counted as one that is being derived. As echo_branch_follow. */
int echo_branch_pass(struct branch *branch, const struct subject *subject, struct passes *passes);

/* So many records of an array, by their places in it, were judged to pass. Likewise. */
int echo_branch_pass_rows(struct branch *branch, const struct subject *subject, const uint32_t *indices,
                          Py_ssize_t count, struct passes *passes);

/* Events that did not pass, and the number behind the last that was judged, also where a fan has judged. */
unsigned long long echo_branch_filtered(const struct branch *branch);
unsigned long long echo_branch_come_to(const struct branch *branch);

/* Judges it, whose first event has that number, for each branch that anybody takes events of, and for those that follow:
 * what passes is added. 0; -1 with an exception: somebody needs its record, which cannot be made. May run any code. GIL.
 */
int echo_branches_follow(const struct outlet *outlet, const struct subject *subject, uint64_t number,
                         struct passes *passes);

/* So many events have passed: `made` is their records, a reference that is taken over; NULL: those of the subject. NULL
 * with MemoryError. */
struct pass *echo_passes_add(struct passes *passes, struct branch *branch, const struct subject *subject,
                             PyObject *made, uint64_t events);

/* What is submitted by an outlet that has branches or a history: judged, encoded where somebody takes its record,
 * numbered with all that passes, kept, and sent to other processes. Who is to get it here is left to the caller. 0; -1
 * with an exception: unless it came while all was sent, no number was taken. May run any code. GIL. */
int echo_branches_send(struct outlet *outlet, const struct subject *subject, struct sinks *sinks,
                       struct passes *passes);

/* What has passed, to sinks here, unless `status` is not 0; frees all, and leaves what went wrong to the submission. */
int echo_passes_hand(struct passes *passes, struct submission *submission, int status);

/* The same, but what handlers are to be called with is left to the caller. */
int echo_passes_leave(struct passes *passes, struct submission *submission, int status, struct asides *derived);

extern PyType_Spec echo_link_follower_spec, echo_link_branch_spec;
