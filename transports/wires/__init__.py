"""How processes connect: sockets, shared memory, and the thread that accepts connections."""
