"""From members to a struct: sizes and offsets as a C compiler for an ABI would choose them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from echo_core.formats.abi import Abi, ByteOrder
from echo_core.formats.types import Field, Record, round_up


@dataclass(frozen=True, slots=True)
class Layout:
    """A record as one machine holds it: all that a stranger needs in order to read its bytes."""

    byte_order: ByteOrder
    pointer_size: int
    record: Record


def place(name: str, members: Iterable[Field], abi: Abi, python: type[Any] | None = None) -> Record:
    """The record that `abi` makes of these members, in their order; their offsets are ignored.

    A record without members is one byte long, as in C++, so that every element has a size.
    """
    end, alignment = 0, 1
    fields: list[Field] = []
    for member in members:
        needed = abi.align(member.type.alignment)
        offset = round_up(end, needed)
        fields.append(replace(member, offset=offset))
        end = offset + member.type.size
        alignment = max(alignment, needed)
    return Record(name, round_up(max(end, 1), alignment), alignment, tuple(fields), python)
