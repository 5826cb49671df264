"""From formats to routines that encode, decode and convert. No sockets, no channels."""
