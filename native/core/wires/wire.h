/* Wires: bytes from process to process, in order. socket.c and ring.c make them.
 *
 * One thread at a time writes, one at a time reads; shut, nudge, release and rouse come from any. Times are nanoseconds;
 * a negative one is for ever. Who calls what blocks has let go of its host's lock (Python's GIL).
 *
 * A wire that nobody reads may rest: its descriptor, the bell, is waited for together with those of others.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct wire;

struct wire_operations {
    const char *name;
    /* 1: a write now would cost no system call, so gathering gains nothing. NULL: it always costs one. Any
     * thread. */
    int (*is_cheap)(struct wire *wire);
    /* Takes as many bytes of the parts, one part after the other, as there is room for; 0: none now. -errno when
     * broken (-EPIPE: shut or at its end). Does not block. */
    ssize_t (*write)(struct wire *wire, const struct iovec *parts, int count);
    /* Waits until write would take something: 1; 0: time is up; -EINTR: a signal came; -errno. Blocks. */
    int (*await_room)(struct wire *wire, int64_t timeout_ns);
    /* Waits for bytes, and moves at most `size`: how many. 0: at its end. -EAGAIN: time is up. -EINTR: a
     * signal came. Else -errno. Blocks unless timeout_ns is 0. */
    ssize_t (*read)(struct wire *wire, uint8_t *bytes, size_t size, int64_t timeout_ns);
    /* Copies at most `size` bytes that the next read moves, and leaves them there: how many. 0: at its end. -EAGAIN: none
     * are there. Else -errno. Who reads calls it. Does not block. */
    ssize_t (*peek)(struct wire *wire, uint8_t *bytes, size_t size);
    /* Waits until read would return at once: 1; 0: time is up or nudged; -errno. Blocks. */
    int (*await_bytes)(struct wire *wire, int64_t timeout_ns);
    /* Ends an await_bytes that is under way, or the next one. Does not block. */
    void (*nudge)(struct wire *wire);
    /* Has the read that waits for ever, or the next one, return -EAGAIN. Does not block. NULL: nothing ends such a read,
     * so who wants it to end has to set it a time. */
    void (*release)(struct wire *wire);
    /* Has those that wait look again whose peer has forgotten them. To be called from time to time. Does not block.
     * NULL: a peer can do no such thing. */
    void (*rouse)(struct wire *wire);
    /* Nobody reads from here on, and the bell can be read when there is something: 1. 0: there is. Any thread, also
     * while it rests. Does not block. NULL: the bell says so by itself. */
    int (*rest)(struct wire *wire);
    /* The bell can be read, or will not be asked for a while. 1: the peer is gone, which nothing else tells. Does not
     * block. NULL: there is nothing to be done. */
    int (*answer_bell)(struct wire *wire);
    /* From now on both directions are at their end; whoever waits returns. The other side will notice. May be
     * called twice. Does not block. */
    void (*shut)(struct wire *wire);
    /* Like free, but in a forked child: the other side must not notice. */
    void (*abandon)(struct wire *wire);
    /* After shut, when no thread is in any of the above. */
    void (*free)(struct wire *wire);
};

static inline size_t bytes_of_parts(const struct iovec *parts, int count)
{
    size_t size = 0;

    while (count > 0)
        size += parts[--count].iov_len;
    return size;
}

struct wire {
    const struct wire_operations *operations;
    int is_lively; /* 1: more is about to come that somebody waits for, so that a read may look for it before it sleeps.
                      Whoever reads sets it */
    int bell;      /* owned descriptor; -1: there is none, so this wire cannot rest */
};
