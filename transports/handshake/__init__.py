"""The handshake (sans-I/O): two processes prove to each other that they know a channel's key."""
