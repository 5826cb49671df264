"""The handshake: two processes prove to each other that they know a channel's key. Without I/O."""
