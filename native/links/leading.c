/* Who reads a link: the thread in run, or a thread that waits for an event and leads.
 *
 *   FREE --run--> READING --> FREE          one step of run
 *   FREE --lead--> LEADING --> LED          a leader takes the role; run is nudged, and parks
 *   LED --lead--> LEADING --> LED           it reads again, at no cost
 *   LED --run, after a tick without it--> FREE
 *   LEADING --a frame is left that is for run--> FREE
 *
 * A leader keeps the role while it handles its event, so that asking for the next one is one read and nothing
 * else. Should it not come back, events wait for at most two ticks.
 *
 * A leader hands over to queues alone, so nothing holds it up. Where a handler holds up the thread in run, the one that
 * stands by (standby.c) takes its place, READING as it is: it hands the records that are under way to the deliveries
 * behind the slow one, and reads on. The other one touches neither the intake nor the role any more: it goes on with
 * its sink (streams/detours.c), and leaves run. What it still reads of the intake stays where it is: it lies before
 * `begin`, in a chunk that it refers to.
 *
 * Where nothing comes for long the thread in run leaves, whoever leads, and the link rests (resting.c).
 */
#include "links/link.h"

#include "links/errors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Who is parked looks so often whether the leader is still there. */
#define TICK_NS 5000000
#define MAX_TICK_NS 50000000

/* --- followers --- */

void echo_link_wake_followers(struct link *link)
{
    PyObject *queue;

    link->followers.are_waiting = 0;
    for (Py_ssize_t i = 0; i < link->followers.count; i++) {
        queue = Py_NewRef(link->followers.queues[i]);
        echo_queue_wake(queue);
        Py_DECREF(queue);
    }
}

int echo_link_follow(struct link *link, PyObject *queue)
{
    struct followers *followers = &link->followers;
    PyObject **queues = realloc(followers->queues, ((size_t)followers->count + 1) * sizeof *queues);

    if (queues == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    queues[followers->count++] = Py_NewRef(queue);
    followers->queues = queues;
    return 0;
}

void echo_link_unfollow(struct link *link, PyObject *queue)
{
    struct followers *followers = &link->followers;

    for (Py_ssize_t i = 0; i < followers->count; i++) {
        if (followers->queues[i] != queue)
            continue;
        followers->queues[i] = followers->queues[--followers->count];
        Py_DECREF(queue);
        return;
    }
}

/* --- leading --- */

static int take_lead(struct link *link)
{
    if (link->is_unfinished && (link->runner != 0 || link->rest != REST_NEVER)) /* it is run's turn */
        return 0;
    if (change_role(link, ROLE_LED, ROLE_LEADING))
        return 1;
    if (!change_role(link, ROLE_FREE, ROLE_LEADING))
        return 0;
    if (atomic_load(&link->is_awaiting))
        link->wire->operations->nudge(link->wire);
    return 1;
}

/* Whoever reads will wake this thread. */
static enum led follow(struct link *link)
{
    link->followers.are_waiting = 1;
    return LED_OCCUPIED;
}

/* Who takes credit while the link rests has no GIL, so may have left just before it could see that somebody waits. */
static int take_lead_or_follow(struct link *link)
{
    if (take_lead(link))
        return 1;
    follow(link);
    return take_lead(link);
}

static int64_t slice_of(int64_t timeout_ns)
{
    return timeout_ns < 0 || timeout_ns > LEAD_SLICE_NS ? LEAD_SLICE_NS : timeout_ns;
}

/* The role stays here until the next read. */
static void keep_role(struct link *link, enum step step)
{
    atomic_store(&link->role, ROLE_LED);
    if (link->followers.are_waiting && step != STEP_RAISED)
        echo_link_wake_followers(link);
}

/* Run, if it was waiting for bytes, was nudged when the role was taken from it; else it is parked. */
static void leave_role_to_run(struct link *link)
{
    atomic_store(&link->role, ROLE_FREE);
    atomic_fetch_add(&link->parking, 1);
    futex_wake_all(&link->parking);
    echo_link_call_reader(link);
}

enum led echo_link_lead(PyObject *object, int64_t timeout_ns)
{
    static const enum led led_by_step[] = {
        [STEP_READ] = LED_READ, [STEP_NOTHING] = LED_TIMEOUT, [STEP_ENDED] = LED_ENDED, [STEP_RAISED] = LED_RAISED};
    struct link *link = link_of(object);
    struct handing handing;
    enum step step;
    enum led led;

    if (echo_link_check(link) != 0)
        return LED_RAISED;
    if (link->is_ended)
        return LED_ENDED;
    if (!take_lead_or_follow(link))
        return LED_OCCUPIED;
    Py_INCREF(object);
    atomic_fetch_add_explicit(&link->led, 1, memory_order_relaxed);
    step = echo_link_read(link, &handing, slice_of(timeout_ns));
    led = led_by_step[step];
    if (!link->is_unfinished || link->is_ended)
        keep_role(link, step);
    else {
        leave_role_to_run(link);
        led = step == STEP_RAISED ? LED_RAISED : follow(link);
    }
    Py_DECREF(object);
    return led;
}

/* --- run --- */

/* Until the leader has not come back for a tick, or nothing comes. No GIL. 0, or -EINTR. */
static int park(struct link *link)
{
    uint64_t led = atomic_load(&link->led), seen_led;
    int64_t tick_ns = TICK_NS;
    uint32_t seen;
    int role, status;

    for (;;) {
        seen = atomic_load(&link->parking);
        role = atomic_load(&link->role);
        if (role != ROLE_LED && role != ROLE_LEADING)
            return 0;
        status = echo_futex_wait(&link->parking, seen, tick_ns);
        if (status == -EINTR)
            return status;
        if (status == 0)
            return 0;
        seen_led = led;
        led = atomic_load(&link->led);
        if (led != seen_led)
            tick_ns = TICK_NS;
        else if (atomic_load(&link->role) == ROLE_LEADING)
            tick_ns = tick_ns * 2 < MAX_TICK_NS ? tick_ns * 2 : MAX_TICK_NS;
        else if (change_role(link, ROLE_LED, ROLE_FREE))
            return 0;
        if (echo_link_is_idle(link)) /* last: a leader that stays away keeps the role from nobody */
            return 0;
    }
}

/* Until there is something to read: 1; 0: look again; -EINTR. No GIL. */
static int await_bytes(struct link *link)
{
    int ready = 0;

    atomic_store(&link->is_awaiting, 1);
    if (atomic_load(&link->role) == ROLE_FREE) /* from here on a leader nudges */
        ready = link->is_unfinished ? 1 : link->wire->operations->await_bytes(link->wire, -1);
    atomic_store(&link->is_awaiting, 0);
    return ready < 0 && ready != -EINTR ? 1 : ready; /* broken: the read will say how */
}

/* Leaves the role to whoever leads, and takes it when there are bytes. 1: taken. 0: look again. -1: an
 * exception is set. */
static int take_role_politely(struct link *link)
{
    PyThreadState *state;
    int role, status;

    if (link->followers.are_waiting)
        echo_link_wake_followers(link);
    state = PyEval_SaveThread();
    role = atomic_load(&link->role);
    if (role == ROLE_LED || role == ROLE_LEADING)
        status = park(link);
    else
        status = await_bytes(link);
    if (status == 1)
        status = change_role(link, ROLE_FREE, ROLE_READING);
    PyEval_RestoreThread(state);
    return status == -EINTR ? PyErr_CheckSignals() : status;
}

static void wake_where_waiting(struct link *link)
{
    if (link->followers.are_waiting)
        echo_link_wake_followers(link);
}

static void give_role_back(struct link *link, enum step step)
{
    atomic_store(&link->role, ROLE_FREE);
    if (step != STEP_RAISED)
        wake_where_waiting(link);
}

static int finish(struct link *link, enum step step)
{
    PyObject *exception;

    if (step == STEP_RAISED) {
        exception = echo_take_exception();
        echo_link_end(link, END_SHUT);
    } else {
        exception = link->failure;
        link->failure = NULL; /* its traceback has the frames of those who hold the link */
    }
    link->rest = REST_OVER;
    echo_standby_call_in(); /* what its owner does now may take long */
    echo_watched_remove(&link->watched);
    if (exception == NULL)
        return 1;
    echo_give_exception(exception);
    return -1;
}

/* This thread has been left with the sink that it was at. What it finds wrong ends the link for all. */
static int leave(struct link *link, struct detour *detour)
{
    if (echo_detour_go(&link->detours, detour, &link->ob_base) == 0)
        return 0;
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return -1;
    echo_link_fail(link);
    return 0;
}

/* `step`: how the one before has ended. Without followers the read waits, else take_role_politely. */
static enum step read_steps(struct link *link, struct handing *handing, enum step step)
{
    int is_polite, taken;

    while (!link->is_ended && !has_forked_since(link->forks) && step < STEP_ENDED) {
        is_polite = link->followers.count > 0;
        taken = !is_polite && change_role(link, ROLE_FREE, ROLE_READING) ? 1 : take_role_politely(link);
        if (taken == 1) {
            step = echo_link_read(link, handing, is_polite ? 0 : link->watched.patience_ns);
            if (step == STEP_OVERTAKEN)
                return step;
            if (step == STEP_IDLE)
                wake_where_waiting(link);
            else
                give_role_back(link, step);
        } else if (taken < 0)
            step = STEP_RAISED;
        else if (echo_link_is_idle(link))
            step = STEP_IDLE;
    }
    return step;
}

static int read_on(struct link *link, struct handing *handing, enum step step)
{
    while ((step = read_steps(link, handing, step)) == STEP_IDLE) {
        if (echo_link_rest(link))
            return 0;
        step = STEP_NOTHING;
    }
    if (step == STEP_OVERTAKEN)
        return leave(link, handing->detour);
    link->handing = NULL;
    link->runner = 0;
    return finish(link, step);
}

static int begin(struct link *link)
{
    struct handing handing;

    link->runner = PyThread_get_thread_ident();
    link->handing = &handing;
    return read_on(link, &handing, STEP_READ);
}

int echo_link_run(struct link *link)
{
    if (link->runner == 0 && (link->rest == REST_NEVER || link->rest == REST_OVER))
        return begin(link);
    PyErr_SetString(PyExc_RuntimeError, "Another thread runs this link");
    return -1;
}

/* --- taking over --- */

/* What the runner has under way becomes this thread's, in *handing and `records`, but for the delivery that it is at.
 * It refers to what it is made of. 0; -1: there is no memory, which is told of, and the link is as slow as before. */
static int take_place(struct link *link, struct handing *handing, struct record *records)
{
    struct handing *slow = link->handing;

    if (echo_detour_open(&link->detours, slow) != 0) {
        PyErr_WriteUnraisable(&link->ob_base);
        return -1;
    }
    *handing = *slow;
    memcpy(records, slow->records, (size_t)slow->count * sizeof *records);
    handing->records = records;
    handing->detour = NULL;
    Py_INCREF(handing->deliveries);
    Py_INCREF((PyObject *)handing->incoming);
    Py_XINCREF(handing->owner);
    link->handing = handing;
    link->runner = PyThread_get_thread_ident();
    link->is_unfinished = 1;
    echo_watched_step(&link->watched, 2); /* it goes on, and is not slow yet */
    return 0;
}

static enum step go_on(struct link *link, struct handing *handing)
{
    PyObject *deliveries = handing->deliveries, *owner = handing->owner;
    PyObject *incoming = (PyObject *)handing->incoming;
    enum step step = echo_link_go_on(link, handing);

    Py_DECREF(deliveries);
    Py_DECREF(incoming);
    Py_XDECREF(owner);
    return step;
}

static int can_be_overtaken(const struct link *link)
{
    return link->runner != 0 && !link->is_ended && is_slow(&link->watched) &&
           echo_handing_can_be_left(&link->detours, link->handing);
}

int echo_link_take_over(struct link *link)
{
    struct record records[MAX_RUN];
    struct handing handing;
    enum step step;

    if (link->runner == 0 && (link->rest == REST_RESTING || link->rest == REST_CALLED)) {
        echo_link_visit(link);
        return begin(link);
    }
    if (!can_be_overtaken(link) || take_place(link, &handing, records) != 0)
        return 0;
    step = go_on(link, &handing);
    if (step == STEP_OVERTAKEN)
        return leave(link, handing.detour);
    give_role_back(link, step);
    return read_on(link, &handing, step);
}
