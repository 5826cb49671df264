"""A typed binary event transport: declare events as dataclasses, send them as they lie in memory.

Everything that component code uses is here; `ARCHITECTURE.md` takes you round the house. What declares
events is imported at once, what encodes and converts them on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

from echo_core.errors import (
    CompileError,
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

if TYPE_CHECKING:
    from echo_core.codegen.batches.arrays import array_decoder, array_encoder, column_decoder
    from echo_core.codegen.codecs import Codec, codec, decoder, encoder
    from echo_core.codegen.conversion import converter
    from echo_core.diagnostics import diagnostics

__all__ = [
    "Abi",
    "Array",
    "Bytes",
    "Chars",
    "Codec",
    "CompileError",
    "Complex64",
    "Complex128",
    "ConversionError",
    "EchoError",
    "EncodeError",
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
    "array_decoder",
    "array_encoder",
    "codec",
    "column_decoder",
    "compare",
    "converter",
    "decoder",
    "diagnostics",
    "encoder",
    "event",
    "field",
    "format_of",
]

_MODULE_BY_NAME = {
    "Codec": "echo_core.codegen.codecs",
    "array_decoder": "echo_core.codegen.batches.arrays",
    "array_encoder": "echo_core.codegen.batches.arrays",
    "codec": "echo_core.codegen.codecs",
    "column_decoder": "echo_core.codegen.batches.arrays",
    "converter": "echo_core.codegen.conversion",
    "decoder": "echo_core.codegen.codecs",
    "diagnostics": "echo_core.diagnostics",
    "encoder": "echo_core.codegen.codecs",
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
