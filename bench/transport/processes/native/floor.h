/* What the floor's files know of each other. floor.c says what the program is.
 *
 * Each process has a copy of a carrier from before the fork; what they share is sockets or shared memory.
 */
#ifndef FLOOR_H
#define FLOOR_H

#include <stddef.h>

enum { MOST_RECEIVERS = 8 };

/* Messages of one size, one way, from one process to several. */
struct carrier {
    /* One message to every receiver. Blocks while one of them has no room. */
    void (*put)(struct carrier *carrier, const void *message);
    /* Sends what put holds back. */
    void (*flush)(struct carrier *carrier);
    /* The next message for this receiver, valid until the next call. Blocks, or spins. */
    const void *(*take)(struct carrier *carrier, int receiver);
};

/* Stream sockets. `gathers`: sends 64 KiB at a time. */
struct carrier *socket_carrier(int is_tcp, int gathers, size_t size, int receivers);

/* From the receiver of a socket_carrier that has but one, over the same connection: TCP acknowledges what came
 * with what goes back, which two connections would do in packets of their own. */
struct carrier *socket_carrier_back(const struct carrier *there);

/* A ring of 64 slots in shared memory. `name`: shm-spin looks again and again, shm-futex sleeps in the kernel, and
 * shm-timed has the kernel end each sleep after a second. */
struct carrier *ring_carrier(const char *name, size_t size, int receivers);

/* Ends the process with errno's text. */
_Noreturn void fail(const char *what);

/* Memory that processes share after a fork, zeroed. */
void *shared_memory(size_t size);

#endif
