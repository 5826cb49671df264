"""How processes meet: sockets, memory that they share, and the door by which others come in."""
