/* Fans: many branches of one outlet, whose judges differ in their parameters alone. fans.c judges, fan_type.c has the
 * Python face. */
#pragma once

#include "streams/branches.h"

#include "raw_table.h"

/* The Python object. */
struct fan {
    struct follower follower;
    PyObject *judge;               /* owned; like that of each branch: knows what is judged of an event */
    const struct raw_judge *raw;   /* of it; static */
    PyObject *table;               /* owned; the parameters of each branch, as a row */
    const struct raw_table *asked; /* of it; static */
    int takes_objects;             /* 1: judges need no record */
    struct branch **rows;          /* owned, PyMem: owned branches; NULL: the row is free */
    uint32_t *found;               /* owned, PyMem; room for the numbers of all rows. No code runs while it is used */
    uint32_t room;                 /* for rows */
    uint32_t lowest;               /* no row below is free */
    uint32_t count;                /* of branches */
    uint32_t wanted;               /* of branches that somebody takes events of, as of the last look */
    uint64_t looked_at;            /* echo_takers_changes then */
    unsigned long long judged;     /* events, for all that are wanted */
    unsigned long long come_to;    /* as a branch's */
};

/* A branch takes part, from the next event on. 0; -1 with an exception. GIL, as below. */
int echo_fan_put(struct fan *fan, struct branch *branch);

/* It takes part no longer, if it did. May run any code, as the branch may end. */
void echo_fan_remove(struct fan *fan, struct branch *branch);

/* The parameters of a branch have changed: so do those of its row, if it has one. 0; -1 with an exception. */
int echo_fan_renew(const struct branch *branch);

/* What a fan is in its outlet's tuple. */
int echo_fan_is_wanted(struct follower *self);
int echo_fan_follow(struct follower *self, const struct subject *subject, uint64_t number, struct passes *passes);

extern PyType_Spec echo_link_fan_spec;
