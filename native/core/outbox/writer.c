/* The outbox's own thread: it writes what the threads that put have left behind. It is never in the host, and
 * takes no signals. */
#define _GNU_SOURCE
#include "core/outbox/outbox.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>

/* Behind a write it looks so many times more, each after the outbox's delay, before it sleeps until it is called: what
 * comes meanwhile calls nobody. Where others have written what it was called for, it sleeps at once. */
#define IDLE_ROUNDS 20

/* The system's own 50 us would be half of a usual delay. */
#define TIMER_SLACK_NS 5000

/* A thread that puts is about to write, or waits for room itself: how long it is left to it, in delays. */
#define MAX_PATIENCE 8

/* The least of that: where nothing is gathered the delay is none, and the thread would spin. */
#define MIN_PATIENCE_NS 50000

#define STACK_BYTES 131072

/* A thread that nobody has called for so long ends: links that are idle are to cost little. The next call starts another
 * one, in 30 us. */
#define UNCALLED_NS 1000000000

static void sleep_until(struct outbox *outbox, int64_t until)
{
    uint32_t seen = atomic_load(&outbox->calls);
    int64_t ticks = until - ticks_now();

    outbox->writer_until = until;
    echo_outbox_unlock(outbox);
    if (ticks > 0)
        echo_futex_wait(&outbox->calls, seen, echo_ns_of(ticks));
    outbox_lock(outbox);
}

/* 0: nobody has called for long. */
static int sleep_until_called(struct outbox *outbox)
{
    uint32_t seen = atomic_load(&outbox->calls);
    int status;

    outbox->is_writer_asleep = 1;
    echo_outbox_unlock(outbox);
    status = echo_futex_wait(&outbox->calls, seen, UNCALLED_NS);
    outbox_lock(outbox);
    return status != -ETIMEDOUT || !outbox->is_writer_asleep;
}

/* Gathered frames may wait until they are due; all else may not. */
static int is_due(const struct outbox *outbox)
{
    return has_backlog(outbox) || outbox->large != NULL || outbox->front_to > outbox->front_from ||
           ticks_now() - outbox->due_at >= 0;
}

static void write_until_idle(struct outbox *outbox)
{
    int64_t floor = echo_ticks_of(MIN_PATIENCE_NS), step = outbox->delay > floor ? outbox->delay : floor;
    uint64_t seen = outbox->writes;
    int rounds = 0, patience = 1;

    /* Who left work during the last round has called nobody: the writer was to look once more. */
    while (outbox->end == END_NOT && (rounds > 0 || has_work(outbox))) {
        if (!has_work(outbox)) {
            rounds--;
            sleep_until(outbox, ticks_now() + outbox->delay);
            continue;
        }
        if (outbox->is_writing || (outbox->is_full && outbox->writes != seen)) {
            seen = outbox->writes;
            sleep_until(outbox, ticks_now() + patience * step);
            patience = patience < MAX_PATIENCE ? 2 * patience : patience;
            continue;
        }
        patience = 1;
        if (outbox->is_full || is_due(outbox)) {
            echo_outbox_work(outbox, -1);
            rounds = IDLE_ROUNDS;
        } else {
            sleep_until(outbox, outbox->due_at);
        }
        seen = outbox->writes;
    }
}

static void *writer_main(void *argument)
{
    struct outbox *outbox = argument;

    prctl(PR_SET_NAME, "echo-writer");
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    outbox_lock(outbox);
    while (outbox->end == END_NOT && !outbox->is_writer_over) {
        write_until_idle(outbox);
        if (outbox->end == END_NOT && !has_work(outbox)) /* some may have come during the last round */
            outbox->is_writer_over = !sleep_until_called(outbox);
    }
    echo_outbox_unlock(outbox);
    return NULL;
}

static int start(struct outbox *outbox)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    int error;

    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    error = pthread_create(&outbox->writer, &attributes, writer_main, outbox);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

void echo_writer_call(struct outbox *outbox, int64_t due)
{
    int error;

    echo_writer_tidy(outbox);
    if (!outbox->has_writer) {
        outbox->is_writer_over = 0;
        error = start(outbox);
        if (error != 0) {
            echo_outbox_end(outbox, END_THREAD, error);
            return;
        }
        outbox->has_writer = 1;
        outbox->is_writer_asleep = 0;
        outbox->writer_until = due;
        return;
    }
    if (!outbox->is_writer_asleep && outbox->writer_until - due <= 0)
        return;
    outbox->is_writer_asleep = 0;
    outbox->writer_until = due;
    outbox->is_called = 1;
    atomic_fetch_add(&outbox->calls, 1);
}

/* It has nothing to do any more but to unlock, or has done that. */
void echo_writer_tidy(struct outbox *outbox)
{
    if (outbox->is_writer_over)
        echo_writer_join(outbox);
}

void echo_writer_join(struct outbox *outbox)
{
    if (outbox->has_writer)
        pthread_join(outbox->writer, NULL);
    outbox->has_writer = 0;
}
