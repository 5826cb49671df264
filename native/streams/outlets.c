/* The type Outlet: where the events of one source leave. Here: one event, which is encoded where somebody takes its
 * record. submissions.c has the rules of who gets it in which order.
 */
#include "streams/branches.h"
#include "streams/calls.h"
#include "streams/submissions.h"

#include "links/errors.h"
#include "links/pool.h"

#include "core/clock.h"
#include "core/forks.h"
#include "core/outbox/staging.h"

#include <errno.h>

/* Records up to this size are encoded on the stack. */
#define STACK_BYTES 1024

/* Larger ones, up to this size, in memory that the outlet keeps for the next: new memory is page faults, which take
 * longer than the encoding. */
#define ROOM_BYTES (1024 * 1024)

/* So long a submit waits at most for a sink that comes up with the source. */
#define HELD_NS 100000000

/* --- room for records --- */

enum owner { OF_STACK = 0, OF_OUTLET, OF_POOL };

/* Where one submission encodes its record: nobody else does so there until it is given back. */
struct room {
    uint8_t *bytes;
    Py_ssize_t size;
    enum owner owner;
    PyObject *block; /* owned; OF_POOL: that it is */
};

/* Whether what is encoded goes to other processes alone, one of which reads large records where they lie. What a sink
 * here reads, no other process may write to. */
static int is_lent(const struct outlet *outlet)
{
    return outlet->is_large && outlet->pool != NULL && outlet->converting_count == 0 && outlet->history == NULL &&
           echo_submission_lends(outlet->outgoing);
}

static Py_ssize_t room_size(const struct outlet *outlet)
{
    return outlet->record_size != 0 ? outlet->record_size : outlet->room_size;
}

/* For records that the stack has no room for, as for one before: in the outlet's memory. */
static struct room take_own_room(struct outlet *outlet, struct room stack)
{
    struct room room = {.size = room_size(outlet), .owner = OF_OUTLET, .bytes = outlet->room};

    outlet->room = NULL;
    if (room.bytes == NULL && room.size <= ROOM_BYTES)
        room.bytes = PyMem_Malloc((size_t)room.size);
    return room.bytes != NULL ? room : stack;
}

/* Likewise in the memory that they are lent in, so that they are copied no more; or else in the outlet's own. */
static __attribute__((noinline)) struct room take_large_room(struct outlet *outlet, struct room stack)
{
    struct room room = {.size = room_size(outlet), .owner = OF_POOL};

    if (is_lent(outlet))
        room.block = echo_pool_room(outlet->pool, room.size, &room.bytes);
    if (room.block == NULL)
        room = take_own_room(outlet, stack);
    if (room.owner != OF_STACK)
        submission_prepare();
    return room;
}

static struct room take_room(struct outlet *outlet, uint8_t *stack)
{
    struct room room = {.bytes = stack, .size = STACK_BYTES};

    return outlet->room_size == 0 ? room : take_large_room(outlet, room);
}

/* Whether the record lies in bytes of its own, which nobody else has, as the room was too small for it. */
static int is_too_small(const struct room *room, const struct submission *submission)
{
    return submission->owner != NULL && Py_REFCNT(submission->owner) == 1 && submission->record.size > room->size;
}

/* The outlet keeps its memory, unless that was outgrown meanwhile, or a submission that was made within this one has
 * given back some. */
static __attribute__((noinline)) void give_large_room_back(struct outlet *outlet, struct room room,
                                                           const struct submission *submission)
{
    submission_prepared_is_put();
    outlet->is_large = submission->record.size >= LOAN_BYTES;
    Py_XDECREF(room.block);
    if (room.owner == OF_OUTLET && room.size == room_size(outlet) && outlet->room == NULL && !outlet->is_closed)
        outlet->room = room.bytes;
    else if (room.owner == OF_OUTLET)
        PyMem_Free(room.bytes);
}

/* The next record gets a larger room, in which there is more than this one needs. */
static void outgrow(struct outlet *outlet, Py_ssize_t size)
{
    echo_outlet_free_room(outlet);
    outlet->room_size = size + size / 4;
    outlet->is_large = size >= LOAN_BYTES;
}

static void give_room_back(struct outlet *outlet, struct room room, const struct submission *submission)
{
    if (outlet->raw.encode != NULL && is_too_small(&room, submission))
        outgrow(outlet, submission->record.size);
    if (room.owner != OF_STACK)
        give_large_room_back(outlet, room, submission);
}

/* --- submit --- */

/* What is of another class is for the encoder to refuse, whose words they are. */
static void refuse(const struct outlet *outlet, PyObject *event)
{
    PyObject *record = call_one(outlet->encode, event);

    if (record != NULL)
        echo_raise("EncodeTypeError", "Expected %R, got %R", outlet->event_class, event);
    Py_XDECREF(record);
}

/* The event as one of the class, which sinks by reference rely on: a new reference. NULL with an exception. May run any
 * code. */
static PyObject *adopt(const struct outlet *outlet, PyObject *event)
{
    PyObject *own = outlet->adopt != NULL ? call_one(outlet->adopt, event) : Py_NewRef(Py_None);

    if (own == NULL || PyType_IsSubtype(Py_TYPE(own), outlet->event_class))
        return own;
    Py_DECREF(own);
    refuse(outlet, event);
    return NULL;
}

/* The class may have been declared again. */
static __attribute__((cold)) PyObject *submit_foreign(struct outlet *outlet, PyObject *event)
{
    PyObject *own = adopt(outlet, event);
    PyObject *result = own != NULL ? echo_outlet_submit((PyObject *)outlet, own) : NULL;

    Py_XDECREF(own);
    return result;
}

static int is_taken(const struct outlet *outlet, PyObject *event)
{
    return Py_IS_TYPE(event, outlet->event_class) || outlet->event_class == NULL ||
           PyType_IsSubtype(Py_TYPE(event), outlet->event_class);
}

/* Into room, or into bytes that submission->owner then refers to. */
static int encode(const struct outlet *outlet, PyObject *event, struct room room, struct submission *submission)
{
    struct record *record = &submission->record;
    PyObject **owner = &submission->owner;

    record->bytes = room.bytes;
    if (outlet->raw.encode == NULL)
        *owner = call_one(outlet->encode, event);
    else if (outlet->raw.encode(outlet->raw.self, event, room.bytes, room.size, owner, &record->size) != 0)
        return -1;
    else if (*owner == NULL)
        return 0;
    if (*owner == NULL)
        return -1;
    if (!PyBytes_Check(*owner)) {
        PyErr_Format(PyExc_TypeError, "Expected bytes from the encoder, got %R", *owner);
        return -1;
    }
    record->bytes = (const uint8_t *)PyBytes_AsString(*owner);
    record->size = PyBytes_Size(*owner);
    return 0;
}

int echo_outlet_encode(const struct outlet *outlet, PyObject *event, uint8_t *room, Py_ssize_t size,
                       struct submission *submission)
{
    return encode(outlet, event, (struct room){.bytes = room, .size = size}, submission);
}

static int keep(const struct outlet *outlet, const struct record *record)
{
    return echo_history_add(outlet->history, record, record->size, outlet->sequence);
}

static int hand_event(const struct sinks *sinks, PyObject *event, struct submission *submission)
{
    int status = hand_to_all(sinks->direct, sinks->direct_count, event, submission);

    return status == 0 ? hand_to_all(sinks->converting, sinks->converting_count, NULL, submission) : status;
}

int echo_outlet_await_release(struct outlet *outlet)
{
    int64_t left, deadline = deadline_after(HELD_NS);
    int status = 0;

    if (outlet->holder == PyThread_get_thread_ident()) /* a handler submits */
        return 0;
    while (status == 0 && atomic_load(&outlet->is_held) && (left = deadline - monotonic_ns()) > 0) {
        Py_BEGIN_ALLOW_THREADS
        status = echo_futex_wait(&outlet->is_held, 1, left);
        Py_END_ALLOW_THREADS
        status = status == -EINTR ? PyErr_CheckSignals() : 0;
    }
    if (status == 0)
        atomic_store(&outlet->is_held, 0); /* nobody else waits as long in vain */
    return status;
}

/* Its own stack frame: events that are only handed on do not pay for the room. */
static __attribute__((noinline)) int submit_record(struct outlet *outlet, PyObject *event,
                                                   struct submission *submission)
{
    _Alignas(8) uint8_t stack[STACK_BYTES];
    struct room room = take_room(outlet, stack);
    struct sinks sinks;
    int status = outlet->history != NULL && atomic_load(&outlet->is_held) ? echo_outlet_await_release(outlet) : 0;

    if (status == 0)
        status = encode(outlet, event, room, submission);
    if (status == 0 && !is_outlet_open(outlet)) /* encoding may have run any code */
        status = -1;
    if (status == 0 && outlet->history != NULL)
        status = keep(outlet, &submission->record);
    if (status == 0) {
        submission->number = outlet->sequence++;
        outlet->bytes += (uint64_t)submission->record.size;
        sinks = sinks_of(outlet);
        status = echo_submission_send(outlet, submission);
        if (status == 0 && sinks.direct != NULL)
            status = hand_event(&sinks, event, submission);
        let_sinks_go(&sinks);
    }
    give_room_back(outlet, room, submission);
    return status;
}

/* The size that the record would have: 0, or -1 with an exception. Runs any code, which may close the outlet. */
static int measure_record(const struct outlet *outlet, PyObject *event, struct record *record)
{
    if (outlet->raw.measure != NULL)
        record->size = outlet->raw.measure(outlet->raw.self, event);
    else
        record->size = size_of_record(call_one(outlet->encode, event));
    return record->size >= 0 && is_outlet_open(outlet) ? 0 : -1;
}

/* How large an event of varying size is has to be known only where it will be queued. */
static int submit_reference(struct outlet *outlet, PyObject *event, struct submission *submission)
{
    PyObject *direct;
    int status;

    submission->record.size = outlet->record_size;
    if (outlet->measures && measure_record(outlet, event, &submission->record) != 0)
        return -1;
    submission->number = outlet->sequence++;
    direct = Py_NewRef(outlet->direct);
    status = hand_to_all(direct, outlet->direct_count, event, submission);
    Py_DECREF(direct);
    return status;
}

/* The event, its record where somebody takes that, and what is derived from it, whose sinks here may read where the record
 * lies: it is not lent. "hot", as it is called by what is cold alone, so that the compiler would save bytes here, not
 * time. */
static __attribute__((hot, noinline)) int submit_with_branches(struct outlet *outlet, PyObject *event,
                                                               const struct glance *glance,
                                                               struct submission *submission)
{
    _Alignas(8) uint8_t stack[STACK_BYTES];
    struct room room = {.bytes = stack, .size = sizeof stack};
    struct subject subject = {.event = event, .what = submission, .encoder = outlet, .glance = *glance};
    struct passes passes = {NULL, NULL};
    struct sinks sinks = {.direct = NULL};
    int status = outlet->history != NULL && atomic_load(&outlet->is_held) ? echo_outlet_await_release(outlet) : 0;

    if (outlet->room_size != 0)
        room = take_own_room(outlet, room);
    subject.room = room.bytes;
    subject.room_size = room.size;
    if (status == 0)
        status = echo_branches_send(outlet, &subject, &sinks, &passes);
    if (status == 0 && sinks.direct != NULL)
        status = hand_event(&sinks, event, submission);
    let_sinks_go(&sinks);
    if (passes.first != NULL)
        status = echo_passes_hand(&passes, submission, status);
    give_room_back(outlet, room, submission);
    return status;
}

/* An outlet that is closed, or that something is derived from, for which there may be nobody. */
static __attribute__((cold)) PyObject *submit_the_long_way(struct outlet *outlet, PyObject *event)
{
    struct submission submission = {.record = {.submitted_ns = time_of_submission(outlet)}, .events = 1};
    struct glance glance = {0, 0};
    int status;

    if (!is_outlet_open(outlet))
        return NULL;
    if (!is_taken(outlet, event))
        return submit_foreign(outlet, event);
    if (echo_branches_reject(outlet, event, &glance))
        Py_RETURN_NONE;
    if (enter_submission() != 0)
        return NULL;
    submission.forks = echo_forks;
    status = outlet->takes_records && !echo_branches_are_wanted(outlet)
                 ? submit_record(outlet, event, &submission)
                 : submit_with_branches(outlet, event, &glance, &submission);
    leave_submission();
    return conclude(&submission, status);
}

PyObject *echo_outlet_submit(PyObject *self, PyObject *event)
{
    struct outlet *outlet = (struct outlet *)self;
    struct submission submission;
    int status;

    if (outlet->takes_long_way)
        return submit_the_long_way(outlet, event);
    if (!is_taken(outlet, event))
        return submit_foreign(outlet, event);
    if (enter_submission() != 0)
        return NULL;
    submission =
        (struct submission){.record = {.submitted_ns = time_of_submission(outlet)}, .events = 1, .forks = echo_forks};
    status = outlet->takes_records ? submit_record(outlet, event, &submission)
                                   : submit_reference(outlet, event, &submission);
    leave_submission();
    return conclude(&submission, status);
}
