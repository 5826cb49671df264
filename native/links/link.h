/* The Python object Link, and its receiving half. */
#pragma once

#include "links/chunks.h"
#include "links/incoming.h"
#include "links/standby.h"
#include "types.h"

#include "core/forks.h"
#include "core/outbox/outbox.h"

/* --- the reader's role: leading.c --- */

/* One thread reads. `run` does unless a leader has taken the role from it. */
enum role {
    ROLE_FREE,    /* nobody reads; run may be waiting for bytes */
    ROLE_READING, /* a thread reads or hands out */
    ROLE_LED,     /* a leader keeps the role, between two reads */
    ROLE_LEADING, /* a leader reads or hands out */
};

/* Who reads a link that threads stand by for: resting.c. */
enum rest {
    REST_NEVER,   /* none does: its owner calls run */
    REST_RESTING, /* nobody reads it until its bell is rung */
    REST_CALLED,  /* a thread that stood by is about to read it */
    REST_READ,    /* a thread reads it */
    REST_OVER,    /* it was read to its end */
};

/* So many records are handed over at a time. */
#define MAX_RUN 64

/* How often something happens. */
struct frequency {
    int times; /* since then */
    int64_t since_ns;
};

struct followers {
    PyObject **queues; /* owned references, in owned memory */
    Py_ssize_t count;
    _Atomic int are_waiting; /* 1: one was told LED_OCCUPIED, and must be woken */
};

/* The Python object. The GIL guards all that has no other guard named. */
struct link {
    PyObject ob_base;
    struct wire *wire;             /* owned; NULL: abandoned. Never changes else */
    struct outbox outbox;          /* its own lock */
    unsigned forks;                /* echo_forks when it was made. Never changes */
    uint32_t max_payload;          /* of a frame that is received. Never changes */
    PyObject *control;             /* owned callable; NULL: cleared */
    PyObject *reader;              /* owned callable, which reads it after a rest; NULL: none was given, or cleared */
    PyObject *pool, *mapping;      /* owned; NULL: none */
    struct intake intake;          /* of who has the role */
    PyObject **incoming;           /* owned memory; by stream - FIRST_STREAM: owned IncomingStream, NULL: never bound,
                                  None: unbound, and what still comes is skipped */
    size_t incoming_count;         /* room in it */
    _Atomic int role;              /* enum role; changed by compare and swap, also without the GIL */
    _Atomic uint32_t parking;      /* futex of the run that has no role */
    _Atomic uint64_t led;          /* how often a leader has read */
    unsigned long runner;          /* the thread that reads in run, or has taken that over; 0: none */
    struct handing *handing;       /* on the stack of the runner, while that is in run; NULL: there is none */
    struct detours detours;        /* of slow sinks */
    struct watched watched;        /* by those that stand by */
    _Atomic int rest;              /* enum rest; written with the GIL, as the next two */
    _Atomic uint64_t roused_reads; /* `reads` when it was last roused */
    _Atomic int is_quiet;          /* 1: nothing had been read since the time before */
    int is_waited_for;             /* 1: it rested then, and somebody had to come and read it. GIL, as the next */
    unsigned long long overlooked; /* how often nobody had come by the next time */
    _Atomic int is_brief;          /* 1: its reader leaves when nothing more is there. The reader's, as the next two */
    struct frequency visits;       /* of readers */
    struct frequency grants;       /* of credit that came while it rested. Of who has the role */
    _Atomic int is_granted_often;  /* 1: so often that its next reader is to stay */
    _Atomic int is_awaiting;       /* 1: it may be in the wire's await_bytes */
    _Atomic int is_unfinished;     /* 1: complete frames are left in the intake. The reader sets it */
    struct followers followers;
    PyObject *failure; /* owned exception that ended it, for run to raise; NULL: none */
    int is_ended;      /* 1: nothing more is handed out; a run of records that is under way ends where it was shut */
    _Atomic uint64_t reads, received_bytes, received_frames; /* the reader counts, also without the GIL */
};

static inline struct link *link_of(PyObject *object)
{
    return (struct link *)(void *)object;
}

static inline int change_role(struct link *link, int from, int to)
{
    return atomic_compare_exchange_strong(&link->role, &from, to);
}

/* --- link.c --- */

/* 0; -1 with ClosedError: it belongs to the parent process, or was abandoned. */
int echo_link_check(const struct link *link);

/* LinkError or ClosedError for the end of the outbox. -1. Not locked. GIL. */
int echo_link_raise_end(struct link *link);

/* Nothing more is sent. GIL. */
void echo_link_end_outbox(struct link *link, enum end end);

/* No more is received or sent; both sides' threads notice. GIL; may run any code. */
void echo_link_end(struct link *link, enum end end);

/* What is bound to that stream, if anything is, has no link to grant by from here on: unless it is bound to another
 * one since. `index`: from FIRST_STREAM on, below incoming_count. */
void echo_link_part(const struct link *link, size_t index);

struct outgoing;

/* send(kind, payload): a control frame of the link, or of one of its streams; NULL: the link's own. GIL. */
PyObject *echo_link_send(struct link *link, struct outgoing *outgoing, PyObject *args);

/* drain(timeout_ns): of the link, and where it is given of a stream that waits for credit. GIL; releases it. */
PyObject *echo_link_drain(struct link *link, const struct outgoing *outgoing, PyObject *timeout_ns);

/* For the type. */
extern PyMethodDef echo_link_methods[];

/* --- reading.c --- */

enum step {
    STEP_READ,      /* something came, and was handed out */
    STEP_NOTHING,   /* time is up, or a signal was handled */
    STEP_ENDED,     /* nothing more will come; `failure` may say why */
    STEP_RAISED,    /* an exception that is not the link's end is set */
    STEP_IDLE,      /* nothing has come for long: the link may rest, and the role was given back. Not for a leader */
    STEP_OVERTAKEN, /* another thread has the role now, and all but the detour of `handing`; an exception may be set */
};

/* Hands out what is complete, or reads once and then hands out. The caller has the role. GIL; released to
 * wait. */
enum step echo_link_read(struct link *link, struct handing *handing, int64_t timeout_ns);

/* Goes on with what another thread was at, in its place: its role is the caller's now. Likewise. */
enum step echo_link_go_on(struct link *link, struct handing *handing);

/* Ends the link with the exception that is set, which run raises: whoever meets it may have no use for it. */
enum step echo_link_fail(struct link *link);

/* --- controls.c --- */

/* Takes the credit that comes next, as read does, but only that. 1: there was nothing else. 0: something else is next,
 * or the end. The caller has the role. No GIL. Does not block. */
int echo_link_take_credit(struct link *link);

/* --- leading.c --- */

enum led {
    LED_READ,     /* something was read and delivered */
    LED_TIMEOUT,  /* nothing came in time, or for LEAD_SLICE_NS: look whether to go on waiting */
    LED_OCCUPIED, /* another thread reads now; the queue will be woken */
    LED_ENDED,    /* nothing will ever come */
    LED_RAISED,   /* an exception is set */
};

/* A leader looks up so often: a read that is under way does not see that its queue was closed. */
#define LEAD_SLICE_NS 50000000

/* The calling thread reads the link once, delivers what came, and so brings events to its queue without a
 * change of threads. Control frames for Python are left to run. GIL; releases it while it waits. */
enum led echo_link_lead(PyObject *link, int64_t timeout_ns);

/* As run, and as take_over. 1: at its end; 0: another thread reads on, or the link rests; -1 with an exception. GIL. */
int echo_link_run(struct link *link);
int echo_link_take_over(struct link *link);
int echo_link_follow(struct link *link, PyObject *queue);
void echo_link_unfollow(struct link *link, PyObject *queue);

/* Followers look again whether they can lead. GIL; may run any code. */
void echo_link_wake_followers(struct link *link);

/* --- resting.c. GIL for all --- */

/* From here on threads that stand by read it, each by a call of `reader`, which takes it over. */
void echo_link_begin_rest(struct link *link, PyObject *reader);

/* What such a thread calls: a new reference, or NULL with an exception. */
PyObject *echo_link_reader(struct link *link);

/* The calling thread is about to read it, after a rest. */
void echo_link_visit(struct link *link);

/* Whether nothing has come for so long that the thread that reads it need not wait for more. */
int echo_link_is_idle(const struct link *link);

/* In place of that thread, which has given the role back: 1. 0: it has to go on. */
int echo_link_rest(struct link *link);

/* Its bell was rung. Takes the credit that has come where it rests: whether the link is to be answered for what else
 * there is. No GIL; the link is held. Does not block. */
int echo_link_hear(struct link *link);

/* Its reader, who has the role, gives it back and is about to take the GIL, to have it rest: 1. Credit that comes
 * meanwhile is taken by those that stand by. 0: something has come. No GIL. Does not block. */
int echo_link_doze(struct link *link);

/* It was called (echo_watched_call): whether the calling thread is to take it over. */
int echo_link_answer(struct link *link);

/* Where it rests, somebody has to read it all the same. */
void echo_link_call_reader(struct link *link);

/* To be called some times a second: notes how quiet it is, has the reader of an idle one look up, and looks itself
 * whether one that rests is to be read. */
void echo_link_rouse(struct link *link);
