"""Who is connected to whom: channels as a node has them, its links, and the lock over both."""
