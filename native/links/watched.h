/* The links that threads stand by for: watched.c. */
#pragma once

#include "stable_abi.h"

#include "core/wires/bells.h"

#include <stdatomic.h>
#include <stdint.h>

/* What those that stand by see of a link: how long its reader has been handing over, and whether one is wanted. */
struct watched {
    struct watched *next, **place; /* of all; a mutex guards them, and what says so. place: NULL: not watched */
    PyObject *link;                /* borrowed; that it is part of. Never changes */
    uint64_t id;                   /* that no other link has had */
    uint64_t seen;                 /* `hands` at the last look. The mutex */
    _Atomic uint64_t hands;        /* odd: it is handing over; one more at each beginning and end. The reader's */
    uint64_t slow;                 /* `hands` when it was last found slow; written with the mutex and the GIL */
    int is_called;                 /* 1: the link is to be answered. The mutex */
    int holders;                   /* threads that look at it without the GIL. The mutex */
    int bell;                      /* borrowed descriptor of its wire, armed before; -1: it was not. The mutex */
    _Atomic int64_t patience_ns;   /* how long its reader waits in one read; negative: for ever. The
                                      reader sets it; the mutex, where it is made negative */
    int is_kept;                   /* 1: one of the few that wait for ever and cannot be had back. The mutex */
    unsigned forks;                /* echo_forks when it was added */
};

/* GIL for these. A link is watched from when it is made until it is ended, and followed to its end by a thread that
 * stood by, if any did; what a child inherits is not. 0; -1 with OSError: there are no descriptors for it. */
int echo_watched_add(struct watched *watched, PyObject *link);

/* Waits for those that look at it, who do not wait themselves. */
void echo_watched_remove(struct watched *watched);

/* A thread that stands by is to answer the link (echo_link_answer): soon, and also where it was not watched any more. */
void echo_watched_call(struct watched *watched);

/* How long its reader waits in one read from here on, unless it is kept: negative, for ever. */
void echo_watched_wait(struct watched *watched, int64_t patience_ns);

/* Whether it is still at what it was slow in. GIL. */
static inline int is_slow(const struct watched *watched)
{
    uint64_t hands = atomic_load_explicit(&watched->hands, memory_order_relaxed);

    return hands == watched->slow && hands % 2 == 1;
}

/* --- also without the GIL. None of them blocks --- */

/* Who stands by hears of the link (echo_link_hear) once its bell rings or the other side is gone. 0, or -errno. */
int echo_watched_arm(struct watched *watched, int bell, enum rings rings);

/* Nobody waits for its bell until it is armed again. */
void echo_watched_disarm(struct watched *watched);

/* --- for those that stand by: standby.c --- */

enum sight { SEES_NO_LINK, SEES_NOTHING, SEES_WORK, SEES_A_CALL };

/* The most that is seen of any link. To be called every few milliseconds, by one thread at a time. No GIL. */
enum sight echo_watched_look(void);

/* The same, without what counts say of readers. Any thread. */
enum sight echo_watched_glance(void);

/* Waits until bells are rung, and has their links heard; or until somebody of this process rings, or the time is up
 * (negative: none is set). No GIL. Blocks. */
void echo_watched_await(int timeout_ms);

/* Wakes one of those that wait, or the next one. */
void echo_watched_ring(void);

/* A new reference to the link of one that was called, or has been found slow just now; NULL: there is none. GIL. */
PyObject *echo_watched_next(int *is_called);

/* Forgets, in a child, what it has inherited: links that it does not read, and perhaps a mutex that is taken. GIL. */
void echo_watched_forget_inherited(void);
