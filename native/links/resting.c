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
 */
#include "links/link.h"
#include "links/turns.h"

#include "core/clock.h"

/* How long a reader waits in a wire that cannot release it. */
#define PATIENCE_NS 250000000

/* From so many visits in so much time on they are not brief. */
#define BUSY_VISITS 5
#define VISITS_NS 250000000

static int is_quiet(const struct link *link)
{
    return link->is_quiet && atomic_load_explicit(&link->reads, memory_order_relaxed) == link->roused_reads;
}

int echo_link_is_idle(const struct link *link)
{
    return link->rest == REST_READ && (link->is_brief || is_quiet(link));
}

/* Where a leader may come, a visit is never brief: it ends the wait for what the leader might leave. */
static int is_brief(struct link *link)
{
    int64_t now = monotonic_ns();

    if (now - link->visits_since > VISITS_NS) {
        link->visits_since = now;
        link->visits = 0;
    }
    return ++link->visits < BUSY_VISITS && link->followers.count == 0;
}

/* What comes is waited for in the wire. */
static void stay(struct link *link)
{
    const struct wire_operations *operations = link->wire->operations;

    echo_turns_call_in();
    link->is_brief = 0;
    echo_watched_wait(&link->watched, operations->release != NULL ? -1 : PATIENCE_NS);
    if (operations->answer_bell == NULL)
        echo_watched_disarm(&link->watched);
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
    if (atomic_load(&link->role) != ROLE_LEADING)
        echo_intake_empty(&link->intake);
}

/* Whether there may be something that its bell does not tell of. */
static int has_something(const struct link *link)
{
    const struct wire_operations *operations = link->wire->operations;

    return link->is_ended || link->is_unfinished || (operations->rest != NULL && !operations->rest(link->wire));
}

static int arm_bell(struct link *link)
{
    return link->wire->bell >= 0 && echo_watched_arm(&link->watched, link->wire->bell, 1) == 0;
}

void echo_link_begin_rest(struct link *link)
{
    if (link->rest != REST_NEVER)
        return;
    link->rest = REST_RESTING;
    if (has_something(link) || !arm_bell(link))
        echo_watched_call(&link->watched);
}

int echo_link_rest(struct link *link)
{
    if (has_something(link))
        return 0;
    if (!arm_bell(link)) {
        stay(link);
        return 0;
    }
    empty_intake(link);
    link->rest = REST_RESTING;
    link->handing = NULL;
    link->runner = 0;
    return 1;
}

/* A peer that shares memory is seen to be gone by its bell alone, also while a thread reads. */
int echo_link_answer(struct link *link)
{
    struct wire *wire = link->wire;

    if (wire->operations->answer_bell != NULL && !link->is_ended) {
        if (wire->operations->answer_bell(wire))
            echo_link_end_outbox(link, END_PEER);
        else
            echo_watched_arm(&link->watched, wire->bell, 0);
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

void echo_link_rouse(struct link *link)
{
    const struct wire_operations *operations = link->wire->operations;
    uint64_t reads = atomic_load(&link->reads);

    link->is_quiet = reads == link->roused_reads;
    link->roused_reads = reads;
    echo_turns_call_in_late();
    tidy(link);
    if (operations->rouse != NULL)
        operations->rouse(link->wire);
    if (echo_link_is_idle(link))
        release(link);
    else if (link->rest == REST_RESTING && operations->rest != NULL && !operations->rest(link->wire))
        echo_link_call_reader(link);
}
