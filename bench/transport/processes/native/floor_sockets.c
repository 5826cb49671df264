/* Messages over TCP or Unix stream sockets: one send for each, or 64 KiB at a time. */
#define _GNU_SOURCE
#include "floor.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GATHERED_BYTES = 1 << 16, RECEIVED_BYTES = 1 << 18 };

struct sockets {
    struct carrier carrier;
    size_t size;                 /* of a message */
    int receivers;
    int ends[MOST_RECEIVERS][2]; /* connected: the sender's, the receiver's */
    char *gathered;              /* not yet sent; NULL: each message is sent at once */
    size_t gathered_bytes;
    char *received;              /* read from the socket and not yet taken: from `first` to `end` */
    size_t first, end, room;
};

static void send_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);

        if (sent < 0)
            fail("send");
        bytes += sent;
        size -= sent;
    }
}

static void flush(struct carrier *carrier)
{
    struct sockets *sockets = (struct sockets *)carrier;

    for (int i = 0; i < sockets->receivers; i++)
        send_all(sockets->ends[i][0], sockets->gathered, sockets->gathered_bytes);
    sockets->gathered_bytes = 0;
}

static void nothing_to_flush(struct carrier *carrier)
{
    (void)carrier;
}

static void put_gathering(struct carrier *carrier, const void *message)
{
    struct sockets *sockets = (struct sockets *)carrier;

    if (sockets->gathered_bytes + sockets->size > GATHERED_BYTES)
        flush(carrier);
    memcpy(sockets->gathered + sockets->gathered_bytes, message, sockets->size);
    sockets->gathered_bytes += sockets->size;
}

static void put(struct carrier *carrier, const void *message)
{
    struct sockets *sockets = (struct sockets *)carrier;

    for (int i = 0; i < sockets->receivers; i++)
        send_all(sockets->ends[i][0], message, sockets->size);
}

static void receive(struct sockets *sockets, int fd)
{
    ssize_t got;

    memmove(sockets->received, sockets->received + sockets->first, sockets->end - sockets->first);
    sockets->end -= sockets->first;
    sockets->first = 0;
    got = recv(fd, sockets->received + sockets->end, sockets->room - sockets->end, 0);
    if (got <= 0)
        fail("recv");
    sockets->end += got;
}

static const void *take(struct carrier *carrier, int receiver)
{
    struct sockets *sockets = (struct sockets *)carrier;
    const char *message;

    while (sockets->end - sockets->first < sockets->size)
        receive(sockets, sockets->ends[receiver][1]);
    message = sockets->received + sockets->first;
    sockets->first += sockets->size;
    return message;
}

static void connect_tcp(int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int on = 1, listening = socket(AF_INET, SOCK_STREAM, 0);

    if (bind(listening, (struct sockaddr *)&address, length) || listen(listening, 1) ||
        getsockname(listening, (struct sockaddr *)&address, &length))
        fail("listen");
    ends[1] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(ends[1], (struct sockaddr *)&address, length))
        fail("connect");
    ends[0] = accept(listening, NULL, NULL);
    if (ends[0] < 0)
        fail("accept");
    close(listening);
    for (int i = 0; i < 2; i++)
        setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static struct sockets *new_sockets(int gathers, size_t size, int receivers)
{
    struct sockets *sockets = calloc(1, sizeof *sockets);

    sockets->carrier.put = gathers ? put_gathering : put;
    sockets->carrier.flush = gathers ? flush : nothing_to_flush;
    sockets->carrier.take = take;
    sockets->size = size;
    sockets->receivers = receivers;
    sockets->gathered = gathers ? malloc(GATHERED_BYTES) : NULL;
    sockets->room = size * 4 > RECEIVED_BYTES ? size * 4 : RECEIVED_BYTES;
    sockets->received = aligned_alloc(64, (sockets->room + 63) / 64 * 64);
    return sockets;
}

struct carrier *socket_carrier(int is_tcp, int gathers, size_t size, int receivers)
{
    /* A larger message gains nothing by waiting. */
    struct sockets *sockets = new_sockets(gathers && size <= GATHERED_BYTES / 2, size, receivers);

    for (int i = 0; i < receivers; i++)
        if (is_tcp)
            connect_tcp(sockets->ends[i]);
        else if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets->ends[i]))
            fail("socketpair");
    return &sockets->carrier;
}

struct carrier *socket_carrier_back(const struct carrier *there)
{
    const struct sockets *its = (const struct sockets *)there;
    struct sockets *sockets = new_sockets(its->gathered != NULL, its->size, 1);

    sockets->ends[0][0] = its->ends[0][1];
    sockets->ends[0][1] = its->ends[0][0];
    return &sockets->carrier;
}
