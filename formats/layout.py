"""From members to a struct: sizes and offsets as a C compiler for an ABI would choose them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from echo_core.formats.abi import Abi, ByteOrder
from echo_core.formats.types import Field, Record, Type, in_place, round_up


@dataclass(frozen=True, slots=True)
class Layout:
    """A record as one machine lays it out: all that is needed to read its bytes."""

    byte_order: ByteOrder
    pointer_size: int
    record: Record


def alignment_of(type_: Type, abi: Abi) -> int:
    """The alignment of a member of this type.

    The ABI's ceiling is for numbers and slots. A record keeps its own alignment, which an attribute may
    have put above the ceiling: no compiler caps it once more.
    """
    type_ = in_place(type_)
    return type_.alignment if isinstance(type_, Record) else abi.align(type_.alignment)


def place(
    name: str,
    members: Iterable[Field],
    abi: Abi,
    python: type[Any] | None = None,
    *,
    packed: bool = False,
    alignment: int = 1,
) -> Record:
    """The record that `abi` makes of these members, in their order; their offsets are ignored.

    `packed` and `alignment` are C's attributes: no padding between members, and an alignment at least
    so strict. A record without members is one byte long, as in C++, so that every element has a size.
    """
    end = 0
    fields: list[Field] = []
    for member in members:
        needed = 1 if packed else alignment_of(member.type, abi)
        offset = round_up(end, needed)
        fields.append(replace(member, offset=offset))
        end = offset + member.type.size
        alignment = max(alignment, needed)
    return Record(name, round_up(max(end, 1), alignment), alignment, tuple(fields), python=python)
