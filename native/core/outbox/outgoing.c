/* The backlogs of streams: what waits for room on the wire, what is dropped of it, and whose turn it is.
 *
 * Streams take turns, frame by frame, so that a source which has much waiting holds up no other. A control
 * frame of the link is a fence: it goes when all that was put before it has gone. Tickets say what was
 * before.
 */
#define _GNU_SOURCE
#include "core/outbox/outgoing.h"
#include "core/outbox/outbox.h"
#include "core/outbox/staging.h"

#include <stdlib.h>

/* --- tallies --- */

struct tally *echo_tally_new(void)
{
    struct tally *tally = malloc(sizeof *tally);

    if (tally != NULL) {
        atomic_init(&tally->dropped, 0);
        atomic_init(&tally->confirmed, 0);
        atomic_init(&tally->unconfirmed, 0);
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

struct outgoing *echo_outgoing_new(struct outbox *outbox, const struct outgoing *settings)
{
    struct outgoing *outgoing = calloc(1, sizeof *outgoing);

    if (outgoing == NULL)
        return NULL;
    *outgoing = *settings;
    outgoing->outbox = outbox;
    outgoing->vain_at = outgoing->credit_vain_at = UINT64_MAX;
    if (echo_outbox_enter(outgoing) != 0) {
        free(outgoing);
        return NULL;
    }
    if (outgoing->delay <= outbox->delay)
        outgoing->delay = 0;
    if (outgoing->tally != NULL)
        atomic_fetch_add(&outgoing->tally->users, 1);
    return outgoing;
}

void echo_outgoing_free(struct outgoing *outgoing)
{
    echo_outbox_forget(outgoing);
    echo_tally_release(outgoing->tally);
    free(outgoing);
}

/* Last in turn. */
static void join(struct outgoing *outgoing, struct outgoing **circle)
{
    outgoing->circle = circle;
    outgoing->outbox->in_circle += circle == &outgoing->outbox->turn;
    if (*circle == NULL) {
        *circle = outgoing->next = outgoing->before = outgoing;
        return;
    }
    outgoing->next = *circle;
    outgoing->before = (*circle)->before;
    outgoing->before->next = outgoing->next->before = outgoing;
}

static void leave(struct outgoing *outgoing)
{
    struct outgoing **circle = outgoing->circle;

    outgoing->outbox->in_circle -= circle == &outgoing->outbox->turn;
    if (*circle == outgoing)
        *circle = outgoing->next == outgoing ? NULL : outgoing->next;
    outgoing->before->next = outgoing->next;
    outgoing->next->before = outgoing->before;
    outgoing->circle = NULL;
    outgoing->next = outgoing->before = NULL;
}

/* Whether what is next of it is an event that may not go yet. */
static int is_held(const struct outgoing *outgoing)
{
    const struct entry *entry = backlog_head(&outgoing->backlog);

    return outgoing->ahead.first == NULL && entry != NULL && entry->events > 0 && !has_credit(outgoing);
}

static struct outgoing **circle_for(const struct outgoing *outgoing)
{
    if (outgoing->ahead.first == NULL && outgoing->backlog.first == NULL)
        return NULL;
    return is_held(outgoing) ? &outgoing->outbox->parked : &outgoing->outbox->turn;
}

static void drop_all_events(struct outgoing *outgoing);

void echo_outgoing_arrange(struct outgoing *outgoing)
{
    struct outgoing **circle;

    if (outgoing->is_ending && is_held(outgoing))
        drop_all_events(outgoing);
    circle = circle_for(outgoing);
    if (circle == outgoing->circle)
        return;
    if (outgoing->circle != NULL)
        leave(outgoing);
    if (circle != NULL)
        join(outgoing, circle);
    else if (outgoing->is_orphan)
        echo_outgoing_free(outgoing);
}

struct amount echo_circle_queued(const struct outgoing *first)
{
    const struct outgoing *outgoing = first;
    struct amount queued = {0, 0};

    while (outgoing != NULL) {
        queued.events += outgoing->backlog.events;
        queued.bytes += outgoing->ahead.bytes + outgoing->backlog.bytes;
        outgoing = outgoing->next != first ? outgoing->next : NULL;
    }
    return queued;
}

/* What a frame counts against the limit. Gaps do not: of each kind there is one at most before an event, or before a
 * control frame that counts. */
static size_t control_bytes_of(uint64_t events, uint32_t stream, size_t size)
{
    return events == 0 && stream != KIND_GAP ? size : 0;
}

/* 0; -1: no memory, with which the link ends. */
static int add(struct outgoing *outgoing, struct backlog *backlog, uint64_t ticket, uint64_t events,
               const struct frame *frame)
{
    struct outbox *outbox = outgoing->outbox;

    if (echo_backlog_add(backlog, ticket, events, frame) != 0) {
        echo_outbox_end(outbox, END_MEMORY, 0);
        return -1;
    }
    outbox->control_bytes += control_bytes_of(events, frame->stream, frame_bytes(frame->size));
    return 0;
}

static void add_gap(struct outgoing *outgoing, struct backlog *backlog, uint64_t ticket, uint32_t why, uint64_t *gap)
{
    uint8_t payload[GAP_PAYLOAD_BYTES];

    if (*gap == 0)
        return;
    store_little32(payload, outgoing->stream);
    store_little32(payload + 4, why);
    store_little64(payload + 8, *gap);
    *gap = 0;
    add(outgoing, backlog, ticket, 0, &(struct frame){.size = sizeof payload, .stream = KIND_GAP, .payload = payload});
}

static int has_head_gap(const struct outgoing *outgoing)
{
    return (outgoing->head_gap | outgoing->head_not_kept) > 0;
}

static void add_head_gap(struct outgoing *outgoing)
{
    uint64_t ticket = outgoing->head_gap_ticket;

    add_gap(outgoing, &outgoing->ahead, ticket, GAP_OF_DROPPED, &outgoing->head_gap);
    add_gap(outgoing, &outgoing->ahead, ticket, GAP_OF_NOT_KEPT, &outgoing->head_not_kept);
}

static void add_tail_gap(struct outgoing *outgoing)
{
    if (outgoing->tail_gap > 0)
        add_gap(outgoing, &outgoing->backlog, outgoing->outbox->tickets++, GAP_OF_DROPPED, &outgoing->tail_gap);
}

int echo_outgoing_fits(const struct outgoing *outgoing, uint64_t events, size_t bytes)
{
    const struct backlog *backlog = &outgoing->backlog;

    return backlog->events == 0 ||
           (backlog->events + events <= outgoing->max_events && backlog->bytes + bytes <= outgoing->max_bytes);
}

int echo_outgoing_queue(struct outgoing *outgoing, uint64_t events, const struct frame *frame)
{
    struct outbox *outbox = outgoing->outbox;
    int status = -1;

    if (outbox->end == END_NOT)
        add_tail_gap(outgoing);
    if (outbox->end == END_NOT)
        status = add(outgoing, &outgoing->backlog, outbox->tickets++, events, frame);
    echo_outgoing_arrange(outgoing);
    return status;
}

int echo_outgoing_control(struct outgoing *outgoing, const struct frame *frame)
{
    struct outbox *outbox = outgoing->outbox;

    if (outbox->end != END_NOT)
        return -1;
    if (has_backlog(outbox) || outgoing->circle != NULL || frame_bytes(frame->size) > STAGING_BYTES - outbox->staged) {
        if (!echo_outbox_is_flooded(outbox, frame)) {
            echo_outgoing_queue(outgoing, 0, frame);
            echo_outbox_pump(outbox, 1);
        }
    } else
        echo_outbox_stage(outbox, frame, outgoing->delay);
    return outbox->end == END_NOT ? 0 : -1;
}

void echo_outgoing_close(struct outgoing *outgoing)
{
    struct outbox *outbox = outgoing->outbox;

    if (outgoing->is_closed)
        return;
    outgoing->is_closed = 1;
    if (outbox->end != END_NOT)
        return;
    add_tail_gap(outgoing);
    echo_outgoing_arrange(outgoing);
    echo_outbox_pump(outbox, 1);
}

/* --- dropping --- */

static void count_dropped(struct outgoing *outgoing, uint64_t events)
{
    outgoing->dropped += events;
    outgoing->outbox->dropped += events;
    if (outgoing->tally != NULL)
        atomic_fetch_add_explicit(&outgoing->tally->dropped, events, memory_order_relaxed);
}

static void take_back(struct outgoing *outgoing, uint32_t stream, const uint8_t *payload)
{
    if (stream == KIND_LOAN && outgoing->outbox->pool != NULL)
        echo_loan_take_back(outgoing->outbox->pool, outgoing->outbox->holder, payload);
}

void echo_outgoing_drop_newest(struct outgoing *outgoing, uint64_t events, const struct frame *frame)
{
    struct outbox *outbox = outgoing->outbox;

    if (frame != NULL)
        take_back(outgoing, frame->stream, frame->payload);
    count_dropped(outgoing, events);
    if (outgoing->is_closed || outbox->end != END_NOT)
        return;
    outgoing->tail_gap += events;
    if (outgoing->circle != NULL) /* else nothing of it waits, behind which the gap would be said */
        return;
    add_tail_gap(outgoing);
    echo_outgoing_arrange(outgoing);
    echo_outbox_pump(outbox, 1);
}

static uint32_t stream_of(const struct entry *entry)
{
    return load_little32(entry->frame + 4);
}

static struct frame frame_of(const struct entry *entry)
{
    return (struct frame){
        .size = load_little32(entry->frame), .stream = stream_of(entry), .payload = entry->frame + FRAME_HEADER_BYTES};
}

/* What is counted there becomes part of the gap at the head. */
static void widen_head_gap(struct outgoing *outgoing, const struct entry *entry, uint64_t events, uint64_t *gap)
{
    if (!has_head_gap(outgoing))
        outgoing->head_gap_ticket = entry->ticket;
    *gap += events;
}

/* To `ahead`, behind the gap at the head. 0; -1: no memory, with which the link ends. */
static int move_ahead(struct outgoing *outgoing, const struct entry *entry)
{
    struct frame frame = frame_of(entry);

    add_head_gap(outgoing);
    if (echo_backlog_add(&outgoing->ahead, entry->ticket, 0, &frame) == 0)
        return 0;
    echo_outbox_end(outgoing->outbox, END_MEMORY, 0);
    return -1;
}

/* Control frames at the head are kept, and so is where in their order the events are missing: gaps between which there is
 * nothing else become one. */
static void keep_control(struct outgoing *outgoing)
{
    const struct entry *entry;
    const uint8_t *gap;

    while ((entry = backlog_head(&outgoing->backlog)) != NULL && entry->events == 0) {
        gap = entry->frame + FRAME_HEADER_BYTES;
        if (stream_of(entry) == KIND_GAP)
            widen_head_gap(outgoing, entry, load_little64(gap + 8),
                           load_little32(gap + 4) == GAP_OF_NOT_KEPT ? &outgoing->head_not_kept : &outgoing->head_gap);
        else if (move_ahead(outgoing, entry) != 0)
            return;
        echo_backlog_drop(&outgoing->backlog);
    }
}

static void drop_head(struct outgoing *outgoing, const struct entry *entry)
{
    take_back(outgoing, stream_of(entry), entry->frame + FRAME_HEADER_BYTES);
    count_dropped(outgoing, entry->events);
    echo_backlog_drop(&outgoing->backlog);
}

void echo_outgoing_drop_oldest(struct outgoing *outgoing)
{
    struct entry *entry;

    keep_control(outgoing);
    entry = backlog_head(&outgoing->backlog);
    if (entry == NULL)
        return;
    widen_head_gap(outgoing, entry, entry->events, &outgoing->head_gap);
    drop_head(outgoing, entry);
}

void echo_outgoing_begin_anew(struct outgoing *outgoing)
{
    const struct entry *entry;

    outgoing->head_gap = outgoing->head_not_kept = outgoing->tail_gap = 0;
    while ((entry = backlog_head(&outgoing->backlog)) != NULL) {
        if (entry->events == 0 && stream_of(entry) != KIND_GAP && move_ahead(outgoing, entry) != 0)
            return;
        drop_head(outgoing, entry);
    }
}

/* Control frames are kept, with the gaps between them. */
static void drop_all_events(struct outgoing *outgoing)
{
    while (outgoing->backlog.events > 0)
        echo_outgoing_drop_oldest(outgoing);
    add_head_gap(outgoing);
}

void echo_outgoing_give_up(struct outgoing *outgoing)
{
    struct outbox *outbox = outgoing->outbox;

    outgoing->is_ending = 1;
    if (outbox->end != END_NOT) {
        echo_outgoing_settle(outgoing);
        return;
    }
    echo_outgoing_arrange(outgoing);
    echo_outbox_pump(outbox, 1);
}

static void clear_stream(struct outgoing *outgoing)
{
    const struct entry *entry;

    while (backlog_head(&outgoing->ahead) != NULL)
        echo_backlog_drop(&outgoing->ahead);
    while ((entry = backlog_head(&outgoing->backlog)) != NULL)
        drop_head(outgoing, entry);
    outgoing->head_gap = outgoing->head_not_kept = 0;
    echo_outgoing_arrange(outgoing);
}

void echo_outbox_clear(struct outbox *outbox)
{
    while (outbox->turn != NULL)
        clear_stream(outbox->turn);
    while (outbox->parked != NULL)
        clear_stream(outbox->parked);
    while (backlog_head(&outbox->control) != NULL)
        echo_backlog_drop(&outbox->control);
    outbox->control_bytes = 0;
}

void echo_outgoing_release(struct outgoing *outgoing)
{
    if (outgoing->circle == NULL)
        echo_outgoing_free(outgoing);
    else
        outgoing->is_orphan = 1;
}

/* --- whose turn it is --- */

/* The backlog that the outgoing's next frame is in. A gap at the head becomes a frame of its own. */
static struct backlog *source_of(struct outgoing *outgoing)
{
    add_head_gap(outgoing);
    return outgoing->ahead.first != NULL ? &outgoing->ahead : &outgoing->backlog;
}

/* A gap has the ticket of the first event that is missing there. */
static uint64_t ticket_of(const struct outgoing *outgoing)
{
    if (outgoing->ahead.first != NULL)
        return backlog_head(&outgoing->ahead)->ticket;
    return has_head_gap(outgoing) ? outgoing->head_gap_ticket : backlog_head(&outgoing->backlog)->ticket;
}

/* NULL: a control frame of the link is next, or nothing. */
static struct outgoing *stream_in_turn(struct outbox *outbox)
{
    const struct entry *fence = backlog_head(&outbox->control);

    if (fence == NULL)
        return outbox->turn;
    for (unsigned i = 0; i < outbox->in_circle; i++, outbox->turn = outbox->turn->next)
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

/* What an entry costs its stream: its records, and their time. */
static struct amount cost_of(const struct entry *entry)
{
    if (entry->events == 0)
        return (struct amount){0, 0};
    if (stream_of(entry) == KIND_LOAN)
        return (struct amount){entry->events, load_little64(entry->frame + FRAME_HEADER_BYTES + 8) +
                                                  load_little32(entry->frame) - LOAN_PAYLOAD_BYTES};
    return (struct amount){entry->events, load_little32(entry->frame)};
}

static int move_one(struct outbox *outbox)
{
    struct outgoing *outgoing = stream_in_turn(outbox);
    struct backlog *backlog;
    struct amount cost;

    if (outgoing == NULL)
        return outbox->control.first != NULL && move_first(outbox, &outbox->control);
    backlog = source_of(outgoing);
    cost = cost_of(backlog_head(backlog));
    if (!move_first(outbox, backlog))
        return 0;
    outgoing_pay(outgoing, (int64_t)cost.events, (int64_t)cost.bytes);
    outbox->turn = outgoing->next;
    if (outgoing->ahead.first == NULL && outgoing->backlog.first == NULL)
        add_tail_gap(outgoing);
    echo_outgoing_arrange(outgoing);
    return 1;
}

void echo_outbox_refill(struct outbox *outbox)
{
    while (outbox->end == END_NOT && has_backlog(outbox) && move_one(outbox))
        continue;
}
