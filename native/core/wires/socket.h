/* The wire over a connected stream socket. */
#pragma once

#include "core/wires/wire.h"

/* Takes the descriptor over, unless it returns NULL, with errno; EPROTOTYPE: it is a socket of another kind, *kind. */
struct wire *echo_socket_open(int fd, int *kind);
