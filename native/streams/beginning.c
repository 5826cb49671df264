/* How a stream begins: with STARTED, and what its source keeps, in its backlog. Until the source's next events go there
 * too, which is the caller's to see to, nothing may come between: so all of it is queued at once, and written later.
 *
 * Sinks for which it has begun before are gone. What still waits for them gives way where the source keeps events, as a
 * sink then takes part from its own STARTED on: so a peer that lets streams begin again and again, and does not read,
 * has one beginning of each wait, and the STARTED of the others. There it may let wait as much as of any control frame.
 */
#include "streams/outgoing.h"

#include "core/outbox/staging.h"

#include <string.h>

static size_t payload_size(const struct kept *kept)
{
    return (size_t)PyBytes_Size(kept->record) + (kept->submitted_ns != 0 ? TIME_BYTES : 0);
}

static void queue_started(struct outgoing *outgoing, uint64_t first, uint64_t sequence)
{
    uint8_t payload[STARTED_PAYLOAD_BYTES] = {0};
    struct frame frame = {.size = sizeof payload, .stream = KIND_STARTED, .payload = payload};

    store_little32(payload, outgoing->stream);
    store_little64(payload + 8, sequence - first);
    store_little64(payload + 16, first);
    if (!echo_outbox_is_flooded(outgoing->outbox, &frame))
        echo_outgoing_queue(outgoing, 0, &frame);
}

/* Events between those that are kept by key. */
static void queue_gap(struct outgoing *outgoing, uint64_t events)
{
    uint8_t payload[GAP_PAYLOAD_BYTES];

    if (events == 0)
        return;
    store_little32(payload, outgoing->stream);
    store_little32(payload + 4, GAP_OF_NOT_KEPT);
    store_little64(payload + 8, events);
    echo_outgoing_queue(outgoing, 0, &(struct frame){.size = sizeof payload, .stream = KIND_GAP, .payload = payload});
}

/* Locked. `room`: for the payload. */
static void queue_kept(struct outgoing *outgoing, const struct kept *kept, uint8_t *room)
{
    size_t size = payload_size(kept), records = (size_t)PyBytes_Size(kept->record);
    struct frame frame = {.size = (uint32_t)size, .stream = outgoing->stream, .payload = room};

    if (size > outgoing->max_payload || outgoing->outbox->end != END_NOT) {
        echo_outgoing_drop_newest(outgoing, 1, NULL);
        return;
    }
    if (kept->submitted_ns != 0)
        store_little64(room, (uint64_t)kept->submitted_ns);
    memcpy(room + size - records, PyBytes_AsString(kept->record), records);
    while (!echo_outgoing_fits(outgoing, 1, frame_bytes(size)))
        echo_outgoing_drop_oldest(outgoing);
    outgoing->events++;
    echo_outgoing_queue(outgoing, 1, &frame);
}

static void queue_all(struct outgoing *outgoing, const struct kept *kept, size_t count, uint64_t sequence,
                      uint8_t *room)
{
    uint64_t following = count > 0 ? kept[0].number : sequence;

    queue_started(outgoing, following, sequence);
    for (size_t i = 0; i < count; i++) {
        queue_gap(outgoing, kept[i].number - following);
        queue_kept(outgoing, &kept[i], room);
        following = kept[i].number + 1;
    }
    queue_gap(outgoing, sequence - following);
}

Py_ssize_t echo_outgoing_stream_begin(PyObject *object, const struct history *history, const struct kept *kept,
                                      size_t count, uint64_t sequence)
{
    struct outgoing *outgoing = stream_of(object)->outgoing;
    size_t i, most = 1;
    uint8_t *room;

    for (i = 0; i < count; i++)
        most = Py_MAX(most, payload_size(&kept[i]));
    room = PyMem_Malloc(most);
    if (room == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    outbox_lock(outgoing->outbox);
    if (!outgoing->is_closed && history != NULL)
        echo_outgoing_begin_anew(outgoing);
    if (!outgoing->is_closed)
        queue_all(outgoing, kept, count, sequence, room);
    echo_outbox_unlock(outgoing->outbox);
    PyMem_Free(room);
    return (Py_ssize_t)count;
}
