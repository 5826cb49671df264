/* Waiting for the bells of many wires at a time.
 *
 * A bell is told of once, until it is armed again: who is told has the wire, and others wait for the rest. Several
 * threads may wait. An id stands for a bell, and says nothing of what is alive when it is told.
 */
#define _GNU_SOURCE
#include "core/wires/bells.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* No bell's. */
#define CALL UINT64_MAX

#define MAX_AT_ONCE 16

int echo_bells_open(struct bells *bells)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = CALL}; /* one wait for each call */
    int error;

    bells->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (bells->epoll < 0)
        return -errno;
    bells->call = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bells->call >= 0 && epoll_ctl(bells->epoll, EPOLL_CTL_ADD, bells->call, &event) == 0)
        return 0;
    error = errno;
    if (bells->call >= 0)
        close(bells->call);
    close(bells->epoll);
    return -error;
}

void echo_bells_close(struct bells *bells)
{
    close(bells->call);
    close(bells->epoll);
}

int echo_bells_arm(const struct bells *bells, int bell, uint64_t id, enum rings rings, int is_new)
{
    static const uint32_t wanted[] = {
        [RINGS_NOT] = 0,
        [RINGS_LATER] = EPOLLIN,
        [RINGS_NOW] = EPOLLIN | EPOLLOUT, /* nobody waits for room in a socket that has a bell's reader */
    };
    struct epoll_event event = {.events = EPOLLONESHOT | EPOLLRDHUP | wanted[rings], .data.u64 = id};

    return epoll_ctl(bells->epoll, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, bell, &event) == 0 ? 0 : -errno;
}

void echo_bells_drop(const struct bells *bells, int bell)
{
    struct epoll_event unused;

    epoll_ctl(bells->epoll, EPOLL_CTL_DEL, bell, &unused);
}

void echo_bells_call(const struct bells *bells)
{
    if (write(bells->call, &(uint64_t){1}, sizeof(uint64_t)) < 0)
        return; /* EAGAIN: called often enough */
}

int echo_bells_wait(const struct bells *bells, uint64_t *ids, int room, int timeout_ms)
{
    struct epoll_event events[MAX_AT_ONCE];
    int count, told = 0;

    count = epoll_wait(bells->epoll, events, room < MAX_AT_ONCE ? room : MAX_AT_ONCE, timeout_ms);
    for (int i = 0; i < count; i++)
        if (events[i].data.u64 != CALL)
            ids[told++] = events[i].data.u64;
    return told;
}
