/* The backlogs of routes: what waits for room on the wire, what is dropped of it, and whose turn it is.
 *
 * Lanes take turns, frame by frame, so that a source which has much waiting holds up no other. A control
 * frame of the link is a fence: it goes when all that was put before it has gone. Tickets say what was
 * before.
 */
#include "core/outbox.h"

#include <endian.h>
#include <stdlib.h>

/* --- tallies --- */

struct tally *echo_tally_new(void)
{
    struct tally *tally = malloc(sizeof *tally);

    if (tally != NULL) {
        atomic_init(&tally->dropped, 0);
        atomic_init(&tally->users, 1);
    }
    return tally;
}

void echo_tally_release(struct tally *tally)
{
    if (tally != NULL && atomic_fetch_sub(&tally->users, 1) == 1)
        free(tally);
}

/* --- the circle --- */

void echo_lane_free(struct lane *lane)
{
    echo_tally_release(lane->tally);
    free(lane);
}

static void join_circle(struct lane *lane)
{
    struct outbox *outbox = lane->outbox;

    if (lane->next != NULL)
        return;
    outbox->lanes++;
    if (outbox->turn == NULL) {
        outbox->turn = lane->next = lane->before = lane;
        return;
    }
    lane->next = outbox->turn; /* last in turn */
    lane->before = outbox->turn->before;
    lane->before->next = lane->next->before = lane;
}

static void leave_circle(struct lane *lane)
{
    struct outbox *outbox = lane->outbox;

    outbox->lanes--;
    if (outbox->turn == lane)
        outbox->turn = lane->next == lane ? NULL : lane->next;
    lane->before->next = lane->next;
    lane->next->before = lane->before;
    lane->next = lane->before = NULL;
    if (lane->is_orphan)
        echo_lane_free(lane);
}

/* What a frame counts against the limit. Gaps do not: there are no more than events between them. */
static size_t control_bytes_of(uint64_t events, uint32_t stream, size_t size)
{
    return events == 0 && stream != KIND_GAP ? size : 0;
}

/* 0; -1: no memory, with which the link ends. */
static int add(struct lane *lane, struct backlog *backlog, uint64_t events, const struct frame *frame)
{
    struct outbox *outbox = lane->outbox;

    if (echo_backlog_add(backlog, outbox->tickets++, events, frame) != 0) {
        echo_outbox_end(outbox, END_MEMORY, 0);
        return -1;
    }
    outbox->control_bytes += control_bytes_of(events, frame->stream, frame_bytes(frame->size));
    join_circle(lane);
    return 0;
}

static void add_gap(struct lane *lane, struct backlog *backlog, uint64_t *gap)
{
    uint8_t payload[16] = {0};
    uint32_t stream = htole32(lane->stream);
    uint64_t events = htole64(*gap);

    if (*gap == 0)
        return;
    *gap = 0;
    memcpy(payload, &stream, sizeof stream);
    memcpy(payload + 8, &events, sizeof events);
    add(lane, backlog, 0, &(struct frame){.size = sizeof payload, .stream = KIND_GAP, .payload = payload});
}

int echo_lane_fits(const struct lane *lane, uint64_t events, size_t bytes)
{
    const struct backlog *backlog = &lane->backlog;

    return backlog->events == 0 ||
           (backlog->events + events <= lane->max_events && backlog->bytes + bytes <= lane->max_bytes);
}

int echo_lane_queue(struct lane *lane, uint64_t events, const struct frame *frame)
{
    if (lane->outbox->end == END_NOT)
        add_gap(lane, &lane->backlog, &lane->tail_gap);
    return lane->outbox->end == END_NOT ? add(lane, &lane->backlog, events, frame) : -1;
}

int echo_lane_control(struct lane *lane, const struct frame *frame)
{
    struct outbox *outbox = lane->outbox;

    if (outbox->end != END_NOT)
        return -1;
    if (has_backlog(outbox) || lane->tail_gap > 0 ||
        frame_bytes(frame->size) > STAGING_BYTES - outbox->staged) {
        if (!echo_outbox_is_flooded(outbox, frame)) {
            echo_lane_queue(lane, 0, frame);
            echo_outbox_pump(outbox, 1);
        }
    } else
        echo_outbox_stage(outbox, frame, lane->delay);
    return outbox->end == END_NOT ? 0 : -1;
}

void echo_lane_close(struct lane *lane)
{
    if (lane->is_closed)
        return;
    lane->is_closed = 1;
    if (lane->outbox->end != END_NOT)
        return;
    add_gap(lane, &lane->backlog, &lane->tail_gap);
    echo_outbox_pump(lane->outbox, 1);
}

/* --- dropping --- */

static void count_dropped(struct lane *lane, uint64_t events)
{
    lane->dropped += events;
    lane->outbox->dropped += events;
    if (lane->tally != NULL)
        atomic_fetch_add_explicit(&lane->tally->dropped, events, memory_order_relaxed);
}

static void take_back(struct lane *lane, uint32_t stream, const uint8_t *payload)
{
    if (stream == KIND_LOAN && lane->outbox->pool != NULL)
        echo_pool_take_back(lane->outbox->pool, lane->outbox->holder, payload);
}

void echo_lane_drop_newest(struct lane *lane, uint64_t events, const struct frame *frame)
{
    if (frame != NULL)
        take_back(lane, frame->stream, frame->payload);
    count_dropped(lane, events);
    if (lane->is_closed || lane->outbox->end != END_NOT)
        return;
    lane->tail_gap += events;
    if (lane->next != NULL) /* else nothing of it waits, behind which the gap would be said */
        return;
    add_gap(lane, &lane->backlog, &lane->tail_gap);
    echo_outbox_pump(lane->outbox, 1);
}

static uint32_t stream_of(const struct entry *entry)
{
    return le32toh(load_uint32_t(entry->frame + 4));
}

static struct frame frame_of(const struct entry *entry)
{
    return (struct frame){.size = le32toh(load_uint32_t(entry->frame)),
                          .stream = stream_of(entry),
                          .payload = entry->frame + FRAME_HEADER_BYTES};
}

/* Control frames at the head are kept, and so is where in their order the events are missing. */
static void keep_control(struct lane *lane)
{
    struct entry *entry = backlog_head(&lane->backlog);
    struct frame frame;

    while (entry != NULL && entry->events == 0) {
        add_gap(lane, &lane->ahead, &lane->head_gap);
        frame = frame_of(entry);
        if (echo_backlog_add(&lane->ahead, entry->ticket, 0, &frame) != 0) {
            echo_outbox_end(lane->outbox, END_MEMORY, 0);
            return;
        }
        echo_backlog_drop(&lane->backlog);
        entry = backlog_head(&lane->backlog);
    }
}

void echo_lane_drop_oldest(struct lane *lane)
{
    struct entry *entry;

    keep_control(lane);
    entry = backlog_head(&lane->backlog);
    if (entry == NULL)
        return;
    take_back(lane, stream_of(entry), entry->frame + FRAME_HEADER_BYTES);
    lane->head_gap += entry->events;
    count_dropped(lane, entry->events);
    echo_backlog_drop(&lane->backlog);
}

static void clear_lane(struct lane *lane)
{
    struct entry *entry;

    while (backlog_head(&lane->ahead) != NULL)
        echo_backlog_drop(&lane->ahead);
    while ((entry = backlog_head(&lane->backlog)) != NULL) {
        take_back(lane, stream_of(entry), entry->frame + FRAME_HEADER_BYTES);
        count_dropped(lane, entry->events);
        echo_backlog_drop(&lane->backlog);
    }
    leave_circle(lane);
}

void echo_lanes_clear(struct outbox *outbox)
{
    while (outbox->turn != NULL)
        clear_lane(outbox->turn);
    while (backlog_head(&outbox->control) != NULL)
        echo_backlog_drop(&outbox->control);
    outbox->control_bytes = 0;
}

void echo_lane_release(struct lane *lane)
{
    if (lane->next == NULL)
        echo_lane_free(lane);
    else
        lane->is_orphan = 1;
}

/* --- whose turn it is --- */

/* The backlog that the lane's next frame is in. A gap at the head becomes a frame of its own. */
static struct backlog *source_of(struct lane *lane)
{
    add_gap(lane, &lane->ahead, &lane->head_gap);
    return lane->ahead.first != NULL ? &lane->ahead : &lane->backlog;
}

/* Of the older head: a gap gets its ticket late, and must not hold back the events behind it. */
static uint64_t ticket_of(const struct lane *lane)
{
    const struct entry *ahead = backlog_head(&lane->ahead), *entry = backlog_head(&lane->backlog);

    if (ahead == NULL || entry == NULL)
        return ahead != NULL ? ahead->ticket : entry->ticket;
    return ahead->ticket < entry->ticket ? ahead->ticket : entry->ticket;
}

/* NULL: a control frame of the link is next, or nothing. */
static struct lane *lane_in_turn(struct outbox *outbox)
{
    const struct entry *fence = backlog_head(&outbox->control);

    if (fence == NULL)
        return outbox->turn;
    for (unsigned i = 0; i < outbox->lanes; i++, outbox->turn = outbox->turn->next)
        if (ticket_of(outbox->turn) < fence->ticket)
            return outbox->turn;
    return NULL;
}

/* To staging, or to `large`. 0: there is no room for it yet. */
static int move_first(struct outbox *outbox, struct backlog *backlog)
{
    struct entry *entry = backlog_head(backlog);
    size_t size = entry->size, counted = control_bytes_of(entry->events, stream_of(entry), size);

    if (size > STAGING_BYTES) {
        if (outbox->staged > 0 || outbox->large != NULL)
            return 0;
        outbox->large = echo_backlog_take(backlog);
    } else {
        if (size > STAGING_BYTES - outbox->staged)
            return 0;
        memcpy(outbox->staging + outbox->staged, entry->frame, size);
        outbox->staged += size;
        outbox->due_at = ticks_now(); /* it has waited: whatever delay its source or another's has, it is over */
        outbox->staged_delay = 0;
        echo_backlog_drop(backlog);
    }
    outbox->control_bytes -= counted;
    outbox->sent_frames++;
    return 1;
}

static int move_one(struct outbox *outbox)
{
    struct lane *lane = lane_in_turn(outbox);

    if (lane == NULL)
        return outbox->control.first != NULL && move_first(outbox, &outbox->control);
    if (!move_first(outbox, source_of(lane)))
        return 0;
    outbox->turn = lane->next;
    if (lane->ahead.first == NULL && lane->backlog.first == NULL)
        add_gap(lane, &lane->backlog, &lane->tail_gap);
    if (lane->ahead.first == NULL && lane->backlog.first == NULL)
        leave_circle(lane);
    return 1;
}

void echo_outbox_refill(struct outbox *outbox)
{
    while (outbox->end == END_NOT && has_backlog(outbox) && move_one(outbox))
        continue;
}
