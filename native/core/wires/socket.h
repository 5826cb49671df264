/* The wire over a connected stream socket. */
#ifndef ECHO_CORE_SOCKET_H
#define ECHO_CORE_SOCKET_H

#include "core/wires/wire.h"

#pragma GCC visibility push(hidden)

/* Takes the descriptor over, unless it returns NULL, with errno; EPROTOTYPE: it is a socket of another kind, *kind. */
struct wire *echo_socket_open(int fd, int *kind);

#pragma GCC visibility pop

#endif
