"""How bytes get from one process to another: links, frames and addresses.

This room sees a message as a frame: a header and a run of bytes it need not understand. What the
bytes mean is decided elsewhere, so nothing here takes a record apart, and llvmlite is never
imported. `codegen` is a sibling: neither room imports the other.
"""
