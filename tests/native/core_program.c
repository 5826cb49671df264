/* What a native component could do with native/core alone: events of two streams go through an outbox, over a socket
 * pair or rings in shared memory, and are counted at the other end. test_core.py builds and runs it without Python.
 *
 * Usage: core_program socket|ring
 */
#define _GNU_SOURCE
#include "core/clock.h"
#include "core/outbox/outbox.h"
#include "core/outbox/outgoing.h"
#include "core/outbox/staging.h"
#include "core/wires/ring.h"
#include "core/wires/socket.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define EVENTS 20000
#define MAX_PAYLOAD 1024
#define ONE FIRST_STREAM
#define OTHER (FIRST_STREAM + 1)

static void require(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "core_program: %s\n", what);
    abort();
}

/* --- the host: nobody has a lock here --- */

static void *pause_nobody(void)
{
    return NULL;
}

static void do_nothing(void *ignored)
{
    (void)ignored;
}

static const struct host nobody = {pause_nobody, do_nothing, do_nothing, do_nothing};

/* --- wires --- */

static void open_sockets(struct wire *ends[2])
{
    int fds[2], kind;

    require(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "socketpair");
    for (int i = 0; i < 2; i++)
        ends[i] = echo_socket_open(fds[i], &kind);
}

static void open_rings(struct wire *ends[2])
{
    const char *refusal;
    int fd = echo_ring_create(MIN_RING_BYTES);

    require(fd >= 0, "echo_ring_create");
    for (int side = 0; side < 2; side++)
        ends[side] = echo_ring_open(fd, side, 0, -1, &refusal);
    close(fd);
}

/* --- receiving --- */

struct arrivals {
    struct wire *wire;
    uint64_t events[2], lost[2];
    size_t bytes, kept; /* read and not yet scanned */
    uint8_t room[1 << 16];
};

static void take(struct arrivals *arrivals, const struct frame *frame)
{
    uint32_t stream = frame->stream == KIND_GAP ? load_little32(frame->payload) : frame->stream;

    require(stream == ONE || stream == OTHER, "a stream that was sent");
    if (frame->stream == KIND_GAP) {
        arrivals->lost[stream - ONE] += load_little64(frame->payload + 8);
        return;
    }
    require(load_little64(frame->payload) == arrivals->events[stream - ONE] + arrivals->lost[stream - ONE],
            "events in their order");
    arrivals->events[stream - ONE]++;
}

static void *receive(void *argument)
{
    struct arrivals *arrivals = argument;
    struct frame frame;
    ssize_t count;
    int64_t size;
    size_t at, need;

    while ((count = arrivals->wire->operations->read(arrivals->wire, arrivals->room + arrivals->kept,
                                                     sizeof arrivals->room - arrivals->kept, -1)) > 0) {
        arrivals->kept += (size_t)count;
        for (at = 0; (size = frame_first(arrivals->room + at, arrivals->kept - at, MAX_PAYLOAD, &frame, &need)) > 0;
             at += (size_t)size)
            take(arrivals, &frame);
        require(size == 0, "frames");
        memmove(arrivals->room, arrivals->room + at, arrivals->kept - at);
        arrivals->kept -= at;
    }
    return NULL;
}

/* --- sending --- */

/* What streams/outgoing.c does for a stream whose policy is to drop the newest, without its short cuts. Locked. */
static void put(struct outgoing *stream, uint64_t number)
{
    uint8_t payload[MAX_PAYLOAD / 2] = {0};
    struct frame frame = {
        .size = 8 + (uint32_t)(number % (sizeof payload - 8)), .stream = stream->stream, .payload = payload};

    store_little64(payload, number);
    if (echo_outgoing_fits(stream, 1, frame_bytes(frame.size))) {
        require(echo_outgoing_queue(stream, 1, &frame) == 0, "echo_outgoing_queue");
        stream->events++;
        echo_outbox_pump(stream->outbox, 1);
    } else
        echo_outgoing_drop_newest(stream, 1, &frame);
}

static void send_all(struct outbox *outbox, struct outgoing *const streams[2])
{
    for (uint64_t number = 0; number < EVENTS; number++) {
        submission_begin();
        for (int i = 0; i < 2; i++) {
            outbox_lock(outbox);
            put(streams[i], number);
            echo_outbox_unlock(outbox);
        }
    }
    outbox_lock(outbox);
    while (has_work(outbox) || outbox->is_writing)
        require(echo_outbox_work(outbox, -1) == 0, "echo_outbox_work");
    echo_outbox_unlock(outbox);
}

static struct outgoing *open_stream(struct outbox *outbox, uint32_t stream, struct tally *tally)
{
    struct outgoing settings = {.stream = stream,
                                .policy = POLICY_DROP_NEWEST,
                                .max_events = 100,
                                .max_bytes = 1 << 20,
                                .max_payload = MAX_PAYLOAD,
                                .tally = tally};
    struct outgoing *outgoing;

    outbox_lock(outbox);
    outgoing = echo_outgoing_new(outbox, &settings);
    require(outgoing != NULL, "echo_outgoing_new");
    echo_outgoing_grant(outgoing, (struct amount){MAX_CREDIT, MAX_CREDIT});
    echo_outbox_unlock(outbox);
    return outgoing;
}

static void close_stream(struct outgoing *stream)
{
    struct outbox *outbox = stream->outbox;

    outbox_lock(outbox);
    echo_outgoing_release(stream);
    echo_outbox_unlock(outbox);
}

int main(int count, char **arguments)
{
    static struct arrivals arrivals;
    _Atomic uint64_t reads = 0;
    struct wire *ends[2];
    struct outbox outbox = {.host = &nobody, .max_control_bytes = 1 << 20, .reads = &reads};
    struct outgoing *streams[2];
    struct tally *tally = echo_tally_new();
    pthread_t receiver;

    require(count == 2, "which wire?");
    echo_clock_start();
    (strcmp(arguments[1], "ring") == 0 ? open_rings : open_sockets)(ends);
    outbox.wire = ends[0];
    outbox.delay = echo_ticks_of(100000);
    outbox.stall = echo_ticks_of(INT64_C(30000000000));
    require(echo_outbox_open(&outbox) == 0, "echo_outbox_open");
    arrivals.wire = ends[1];
    pthread_create(&receiver, NULL, receive, &arrivals);
    for (int i = 0; i < 2; i++)
        streams[i] = open_stream(&outbox, ONE + (uint32_t)i, tally);
    send_all(&outbox, streams);
    for (int i = 0; i < 2; i++)
        close_stream(streams[i]);
    outbox_lock(&outbox);
    echo_outbox_end(&outbox, END_SHUT, 0);
    echo_outbox_unlock(&outbox);
    pthread_join(receiver, NULL);
    echo_outbox_close(&outbox);
    for (int i = 0; i < 2; i++) {
        require(arrivals.events[i] > 0 && arrivals.events[i] + arrivals.lost[i] == EVENTS, "every event, or its loss");
        ends[i]->operations->free(ends[i]);
    }
    require(tally->dropped == arrivals.lost[0] + arrivals.lost[1], "losses as they were counted");
    echo_tally_release(tally);
    printf("%s: all events came, or were told to be lost\n", arguments[1]);
    return 0;
}
