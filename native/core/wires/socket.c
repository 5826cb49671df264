/* The wire over a connected stream socket (TCP, Unix).
 *
 * The descriptor stays in blocking mode: a read that may wait is one system call and no more. What must not
 * wait says MSG_DONTWAIT.
 */
#define _GNU_SOURCE
#include "core/wires/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

struct socket_wire {
    struct wire wire;           /* first: what others see */
    int fd;                     /* owned */
    _Atomic int nudges;         /* owned eventfd; -1 until somebody awaits bytes or nudges */
    int64_t receive_timeout_ns; /* SO_RCVTIMEO as it stands; 0: none. Only the thread that reads, as the next */
    int peeked_error;           /* errno that a peek was told, since the system tells it once; 0: none */
};

/* A read that waits at least so long has the kernel watch the time: one system call instead of two. */
#define KERNEL_TIMEOUT_NS 20000000

/* A wait that cannot be nudged is no longer than that. */
#define UNNUDGED_NS 5000000

static struct socket_wire *socket_of(struct wire *wire)
{
    return (struct socket_wire *)(void *)wire;
}

/* --- writing --- */

static ssize_t send_parts(int fd, const struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};

    return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static ssize_t socket_write(struct wire *wire, const struct iovec *parts, int count)
{
    int fd = socket_of(wire)->fd;
    ssize_t taken = count == 1 ? send(fd, parts->iov_base, parts->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL)
                               : send_parts(fd, parts, count);

    if (taken >= 0)
        return taken;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -errno;
}

/* --- waiting --- */

/* ppoll, since poll counts milliseconds. */
static int wait_for(struct pollfd *descriptors, nfds_t count, int64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
    int ready = ppoll(descriptors, count, timeout_ns < 0 ? NULL : &timeout, NULL);

    return ready < 0 ? -errno : ready;
}

static int socket_await_room(struct wire *wire, int64_t timeout_ns)
{
    struct pollfd descriptor = {.fd = socket_of(wire)->fd, .events = POLLOUT};

    return wait_for(&descriptor, 1, timeout_ns);
}

/* Two threads may make one at the same time: the first to store it wins. */
static int nudges_of(struct socket_wire *wire)
{
    int fd = atomic_load(&wire->nudges), none = -1;

    if (fd >= 0)
        return fd;
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    if (atomic_compare_exchange_strong(&wire->nudges, &none, fd))
        return fd;
    close(fd);
    return none;
}

static int socket_await_bytes(struct wire *wire, int64_t timeout_ns)
{
    struct pollfd descriptors[2] = {{.fd = socket_of(wire)->fd, .events = POLLIN}, {.events = POLLIN}};
    uint64_t nudges;
    int ready;

    descriptors[1].fd = nudges_of(socket_of(wire));
    if (descriptors[1].fd < 0) /* there is none to be had: nobody can nudge, so look around often */
        return wait_for(descriptors, 1, timeout_ns < 0 || timeout_ns > UNNUDGED_NS ? UNNUDGED_NS : timeout_ns);
    ready = wait_for(descriptors, 2, timeout_ns);
    if (ready <= 0)
        return ready;
    if (descriptors[1].revents != 0 && read(descriptors[1].fd, &nudges, sizeof nudges) < 0 && errno != EAGAIN)
        return -errno;
    return descriptors[0].revents != 0;
}

/* Without a descriptor for it the reader finds out by itself, when it next looks. */
static void socket_nudge(struct wire *wire)
{
    int fd = nudges_of(socket_of(wire));

    if (fd >= 0 && write(fd, &(uint64_t){1}, sizeof(uint64_t)) < 0)
        return; /* EAGAIN: nudged often enough */
}

/* --- reading --- */

static void keep_receive_timeout(struct socket_wire *wire, int64_t timeout_ns)
{
    struct timeval timeout = {.tv_sec = timeout_ns / 1000000000, .tv_usec = timeout_ns % 1000000000 / 1000};

    if (wire->receive_timeout_ns == timeout_ns)
        return;
    setsockopt(wire->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    wire->receive_timeout_ns = timeout_ns;
}

/* Of one that brought nothing. */
static ssize_t end_of_read(const struct socket_wire *socket, ssize_t count)
{
    if (socket->peeked_error != 0)
        return -socket->peeked_error;
    return count < 0 ? -errno : 0;
}

static ssize_t socket_read(struct wire *wire, uint8_t *bytes, size_t size, int64_t timeout_ns)
{
    struct socket_wire *socket = socket_of(wire);
    int flags = MSG_DONTWAIT, ready;
    ssize_t count;

    if (timeout_ns < 0 || timeout_ns >= KERNEL_TIMEOUT_NS) {
        keep_receive_timeout(socket, timeout_ns < 0 ? 0 : timeout_ns);
        flags = 0;
    } else if (timeout_ns > 0) {
        ready = wait_for(&(struct pollfd){.fd = socket->fd, .events = POLLIN}, 1, timeout_ns);
        if (ready <= 0)
            return ready < 0 ? ready : -EAGAIN;
    }
    count = recv(socket->fd, bytes, size, flags);
    return count > 0 ? count : end_of_read(socket, count);
}

/* Who has peeked at an error has the wire ended, so that the read that is told of it does not wait. */
static ssize_t socket_peek(struct wire *wire, uint8_t *bytes, size_t size)
{
    struct socket_wire *socket = socket_of(wire);
    ssize_t count = recv(socket->fd, bytes, size, MSG_PEEK | MSG_DONTWAIT);

    if (count >= 0 || errno == EAGAIN || errno == EINTR)
        return count >= 0 ? count : -EAGAIN;
    socket->peeked_error = errno;
    shutdown(socket->fd, SHUT_RDWR);
    return -socket->peeked_error;
}

/* --- the end --- */

static void socket_shut(struct wire *wire)
{
    shutdown(socket_of(wire)->fd, SHUT_RDWR); /* whoever polls or reads it returns */
}

static void socket_free(struct wire *wire)
{
    struct socket_wire *socket = socket_of(wire);
    int nudges = atomic_load(&socket->nudges);

    close(socket->fd); /* in a forked child the parent has it still, so the peer notices nothing */
    if (nudges >= 0)
        close(nudges);
    free(socket);
}

static const struct wire_operations socket_operations = {
    .name = "socket",
    .write = socket_write,
    .await_room = socket_await_room,
    .read = socket_read,
    .peek = socket_peek,
    .await_bytes = socket_await_bytes,
    .nudge = socket_nudge,
    .shut = socket_shut,
    .abandon = socket_free,
    .free = socket_free,
};

/* --- opening one --- */

/* Only what this wire counts on; 0, or errno. */
static int prepare(int fd, int *kind)
{
    int one = 1, flags;
    socklen_t size = sizeof *kind;
    struct timeval never = {0};

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, kind, &size) != 0)
        return errno;
    if (*kind != SOCK_STREAM)
        return EPROTOTYPE;
    flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &never, sizeof never) != 0)
        return errno;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* gathered already; refused by Unix sockets */
    return 0;
}

struct wire *echo_socket_open(int fd, int *kind)
{
    struct socket_wire *wire;

    errno = prepare(fd, kind);
    wire = errno == 0 ? calloc(1, sizeof *wire) : NULL;
    if (wire == NULL)
        return NULL;
    wire->wire = (struct wire){.operations = &socket_operations, .bell = fd};
    wire->fd = fd;
    atomic_init(&wire->nudges, -1);
    return &wire->wire;
}
