"""Named limits on what a peer may send or make this process keep, so that a stranger costs a bounded amount.

What is over a limit in a message is a WireError at the receiver and an EncodeError at the sender; a link
that is full refuses (LinkError) what would be one too many.
"""

# The handshake, before which a peer is nobody.
MAX_HANDSHAKE_BYTES = 4096  # of one message
HANDSHAKE_TIMEOUT_S = 5.0  # from the connection to the last message; whoever drives a handshake keeps it
MAX_HALF_OPEN = 128  # connections that a node lets be in a handshake at once

NODE_ID_BYTES = 16
HOST_ID_BYTES = 16
CHANNEL_ID_BYTES = 16
NONCE_BYTES = 16
PROOF_BYTES = 32
SECRET_BYTES = 32
MIN_KEY_BYTES = 16
MAX_KEY_BYTES = 64  # what BLAKE2b takes

MAX_ADDRESSES = 8  # of one node
MAX_ADDRESS_BYTES = 255
MAX_NAME_BYTES = 255  # of a node, a channel or a source, in UTF-8
MAX_REASON_BYTES = 1024  # of a refusal or a farewell
MAX_REPORT_BYTES = 64 * 1024  # of what keeps a sink's type from being reached

# Frames.
MAX_CONTROL_BYTES = 128 * 1024  # the payload of a control frame; every message below fits
MIN_PAYLOAD_BYTES = MAX_CONTROL_BYTES  # what every peer has to take
DEFAULT_PAYLOAD_BYTES = 64 * 1024 * 1024
MAX_PAYLOAD_BYTES = 2**32 - 1

# One link.
MAX_CHANNELS = 16384
MAX_STREAMS = 65536  # in each direction
MAX_FORMATS = 1024  # in each direction; they are kept as long as the link lives
MAX_METADATA_BYTES = 64 * 1024  # of one format; the same as in formats/limits.py
MAX_LINK_METADATA_BYTES = 16 * 1024 * 1024  # of all formats, in each direction
MAX_TYPES = 256  # that a channel is declared with
MAX_MEMBERS = 4096  # of one channel, that one peer may tell of
MAX_FLUSHES = 1024  # that are under way at once
