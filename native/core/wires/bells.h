/* Waiting for the bells of many wires at a time: bells.c. */
#pragma once

#include <stdint.h>

/* What a bell is waited for with, beside that its other side has gone. */
enum rings {
    RINGS_NOT,
    RINGS_LATER, /* when it rings */
    RINGS_NOW,   /* at once, behind others that ring: for who has not heard all */
};

struct bells {
    int epoll; /* owned descriptor, as the next */
    int call;  /* eventfd: somebody of this process calls */
};

/* 0, or -errno. */
int echo_bells_open(struct bells *bells);

/* In a forked child: the parent goes on with what it shares. */
void echo_bells_close(struct bells *bells);

/* The next wait that finds a bell rung, or its other side gone, tells `id` once. `is_new`: it was not armed before, or was
 * dropped since. 0, or -errno. Does not block. */
int echo_bells_arm(const struct bells *bells, int bell, uint64_t id, enum rings rings, int is_new);

/* To be called before the bell is closed: a child of this process may have it still. */
void echo_bells_drop(const struct bells *bells, int bell);

/* Ends one wait that is under way, or the next one. Does not block. */
void echo_bells_call(const struct bells *bells);

/* Which ids were told, at most `room`. 0: called, the time is up (negative: none is set), or a signal came. Blocks. */
int echo_bells_wait(const struct bells *bells, uint64_t *ids, int room, int timeout_ms);
