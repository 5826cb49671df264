"""Limits on what a peer may send or make this process store, so that an untrusted peer has a bounded cost.

A message over a limit raises WireError at the receiver and EncodeError at the sender. A link that has reached
a limit refuses further channels, streams or formats with LinkError.
"""

from echo_core.formats.limits import MAX_METADATA_BYTES as MAX_METADATA_BYTES  # of one format

# The handshake: until it ends, the peer is not authenticated.
MAX_HANDSHAKE_BYTES = 4096  # of one message
HANDSHAKE_TIMEOUT_S = 5.0  # from the connection to the last message; enforced by the driver of the handshake
MAX_SILENT = 128  # connections to one node that have not said who they are
MAX_HALF_OPEN = 128  # handshakes in progress on one node with who has proven a key

NODE_ID_BYTES = 16
HOST_ID_BYTES = 16
SOURCE_ID_BYTES = 16
UID_BYTES = 16
NONCE_BYTES = 16
PROOF_BYTES = 32
MIN_KEY_BYTES = 16
MAX_KEY_BYTES = 64  # the limit of BLAKE2b

MAX_ADDRESSES = 8  # of one node
MAX_ADDRESS_BYTES = 255
MAX_NAME_BYTES = 255  # of a node, a channel or a source, in UTF-8
MAX_REASON_BYTES = 1024  # of a refusal or a farewell
MAX_REPORT_BYTES = 64 * 1024  # of the comparison of an incompatible source and sink

# Frames. Streams have the numbers from FIRST_STREAM on, the kinds of control frames are below.
FIRST_STREAM = 64
MAX_CONTROL_BYTES = 128 * 1024  # the payload of a control frame; every message fits
MIN_PAYLOAD_BYTES = MAX_CONTROL_BYTES  # every peer must accept frames of this size
DEFAULT_PAYLOAD_BYTES = 64 * 1024 * 1024

# One event. So many take 0.2 s and 100 MB as dataclasses without slots, and 10 ms to be freed at once.
DEFAULT_EVENT_OBJECTS = 250_000

# One link.
MAX_CHANNELS = 16384
MAX_STREAMS = 65536  # in each direction
MAX_FORMATS = 1024  # in each direction; stored for the lifetime of the link
MAX_LINK_METADATA_BYTES = (
    512 * 1024
)  # of all formats, in each direction: some 19,000 fields, 3 KB each in use
COMPILING_S = 0.5  # of processor time for the peer's formats at once; until then and beyond they are walked
COMPILING_SHARE = 0.05  # of a processor, from then on
HEARING_S = 2.0  # of processor time for what the peer says of channels, sources and formats at once
HEARING_SHARE = 0.1  # of a processor, from then on; what it says next waits
MAX_KNOWN_NODES = 2048  # whose use of these is remembered beyond their links
NEWCOMERS = 4  # all nodes that come to a channel for the first time have what so many may have
LONGEST_REST_S = 5.0  # that one control frame waits, so that the link does not seem to stand still
MAX_WAITING_CONTROL_BYTES = 32 * 1024 * 1024  # frames that wait for a peer which does not read
MAX_TYPES = 256  # declared types of a channel
MAX_MEMBERS = 4096  # of one channel, announced by one peer
MAX_VERSION = (1 << 62) - 1  # of what is said of a member: the member itself can always say more
MAX_EPOCH = (1 << 62) - 1  # of parameters: whoever sets others can always say more
MAX_NUMBER = 2**63 - 1  # of an event when a stream begins; as in native/core/frames.h
MAX_DERIVED = 1024  # channels that are derived from one channel at a time, for all that peers have told
MAX_RELAYED = 1024  # channels times sources of one peer, where these are derived from on receipt
MAX_DERIVED_DEPTH = 8  # of channels that are derived from one another
MAX_DERIVATION_BYTES = (
    96 * 1024
)  # of one, with the metadata that goes along; as in codegen/expressions/limits.py
MAX_PARAMETER_BYTES = 4096 + 32 * 4  # of all parameters of one: as many as a derivation has, and their sizes
MAX_SOURCE_PARAMETERS = 32  # that a source declares, and receivers request
MAX_LINK_PARAMETER_BYTES = 16 * 1024 * 1024  # of names and choices, of all sources of a peer
MAX_FLUSHES = 1024  # in progress at once
MAX_KEPT_EVENTS = 10_000  # of one source, for sinks that come later
MAX_KEPT_BYTES = 16 * 1024 * 1024  # of their records
MAX_LINK_KEPT_BYTES = 256 * 1024 * 1024  # of those of all sources of a peer, at the side of the sinks
