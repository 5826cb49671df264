/* What the receiving end of a stream grants its source: core/outbox/credit.h says how it counts.
 *
 * An event is done with when all deliveries are: when its handler has returned, or it was taken out of a queue or
 * dropped by it. A queue that makes others wait where it is full is never full by what another process sends, as no
 * more is granted than it may hold: its bound, or its share of it where several streams feed it. One that drops
 * instead has all sent to it, so that its policy decides. What waits for a handler that is slow is bounded in the same
 * way: one window, of which each stream that calls it has its share. Who takes what is derived from the events here has
 * its own records pending: as many events at most, of more bytes or fewer.
 *
 * Credit is renewed when half of the window has been used, so a stream that flows costs a frame in many thousand
 * events. A source that has used all waits, and this side knows: it is told at once where nothing is left to be done
 * here, and else every few milliseconds, also that its sinks go on.
 */
#include "streams/answers.h"
#include "streams/deliveries.h"
#include "streams/queues.h"

#include "links/link.h"

#include "core/outbox/staging.h"

/* How often a source that waits is told that its sinks go on. */
#define TELL_NS 10000000

/* For so long a sink that comes up with the source has it granted event by event. It has no other influence: one that is
 * slow falls behind alone, by as much as is kept for it. */
#define HELD_NS 1000000000

/* And after no fewer events or bytes of the window, lest a stream that hardly flows answers each event. A handler that
 * takes longer than some milliseconds is overtaken, so these are done within the patience of a source. */
#define TELL_EVENTS 16
#define TELL_PART 16

/* --- deliveries of a stream --- */

void echo_incoming_add(struct incoming_stream *incoming, struct delivery *delivery)
{
    echo_incoming_remove(delivery->incoming, delivery);
    delivery->incoming = incoming;
    echo_answers_join(incoming, delivery);
    if (incoming->is_local && delivery->is_queue)
        delivery->pending = echo_queue_held_of(delivery);
    else if (incoming->is_local)
        return;
    else if (delivery->is_queue)
        ((struct queue *)delivery->target)->feeds++;
    else if (delivery->sharers != NULL)
        delivery->sharers->streams++;
}

static void leave_list(struct delivery *delivery)
{
    if (delivery->place == NULL)
        return;
    *delivery->place = delivery->next;
    if (delivery->next != NULL)
        delivery->next->place = delivery->place;
    delivery->place = NULL;
}

void echo_incoming_add_derived(struct incoming_stream *incoming, struct delivery *delivery)
{
    echo_incoming_add(incoming, delivery);
    delivery->next = incoming->derived;
    delivery->place = &incoming->derived;
    if (delivery->next != NULL)
        delivery->next->place = &delivery->next;
    incoming->derived = delivery;
}

void echo_incoming_remove(const struct incoming_stream *incoming, struct delivery *delivery)
{
    if (incoming == NULL || delivery->incoming != incoming)
        return;
    leave_list(delivery);
    delivery->incoming = NULL;
    delivery->pending = (struct amount){0, 0};
    if (incoming->is_local)
        return;
    if (delivery->is_queue)
        ((struct queue *)delivery->target)->feeds--;
    else if (delivery->sharers != NULL)
        delivery->sharers->streams--;
}

void echo_delivery_forget(struct delivery *delivery, Py_ssize_t events, Py_ssize_t bytes)
{
    struct amount amount = {(uint64_t)events, (uint64_t)bytes};

    if (delivery->incoming != NULL && is_within(amount, delivery->pending)) /* else held by a stream before */
        delivery->pending = amount_minus(delivery->pending, amount);
}

void echo_delivery_done(struct delivery *delivery, Py_ssize_t events, Py_ssize_t bytes)
{
    struct incoming_stream *incoming = delivery->incoming;

    echo_delivery_forget(delivery, events, bytes);
    if (!is_below(incoming->taken, incoming->renewed_at))
        echo_incoming_renew(incoming);
}

/* --- credit --- */

/* Where a stream stands: how much is pending at the slowest delivery, and at the slowest that paces the source. */
struct standing {
    struct amount pending, pacing;
    struct amount window;
};

static struct amount amount_min(struct amount one, struct amount other)
{
    return (struct amount){one.events < other.events ? one.events : other.events,
                           one.bytes < other.bytes ? one.bytes : other.bytes};
}

/* 0 where the other one is larger: what is pending may be of records that the next delivery is still handed, and are
 * not among what all have been given. */
static struct amount amount_less(struct amount one, struct amount other)
{
    return amount_minus(one, amount_min(one, other));
}

/* Of one window, for the streams that call the same handler. */
static struct amount share_of(const struct delivery *delivery, struct amount window)
{
    unsigned streams = delivery->sharers != NULL ? delivery->sharers->streams : 1;

    if (streams <= 1)
        return window;
    return amount_max((struct amount){window.events / streams, window.bytes / streams}, (struct amount){1, 1});
}

static void look_at(const struct delivery *delivery, struct amount window, struct standing *standing)
{
    const struct queue *queue = delivery->is_queue ? (struct queue *)delivery->target : NULL;

    standing->pending = amount_max(standing->pending, delivery->pending);
    if (queue != NULL && !does_wait(queue->policy))
        return;
    standing->pacing = amount_max(standing->pacing, delivery->pending);
    standing->window =
        amount_min(standing->window, queue != NULL ? echo_queue_share(queue) : share_of(delivery, window));
}

static int is_held(const struct incoming_stream *incoming)
{
    return incoming->holders > 0 && ticks_now() < incoming->held_until;
}

static struct standing standing_of(const struct incoming_stream *incoming)
{
    Py_ssize_t i, count = incoming->deliveries != NULL ? PyTuple_Size(incoming->deliveries) : 0;
    struct standing standing = {.window = is_held(incoming) ? (struct amount){1, 1} : incoming->window};

    for (i = 0; i < count; i++)
        look_at((struct delivery *)PyTuple_GetItem(incoming->deliveries, i), incoming->window, &standing);
    for (const struct delivery *delivery = incoming->derived; delivery != NULL; delivery = delivery->next)
        look_at(delivery, incoming->window, &standing);
    return standing;
}

/* A limit that was told holds, also where the window has become smaller. */
static struct credit credit_of(const struct incoming_stream *incoming, const struct standing *standing)
{
    struct amount most = amount_plus(incoming->handed, standing->window);

    return (struct credit){.stream = incoming->stream,
                           .done = amount_max(incoming->told_done, amount_less(incoming->handed, standing->pending)),
                           .limit = amount_max(incoming->limit, amount_less(most, standing->pacing))};
}

/* A look at the clock is for several events, too. Without a window there is nothing to tell between renewals. */
static struct amount next_look(const struct incoming_stream *incoming)
{
    struct amount part = {TELL_EVENTS, incoming->window.bytes / TELL_PART};

    return incoming->window.events < NO_WINDOW ? amount_min(amount_plus(incoming->handed, part), incoming->renewed_at)
                                               : incoming->renewed_at;
}

static void note(struct incoming_stream *incoming, const struct credit *credit, struct amount window)
{
    incoming->told_done = credit->done;
    incoming->limit = credit->limit;
    incoming->renewed_at =
        amount_less(credit->limit, (struct amount){window.events - window.events / 2, window.bytes - window.bytes / 2});
    if (incoming->is_asked)
        incoming->renewed_at = (struct amount){0, 0};
    incoming->told_at = ticks_now();
    incoming->look_at = next_look(incoming);
}

struct credit echo_incoming_credit(struct incoming_stream *incoming)
{
    struct standing standing = standing_of(incoming);
    struct credit credit = credit_of(incoming, &standing);

    credit.done = incoming->told_done;
    note(incoming, &credit, standing.window);
    return credit;
}

/* --- telling the source --- */

static void send(struct link *link, const struct credit *credit)
{
    uint8_t payload[CREDIT_PAYLOAD_BYTES];

    if (has_forked_since(link->forks) || link->wire == NULL)
        return;
    credit_store(payload, credit);
    Py_INCREF((PyObject *)link);
    submission_begin();
    outbox_lock(&link->outbox);
    echo_outbox_control(&link->outbox,
                        &(struct frame){.size = sizeof payload, .stream = KIND_CREDIT, .payload = payload});
    echo_outbox_unlock(&link->outbox);
    Py_DECREF((PyObject *)link);
}

static int is_same(struct amount one, struct amount other)
{
    return one.events == other.events && one.bytes == other.bytes;
}

static int is_news(const struct incoming_stream *incoming, const struct credit *credit)
{
    return !is_same(credit->done, incoming->told_done) || !is_same(credit->limit, incoming->limit);
}

static int is_worth_while(const struct incoming_stream *incoming, const struct credit *credit, struct amount window)
{
    struct amount more = amount_minus(credit->limit, incoming->limit);

    if (more.events * 2 >= window.events || more.bytes * 2 >= window.bytes)
        return 1;
    if (is_below(incoming->taken, incoming->limit))
        return 0;
    return is_same(credit->done, incoming->taken) || ticks_now() - incoming->told_at >= echo_ticks_of(TELL_NS);
}

void echo_incoming_confirm(struct incoming_stream *incoming, struct link *link)
{
    struct standing standing;
    struct credit credit;

    incoming->tellings = 0;
    if (incoming->is_asked)
        echo_incoming_answer(incoming, link);
    standing = standing_of(incoming);
    credit = credit_of(incoming, &standing);
    if (link == NULL || incoming->stream == 0 || !is_news(incoming, &credit)) /* never bound: nothing came of it */
        return;
    note(incoming, &credit, standing.window);
    send(link, &credit);
}

void echo_incoming_renew(struct incoming_stream *incoming)
{
    struct standing standing;
    struct credit credit;

    if (incoming->is_asked)
        echo_incoming_answer(incoming, incoming->link);
    standing = standing_of(incoming);
    credit = credit_of(incoming, &standing);
    if (incoming->link == NULL || !is_news(incoming, &credit) || !is_worth_while(incoming, &credit, standing.window))
        return;
    note(incoming, &credit, standing.window);
    send(incoming->link, &credit);
}

void echo_incoming_hold(struct incoming_stream *incoming, int change)
{
    if (change > 0)
        incoming->held_until = ticks_now() + echo_ticks_of(HELD_NS);
    if (change >= 0 || incoming->holders > 0)
        incoming->holders += (unsigned)change;
    if (incoming->holders == 0)
        echo_incoming_renew(incoming);
}

/* A source that has used all its credit sees nothing of what is still on its way here. */
void echo_incoming_look(struct incoming_stream *incoming)
{
    incoming->look_at = next_look(incoming);
    if (!is_below(incoming->taken, incoming->renewed_at))
        echo_incoming_renew(incoming);
    else if (ticks_now() - incoming->told_at >= echo_ticks_of(TELL_NS))
        echo_incoming_confirm(incoming, incoming->link);
}
