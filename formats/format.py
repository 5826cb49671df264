"""Format: a layout with the names by which it is known and the forms that it can take.

Each form is made from the layout alone, in a module of its own. Forms that many processes never need are
imported on first use: together they cost as much as the rest of formats.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from echo_core.formats import dtypes, record_class, tables
from echo_core.formats.abi import Abi, ByteOrder
from echo_core.formats.layout import Layout
from echo_core.formats.token import Token
from echo_core.formats.types import Field, Record, has_parts


@dataclass(frozen=True, repr=False)
class Format:
    """What an event looks like in the memory of the machine that made it.

    `format_of`, `from_metadata`, `from_dtype` and `from_c` make formats. Two are equal when their layouts
    are, names, defaults, aliases and units included; then their metadata and tokens are equal too.
    Documentation and Python types take no part in it. `str` gives the table of `describe`.
    """

    layout: Layout

    @classmethod
    def from_metadata(cls, metadata: bytes) -> Format:
        """The format that a sender's metadata describes.

        Arguments:
            metadata: the bytes of `Format.metadata`, from any machine and of any origin.

        Raises:
            WireError: the bytes are no metadata, or exceed a limit.

        >>> @echo.event
        ... class Point:
        ...     x: float
        >>> sent = echo.format_of(Point, abi="s390x").metadata
        >>> echo.Format.from_metadata(sent)
        Format(Point, 8 bytes, big, 1 fields)
        """
        from echo_core.formats.metadata import from_metadata

        data = bytes(metadata)
        made = cls(from_metadata(data))
        vars(made)["metadata"] = data  # there is one metadata for a layout
        return made

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any] | type[Any] | str, *, name: str = "") -> Format:
        """The format of a numpy structured dtype's records, at the offsets that numpy gave them.

        Arguments:
            dtype: a structured dtype, or what `numpy.dtype` makes one of.
            name: the name of the record. Without one it is known by its shape alone.

        Raises:
            FormatError: the dtype has no fields, or one that no record can have, such as an object.

        >>> echo.Format.from_dtype(np.dtype([("x", "<f8"), ("n", "<i4")]), name="Point")
        Format(Point, 12 bytes, little, 2 fields)
        """
        return cls(dtypes.layout_of(np.dtype(dtype), name))

    @classmethod
    def from_c(cls, text: str, *, name: str | None = None, abi: str | Abi = "native") -> Format:
        """The format of a struct declared in C.

        Arguments:
            text: declarations, without a preprocessor's lines that define anything.
            name: the struct's name; by default the last struct in the text.
            abi: the machine, as in `format_of`.

        Raises:
            FormatError: the text is no C that this reads, or a member has no layout; the message says where.

        >>> echo.Format.from_c("struct Point { double x; int n; };", abi="i386").size_bytes
        12
        """
        from echo_core.formats.c import declarations

        return cls(declarations.layout_of(text, name, abi))

    @property
    def name(self) -> str:
        """The record's name: the class's, for a declared format."""
        return self.layout.record.name

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields, in the order in which they were declared."""
        return self.layout.record.fields

    @property
    def record(self) -> Record:
        """The struct: its fields with their offsets, its size and its alignment."""
        return self.layout.record

    @property
    def byte_order(self) -> ByteOrder:
        """`"little"` or `"big"`."""
        return self.layout.byte_order

    @property
    def pointer_size(self) -> int:
        """The size of pointers, and so of the slots of variable parts: 4 or 8."""
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
        """The description for a receiver that has never seen this format; see `from_metadata`."""
        from echo_core.formats.metadata import to_metadata

        return to_metadata(self.layout)

    @cached_property
    def token(self) -> Token:
        """The format's identity: a hash of its metadata, the same in every process."""
        return Token.of(self.metadata)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype of the same memory. Raises FormatError for a record with variable parts."""
        return dtypes.dtype_of(self.layout)

    def to_c(self) -> str:
        """A C header whose struct lies in memory exactly so, or does not compile.

        >>> header = echo.Format.from_c("struct Point { double x; };").to_c()
        >>> "double x;" in header
        True
        """
        from echo_core.formats.c import header

        return header.header_of(self.layout)

    def record_class(self) -> type[Any]:
        """The dataclass of these records: the declared one, or one made for a format met on the wire.

        >>> cls = echo.Format.from_c("struct Point { double x; };").record_class()
        >>> cls(x=1.5)
        Point(x=1.5)
        """
        return record_class.class_of(self.layout.record)

    def describe(self) -> str:
        """A table of the fields for a terminal: offset, size, type, name, default, notes."""
        return tables.layout_as_text(self.layout)

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        return f"Format({self.name}, {self.size_bytes} bytes, {self.byte_order}, {len(self.fields)} fields)"

    def _repr_html_(self) -> str:
        return tables.layout_as_html(self.layout)
