/* The way of records to a taker, as they lie: nothing is decoded, and no object made of any.
 *
 * What is taken has ascending numbers, each once: records whose numbers were had before are passed over, such as what a
 * source keeps and sends again over another link. Numbers that are left out are told, once, before what follows them.
 */
#include "streams/answers.h"
#include "streams/deliveries.h"

#include "links/errors.h"

#include "core/forks.h"

/* Room is waited for, for so much at once. */
#define PART_BYTES (1024 * 1024)

int echo_delivery_find_taker(struct delivery *delivery)
{
    if (delivery->is_queue || delivery->is_relay || PyCallable_Check(delivery->target))
        return 0;
    delivery->taker = record_taker_of(delivery->target);
    if (delivery->taker != NULL)
        return 0;
    PyErr_Format(PyExc_TypeError, "Expected a Queue, an Outlet, a taker of records or a callable, got %R",
                 delivery->target);
    return -1;
}

/* --- numbers --- */

/* Whoever is told is not asked: what it raises is reported. */
static int tell_gap(struct delivery *delivery, uint64_t number)
{
    PyObject *result;
    uint64_t first = delivery->next_number;

    delivery->next_number = number;
    if (delivery->on_gap == NULL)
        return 0;
    result = PyObject_CallFunction(delivery->on_gap, "KK", (unsigned long long)first, (unsigned long long)number - 1);
    Py_XDECREF(result);
    return result != NULL ? 0 : echo_delivery_report(delivery);
}

/* How many of the events were had before. */
static uint64_t count_had(const struct delivery *delivery, uint64_t events, uint64_t number)
{
    if (delivery->next_number == ANY_NUMBER || number >= delivery->next_number)
        return 0;
    return delivery->next_number - number < events ? delivery->next_number - number : events;
}

/* --- room --- */

/* Until there is room, or it is not worth while to wait any longer. -1 with an exception. May run any code. */
static int await_room(const struct delivery *delivery, uint64_t bytes)
{
    PyObject *result;
    int goes_on = 1;

    while (goes_on > 0 && !delivery->is_closed && !delivery->taker->has_room(delivery->target, bytes)) {
        result = PyObject_CallFunction(delivery->await_room, "K", (unsigned long long)bytes);
        goes_on = result != NULL ? PyObject_IsTrue(result) : -1;
        Py_XDECREF(result);
    }
    return goes_on < 0 ? -1 : 0;
}

/* --- records --- */

/* Pending until somebody says that it is done with, who is called once for all that is taken until the next look. */
static int hold(struct delivery *delivery, uint64_t events, Py_ssize_t bytes)
{
    PyObject *result;

    delivery_hold(delivery, (Py_ssize_t)events, bytes);
    if (delivery->has_held)
        return 0;
    delivery->has_held = 1;
    result = PyObject_CallNoArgs(delivery->on_held);
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

/* `lost`: how many of them found no room; -1 with an exception: none was taken. */
static int count_taken(struct delivery *delivery, uint64_t events, Py_ssize_t bytes, int64_t lost)
{
    delivery->handed += events;
    delivery->bytes += (uint64_t)bytes;
    delivery->dropped += lost < 0 ? events : (uint64_t)lost;
    if (lost < 0)
        return -1;
    return delivery->on_held != NULL ? hold(delivery, events, bytes) : 0;
}

/* Once there is room, if that is to be waited for. */
static int take(struct delivery *delivery, const uint8_t *bytes, Py_ssize_t size, uint64_t events, uint64_t number,
                int64_t time_ns)
{
    int64_t lost = delivery->await_room != NULL ? await_room(delivery, (uint64_t)size) : 0;

    if (delivery->is_closed) /* meanwhile */
        return (int)lost;
    if (lost == 0)
        lost = delivery->taker->take(delivery->target, bytes, size, events, number, time_ns);
    if (lost != 0)
        echo_delivery_miss(delivery, number, events, lost < 0 ? MISSED_FAILED : MISSED_DROPPED);
    return count_taken(delivery, events, size, lost) == 0 ? 0 : echo_delivery_report(delivery);
}

/* What is larger than a taker may ever have room for comes in parts. */
static int take_parts(struct delivery *delivery, const struct record *record, uint64_t number)
{
    Py_ssize_t one = delivery->record_size, most = Py_MAX(one, PART_BYTES / one * one), at, size;
    unsigned forks = echo_forks;
    int status = 0;

    for (at = 0; status == 0 && at < record->size && !delivery->is_closed && !has_forked_since(forks); at += size) {
        size = Py_MIN(record->size - at, most);
        delivery->next_number = number + (uint64_t)((at + size) / one);
        status = take(delivery, record->bytes + at, size, (uint64_t)(size / one), number + (uint64_t)(at / one),
                      record->submitted_ns);
    }
    return status;
}

/* All of them are new. */
static int take_new(struct delivery *delivery, const struct record *record, uint64_t events, uint64_t number)
{
    if (number != delivery->next_number && delivery->next_number != ANY_NUMBER && tell_gap(delivery, number) != 0)
        return -1;
    if (delivery->is_closed) /* whoever was told may have done anything */
        return 0;
    if (delivery->await_room != NULL && delivery->record_size != 0 && record->size > PART_BYTES)
        return take_parts(delivery, record, number);
    delivery->next_number = number + events;
    return take(delivery, record->bytes, record->size, events, number, record->submitted_ns);
}

static int take_record(struct delivery *delivery, const struct record *record, uint64_t number)
{
    uint64_t events = delivery->record_size != 0 ? (uint64_t)(record->size / delivery->record_size) : 1;
    uint64_t had = count_had(delivery, events, number);
    struct record rest = *record;

    if (had == events)
        return 0;
    if (had > 0) {
        rest.bytes += (Py_ssize_t)had * delivery->record_size;
        rest.size -= (Py_ssize_t)had * delivery->record_size;
    }
    return take_new(delivery, &rest, events - had, number + had);
}

int echo_delivery_take(struct delivery *delivery, const struct record *records, Py_ssize_t count, uint64_t number)
{
    unsigned forks = echo_forks;
    PyObject *interrupt = NULL;
    int status = 0;

    for (Py_ssize_t i = 0; status == 0 && i < count && !delivery->is_closed && !has_forked_since(forks); i++) {
        if (!echo_delivery_is_whole(delivery, &records[i]))
            return interrupt == NULL ? -1 : echo_raise_interrupt(interrupt);
        if (take_record(delivery, &records[i], number) != 0)
            status = echo_keep_interrupt(&interrupt);
        number += delivery->record_size != 0 ? (uint64_t)(records[i].size / delivery->record_size) : 1;
    }
    return interrupt == NULL ? status : echo_raise_interrupt(interrupt);
}
