"""A typed binary event transport: declare events as dataclasses, send them as they lie in memory.

Everything that component code uses is here; `ARCHITECTURE.md` takes you round the house. What declares
events is imported at once; what encodes, converts and sends them on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

from echo_core.errors import (
    BacklogError,
    ChannelError,
    ClosedError,
    CompileError,
    ConversionError,
    EchoError,
    EncodeError,
    FormatError,
    IncompatibleError,
    LinkError,
    PlaintextWarning,
    RefusedError,
    TimedOutError,
    WireError,
)
from echo_core.events import event, field
from echo_core.formats.abi import Abi
from echo_core.formats.annotations import (
    Array,
    Bytes,
    Chars,
    Complex64,
    Complex128,
    Float16,
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Long,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    ULong,
)
from echo_core.formats.compare import Entry, Report, Verdict, compare
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.formats.token import Token
from echo_core.formats.types import Field

if TYPE_CHECKING:
    from echo_core.backlog import Backlog, WhenFull
    from echo_core.channels import Channel, Watch
    from echo_core.codegen.batches.arrays import array_decoder, array_encoder, column_decoder
    from echo_core.codegen.codecs import Codec, codec, decoder, encoder
    from echo_core.codegen.conversion import converter
    from echo_core.diagnostics import diagnostics
    from echo_core.nodes import Node, create_channel, default_node, open_channel
    from echo_core.notices import (
        EventsLost,
        Notice,
        PeerJoined,
        PeerLeft,
        SourceClosed,
        SourceOpened,
        Unreachable,
    )
    from echo_core.places import Limits, Transport
    from echo_core.sinks import Sink
    from echo_core.sources import Source

__all__ = [
    "Abi",
    "Array",
    "Backlog",
    "BacklogError",
    "Bytes",
    "Channel",
    "ChannelError",
    "Chars",
    "ClosedError",
    "Codec",
    "CompileError",
    "Complex64",
    "Complex128",
    "ConversionError",
    "EchoError",
    "EncodeError",
    "Entry",
    "EventsLost",
    "Field",
    "Float16",
    "Float32",
    "Float64",
    "Format",
    "FormatError",
    "IncompatibleError",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Limits",
    "LinkError",
    "Long",
    "Node",
    "Notice",
    "PeerJoined",
    "PeerLeft",
    "PlaintextWarning",
    "RefusedError",
    "Report",
    "Sink",
    "Source",
    "SourceClosed",
    "SourceOpened",
    "TimedOutError",
    "Token",
    "Transport",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "ULong",
    "Unreachable",
    "Verdict",
    "Watch",
    "WhenFull",
    "WireError",
    "array_decoder",
    "array_encoder",
    "codec",
    "column_decoder",
    "compare",
    "converter",
    "create_channel",
    "decoder",
    "default_node",
    "diagnostics",
    "encoder",
    "event",
    "field",
    "format_of",
    "open_channel",
]

_MODULE_BY_NAME = {
    "Backlog": "echo_core.backlog",
    "Channel": "echo_core.channels",
    "Codec": "echo_core.codegen.codecs",
    "EventsLost": "echo_core.notices",
    "Limits": "echo_core.places",
    "Node": "echo_core.nodes",
    "Notice": "echo_core.notices",
    "PeerJoined": "echo_core.notices",
    "PeerLeft": "echo_core.notices",
    "Sink": "echo_core.sinks",
    "Source": "echo_core.sources",
    "SourceClosed": "echo_core.notices",
    "SourceOpened": "echo_core.notices",
    "Transport": "echo_core.places",
    "Unreachable": "echo_core.notices",
    "Watch": "echo_core.channels",
    "WhenFull": "echo_core.backlog",
    "array_decoder": "echo_core.codegen.batches.arrays",
    "array_encoder": "echo_core.codegen.batches.arrays",
    "codec": "echo_core.codegen.codecs",
    "column_decoder": "echo_core.codegen.batches.arrays",
    "converter": "echo_core.codegen.conversion",
    "create_channel": "echo_core.nodes",
    "decoder": "echo_core.codegen.codecs",
    "default_node": "echo_core.nodes",
    "diagnostics": "echo_core.diagnostics",
    "encoder": "echo_core.codegen.codecs",
    "open_channel": "echo_core.nodes",
}


def __getattr__(name: str) -> Any:
    """A name that is imported on first use."""
    if name not in _MODULE_BY_NAME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(_MODULE_BY_NAME[name]), name)
    globals()[name] = value  # so that it is found without asking from now on
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
