"""IR to machine code in memory, and from one process to the next."""
