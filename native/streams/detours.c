/* Detours: the way of records to a sink that is slow, by a thread of its own.
 *
 * The thread that reads a link runs handlers. Where one takes long, another thread reads on (links/leading.c), and the
 * first one is left with the sink that it is at. Until it is done with that, whoever reads puts aside what comes for
 * the sink: copies, as what they were read into is used again. They are handed over in their order, so a sink notices
 * nothing but a thread that does not change; all other sinks notice nothing at all.
 *
 * What is derived from records here (deliveries.c: relay_records) is put aside for each of its sinks in turn, and handed
 * over by the thread that reads, once it has judged. So it can be left with any of these, and whoever reads on finds what
 * the others have not had.
 *
 * How much is put aside is bounded by what the sources may send (credit): one window for a sink, however many there are. What is put aside for a delivery that is
 * closed counts as dropped at once, as the rest of a batch does.
 */
#include "streams/deliveries.h"

#include "links/errors.h"
#include "links/link.h"

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
    PyObject *sink; /* owned; of all deliveries that take this way */
    struct asides asides;
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

static void append(struct asides *asides, struct aside *aside)
{
    *(asides->empty != NULL ? asides->empty : &asides->oldest) = aside;
    aside->next = NULL;
    asides->empty = &aside->next;
}

static struct aside *take_oldest(struct asides *asides)
{
    struct aside *aside = asides->oldest;

    if (aside != NULL)
        asides->oldest = aside->next;
    if (asides->oldest == NULL)
        asides->empty = NULL;
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
    append(&detour->asides, aside);
    return 0;
}

int echo_asides_add(struct asides *asides, PyObject *delivery, const struct record *record, PyObject *owner,
                    uint64_t events, uint64_t number)
{
    struct aside *aside;

    if (((struct delivery *)delivery)->is_closed)
        return 0;
    aside = aside_new(delivery, owner, 1);
    if (aside == NULL)
        return -1;
    aside->records[0] = *record;
    aside->amount = (struct amount){events, (uint64_t)record->size};
    aside->number = number;
    echo_delivery_put_aside((struct delivery *)delivery, aside->amount);
    append(asides, aside);
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

/* The one of the stream's own that a thread is at. */
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
        delivery_done(delivery_at(handing), (Py_ssize_t)handing->held.events, (Py_ssize_t)handing->held.bytes);
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

/* The one that is handed something. */
static struct delivery *busy_at(const struct detours *detours, const struct handing *handing)
{
    return detours->at != NULL ? detours->at : delivery_at(handing);
}

/* It is at none where records are still put aside for one. */
int echo_handing_can_be_left(const struct detours *detours, const struct handing *handing)
{
    return handing->next > 0 && detour_of(detours, &busy_at(detours, handing)->ob_base) == NULL;
}

int echo_detour_open(struct detours *detours, struct handing *slow)
{
    struct detour *detour = malloc(sizeof *detour);
    struct delivery *delivery = busy_at(detours, slow);

    if (detour == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    slow->held = detours->at == NULL ? slow->amount : (struct amount){0, 0}; /* what was put aside is held */
    delivery_hold(delivery, (Py_ssize_t)slow->held.events, (Py_ssize_t)slow->held.bytes);
    detours->at = NULL;
    detour->sink = Py_NewRef(sink_of(&delivery->ob_base));
    detour->asides = (struct asides){NULL, NULL};
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

    while ((aside = take_oldest(&detour->asides)) != NULL) {
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

    while (status == 0 && !has_forked_since(gathering->forks) && (aside = take_oldest(&detour->asides)) != NULL) {
        gathering->is_on = detour->asides.oldest != NULL;
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

/* --- what is derived --- */

struct detours *echo_detours_around(const struct delivery *relay)
{
    struct link *link = relay->incoming != NULL ? relay->incoming->link : NULL;

    return link != NULL && detour_of(&link->detours, (PyObject *)relay) == NULL ? &link->detours : NULL;
}

/* As the rest of a batch. */
static void drop_derived(struct asides *asides)
{
    struct aside *aside;

    while ((aside = take_oldest(asides)) != NULL) {
        echo_delivery_skip_aside((struct delivery *)aside->delivery, aside->amount);
        aside_free(aside);
    }
}

/* Each to its delivery, or to who is at that. `at`: says where this thread is; NULL: it reads no link. Who is left with
 * one leaves what follows to who reads on. */
static int hand_derived(struct detours *detours, struct asides *derived, struct delivery **at)
{
    PyObject *interrupt = NULL, *delivery;
    unsigned forks = echo_forks;
    struct detour *detour;
    struct aside *aside;
    int status = 0, is_left = 0;

    while (!is_left && status == 0 && !has_forked_since(forks) && (aside = take_oldest(derived)) != NULL) {
        detour = detour_of(detours, aside->delivery);
        if (detour != NULL) {
            append(&detour->asides, aside);
            continue;
        }
        delivery = Py_NewRef(aside->delivery);
        if (at != NULL)
            *at = (struct delivery *)delivery;
        if (hand_aside(aside) != 0)
            status = echo_keep_interrupt(&interrupt);
        is_left = at != NULL && detour_of(detours, delivery) != NULL;
        if (at != NULL && !is_left)
            *at = NULL;
        Py_DECREF(delivery);
    }
    if (status != 0 && !is_left)
        drop_derived(derived);
    return interrupt == NULL ? status : echo_raise_interrupt(interrupt);
}

int echo_detours_hand(struct detours *detours, struct delivery *relay, struct asides *derived)
{
    struct aside *aside;

    if (detour_of(detours, &relay->ob_base) != NULL) /* it was left with the relay, while it judged */
        return hand_derived(detours, derived, NULL);
    while ((aside = take_oldest(derived)) != NULL)
        append(&detours->derived, aside);
    return hand_derived(detours, &detours->derived, &detours->at);
}

int echo_handing_take_over(struct detours *detours, struct handing *handing)
{
    PyObject *interrupt = NULL;
    unsigned forks = echo_forks;
    int status = 0;

    if (hand_derived(detours, &detours->derived, &detours->at) != 0)
        status = echo_keep_interrupt(&interrupt);
    if (status == 0 && handing->detour == NULL && !has_forked_since(forks) && echo_handing_go_on(detours, handing) != 0)
        status = echo_keep_interrupt(&interrupt);
    return interrupt == NULL ? status : echo_raise_interrupt(interrupt);
}

/* --- behind what is put aside --- */

static int has_anything(const struct detour *detour, const struct delivery *delivery)
{
    return sink_of((PyObject *)delivery) == detour->sink && delivery->pending.events > 0;
}

/* Whether the sink that takes this way is not done with what the stream has brought. */
static int has_something_of(const struct detour *detour, const struct incoming_stream *incoming)
{
    Py_ssize_t i, count = incoming->deliveries != NULL ? PyTuple_Size(incoming->deliveries) : 0;
    const struct delivery *delivery;

    for (i = 0; i < count; i++)
        if (has_anything(detour, (struct delivery *)PyTuple_GetItem(incoming->deliveries, i)))
            return 1;
    for (delivery = incoming->derived; delivery != NULL; delivery = delivery->next)
        if (has_anything(detour, delivery))
            return 1;
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
        append(&detour->asides, aside);
    }
    return count;
}
