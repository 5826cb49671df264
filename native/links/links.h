/* What the C files of echo_core._c.links know of each other. links/module.c says what the module is.
 *
 *   sender                                                         receiver
 *   Outlet --(encode once)--> OutgoingStream --> Link --> Wire ~~~ Wire --> Link --> IncomingStream --> Delivery --> handler
 *      \--> Delivery (in process)        outbox                    frames               \--> Queue --> thread
 *
 * Two locks: the GIL guards every Python object's state; an outbox has a mutex of its own, which is held for
 * copies of a few kilobytes and never while Python code runs, a system call waits, or the GIL is taken.
 * "GIL" below: the caller holds it. "No GIL": the caller has released it, or never had it.
 */
#ifndef ECHO_LINKS_H
#define ECHO_LINKS_H

#include "events/raw_codec.h"

#include <sys/types.h>
#include <sys/uio.h>

/* What follows is the module's own: calls within it take no detour through the dynamic linker. */
#pragma GCC visibility push(hidden)

/* --- frames: core/frames.c; no Python, no lock, no system call ---
 *
 *   0        4        8                            8 + size
 *   | size   | stream | payload                    | zeros up to a multiple of 8 |
 *
 * Little-endian. `stream` from FIRST_STREAM on: records of one source, in its layout; below: a kind of control
 * frame. A frame begins at a multiple of 8, so a payload does too.
 */
#define FRAME_HEADER_BYTES 8
#define FRAME_ALIGNMENT 8
#define FIRST_STREAM 64

/* The control frames that C code knows; transports/frames.py has them all. */
enum kind {
    KIND_LOAN = 1, /* {uint32 stream, uint32 block, uint64 size}: records in the sender's pool */
    KIND_GAP = 2,  /* {uint32 stream, uint32 0, uint64 events}: so many events of the stream were dropped here */
};
#define LOAN_PAYLOAD_BYTES 16

struct frame {
    uint32_t size;          /* of the payload */
    uint32_t stream;
    const uint8_t *payload; /* borrowed from the bytes that were scanned */
};

/* The first frame of `available` bytes. > 0: its bytes in all, padding included. 0: more bytes are needed, at
 * least *need in all. -1: no frame begins so (payload above `limit`, stream 0). */
int64_t echo_frame_next(const uint8_t *bytes, size_t available, uint32_t limit, struct frame *frame, size_t *need);

static inline size_t frame_bytes(size_t payload)
{
    return FRAME_HEADER_BYTES + ((payload + FRAME_ALIGNMENT - 1) & ~(size_t)(FRAME_ALIGNMENT - 1));
}

/* --- wires: bytes from process to process, in order; core/socket.c, core/ring.c; no Python ---
 *
 * One thread at a time writes, one at a time reads; shut, nudge and rouse come from any. Times are nanoseconds;
 * a negative one is for ever.
 */
struct wire;

struct wire_operations {
    const char *name;
    /* 1: a write now would cost no system call, so gathering gains nothing. NULL: it always costs one. Any
     * thread. */
    int (*is_cheap)(struct wire *wire);
    /* Takes as many bytes as there is room for; 0: none now. -errno when broken (-EPIPE: shut or at its end).
     * Does not block. */
    ssize_t (*write)(struct wire *wire, const uint8_t *bytes, size_t size);
    /* As write, of several pieces one after the other. NULL: each piece is written by itself. */
    ssize_t (*write_parts)(struct wire *wire, const struct iovec *parts, int count);
    /* Waits until write would take something: 1; 0: time is up; -EINTR: a signal came; -errno. Blocks; no GIL. */
    int (*await_room)(struct wire *wire, int64_t timeout_ns);
    /* Waits for bytes, and moves at most `size`: how many. 0: at its end. -EAGAIN: time is up. -EINTR: a
     * signal came. Else -errno. Blocks unless timeout_ns is 0; no GIL. */
    ssize_t (*read)(struct wire *wire, uint8_t *bytes, size_t size, int64_t timeout_ns);
    /* Waits until read would return at once: 1; 0: time is up or nudged; -errno. Blocks; no GIL. */
    int (*await_bytes)(struct wire *wire, int64_t timeout_ns);
    /* Ends an await_bytes that is under way, or the next one. Does not block. */
    void (*nudge)(struct wire *wire);
    /* Has all that wait look again whether they still must. To be called from time to time, for the peer may
     * have forgotten somebody. Does not block. NULL: a peer can do no such thing. */
    void (*rouse)(struct wire *wire);
    /* From now on both directions are at their end; whoever waits returns. The other side will notice. May be
     * called twice. Does not block. */
    void (*shut)(struct wire *wire);
    /* Like free, but in a forked child: the other side must not notice. */
    void (*abandon)(struct wire *wire);
    /* After shut, when no thread is in any of the above. */
    void (*free)(struct wire *wire);
};

struct wire {
    const struct wire_operations *operations;
};

/* The Python object that hands a wire to a Link, which takes it over (then `wire` is NULL). Its type, Wire, is
 * the base of those that make one: their tp_new fills all of it, and all else is inherited. GIL guards it. */
struct wire_object {
    PyObject ob_base;  /* spelled out: PyObject_HEAD hides it */
    struct wire *wire; /* owned; NULL: taken over, or closed */
    const char *name;  /* operations->name, which outlives the wire */
    unsigned forks;    /* echo_forks when it was made */
    unsigned users;    /* calls of its methods that are under way; 0 in a new one */
    int is_closed;     /* the last of them frees the wire; 0 in a new one */
};

/* The wire, which is the caller's from now on; NULL with ClosedError. GIL. */
struct wire *echo_wire_take(PyObject *object);

/* How a full backlog is treated: a stream's, and a queue's. Python has them as BLOCK, DROP_OLDEST ... */
enum policy { POLICY_BLOCK, POLICY_DROP_OLDEST, POLICY_DROP_NEWEST, POLICY_ERROR };

/* --- tallies: core/outgoing.c; what one source has dropped on its ways, also on those that are gone --- */

/* Who has dropped an event may be the last that knows of the way: a thread that was about to put it there, or that
 * waited for room, when the link was lost. malloc'd; no lock, no Python. */
struct tally {
    _Atomic uint64_t dropped;
    _Atomic unsigned users; /* the outlet that made it, and every outgoing that may yet drop something */
};

/* With one user; NULL: no memory. */
struct tally *echo_tally_new(void);

/* One user less; the last one frees it. NULL is none. */
void echo_tally_release(struct tally *tally);

/* --- streams: streams/outgoing.c; one source's way over one link --- */

/* What this thread puts from now on is one submission, however many links it leaves by: whether to write at once
 * or to gather is judged once for it. */
void echo_submission_begin(void);

/* One record, or for records of fixed size several: a frame for the stream's stream. GIL; releases it where
 * the policy is to block. 0: sent, queued, or dropped and counted. -1 with an exception: BacklogError,
 * ClosedError, KeyboardInterrupt ... Never an exception because the link is lost: the record is counted as
 * dropped, and the departure is told elsewhere. */
int echo_outgoing_stream_put(PyObject *stream, const uint8_t *payload, Py_ssize_t size, uint64_t events);

/* How many bytes the peer takes in one frame; what is put beyond that is refused, and counted as dropped. GIL. */
Py_ssize_t echo_outgoing_stream_max_payload(PyObject *stream);

/* Whether the link shares a pool. GIL. */
int echo_outgoing_stream_lends(PyObject *stream);

/* The same for records in a block of the node's pool, however large they are together, as a KIND_LOAN frame. 1:
 * nothing was done, as the link shares no pool, one record is larger than the peer takes, or echo_block_lend refuses;
 * put them. */
int echo_outgoing_stream_lend(PyObject *stream, PyObject *block, Py_ssize_t size, uint64_t events);

/* Events that are not put, as the submission has ended before: counted as dropped, so that the receiver's count stays
 * right. An exception may be set. GIL. */
void echo_outgoing_stream_skip(PyObject *stream, uint64_t events);

/* --- links: link.c --- */

enum led {
    LED_READ,     /* something was read and delivered */
    LED_TIMEOUT,  /* nothing came in time, or for LEAD_SLICE_NS: look whether to go on waiting */
    LED_OCCUPIED, /* another thread reads now; the queue will be woken */
    LED_ENDED,    /* nothing will ever come */
    LED_RAISED,   /* an exception is set */
};

/* A leader looks up so often: a read that is under way does not see that its queue was closed. */
#define LEAD_SLICE_NS 50000000

/* Whether this thread is handing over what it has read from a link. */
int echo_is_dispatching(void);

/* Whether it is from that one, in this handler or in one that this one runs in: nothing else comes by it meanwhile. */
int echo_is_dispatching_from(const PyObject *link);

/* The calling thread reads the link once, delivers what came, and so brings events to its queue without a
 * change of threads. Control frames for Python are left to run. GIL; releases it while it waits. */
enum led echo_link_lead(PyObject *link, int64_t timeout_ns);

/* --- streams and deliveries: streams/incoming.c, streams/deliveries.c, streams/spans.c --- */

struct record {
    const uint8_t *bytes; /* at a multiple of 8; valid during the call, or as long as `owner` below */
    Py_ssize_t size;      /* several records of fixed size may stand side by side in it */
    int is_shared;        /* 1: another process can write to the bytes, so nothing is verified in place */
};

/* How much of a stream goes to its sinks before one of their queues would make the thread wait. */
struct space {
    Py_ssize_t frames; /* of records that vary in size: one in each */
    Py_ssize_t bytes;  /* of records; below 0: a queue holds more than it should */
};

/* What a link needs of the receiving end of a stream; the Python object IncomingStream. GIL guards it. */
struct incoming_stream {
    PyObject ob_base;        /* spelled out: PyObject_HEAD hides it */
    PyObject *deliveries;    /* owned tuple of Delivery; replaced as a whole */
    Py_ssize_t record_size;  /* of one record; 0: records vary, and a frame holds one */
    uint64_t sequence;       /* events and gaps since the stream began */
    uint64_t events, bytes;  /* received */
    uint64_t lost;           /* in gaps */
};

/* Counts the records and hands them to each delivery. GIL; runs any code. As echo_delivery_hand. */
int echo_incoming_hand(struct incoming_stream *incoming, const struct record *records, Py_ssize_t count, PyObject *owner, int is_led);

/* Closes its deliveries. GIL; runs no Python code. */
void echo_incoming_close(const struct incoming_stream *incoming);

/* Leaves no more room than the sinks' queues have; `size`: of the frame that is next. GIL; runs no Python code. */
void echo_incoming_narrow(const struct incoming_stream *incoming, Py_ssize_t size, struct space *space);

/* streams/incoming.c: an attribute that is a tuple of `type`, and is replaced as a whole. GIL; any code may run
 * once it has been. -1 with TypeError. */
int echo_replace_tuple(PyObject **place, PyObject *tuple, PyTypeObject *type);

/* Hands records of one stream, in their order, to one sink. `owner`: keeps the bytes alive and unchanged for
 * as long as it is referred to; NULL: there is no such thing, copy what is kept. GIL; runs any code. 0, or -1
 * with an exception: WireError for a record that breaks the rules, or what is no Exception (KeyboardInterrupt):
 * the first one after all records were handed over, as nobody else would do so; the second at once. What else a
 * handler raises is reported, counted, and goes no further. A child that a handler has forked gets none of the
 * other records: they are the parent's. Nor does anybody when the delivery is closed. is_led: 1: this thread
 * leads, and has seen that there is room for them. */
int echo_delivery_hand(PyObject *delivery, const struct record *records, Py_ssize_t count, PyObject *owner,
                       int is_led);

/* Hands on nothing more, whatever is under way: what is left of it is counted as dropped. GIL; runs no Python code. */
void echo_delivery_close(PyObject *delivery);

/* As echo_incoming_narrow. */
void echo_delivery_narrow(PyObject *delivery, Py_ssize_t size, struct space *space);

/* An event of the sink's own type, by reference; `size`: of its record, 0 where that is not known, which it has to be
 * for one that is queued. As above. */
int echo_delivery_hand_event(PyObject *delivery, PyObject *event, Py_ssize_t size);

/* Whether its events go to a Queue. */
int echo_delivery_is_queued(PyObject *delivery);

/* Whether what it hands on now was seen to have room. */
int echo_delivery_is_led(PyObject *delivery);

/* So many of its events have found no room. */
void echo_delivery_drop(PyObject *delivery, Py_ssize_t events);

/* The Python object that makes a buffer of foreign bytes, read-only, and holds their owner. GIL. */
PyObject *echo_span_new(PyTypeObject *span_type, const uint8_t *bytes, Py_ssize_t size, PyObject *owner);

/* chunks.c: whether `size` bytes of received ones are enough for a view that keeps the whole chunk. */
int echo_chunk_may_be_kept(PyObject *chunk, Py_ssize_t size, int is_queued);

/* --- queues: streams/queues.c --- */

/* One event, or an array of `events`, whose records take `size` bytes; both or neither is queued. Takes the reference
 * over. What there is no room for is treated by the queue's policy; under POLICY_BLOCK that releases the GIL. 0:
 * queued, or dropped. -1 with an exception, and dropped: what is no Exception, or MemoryError. `from`: the Delivery
 * that brings it, which counts its events where they are dropped, now or later, besides the queue itself; NULL: nobody
 * does. */
int echo_queue_put(PyObject *queue, PyObject *event, Py_ssize_t size, Py_ssize_t events, PyObject *from);

/* Leaves no more room than there is before a put would wait. record_size: 0: records vary, and come one by one.
 * `alone`: the size of the next item, which an empty queue takes however large it is. GIL; runs no Python code. */
void echo_queue_narrow(PyObject *queue, Py_ssize_t record_size, Py_ssize_t alone, struct space *space);

/* Whoever waits in get looks again. GIL. */
void echo_queue_wake(PyObject *queue);

/* --- pools: pools.c, blocks.c, mappings.c; blocks of memory that other processes read in place --- */

/* Where `bytes` lie in a loaned block of the pool: that block. Else a free block that they are copied into.
 * A new reference to an object that keeps the block from reuse; NULL without an exception: none is free, or
 * `size` is too small for it to be worth while. GIL; released during large copies. */
PyObject *echo_pool_place(PyObject *pool, const uint8_t *bytes, Py_ssize_t size);

/* Marks `holder` (of the link, by Pool.attach) in the block, and writes what a KIND_LOAN frame says: 16 bytes.
 * 0: it is not lent, since the holder has it already or has half of the pool; send a copy. GIL. */
int echo_block_lend(PyObject *block, unsigned holder, uint32_t stream, Py_ssize_t size, uint8_t *payload);

/* Undoes that for a frame which is dropped before it is sent; never after Pool.detach. Any thread; no lock, no
 * Python. */
void echo_pool_take_back(PyObject *pool, unsigned holder, const uint8_t *payload);

/* What a KIND_LOAN frame refers to, in the memory that the peer shares. Checks everything; an object that owns
 * the bytes and gives them back when the last reference goes, in *owner. -1 with WireError. GIL. */
int echo_pool_open(PyObject *mapping, const uint8_t *payload, uint32_t size, struct record *record, uint32_t *stream,
                   PyObject **owner);

/* --- links/module.c --- */

/* How often this process was forked from another. What was made at another count belongs to the parent: none
 * of its locks may be taken, as a thread that is gone may hold them. */
extern unsigned echo_forks;

/* Sets an exception of echo_core.errors by its name, with a message as of PyUnicode_FromFormat. GIL. */
void echo_raise(const char *error, const char *format, ...);

/* The exception that is set, as an object of the caller's, which it is no more. GIL. */
PyObject *echo_take_exception(void);

/* Sets it, and takes the reference over. GIL. */
void echo_give_exception(PyObject *exception);

/* What is no Exception (KeyboardInterrupt) is the thread's, and no reason to leave out what is still to be done:
 * one is kept until that is done. -1: an Exception or the second interrupt is set, and stays so. GIL. */
int echo_keep_interrupt(PyObject **kept);

/* After the last of it: sets what was kept, and takes the reference over. An exception that is set goes before it,
 * and has it as its context. -1. GIL. */
int echo_raise_interrupt(PyObject *kept);

/* Each type's own file. Read once per module, and never changed; not const only because Python's API wants
 * it so. */
extern PyType_Spec echo_link_wire_spec;                             /* wires.c */
extern PyType_Spec echo_link_socket_wire_spec;                      /* core/socket.c */
extern PyType_Spec echo_link_ring_wire_spec;                        /* ring_wires.c */
extern PyType_Spec echo_link_link_spec;                             /* link_type.c */
extern PyType_Spec echo_link_chunk_spec;                            /* chunks.c */
extern PyType_Spec echo_link_outgoing_spec;                            /* streams/outgoing_type.c */
extern PyType_Spec echo_link_incoming_spec;                            /* streams/incoming.c */
extern PyType_Spec echo_link_delivery_spec;                         /* streams/delivery_type.c */
extern PyType_Spec echo_link_span_spec;                             /* streams/spans.c */
extern PyType_Spec echo_link_queue_spec;                            /* streams/queue_type.c */
extern PyType_Spec echo_link_outlet_spec;                           /* streams/outlet_type.c */
extern PyType_Spec echo_link_pool_spec;                             /* pools.c */
extern PyType_Spec echo_link_block_spec;                            /* blocks.c */
extern PyType_Spec echo_link_mapping_spec, echo_link_loan_spec;     /* mappings.c */

/* ring_memory of the module; ring_wires.c. GIL. */
PyObject *echo_ring_memory(PyObject *module, PyObject *ring_bytes);

/* Per module; freed with it. Borrowed by everything else. */
struct module_state {
    PyTypeObject *wire_type, *socket_wire_type, *ring_wire_type, *link_type, *outgoing_type, *incoming_type,
        *delivery_type, *span_type, *chunk_type, *queue_type, *outlet_type, *pool_type, *block_type,
        *mapping_type, *loan_type;
    PyObject *dtype_word; /* "dtype", interned */
};

/* Of one of the module's types, or of a class of Python's that has one as its base. GIL. */
static inline const struct module_state *echo_state_of(PyTypeObject *type)
{
    const struct module_state *state = PyType_GetModuleState(type);

    while (state == NULL) { /* TypeError: the class was made by Python code */
        PyErr_Clear();
        type = (PyTypeObject *)PyType_GetSlot(type, Py_tp_base);
        state = PyType_GetModuleState(type);
    }
    return state;
}

#pragma GCC visibility pop

#endif
