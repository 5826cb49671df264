/* How a full backlog is treated: that of an outgoing stream, and a queue. Python has these as PACE, BLOCK ... */
#pragma once

#include "core/clock.h"

enum policy {
    POLICY_PACE,  /* who puts waits as long as something is taken; else the oldest goes, at once until it is again */
    POLICY_BLOCK, /* who puts waits, and is refused in the end */
    POLICY_DROP_OLDEST,
    POLICY_DROP_NEWEST,
    POLICY_ERROR,
};

/* 1: who puts may have to wait, so nothing is dropped as long as somebody takes. */
static inline int does_wait(enum policy policy)
{
    return policy == POLICY_PACE || policy == POLICY_BLOCK;
}

/* POLICY_PACE waits in short sleeps. By how much one is late, this process was not run; whoever takes may not have been
 * run either, on a busy machine, so that time does not count. */
#define PACE_SLEEP_NS 5000000

/* For how long to sleep, of the time that is left; negative: for ever. */
static inline int64_t pace_sleep_ns(enum policy policy, int64_t left_ns)
{
    return policy == POLICY_PACE && (left_ns < 0 || left_ns > PACE_SLEEP_NS) ? PACE_SLEEP_NS : left_ns;
}

/* How slowly a sink takes while events wait for it, lest one that takes every 150 ms passes for one that has stopped. */
struct sink_pace {
    int64_t since_ns;   /* when it last took, and others waited; 0: none did */
    int64_t slowest_ns; /* the longest time between two such, of the last ones */
};

/* A sink that has been slow is waited for so many times as long as the policy says, at most. */
#define MOST_PATIENCE 10

/* It has taken something now; sink_pace_go_on follows. */
static inline void sink_pace_note(struct sink_pace *pace, int64_t now_ns)
{
    int64_t gap_ns = pace->since_ns != 0 ? now_ns - pace->since_ns : 0;

    pace->slowest_ns -= pace->slowest_ns / 8;
    if (gap_ns > pace->slowest_ns)
        pace->slowest_ns = gap_ns;
}

/* `others_wait`: behind what was taken. */
static inline void sink_pace_go_on(struct sink_pace *pace, int64_t now_ns, int others_wait)
{
    pace->since_ns = others_wait ? now_ns : 0;
}

/* For how long it may take nothing: `timeout_ns`, or twice what it has been seen to need. */
static inline int64_t sink_patience(enum policy policy, const struct sink_pace *pace, int64_t timeout_ns)
{
    int64_t wanted_ns = 2 * pace->slowest_ns;

    if (policy != POLICY_PACE || wanted_ns <= timeout_ns || timeout_ns < 0)
        return timeout_ns;
    return wanted_ns / MOST_PATIENCE < timeout_ns ? wanted_ns : MOST_PATIENCE * timeout_ns;
}

/* The deadline of one who looks again now, and meant to by `due_ns`. */
static inline int64_t pace_deadline(enum policy policy, int64_t deadline_ns, int64_t due_ns, int64_t now_ns)
{
    int64_t deferred_ns;

    if (policy != POLICY_PACE || now_ns <= due_ns || __builtin_add_overflow(deadline_ns, now_ns - due_ns, &deferred_ns))
        return deadline_ns;
    return deferred_ns;
}
