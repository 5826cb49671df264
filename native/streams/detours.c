/* Detours: the way of records to a sink that is slow, by a thread of its own.
 *
 * The thread that reads a link runs handlers. Where one takes long, another thread reads on (links/leading.c), and the
 * first one is left with the sink that it is at. Until it is done with that, whoever reads puts aside what comes for
 * the sink: copies, as what they were read into is used again. They are handed over in their order, so a sink notices
 * nothing but a thread that does not change; all other sinks notice nothing at all.
 *
 * How much is put aside is bounded by what the sources may send (credit): one window for a sink, however many there are. What is put aside for a delivery that is
 * closed counts as dropped at once, as the rest of a batch does.
 */
#include "streams/deliveries.h"

#include "links/errors.h"

#include "core/forks.h"
#include "core/outbox/staging.h"

#include <stdlib.h>
#include <string.h>

/* Records that are put aside, or a callable that is called behind them. */
struct aside {
    struct aside *next;
    PyObject *delivery; /* owned; NULL: `owner` is called instead */
    PyObject *owner;    /* owned; bytes that have the records */
    struct amount amount;
    uint64_t number; /* of the first event */
    Py_ssize_t count;
    struct record records[];
};

/* In the list of its link; the thread that it belongs to ends it. */
struct detour {
    struct detour *next;
    PyObject *sink;                /* owned; of all deliveries that take this way */
    struct aside *oldest, **empty; /* where the next one goes */
};

/* --- what is put aside --- */

static struct aside *aside_new(PyObject *delivery, PyObject *owner, Py_ssize_t count)
{
    struct aside *aside = owner != NULL ? malloc(sizeof *aside + (size_t)count * sizeof *aside->records) : NULL;

    if (aside == NULL) {
        if (owner != NULL)
            PyErr_NoMemory();
        return NULL;
    }
    aside->next = NULL;
    aside->delivery = Py_XNewRef(delivery);
    aside->owner = Py_NewRef(owner);
    aside->count = count;
    return aside;
}

static void aside_free(struct aside *aside)
{
    Py_XDECREF(aside->delivery);
    Py_DECREF(aside->owner);
    free(aside);
}

static void append(struct detour *detour, struct aside *aside)
{
    *detour->empty = aside;
    detour->empty = &aside->next;
}

static struct aside *take_oldest(struct detour *detour)
{
    struct aside *aside = detour->oldest;

    if (aside != NULL)
        detour->oldest = aside->next;
    if (detour->oldest == NULL)
        detour->empty = &detour->oldest;
    return aside;
}

/* Room for a record; the next one lies at a multiple of 8 again. */
static Py_ssize_t room_for(const struct record *record)
{
    return (record->size + 7) & ~(Py_ssize_t)7;
}

/* Into bytes, which lie at a multiple of 8 themselves. */
static void copy(const struct handing *handing, struct aside *aside)
{
    uint8_t *bytes = (uint8_t *)PyBytes_AsString(aside->owner);

    for (Py_ssize_t i = 0; i < handing->count; i++) {
        aside->records[i] = (struct record){
            .bytes = bytes, .size = handing->records[i].size, .submitted_ns = handing->records[i].submitted_ns};
        memcpy(bytes, handing->records[i].bytes, (size_t)handing->records[i].size);
        bytes += room_for(&handing->records[i]);
    }
}

/* Cold: else the compiler would put it into the way of every event. */
static __attribute__((cold)) int put_aside(struct detour *detour, PyObject *delivery, const struct handing *handing)
{
    struct aside *aside;
    Py_ssize_t size = 0;
    PyObject *owner;

    if (((struct delivery *)delivery)->is_closed)
        return 0;
    for (Py_ssize_t i = 0; i < handing->count; i++)
        size += room_for(&handing->records[i]);
    owner = PyBytes_FromStringAndSize(NULL, size);
    aside = aside_new(delivery, owner, handing->count);
    Py_XDECREF(owner);
    if (aside == NULL)
        return -1;
    copy(handing, aside);
    aside->amount = handing->amount;
    aside->number = handing->number;
    echo_delivery_put_aside((struct delivery *)delivery, aside->amount);
    append(detour, aside);
    return 0;
}

/* --- handing over --- */

/* What deliveries to one sink have in common. */
static PyObject *sink_of(PyObject *delivery)
{
    PyObject *sink = ((struct delivery *)delivery)->sink;

    return sink != NULL ? sink : delivery;
}

/* The one that records for a delivery take; NULL: none. */
static struct detour *detour_of(const struct detours *detours, PyObject *delivery)
{
    struct detour *detour = detours->first;

    while (detour != NULL && detour->sink != sink_of(delivery))
        detour = detour->next;
    return detour;
}

static int hand_to(const struct detours *detours, PyObject *delivery, const struct handing *handing)
{
    struct detour *detour = detours->first != NULL ? detour_of(detours, delivery) : NULL;

    if (detour != NULL)
        return put_aside(detour, delivery, handing);
    return echo_delivery_hand(delivery, handing->records, handing->count, handing->owner, handing->number);
}

/* The one that a thread is at. */
static struct delivery *delivery_at(const struct handing *handing)
{
    return (struct delivery *)PyTuple_GetItem(handing->deliveries, handing->next - 1);
}

/* All deliveries have them but those for which they are held; and whoever was overtaken is done with the one. What
 * follows, here and where the references are given back, may let go of the GIL, but is no delivery's. */
static void finish(struct handing *handing)
{
    struct incoming_stream *incoming = handing->incoming;

    if (handing->detour != NULL) {
        delivery_done(delivery_at(handing), (Py_ssize_t)handing->amount.events, (Py_ssize_t)handing->amount.bytes);
        return;
    }
    handing->next = 0;
    incoming_settle(incoming, handing->amount);
}

int echo_handing_go_on(struct detours *detours, struct handing *handing)
{
    PyObject *interrupt = NULL;
    unsigned forks = echo_forks;
    int status = 0;

    while (status == 0 && handing->next < handing->delivery_count && handing->detour == NULL &&
           !has_forked_since(forks)) {
        if (hand_to(detours, PyTuple_GetItem(handing->deliveries, handing->next++), handing) != 0)
            status = echo_keep_interrupt(&interrupt);
    }
    if (!has_forked_since(forks))
        finish(handing);
    return interrupt == NULL ? status : echo_raise_interrupt(interrupt);
}

/* --- detours --- */

/* It is at none where records are still put aside for one. */
int echo_handing_can_be_left(const struct detours *detours, const struct handing *handing)
{
    return handing->next > 0 && detour_of(detours, &delivery_at(handing)->ob_base) == NULL;
}

int echo_detour_open(struct detours *detours, struct handing *slow)
{
    struct detour *detour = malloc(sizeof *detour);
    struct delivery *delivery = delivery_at(slow);

    if (detour == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    delivery_hold(delivery, (Py_ssize_t)slow->amount.events, (Py_ssize_t)slow->amount.bytes);
    detour->sink = Py_NewRef(sink_of(&delivery->ob_base));
    detour->oldest = NULL;
    detour->empty = &detour->oldest;
    detour->next = detours->first;
    detours->first = slow->detour = detour;
    return 0;
}

static void close_detour(struct detours *detours, struct detour *detour)
{
    struct detour **place = &detours->first;

    while (*place != detour)
        place = &(*place)->next;
    *place = detour->next;
    Py_DECREF(detour->sink);
    free(detour);
}

static void call(PyObject *callable)
{
    PyObject *result = PyObject_CallNoArgs(callable);

    if (result == NULL)
        PyErr_WriteUnraisable(callable);
    Py_XDECREF(result);
}

/* Frees it; what that runs does not meet what a handler has raised. */
static int hand_aside(struct aside *aside)
{
    PyObject *exception;
    int status = 0;

    if (aside->delivery == NULL)
        call(aside->owner);
    else {
        echo_delivery_take_aside((struct delivery *)aside->delivery, aside->amount);
        status = echo_delivery_hand(aside->delivery, aside->records, aside->count, aside->owner, aside->number);
        delivery_done((struct delivery *)aside->delivery, (Py_ssize_t)aside->amount.events,
                      (Py_ssize_t)aside->amount.bytes);
    }
    exception = status != 0 ? echo_take_exception() : NULL;
    aside_free(aside);
    if (exception != NULL)
        echo_give_exception(exception);
    return status;
}

/* What is left is dropped, and counted. The link ends with what was wrong, so nobody waits for what is called behind. */
static void drop_rest(struct detour *detour)
{
    struct aside *aside;

    while ((aside = take_oldest(detour)) != NULL) {
        if (aside->delivery != NULL)
            echo_delivery_close(aside->delivery);
        aside_free(aside);
    }
}

/* Until nothing is left, or nothing may follow what was wrong. */
static int hand_all(struct detour *detour, struct gathering *gathering)
{
    PyObject *interrupt = NULL;
    struct aside *aside;
    int status = PyErr_Occurred() != NULL ? echo_keep_interrupt(&interrupt) : 0;

    while (status == 0 && !has_forked_since(gathering->forks) && (aside = take_oldest(detour)) != NULL) {
        gathering->is_on = detour->oldest != NULL;
        if (hand_aside(aside) != 0)
            status = echo_keep_interrupt(&interrupt);
    }
    return interrupt == NULL ? status : echo_raise_interrupt(interrupt);
}

int echo_detour_go(struct detours *detours, struct detour *detour, const void *link)
{
    struct gathering gathering;
    PyObject *exception;
    int status;

    gathering_begin(&gathering, link);
    status = hand_all(detour, &gathering);
    exception = status != 0 ? echo_take_exception() : NULL;
    if (!has_forked_since(gathering.forks)) {
        drop_rest(detour);
        close_detour(detours, detour);
    }
    echo_gathering_end(&gathering);
    if (exception != NULL)
        echo_give_exception(exception);
    return status;
}

/* Whether the sink that takes this way is not done with what the stream has brought. */
static int has_something_of(const struct detour *detour, const struct incoming_stream *incoming)
{
    Py_ssize_t i, count = incoming->deliveries != NULL ? PyTuple_Size(incoming->deliveries) : 0;
    PyObject *delivery;

    for (i = 0; i < count; i++) {
        delivery = PyTuple_GetItem(incoming->deliveries, i);
        if (sink_of(delivery) == detour->sink && ((struct delivery *)delivery)->pending.events > 0)
            return 1;
    }
    return 0;
}

Py_ssize_t echo_detours_call_behind(struct detours *detours, const struct incoming_stream *incoming, PyObject *callable)
{
    struct aside *aside;
    Py_ssize_t count = 0;

    for (struct detour *detour = detours->first; detour != NULL; detour = detour->next) {
        if (incoming != NULL && !has_something_of(detour, incoming))
            continue;
        count++;
        aside = aside_new(NULL, callable, 0);
        if (aside == NULL)
            return -1;
        append(detour, aside);
    }
    return count;
}
