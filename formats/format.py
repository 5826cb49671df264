"""Format: a layout with the names by which it is known and the forms that it can take.

The forms are made in modules of their own, each from the layout alone; this one only gathers them. What a
process may never ask for is imported when it is asked for: together it costs as much as the rest of formats.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from echo_core.formats import dtypes, record_class
from echo_core.formats.abi import Abi, ByteOrder
from echo_core.formats.layout import Layout
from echo_core.formats.token import Token
from echo_core.formats.types import Field, Record, has_parts


@dataclass(frozen=True, repr=False)
class Format:
    """What an event looks like in the memory of the machine that made it.

    Two formats are equal when their layouts are, names, defaults, aliases and units included; then their
    metadata and tokens are equal too. Documentation and Python types take no part in it.
    """

    layout: Layout

    @classmethod
    def from_metadata(cls, metadata: bytes) -> Format:
        """The format that a peer's metadata describes, or WireError."""
        from echo_core.formats.metadata import from_metadata

        data = bytes(metadata)
        made = cls(from_metadata(data))
        vars(made)["metadata"] = data  # what was read would be written like this
        return made

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any] | type[Any] | str, *, name: str = "Record") -> Format:
        """The format of a numpy structured dtype's records, at the offsets that numpy gave them."""
        return cls(dtypes.layout_of(np.dtype(dtype), name))

    @classmethod
    def from_c(cls, text: str, *, name: str | None = None, abi: str | Abi = "native") -> Format:
        """The format of a struct declared in C: the one called `name`, or the last in the text."""
        from echo_core.formats.c import declarations

        return cls(declarations.layout_of(text, name, abi))

    @property
    def name(self) -> str:
        return self.layout.record.name

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.layout.record.fields

    @property
    def record(self) -> Record:
        return self.layout.record

    @property
    def byte_order(self) -> ByteOrder:
        return self.layout.byte_order

    @property
    def pointer_size(self) -> int:
        return self.layout.pointer_size

    @property
    def size_bytes(self) -> int:
        """The size of the fixed part, which is all of a record that has no variable parts."""
        return self.layout.record.size

    @cached_property
    def is_fixed(self) -> bool:
        """Whether a record has no variable parts."""
        return not has_parts(self.layout.record)

    @cached_property
    def metadata(self) -> bytes:
        """The description to send to who has never seen this format."""
        from echo_core.formats.metadata import to_metadata

        return to_metadata(self.layout)

    @cached_property
    def token(self) -> Token:
        """The name of this format, anywhere."""
        return Token.of(self.metadata)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype of the same memory; FormatError for a record with variable parts."""
        return dtypes.dtype_of(self.layout)

    def to_c(self) -> str:
        """A C header whose struct lies in memory exactly so, or does not compile."""
        from echo_core.formats.c import header

        return header.header_of(self.layout)

    def record_class(self) -> type[Any]:
        """A dataclass for these records: the declared class, or one made for a format met on the wire."""
        return record_class.class_of(self.layout.record)

    def describe(self) -> str:
        """A table of the fields for a terminal."""
        from echo_core.formats.tables import layout_as_text

        return layout_as_text(self.layout)

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        return f"Format({self.name}, {self.size_bytes} bytes, {self.byte_order}, {len(self.fields)} fields)"

    def _repr_html_(self) -> str:
        from echo_core.formats.tables import layout_as_html

        return layout_as_html(self.layout)
