"""A typed binary event transport: declare events as dataclasses, send them as they lie in memory.

Everything that component code uses is here; `ARCHITECTURE.md` takes you round the house.
"""

from echo_core.codegen.codecs import Decoder, Encoder, decoder, encoder
from echo_core.errors import (
    ConversionError,
    EchoError,
    EncodeError,
    FormatError,
    IncompatibleError,
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

__all__ = [
    "Abi",
    "Array",
    "Bytes",
    "Chars",
    "Complex64",
    "Complex128",
    "ConversionError",
    "Decoder",
    "EchoError",
    "EncodeError",
    "Encoder",
    "Entry",
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
    "Long",
    "Report",
    "Token",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "ULong",
    "Verdict",
    "WireError",
    "compare",
    "decoder",
    "encoder",
    "event",
    "field",
    "format_of",
]
