/* Threads that count under one lock, each of them with and without others that sleep for it. test_core.py builds and
 * runs it, and tests/sanitize.sh does so under the thread sanitizer. */
#define _GNU_SOURCE
#include "core/lock.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define THREADS 4
#define ROUNDS 100000
#define YIELDS_EVERY 64 /* while it has the lock, so that the others come to sleep */

static struct lock lock;
static long counted;

static void *count(void *ignored)
{
    (void)ignored;
    for (int i = 0; i < ROUNDS; i++) {
        lock_take(&lock);
        if (i % YIELDS_EVERY == 0)
            sched_yield();
        counted++;
        lock_give(&lock);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, count, NULL) != 0)
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    if (counted == (long)THREADS * ROUNDS && lock.state == LOCK_FREE)
        return 0;
    fprintf(stderr, "lock_threads: Expected %ld, got %ld\n", (long)THREADS * ROUNDS, counted);
    return 1;
}
