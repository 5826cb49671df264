"""Limits of event logs, for those who write and for those who read what anybody may have written."""

# A block is closed when its records reach this, so that a reader holds and loses little at once.
BLOCK_BYTES = 1024 * 1024
# No reader takes a block of several records with more, nor one of a single record with more than the second.
MAX_BLOCK_BYTES = 16 * 1024 * 1024
MAX_EVENT_BYTES = 64 * 1024 * 1024
SEGMENT_BYTES = 256 * 1024 * 1024  # where a segment ends by default
MIN_SEGMENT_BYTES = 64 * 1024  # the smallest for which that may be set
MAX_ROTATE_BYTES = 1024 * 1024 * 1024  # the largest
# The largest that a reader takes. What a segment declares at its start comes on top of where it is to end.
MAX_SEGMENT_BYTES = 4 * 1024 * 1024 * 1024
MAX_BLOCKS = 1024 * 1024  # of one segment
MAX_SEGMENTS = 1024 * 1024  # of one log
MAX_FORMATS = 1024  # declared in one segment
MAX_STREAMS = 65_536  # declared in one segment
MAX_NAME_BYTES = 4096  # of the name of a channel, source, node or consumer, in UTF-8
MAX_CAUSE_BYTES = 1024  # of what a gap says of its cause
MIN_STAGED_BYTES = 2 * 1024 * 1024  # the least that a writer may hold in memory
MAX_STAGED_BYTES = 16 * 1024 * 1024  # what a writer holds in memory by default
