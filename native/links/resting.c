/* Links that rest: nobody reads them until something comes.
 *
 *   NEVER --begin_rest--> RESTING --its bell, or a call--> CALLED --take_over--> READ --end--> OVER
 *                            ^                                                    |
 *                            +------------------ idle for a while ----------------+
 *
 * While a link is busy, a thread waits in its wire, so that an event costs one system call and no change of threads. When
 * nothing has come for a while it leaves, and stands by with others (standby.c): so many links that are idle need few
 * threads. "A while" is from one rouse to the next without anything read: some hundred milliseconds.
 *
 * Whether a link is busy shows by how often its bell is rung. A reader's first visits are brief, it leaves when it has
 * read what is there: else a ping on each of many links would have a thread wait for nothing on each.
 *
 * Nobody waits for the bell of a busy link. On a socket the kernel would look with each event, on both sides, who is to be
 * told of it, also while nobody is: 0.3 us of a round trip by Unix sockets, which tell of room as well, 0.2 by TCP.
 *
 * A leader (leading.c) may read a link that rests. What it leaves to run calls a reader.
 *
 * All states that a link can be in. "Dozing" is READ, where the reader has given the role back and waits for the GIL.
 *
 *            bell             role                   who reads
 *   NEVER    not waited for   any                    its owner's thread in run
 *   RESTING  waited for       FREE or a leader's     a leader; who hears the bell, for credit alone (READING)
 *   CALLED   told, perhaps    as RESTING             as RESTING; the thread that has answered is about to
 *   READ     the ring's, for  any                    one thread, the runner, in turns with leaders
 *            its end alone
 *   dozing   waited for       as RESTING             as RESTING; the runner is about to have it rest
 *   OVER     not waited for   any                    nobody
 *
 * What happens in each. The GIL is held but for hear and doze; so `rest` does not change within what has it.
 *
 *            RESTING               CALLED                READ                      dozing
 *   hear     credit: armed anew,   as RESTING            as RESTING, where the     as RESTING
 *            still RESTING;                              role is free: the runner
 *            else called                                 may wait for the GIL; else
 *                                                        called
 *   answer   CALLED                nothing: a thread     nothing: the runner       nothing: the runner looks
 *                                  comes                 reads on                  and arms again
 *   take_    READ                  READ                  where it is slow the      0: not slow
 *    over                                                runner is another, else 0
 *   leader   call: a reader comes  a reader comes        the runner, which is      the runner finds
 *    leaves                                              parked, is woken          is_unfinished
 *   idle     -                     -                     has_something: READ;      has_something: READ;
 *                                                        else RESTING, armed       else RESTING, armed
 *   rouse    looks and arms again: RESTING, and called   has the runner look up,   nothing: the runner comes
 *            called if there is    again, if nobody has  if the link is idle
 *            something             come for a beat
 *   end      call: a thread reads  the reader finds it   the runner finds it:      the runner finds is_ended
 *            to the end            ended                 its wire is shut
 *
 * In NEVER and OVER none of this does anything: their links are not armed, and are not called. What a child inherits is
 * in whatever state it was, and nothing asks: its entries do nothing.
 *
 * Nothing is lost between "nothing is there" and "somebody waits", as whoever is to wait says so first and looks behind
 * that, and whoever brings something looks behind that who waits; all of it is sequentially consistent.
 *
 *   who waits says                      then looks at              who brings            then looks at
 *   RESTING in the ring's signal        the ring's count           the peer's bytes      the signal: rings
 *   arms the bell (a system call)       the socket: the kernel     bytes, or a byte on   -: the kernel tells
 *                                       does, as it arms           a ring's bell
 *   role FREE, RESTING                  arms the bell behind it    who hears the bell    the role: takes it
 *   followers.are_waiting               the role, once more        who hears: role FREE  are_waiting: calls
 *   is_awaiting                         the role                   a leader: LEADING     is_awaiting: nudges
 *   is_called                           the errand (standby.c)     the errand NOBODYS    is_called: wakes one
 *
 * Only one who looks behind it takes bytes from a ring's bell: answer, which is followed by a read or by the runner's
 * look; rest; and who takes credit.
 *
 * A thread that was told of a link may end before it has read it, and a peer before it rings, or it lies. So nothing
 * here waits for one bell or one thread alone: who rouses links from time to time looks itself (look_again).
 */
#include "links/link.h"

#include "core/clock.h"

/* How long a reader waits in a wire that cannot release it. */
#define PATIENCE_NS 250000000

/* A link is busy whose bell is rung so often in so much time. */
#define BUSY_TIMES 5
#define BUSY_NS 250000000

/* While its other side grants on and on, a ring is left to others after so many times. */
#define CREDIT_ROUNDS 8

static int is_quiet(const struct link *link)
{
    return link->is_quiet && atomic_load_explicit(&link->reads, memory_order_relaxed) == link->roused_reads;
}

int echo_link_is_idle(const struct link *link)
{
    return link->rest == REST_READ && (link->is_brief || is_quiet(link));
}

/* To be called each time that it happens. */
static int is_frequent(struct frequency *its)
{
    int64_t now_ns = monotonic_ns();

    if (now_ns - its->since_ns > BUSY_NS)
        *its = (struct frequency){.since_ns = now_ns};
    return ++its->times >= BUSY_TIMES;
}

/* Where a leader may come, a visit is never brief: it ends the wait for what the leader might leave. */
static int is_brief(struct link *link)
{
    int is_busy = is_frequent(&link->visits);

    return !atomic_exchange(&link->is_granted_often, 0) && !is_busy && link->followers.count == 0;
}

/* Unless the bell tells what nothing else does. */
static void forget_bell(struct link *link)
{
    if (link->wire->operations->answer_bell == NULL)
        echo_watched_disarm(&link->watched);
}

/* What comes is waited for in the wire. */
static void stay(struct link *link)
{
    echo_standby_call_in();
    link->is_brief = 0;
    link->is_quiet = 0; /* it was, before */
    echo_watched_wait(&link->watched, link->wire->operations->release != NULL ? -1 : PATIENCE_NS);
    forget_bell(link);
}

void echo_link_visit(struct link *link)
{
    link->rest = REST_READ;
    link->is_brief = is_brief(link);
    if (link->is_brief)
        echo_watched_wait(&link->watched, 0);
    else
        stay(link);
}

/* Memory that nobody reads into, unless a leader does. */
static void empty_intake(struct link *link)
{
    if (!change_role(link, ROLE_FREE, ROLE_READING))
        return;
    echo_intake_empty(&link->intake);
    atomic_store(&link->role, ROLE_FREE);
}

/* Whether there may be something that its bell does not tell of. */
static int has_something(const struct link *link)
{
    const struct wire_operations *operations = link->wire->operations;

    return link->is_ended || link->is_unfinished || (operations->rest != NULL && !operations->rest(link->wire));
}

static int arm_bell(struct link *link, enum rings rings)
{
    return link->wire->bell >= 0 && echo_watched_arm(&link->watched, link->wire->bell, rings) == 0;
}

PyObject *echo_link_reader(struct link *link)
{
    return link->reader != NULL ? Py_NewRef(link->reader) : PyObject_GetAttrString(&link->ob_base, "take_over");
}

void echo_link_begin_rest(struct link *link, PyObject *reader)
{
    if (link->rest != REST_NEVER)
        return;
    link->reader = Py_NewRef(reader);
    link->rest = REST_RESTING;
    if (has_something(link) || !arm_bell(link, RINGS_LATER))
        echo_watched_call(&link->watched);
}

/* Whoever hears the bell is to find that the link rests, so it does before that is armed. */
static int try_rest(struct link *link)
{
    if (has_something(link)) {
        if (!link->is_brief)
            forget_bell(link);
        return 0;
    }
    empty_intake(link);
    link->rest = REST_RESTING;
    if (arm_bell(link, RINGS_LATER))
        return 1;
    link->rest = REST_READ;
    stay(link);
    return 0;
}

int echo_link_rest(struct link *link)
{
    int is_resting = try_rest(link);

    if (is_resting) {
        link->handing = NULL;
        link->runner = 0;
    }
    return is_resting;
}

/* --- without the GIL --- */

/* Whoever hears the bell is to find the role free, so it is before that is armed. */
static int free_and_arm(struct link *link, enum rings rings)
{
    atomic_store(&link->role, ROLE_FREE);
    return arm_bell(link, rings);
}

int echo_link_doze(struct link *link)
{
    struct wire *wire = link->wire;

    if (wire->operations->rest != NULL && !wire->operations->rest(wire))
        return 0;
    free_and_arm(link, RINGS_LATER);
    return 1;
}

/* The caller has the role. 1: all that there was, or else *rings: more of it. 0: there is something else. */
static int take_credit(struct link *link, enum rings *rings)
{
    const struct wire_operations *operations = link->wire->operations;

    if (link->intake.end > link->intake.begin || link->is_unfinished)
        return 0;
    for (int round = 0; round < CREDIT_ROUNDS; round++) {
        if (operations->answer_bell != NULL && operations->answer_bell(link->wire))
            return 0; /* the peer is gone */
        if (!echo_link_take_credit(link))
            return 0;
        *rings = operations->rest == NULL || operations->rest(link->wire) ? RINGS_LATER : RINGS_NOW;
        if (*rings == RINGS_LATER)
            return 1;
    }
    return 1;
}

int echo_link_hear(struct link *link)
{
    int rest = link->rest;
    enum rings rings;

    if (rest == REST_NEVER || rest == REST_OVER)
        return 1;
    if (!change_role(link, ROLE_FREE, ROLE_READING) &&
        (rest == REST_READ || !change_role(link, ROLE_LED, ROLE_READING))) /* that is the runner's to wait for */
        return 1;
    if (!take_credit(link, &rings)) {
        atomic_store(&link->role, ROLE_FREE);
        return 1;
    }
    if (is_frequent(&link->grants))
        link->is_granted_often = 1;
    return !free_and_arm(link, rings) || link->is_granted_often || link->followers.are_waiting;
}

/* --- answering. GIL --- */

/* A peer that shares memory is seen to be gone by its bell alone, also while a thread reads. */
int echo_link_answer(struct link *link)
{
    struct wire *wire = link->wire;

    if (wire->operations->answer_bell != NULL && !link->is_ended) {
        if (wire->operations->answer_bell(wire))
            echo_link_end_outbox(link, END_PEER);
        else
            arm_bell(link, RINGS_NOT);
    }
    if (link->rest != REST_RESTING)
        return 0;
    link->rest = REST_CALLED;
    return 1;
}

void echo_link_call_reader(struct link *link)
{
    if (link->rest == REST_RESTING)
        echo_watched_call(&link->watched);
}

/* Who awaits bytes for a leader's sake is nudged, whatever the wire. */
static void release(struct link *link)
{
    if (atomic_load(&link->is_awaiting))
        link->wire->operations->nudge(link->wire);
    else if (link->wire->operations->release != NULL && atomic_load(&link->role) == ROLE_READING)
        link->wire->operations->release(link->wire);
}

static void tidy(struct link *link)
{
    outbox_lock(&link->outbox);
    echo_writer_tidy(&link->outbox);
    echo_outbox_unlock(&link->outbox);
}

/* Whether somebody has to come who reads it. A bell that tells of all is armed anew instead: it rings at once then. */
static int needs_reader(struct link *link)
{
    const struct wire_operations *operations = link->wire->operations;

    if (link->rest != REST_RESTING)
        return link->rest == REST_CALLED;
    return (operations->rest != NULL && !operations->rest(link->wire)) || !arm_bell(link, RINGS_LATER);
}

/* Whoever was told may have ended before it read, as may a peer before it has rung. */
static void look_again(struct link *link)
{
    int was_waited_for = link->is_waited_for;

    link->is_waited_for = needs_reader(link);
    if (was_waited_for && link->is_waited_for && link->is_quiet) {
        link->overlooked++;
        link->rest = REST_RESTING;
    }
    if (link->is_waited_for)
        echo_link_call_reader(link);
}

void echo_link_rouse(struct link *link)
{
    const struct wire_operations *operations = link->wire->operations;
    uint64_t reads = atomic_load(&link->reads);

    link->is_quiet = reads == link->roused_reads;
    link->roused_reads = reads;
    tidy(link);
    if (operations->rouse != NULL)
        operations->rouse(link->wire);
    if (echo_link_is_idle(link))
        release(link);
    look_again(link);
}
