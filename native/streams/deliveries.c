/* The rules of the type Delivery: from the records of one stream to one sink, which is a handler or a Queue; or to an
 * Outlet, where what is derived from them here begins.
 *
 * A record is decoded from where it lies, handed on and let go before the next one is looked at: events of a
 * batch follow each other through the same warm memory. Arrays are the exception: all records of a batch are
 * decoded at once, in place where somebody owns the bytes.
 *
 * What goes wrong with one event is that event's: it is reported and counted. A record that breaks the rules of
 * the wire format is the link's. What is no Exception may be the thread's, once the batch is done: on_error says.
 *
 * Who closes a delivery may do so while a thread hands out a batch, or a handler may that is given one event of it:
 * no other record is begun, and those that are left are counted at once, as dropped.
 */
#include "streams/deliveries.h"

#include "streams/answers.h"
#include "streams/calls.h"
#include "streams/outlets.h"
#include "streams/queues.h"

#include "links/chunks.h"
#include "links/errors.h"

#include "core/clock.h"
#include "core/forks.h"
#include "kept_bytes.h"

#include <string.h>

/* A larger copy releases the GIL: below this, handing it over costs more than the copy. */
#define GIL_COPY_BYTES (256 * 1024)

/* Fewer bytes are copied: a view would keep all that was received with them. */
#define SPAN_BYTES 4096

/* --- errors --- */

/* Hands the exception that is set to on_error. 0: and that is that. -1: what is no Exception stays set, unless on_error
 * has taken it; so does RecursionError where handlers that submit have left no room for on_error itself, which there is
 * further up. */
static int report(struct delivery *delivery, PyObject *on_error)
{
    int is_exit = !PyErr_ExceptionMatches(PyExc_Exception);
    PyObject *exception = echo_take_exception(), *result;

    delivery->failures++;
    result = call_one(on_error, exception);
    if (is_exit && result != Py_True) {
        Py_XDECREF(result);
        PyErr_Clear(); /* on_error's own */
        echo_give_exception(exception);
        return -1;
    }
    Py_DECREF(exception);
    Py_XDECREF(result);
    if (result != NULL)
        return 0;
    if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_RecursionError))
        return -1;
    PyErr_WriteUnraisable(on_error);
    return 0;
}

/* Whether the exception that is set is the sender's fault. */
static int is_wire_error(void)
{
    PyObject *type, *value, *traceback, *wire_error;
    int is_it;

    PyErr_Fetch(&type, &value, &traceback); /* what follows may not run with it */
    wire_error = echo_error("WireError");
    is_it = wire_error != NULL && PyErr_GivenExceptionMatches(type, wire_error);
    Py_XDECREF(wire_error);
    PyErr_Restore(type, value, traceback); /* instead of any that has come up here */
    return is_it;
}

/* As report, of so many events from that number on: the sink does not have them. */
static __attribute__((cold)) int fail(struct delivery *delivery, PyObject *on_error, uint64_t number, uint64_t events)
{
    echo_delivery_miss(delivery, number, events, MISSED_FAILED);
    return report(delivery, on_error);
}

/* What a decoder has raised. Likewise. */
static __attribute__((cold)) int refuse(struct delivery *delivery, uint64_t number, uint64_t events)
{
    if (!is_wire_error())
        return fail(delivery, delivery->on_refusal, number, events);
    delivery->failures++;
    return -1;
}

int echo_delivery_report(struct delivery *delivery)
{
    return report(delivery, delivery->on_error);
}

/* --- who decodes --- */

/* What has changed it was decoded by Python code: while native code decodes no other thread does, unless that
 * converts more than 64 KiB, or the class has code of its own for new events. */
static inline unsigned long long left_to_python(const struct delivery *delivery)
{
    return *delivery->counts[0] + *delivery->counts[1];
}

/* --- calling the handler --- */

/* What a child has inherited is its parent's. */
static void forget_inherited(struct delivery *delivery)
{
    if (!has_forked_since(delivery->forks))
        return;
    delivery->batches = NULL;
    delivery->calls = NULL;
    delivery->works += delivery->works % 2;
    delivery->seen_works = delivery->works;
    delivery->aside = (struct amount){0, 0};
    delivery->forks = echo_forks;
}

/* Its own stack frame: handlers that do not ask do not pay for it. */
static __attribute__((noinline)) PyObject *call_with_info(const struct delivery *delivery, PyObject *event,
                                                          uint64_t number, int64_t submitted_ns)
{
    PyObject *info = call_to_describe(delivery->describe, number, submitted_ns), *result;

    result = info != NULL ? call_with(delivery->target, event, info) : NULL;
    Py_XDECREF(info);
    return result;
}

static inline PyObject *call_target(const struct delivery *delivery, PyObject *event, uint64_t number,
                                    int64_t submitted_ns)
{
    return delivery->describe == NULL ? call_one(delivery->target, event)
                                      : call_with_info(delivery, event, number, submitted_ns);
}

static __attribute__((cold)) PyObject *call_meanwhile(struct delivery *delivery, PyObject *event, uint64_t number,
                                                      int64_t submitted_ns)
{
    struct call call = {.seen_ns = 0};
    PyObject *result;
    unsigned forks = echo_forks;

    forget_inherited(delivery);
    call.next = delivery->calls;
    call.place = &delivery->calls;
    if (call.next != NULL)
        call.next->place = &call.next;
    delivery->calls = &call;
    result = call_target(delivery, event, number, submitted_ns);
    if (has_forked_since(forks))
        return result;
    *call.place = call.next;
    if (call.next != NULL)
        call.next->place = call.place;
    return result;
}

static inline PyObject *call_handler(struct delivery *delivery, PyObject *event, uint64_t number, int64_t submitted_ns)
{
    uint64_t works = delivery->works;
    PyObject *result;

    if (works % 2 == 1)
        return call_meanwhile(delivery, event, number, submitted_ns);
    delivery->works = works + 1;
    result = call_target(delivery, event, number, submitted_ns);
    delivery->works = works + 2; /* also in a child that the handler has forked */
    return result;
}

static int64_t oldest_of(struct call *call, int64_t oldest_ns, int64_t now_ns)
{
    for (; call != NULL; call = call->next) {
        call->seen_ns = call->seen_ns != 0 ? call->seen_ns : now_ns;
        oldest_ns = call->seen_ns < oldest_ns ? call->seen_ns : oldest_ns;
    }
    return oldest_ns;
}

int64_t echo_delivery_look(PyObject *self)
{
    struct delivery *delivery = (struct delivery *)self;
    int64_t now_ns = monotonic_ns(), oldest_ns;
    int has_worked;

    forget_inherited(delivery);
    has_worked = delivery->seen_works != delivery->works;
    if (has_worked)
        delivery->seen_ns = now_ns;
    delivery->seen_works = delivery->works;
    oldest_ns = oldest_of(delivery->calls, delivery->works % 2 == 1 ? delivery->seen_ns : INT64_MAX, now_ns);
    if (oldest_ns != INT64_MAX)
        return now_ns - oldest_ns;
    return has_worked ? -1 : -2;
}

/* --- one event --- */

/* Takes the reference over: to an event, or to an array of so many. `number`: of the first one. */
static inline int deliver(struct delivery *delivery, PyObject *event, Py_ssize_t size, Py_ssize_t events,
                          uint64_t number, int64_t submitted_ns)
{
    PyObject *result;

    if (delivery->is_queue)
        return echo_queue_put(delivery->target, &(struct item){.event = event,
                                                               .from = &delivery->ob_base,
                                                               .size = size,
                                                               .events = events,
                                                               .number = number,
                                                               .submitted_ns = submitted_ns});
    result = call_handler(delivery, event, number, submitted_ns);
    Py_DECREF(event);
    if (result == NULL)
        return fail(delivery, delivery->on_error, number, (uint64_t)events);
    Py_DECREF(result);
    return 0;
}

static PyObject *decode_copy(const struct delivery *delivery, const uint8_t *bytes, Py_ssize_t size)
{
    PyObject *event, *copy = PyBytes_FromStringAndSize((const char *)bytes, size);

    if (copy == NULL)
        return NULL;
    event = call_one(delivery->decode, copy);
    Py_DECREF(copy);
    return event;
}

/* So many events were decoded. `before`: what was left to Python code until then. */
static inline void count_decoded(struct delivery *delivery, unsigned long long before, Py_ssize_t size,
                                 Py_ssize_t events)
{
    delivery->decoded += (uint64_t)events;
    delivery->interpreted += left_to_python(delivery) != before ? (uint64_t)events : 0;
    delivery->bytes += (uint64_t)size;
}

static inline int hand_one(struct delivery *delivery, raw_decode *decode, const uint8_t *bytes, Py_ssize_t size,
                           uint64_t number, int64_t submitted_ns)
{
    unsigned long long before = left_to_python(delivery);
    PyObject *event = decode != NULL ? decode(delivery->raw.self, bytes, size) : decode_copy(delivery, bytes, size);

    count_decoded(delivery, before, size, 1);
    return event != NULL ? deliver(delivery, event, size, 1, number, submitted_ns) : refuse(delivery, number, 1);
}

/* --- the records of a batch --- */

static int is_whole(const struct delivery *delivery, const struct record *record)
{
    if (delivery->record_size == 0 || record->size == delivery->record_size ||
        (record->size > 0 && record->size % delivery->record_size == 0))
        return 1;
    echo_raise("WireError", "Expected records of %zd bytes each, got %zd bytes", delivery->record_size, record->size);
    return 0;
}

int echo_delivery_is_whole(const struct delivery *delivery, const struct record *record)
{
    return is_whole(delivery, record);
}

static void begin_batch(struct delivery *delivery, struct batch *batch)
{
    forget_inherited(delivery);
    batch->next = delivery->batches;
    batch->place = &delivery->batches;
    if (batch->next != NULL)
        batch->next->place = &batch->next;
    delivery->batches = batch;
}

static void end_batch(const struct batch *batch)
{
    *batch->place = batch->next;
    if (batch->next != NULL)
        batch->next->place = batch->place;
}

static int goes_on(const struct delivery *delivery, unsigned forks)
{
    return !delivery->is_closed && !has_forked_since(forks);
}

/* `bytes`: those of the batch's current record, or of a copy. `decode`: what takes such bytes; compiled into both
 * functions below. */
static inline __attribute__((always_inline)) int hand_each_by(struct delivery *delivery, raw_decode *decode,
                                                              struct batch *batch, const uint8_t *bytes)
{
    Py_ssize_t at, total = batch->records[batch->current].size;
    int64_t submitted_ns = batch->records[batch->current].submitted_ns;
    Py_ssize_t size = delivery->record_size != 0 ? delivery->record_size : total;
    unsigned forks = echo_forks;
    PyObject *interrupt = NULL;
    int status = 0;

    if (total == size) {
        batch->begun = size;
        return hand_one(delivery, decode, bytes, size, batch->number++, submitted_ns);
    }
    for (at = 0; status == 0 && at < total && goes_on(delivery, forks); at += size) {
        batch->begun = at + size;
        if (hand_one(delivery, decode, bytes + at, size, batch->number++, submitted_ns) != 0)
            status = echo_keep_interrupt(&interrupt);
    }
    return interrupt == NULL ? status : echo_raise_interrupt(interrupt);
}

static int hand_each(struct delivery *delivery, struct batch *batch, const uint8_t *bytes)
{
    return hand_each_by(delivery, delivery->raw.decode, batch, bytes);
}

/* The same where decoding begins with a copy, as another process may write to the bytes. */
static int hand_each_shared(struct delivery *delivery, struct batch *batch, const uint8_t *bytes)
{
    return hand_each_by(delivery, delivery->raw.decode_shared, batch, bytes);
}

/* Releases the GIL for a large one: nobody else knows of the copy yet, and the record stays as long as its owner. */
static PyObject *copy_of(const struct record *record)
{
    PyObject *copy = bytes_to_fill(record->size);
    PyThreadState *state;

    if (copy == NULL)
        return NULL;
    state = record->size > GIL_COPY_BYTES ? PyEval_SaveThread() : NULL;
    memcpy(PyBytes_AsString(copy), record->bytes, (size_t)record->size);
    if (state != NULL)
        PyEval_RestoreThread(state);
    return copy;
}

/* The event of a single record may keep it. */
static int hand_copy(struct delivery *delivery, struct batch *batch, PyObject *copy)
{
    int64_t submitted_ns = batch->records[batch->current].submitted_ns;
    unsigned long long before = left_to_python(delivery);
    PyObject *event;

    if (delivery->is_closed) /* while the copy was made */
        return 0;
    if (delivery->record_size != 0)
        return hand_each(delivery, batch, (const uint8_t *)PyBytes_AsString(copy));
    batch->begun = PyBytes_Size(copy);
    event = call_one(delivery->decode, copy);
    count_decoded(delivery, before, batch->begun, 1);
    batch->number++;
    return event != NULL ? deliver(delivery, event, batch->begun, 1, batch->number - 1, submitted_ns)
                         : refuse(delivery, batch->number - 1, 1);
}

/* Nobody changes a copy while it is verified and read. */
static int hand_shared(struct delivery *delivery, struct batch *batch)
{
    const struct record *record = &batch->records[batch->current];
    PyObject *copy;
    int status;

    if (delivery->raw.decode_shared != NULL && delivery->record_size != 0)
        return hand_each_shared(delivery, batch, record->bytes);
    copy = copy_of(record);
    if (copy == NULL)
        return -1;
    status = hand_copy(delivery, batch, copy);
    Py_DECREF(copy);
    return status;
}

static int hand_current(struct delivery *delivery, struct batch *batch)
{
    const struct record *record = &batch->records[batch->current];

    batch->begun = 0;
    if (!is_whole(delivery, record))
        return -1;
    return record->is_shared ? hand_shared(delivery, batch) : hand_each(delivery, batch, record->bytes);
}

/* Whether nothing is left behind the first event. */
static inline int is_single(const struct delivery *delivery, const struct record *records, Py_ssize_t count)
{
    return count == 1 && !records->is_shared && (delivery->record_size == 0 || records->size == delivery->record_size);
}

/* `hand`: what the current record goes by; compiled into both functions that do so. */
static inline __attribute__((always_inline)) int hand_records_by(int (*hand)(struct delivery *, struct batch *),
                                                                 struct delivery *delivery,
                                                                 const struct record *records, Py_ssize_t count,
                                                                 uint64_t number)
{
    struct batch batch = {.records = records, .count = count, .number = number};
    unsigned forks = echo_forks;
    PyObject *interrupt = NULL;
    int status = 0;
    Py_ssize_t i;

    begin_batch(delivery, &batch);
    for (i = 0; status == 0 && i < count && goes_on(delivery, forks); i++) {
        batch.current = i;
        if (hand(delivery, &batch) != 0)
            status = echo_keep_interrupt(&interrupt);
    }
    if (!has_forked_since(forks))
        end_batch(&batch);
    return interrupt == NULL ? status : echo_raise_interrupt(interrupt);
}

/* Their own stack frames: a single record does not pay for these. */
static __attribute__((noinline)) int hand_records(struct delivery *delivery, const struct record *records,
                                                  Py_ssize_t count, uint64_t number)
{
    return hand_records_by(hand_current, delivery, records, count, number);
}

static void skip(struct delivery *delivery, Py_ssize_t events, Py_ssize_t bytes)
{
    delivery->skipped += (uint64_t)events;
    delivery->dropped += (uint64_t)events;
    delivery->bytes += (uint64_t)bytes;
}

/* What was not begun counts as what has come, and been dropped. */
static void skip_rest(struct delivery *delivery, const struct batch *batch)
{
    Py_ssize_t i = batch->current, bytes = batch->records[i].size - batch->begun, events = bytes > 0;

    for (i++; i < batch->count; i++, events++)
        bytes += batch->records[i].size;
    if (delivery->record_size != 0)
        events = bytes / delivery->record_size;
    skip(delivery, events, bytes);
    if (events > 0)
        echo_delivery_miss(delivery, batch->number, (uint64_t)events, MISSED_CLOSED);
}

void echo_delivery_close(PyObject *self)
{
    struct delivery *delivery = (struct delivery *)self;
    const struct batch *batch;

    if (delivery->is_closed)
        return;
    delivery->is_closed = 1;
    delivery->is_plain = 0;
    forget_inherited(delivery);
    for (batch = delivery->batches; batch != NULL; batch = batch->next)
        skip_rest(delivery, batch);
    skip(delivery, (Py_ssize_t)delivery->aside.events, (Py_ssize_t)delivery->aside.bytes);
    delivery->aside = (struct amount){0, 0};
}

/* --- put aside --- */

void echo_delivery_put_aside(struct delivery *delivery, struct amount amount)
{
    forget_inherited(delivery);
    delivery->aside = amount_plus(delivery->aside, amount);
    delivery_hold(delivery, (Py_ssize_t)amount.events, (Py_ssize_t)amount.bytes);
}

void echo_delivery_take_aside(struct delivery *delivery, struct amount amount)
{
    if (!delivery->is_closed)
        delivery->aside = amount_minus(delivery->aside, amount);
}

void echo_delivery_skip_aside(struct delivery *delivery, struct amount amount)
{
    if (!delivery->is_closed)
        skip(delivery, (Py_ssize_t)amount.events, (Py_ssize_t)amount.bytes);
    echo_delivery_take_aside(delivery, amount);
    echo_delivery_forget(delivery, (Py_ssize_t)amount.events, (Py_ssize_t)amount.bytes);
}

/* --- arrays --- */

/* How many bytes they are; -1 with WireError. */
static Py_ssize_t measure(const struct delivery *delivery, const struct record *records, Py_ssize_t count)
{
    Py_ssize_t i, total = 0;

    for (i = 0; i < count; i++) {
        if (!is_whole(delivery, &records[i]))
            return -1;
        total += records[i].size;
    }
    return total;
}

static PyObject *join(const struct record *records, Py_ssize_t count, Py_ssize_t total)
{
    PyObject *joined = PyBytes_FromStringAndSize(NULL, total);
    char *target = joined != NULL ? PyBytes_AsString(joined) : NULL;
    Py_ssize_t i;

    for (i = 0; joined != NULL && i < count; i++) {
        memcpy(target, records[i].bytes, (size_t)records[i].size);
        target += records[i].size;
    }
    return joined;
}

/* A view keeps all that was received with its records, and counts as these alone. */
static int may_view(const struct delivery *delivery, const struct record *record, PyObject *owner)
{
    return owner != NULL && record->size >= SPAN_BYTES &&
           (!Py_IS_TYPE(owner, delivery->state->chunk_type) ||
            echo_chunk_may_be_kept(owner, record->size, delivery->is_queue));
}

/* The array of all records; NULL with an exception. Large ones are copied and converted without the GIL. */
static PyObject *array_of(const struct delivery *delivery, const struct record *records, Py_ssize_t count,
                          Py_ssize_t total, PyObject *owner)
{
    PyObject *buffer, *array;

    if (count != 1)
        buffer = join(records, count, total);
    else if (may_view(delivery, records, owner))
        buffer = echo_span_new(delivery->state->span_type, records->bytes, total, owner);
    else
        buffer = copy_of(records);
    array = buffer != NULL ? call_with(delivery->decode, buffer, delivery->dtype) : NULL;
    Py_XDECREF(buffer);
    return array;
}

static __attribute__((noinline)) int hand_array(struct delivery *delivery, const struct record *records,
                                                Py_ssize_t count, PyObject *owner, uint64_t number)
{
    struct batch batch = {.records = records, .count = count, .number = number};
    Py_ssize_t events, total = measure(delivery, records, count);
    unsigned long long before = left_to_python(delivery);
    unsigned forks = echo_forks;
    PyObject *array;

    if (total < 0)
        return -1;
    begin_batch(delivery, &batch);
    array = array_of(delivery, records, count, total, owner);
    if (!has_forked_since(forks))
        end_batch(&batch);
    if (delivery->is_closed && array != NULL) { /* meanwhile; all of it has been counted */
        Py_DECREF(array);
        return 0;
    }
    events = total / delivery->record_size;
    count_decoded(delivery, before, total, events);
    return array != NULL ? deliver(delivery, array, total, events, number, records->submitted_ns)
                         : refuse(delivery, number, (uint64_t)events);
}

/* --- on to an outlet --- */

/* Says what comes next, until nobody wants to know. */
static int tell_next(struct delivery *delivery, uint64_t number)
{
    PyObject *told = delivery->describe != NULL ? call_to_describe(delivery->describe, number, 0) : Py_NewRef(Py_False);

    if (told == Py_True)
        Py_CLEAR(delivery->describe);
    Py_XDECREF(told);
    return told != NULL ? 0 : -1;
}

/* New bytes of it, which nobody else writes to, verified where it varies in size: those who judge it expect so. NULL with
 * an exception. */
static PyObject *checked_copy_of(const struct delivery *delivery, const struct record *record)
{
    PyObject *checked, *copy = copy_of(record);

    if (copy == NULL || delivery->record_size != 0)
        return copy;
    checked = call_one(delivery->decode, copy);
    Py_DECREF(copy);
    if (checked != NULL && !PyBytes_CheckExact(checked)) {
        PyErr_Format(PyExc_TypeError, "Expected bytes, got %R", checked);
        Py_CLEAR(checked);
    }
    return checked;
}

/* `number`: of the first of the events. */
static int relay(struct delivery *delivery, const struct record *record, PyObject *owner, uint64_t number,
                 uint64_t events)
{
    struct record own = {.bytes = owner != NULL ? (const uint8_t *)PyBytes_AsString(owner) : record->bytes,
                         .size = record->size,
                         .submitted_ns = record->submitted_ns};

    delivery->handed += events;
    delivery->bytes += (uint64_t)record->size;
    if (echo_outlet_relay(delivery->target, &own, owner, events, delivery->derived) == 0)
        return 0;
    return refuse(delivery, number, events);
}

/* All events of a record at once. */
static int relay_current(struct delivery *delivery, struct batch *batch)
{
    const struct record *record = &batch->records[batch->current];
    PyObject *owner = NULL;
    uint64_t events;
    int status;

    if (!is_whole(delivery, record) || tell_next(delivery, batch->number) != 0)
        return -1;
    batch->begun = record->size;
    events = delivery->record_size != 0 ? (uint64_t)(record->size / delivery->record_size) : 1;
    batch->number += events;
    if (record->is_shared || delivery->record_size == 0) {
        owner = checked_copy_of(delivery, record);
        if (owner == NULL)
            return refuse(delivery, batch->number - events, events);
    }
    status = relay(delivery, record, owner, batch->number - events, events);
    Py_XDECREF(owner);
    return status;
}

/* First all are judged, then what is derived from them is handed on: there another thread may take this one's place. */
static __attribute__((noinline)) int relay_records(struct delivery *delivery, const struct record *records,
                                                   Py_ssize_t count, uint64_t number)
{
    struct detours *detours = echo_detours_around(delivery);
    struct asides derived = {NULL, NULL};
    PyObject *exception;
    int status;

    delivery->derived = detours != NULL ? &derived : NULL;
    status = hand_records_by(relay_current, delivery, records, count, number);
    delivery->derived = NULL;
    if (derived.oldest == NULL)
        return status;
    exception = status != 0 ? echo_take_exception() : NULL;
    status = echo_detours_hand(detours, delivery, &derived);
    if (exception == NULL)
        return status;
    PyErr_Clear(); /* what came first */
    echo_give_exception(exception);
    return -1;
}

/* --- for others --- */

/* How many of the records it has had. The source sends what it keeps record by record: where one has events of both
 * kinds, it is a liar's. */
static Py_ssize_t count_had(const struct delivery *delivery, const struct record *records, Py_ssize_t count,
                            uint64_t *number)
{
    uint64_t events;
    Py_ssize_t i;

    for (i = 0; i < count && *number < delivery->had; i++) {
        events = delivery->record_size != 0 ? (uint64_t)(records[i].size / delivery->record_size) : 1;
        if (events > delivery->had - *number)
            break;
        *number += events;
    }
    return i;
}

static __attribute__((noinline)) int hand_otherwise(struct delivery *delivery, const struct record *records,
                                                    Py_ssize_t count, PyObject *owner, uint64_t number)
{
    Py_ssize_t had;

    if (delivery->is_closed)
        return 0;
    had = count_had(delivery, records, count, &number);
    if (had == count)
        return 0;
    delivery->had = 0;
    delivery->is_plain = !delivery->is_array && !delivery->is_relay && delivery->taker == NULL;
    if (delivery->is_relay)
        return relay_records(delivery, records + had, count - had, number);
    if (delivery->is_array)
        return hand_array(delivery, records + had, count - had, owner, number);
    if (delivery->taker != NULL)
        return echo_delivery_take(delivery, records + had, count - had, number);
    return hand_records(delivery, records + had, count - had, number);
}

int echo_delivery_hand(PyObject *self, const struct record *records, Py_ssize_t count, PyObject *owner, uint64_t number)
{
    struct delivery *delivery = (struct delivery *)self;

    if (!delivery->is_plain)
        return hand_otherwise(delivery, records, count, owner, number);
    if (is_single(delivery, records, count))
        return hand_one(delivery, delivery->raw.decode, records->bytes, records->size, number, records->submitted_ns);
    return hand_records(delivery, records, count, number);
}

int echo_delivery_hand_event(PyObject *self, PyObject *event, const struct record *record, uint64_t number)
{
    struct delivery *delivery = (struct delivery *)self;

    if (delivery->is_closed)
        return 0;
    delivery->handed++;
    delivery->bytes += (uint64_t)record->size;
    return deliver(delivery, Py_NewRef(event), record->size, 1, number, record->submitted_ns);
}
