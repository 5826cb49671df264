/* What becomes of events, as sources are told that ask: answers.h has the frames. */
#include "streams/answers.h"

#include "streams/queues.h"

#include "links/errors.h"
#include "links/link.h"

#include "core/forks.h"
#include "core/outbox/staging.h"

#include <string.h>

/* The source is told at once what is done with, so often for each question, and then once in a while: a sink that is slow
 * lets it know of each event, and one that is quick is soon done with all. */
#define FREE_TELLINGS 16
#define TELLING_NS 1000000

/* --- what sinks miss --- */

static uint64_t smaller(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

static uint64_t larger(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

static void widen(struct missed_range *range, const struct missed_range *more)
{
    range->first = smaller(range->first, more->first);
    range->last = larger(range->last, more->last);
    range->why = more->why;
}

/* They have become one where the second is gone. */
static void merge_oldest(struct missed *missed)
{
    widen(&missed->ranges[0], &missed->ranges[1]);
    missed->count--;
    memmove(&missed->ranges[1], &missed->ranges[2], (missed->count - 1) * sizeof *missed->ranges);
}

static int continues(const struct missed_range *range, const struct missed_range *more)
{
    return range->why == more->why && more->first <= range->last + 1 && range->first <= more->last + 1;
}

static void note(struct missed *missed, const struct missed_range *more)
{
    if (missed->count > 0 && continues(&missed->ranges[missed->count - 1], more)) {
        widen(&missed->ranges[missed->count - 1], more);
        return;
    }
    if (missed->count == MOST_MISSED)
        merge_oldest(missed);
    missed->ranges[missed->count++] = *more;
}

void echo_incoming_miss(struct incoming_stream *incoming, uint64_t first, uint64_t events, enum why_missed why)
{
    if (events == 0)
        return;
    if (incoming->missed == NULL)
        incoming->missed = PyMem_Calloc(1, sizeof *incoming->missed);
    if (incoming->missed == NULL)
        incoming->is_mute = 1;
    else
        note(incoming->missed, &(struct missed_range){first, first + events - 1, why});
}

void echo_incoming_note_gap(struct incoming_stream *incoming, uint64_t first, uint64_t events)
{
    echo_incoming_miss(incoming, first, events, MISSED_DROPPED);
}

void echo_delivery_miss(const struct delivery *delivery, uint64_t first, uint64_t events, enum why_missed why)
{
    if (delivery->incoming != NULL && delivery->place == NULL) /* what is derived has numbers of its own */
        echo_incoming_miss(delivery->incoming, first, events, why);
}

void echo_delivery_miss_pending(const struct delivery *delivery)
{
    const struct incoming_stream *incoming = delivery->incoming;

    if (delivery->pending.events == 0 || incoming == NULL)
        return;
    if (delivery->is_queue)
        echo_queue_miss_held_of(delivery);
    else if (incoming->sequence > delivery->since)
        echo_delivery_miss(delivery, delivery->since, incoming->sequence - delivery->since, MISSED_CLOSED);
}

/* Nobody asks for those before `first` any more. */
static void forget_before(struct missed *missed, uint64_t first)
{
    size_t kept = 0;

    for (size_t i = 0; missed != NULL && i < missed->count; i++)
        if (missed->ranges[i].last >= first)
            missed->ranges[kept++] = missed->ranges[i];
    if (missed != NULL)
        missed->count = kept;
}

/* --- how far sinks have come --- */

static Py_ssize_t count_deliveries(const struct incoming_stream *incoming)
{
    return incoming->deliveries != NULL ? PyTuple_Size(incoming->deliveries) : 0;
}

static struct delivery *delivery_of(const struct incoming_stream *incoming, Py_ssize_t i)
{
    return (struct delivery *)PyTuple_GetItem(incoming->deliveries, i);
}

/* Events that have come to a sink. */
static uint64_t come_to(const struct delivery *delivery)
{
    return delivery->decoded + delivery->handed + delivery->skipped + delivery->aside.events;
}

/* Of these, each sink has to be done with those that have come by now: they wait in order. */
static void mark(const struct incoming_stream *incoming)
{
    for (Py_ssize_t i = 0; i < count_deliveries(incoming); i++)
        delivery_of(incoming, i)->asked = come_to(delivery_of(incoming, i));
}

static int is_done_with(const struct delivery *delivery)
{
    return come_to(delivery) >= delivery->asked + delivery->pending.events;
}

static int is_done(const struct incoming_stream *incoming)
{
    for (Py_ssize_t i = 0; i < count_deliveries(incoming); i++)
        if (!is_done_with(delivery_of(incoming, i)))
            return 0;
    return !incoming->is_mute;
}

/* The number of the event that a handler is at in a batch; UINT64_MAX: it is at none. */
static uint64_t current_of(const struct delivery *delivery)
{
    const struct batch *batch = has_forked_since(delivery->forks) ? NULL : delivery->batches;
    uint64_t current = UINT64_MAX;

    for (; batch != NULL; batch = batch->next)
        current = smaller(current, batch->number - 1); /* of an array, which has not begun, the one before it */
    return current;
}

/* The number of the oldest event that a sink may not be done with, of those that were asked for. Where it is not at
 * hand, what is missing between events may have been anywhere. */
static uint64_t oldest_pending(const struct incoming_stream *incoming, const struct delivery *delivery)
{
    uint64_t oldest = delivery->is_queue ? echo_queue_oldest_of(delivery) : current_of(delivery);
    uint64_t left = delivery->asked + delivery->pending.events - come_to(delivery) + incoming->gaps;

    if (oldest != UINT64_MAX)
        return oldest;
    return incoming->asked_sequence > left ? incoming->asked_sequence - left : 0;
}

/* Of events below that number all that was asked for is done with. */
static uint64_t done_below(const struct incoming_stream *incoming)
{
    uint64_t below = incoming->asked_sequence;

    for (Py_ssize_t i = 0; i < count_deliveries(incoming); i++)
        if (!is_done_with(delivery_of(incoming, i)))
            below = smaller(below, oldest_pending(incoming, delivery_of(incoming, i)));
    return below;
}

/* What has come to a sink that is done with an event once it is on a disk. */
static uint64_t stored_from(const struct incoming_stream *incoming)
{
    const struct delivery *delivery;
    uint64_t from = NOT_STORED;

    for (Py_ssize_t i = 0; i < count_deliveries(incoming); i++) {
        delivery = delivery_of(incoming, i);
        if (delivery->taker != NULL && delivery->on_held != NULL)
            from = smaller(from, delivery->since);
    }
    return from;
}

void echo_answers_join(const struct incoming_stream *incoming, struct delivery *delivery)
{
    delivery->asked = 0;
    delivery->since = incoming->sequence;
    if (delivery->taker != NULL && delivery->next_number != ANY_NUMBER)
        delivery->since = larger(delivery->since, delivery->next_number);
}

/* --- over a link --- */

static void say(struct link *link, enum kind kind, const uint8_t *payload, uint32_t size)
{
    outbox_lock(&link->outbox);
    echo_outbox_control(&link->outbox, &(struct frame){.size = size, .stream = kind, .payload = payload});
    echo_outbox_unlock(&link->outbox);
}

static void say_missed(struct link *link, uint32_t stream, const struct missed_range *range)
{
    uint8_t payload[MISSED_PAYLOAD_BYTES];

    store_little32(payload, stream);
    store_little32(payload + 4, range->why);
    store_little64(payload + 8, range->first);
    store_little64(payload + 16, range->last);
    say(link, KIND_MISSED, payload, sizeof payload);
}

static void say_level(const struct incoming_stream *incoming, struct link *link, enum level level)
{
    uint8_t payload[ACK_PAYLOAD_BYTES];

    store_little32(payload, incoming->stream);
    store_little32(payload + 4, level);
    store_little64(payload + 8, incoming->question);
    store_little64(payload + 16, level == LEVEL_HANDLED ? stored_from(incoming) : NOT_STORED);
    say(link, KIND_ACK, payload, sizeof payload);
}

static void say_progress(const struct incoming_stream *incoming, struct link *link)
{
    uint8_t payload[PROGRESS_PAYLOAD_BYTES];

    store_little32(payload, incoming->stream);
    store_little32(payload + 4, 0);
    store_little64(payload + 8, incoming->told_below);
    say(link, KIND_PROGRESS, payload, sizeof payload);
}

/* A frame may let go of the GIL: all is looked at before the first, but what comes in behind them. */
static void say_all(struct incoming_stream *incoming, struct link *link, enum level level)
{
    struct missed missed = {.count = 0};

    if (incoming->missed != NULL) {
        missed = *incoming->missed;
        incoming->missed->count = 0;
    }
    for (size_t i = 0; i < missed.count; i++)
        say_missed(link, incoming->stream, &missed.ranges[i]);
    if (level == LEVEL_PARTLY)
        say_progress(incoming, link);
    else
        say_level(incoming, link, level);
}

/* --- in this process --- */

static void call(struct incoming_stream *incoming, int is_all)
{
    PyObject *callable = Py_NewRef(incoming->on_done), *exception = NULL, *result;

    if (PyErr_Occurred() != NULL)
        exception = echo_take_exception();
    if (is_all)
        Py_CLEAR(incoming->on_done);
    result = PyObject_CallFunctionObjArgs(callable, is_all ? Py_True : Py_False, NULL);
    if (result == NULL)
        PyErr_WriteUnraisable(callable);
    Py_XDECREF(result);
    Py_DECREF(callable);
    if (exception != NULL)
        echo_give_exception(exception);
}

/* --- answering --- */

static void answer(struct incoming_stream *incoming, struct link *link, enum level level)
{
    incoming->is_told = 1;
    incoming->is_asked = level != LEVEL_HANDLED;
    if (level == LEVEL_PARTLY) {
        incoming->told_below = done_below(incoming);
        incoming->told_below_at = ticks_now();
        incoming->tellings++;
    }
    if (incoming->on_done != NULL)
        call(incoming, level == LEVEL_HANDLED);
    else {
        submission_begin();
        say_all(incoming, link, level);
    }
}

/* What is handled is said with whether it is on a disk, as a whole. */
static int is_telling_due(const struct incoming_stream *incoming)
{
    return !incoming->is_mute &&
           (incoming->tellings < FREE_TELLINGS || ticks_now() - incoming->told_below_at >= echo_ticks_of(TELLING_NS)) &&
           stored_from(incoming) == NOT_STORED && done_below(incoming) > incoming->told_below;
}

/* What is news; 0: nothing is. */
static enum level news(const struct incoming_stream *incoming)
{
    if (!incoming->is_asked)
        return 0;
    if (is_done(incoming))
        return LEVEL_HANDLED;
    if (!incoming->is_told)
        return LEVEL_RECEIVED;
    return is_telling_due(incoming) ? LEVEL_PARTLY : 0;
}

static int is_answerable(const struct incoming_stream *incoming, const struct link *link)
{
    if (incoming->on_done != NULL)
        return !has_forked_since(incoming->forks);
    return link != NULL && !has_forked_since(link->forks) && link->wire != NULL;
}

/* Another question may come in while the first one is answered, and more be missed: that is for whoever answers, so that
 * all is said in its order. */
void echo_incoming_answer(struct incoming_stream *incoming, struct link *link)
{
    enum level level;

    if (incoming->is_answering)
        return;
    Py_INCREF((PyObject *)incoming);
    Py_XINCREF((PyObject *)link);
    incoming->is_answering = 1;
    while ((level = news(incoming)) != 0 && is_answerable(incoming, link))
        answer(incoming, link, level);
    incoming->is_answering = 0;
    Py_XDECREF((PyObject *)link);
    Py_DECREF((PyObject *)incoming);
}

void echo_incoming_ask(struct incoming_stream *incoming, uint64_t number, uint64_t first)
{
    forget_before(incoming->missed, first);
    mark(incoming);
    incoming->question = number;
    incoming->is_asked = 1;
    incoming->renewed_at = (struct amount){0, 0}; /* from now on each that is done with is looked at */
    incoming->look_at = (struct amount){0, 0};
    incoming->is_told = 0;
    incoming->tellings = 0;
    incoming->asked_sequence = incoming->sequence;
    echo_incoming_answer(incoming, incoming->link);
}

/* --- for Python --- */

PyObject *echo_incoming_await_done(PyObject *self, PyObject *callable)
{
    struct incoming_stream *incoming = (struct incoming_stream *)self;

    Py_CLEAR(incoming->on_done);
    mark(incoming);
    if (callable == Py_None || is_done(incoming)) {
        incoming->is_asked = 0;
        return PyBool_FromLong(is_done(incoming));
    }
    incoming->on_done = Py_NewRef(callable);
    incoming->forks = echo_forks;
    incoming->is_asked = incoming->is_told = 1;
    incoming->asked_sequence = incoming->sequence;
    incoming->told_below = 0;
    incoming->tellings = 0;
    incoming->renewed_at = (struct amount){0, 0};
    Py_RETURN_FALSE;
}

PyObject *echo_incoming_take_missed(PyObject *self, PyObject *Py_UNUSED(unused))
{
    struct missed *missed = ((struct incoming_stream *)self)->missed;
    Py_ssize_t count = missed != NULL ? (Py_ssize_t)missed->count : 0;
    PyObject *item, *taken = PyList_New(count);

    for (Py_ssize_t i = 0; taken != NULL && i < count; i++) {
        item = Py_BuildValue("(KKi)", (unsigned long long)missed->ranges[i].first,
                             (unsigned long long)missed->ranges[i].last, (int)missed->ranges[i].why);
        if (item == NULL || PyList_SetItem(taken, i, item) != 0)
            Py_CLEAR(taken);
    }
    if (taken != NULL && missed != NULL)
        missed->count = 0;
    return taken;
}

PyObject *echo_incoming_pending_from(PyObject *self, PyObject *Py_UNUSED(unused))
{
    const struct incoming_stream *incoming = (struct incoming_stream *)self;
    const struct delivery *delivery;
    uint64_t oldest = UINT64_MAX;

    for (Py_ssize_t i = 0; i < count_deliveries(incoming); i++) {
        delivery = delivery_of(incoming, i);
        if (delivery->pending.events > 0)
            oldest = smaller(oldest, delivery->is_queue ? echo_queue_oldest_of(delivery) : 0);
    }
    return oldest != UINT64_MAX ? PyLong_FromUnsignedLongLong(oldest) : Py_NewRef(Py_None);
}

PyObject *echo_incoming_stored_from(PyObject *self, PyObject *Py_UNUSED(unused))
{
    uint64_t from = stored_from((struct incoming_stream *)self);

    return from != NOT_STORED ? PyLong_FromUnsignedLongLong(from) : Py_NewRef(Py_None);
}
