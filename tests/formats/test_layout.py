"""Sizes and offsets against numbers written by hand; test_compilers.py holds them to compilers."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import echo_core as echo
from echo_core.formats.abi import ABI_BY_NAME, abi_named
from echo_core.formats.layout import place
from echo_core.formats.types import (
    Blob,
    Field,
    Kind,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
)
from tests.formats.samples import Batch, Odd, Particle

PARTICLE = [0, 8, 16, 24, 32, 36, 40, 44, 48, 52, 54, 55, 56, 64, 72, 88]
LP64 = ["x86_64", "aarch64", "riscv64", "s390x", "ppc64", "ppc64le", "sparc64"]
ILP32 = ["armhf", "mips", "ppc", "sparc"]

KNOWN: list[tuple[type[Any], list[str], int, list[int]]] = [
    (Particle, LP64 + ILP32, 96, PARTICLE),
    (Particle, ["i386", "m68k"], 92, PARTICLE),
    (Batch, LP64, 24, [0, 8, 16]),
    (Batch, [*ILP32, "i386", "m68k"], 16, [0, 8, 12]),
    (Odd, LP64, 64, [0, 8, 16, 24, 32, 40, 48, 56]),
    (Odd, [*ILP32, "i386"], 40, [0, 4, 8, 16, 24, 28, 32, 36]),
    (Odd, ["m68k"], 36, [0, 2, 6, 14, 22, 24, 28, 32]),
]
CASES = [(cls, abi, size, offsets) for cls, abis, size, offsets in KNOWN for abi in abis]


@pytest.mark.parametrize(("cls", "abi", "size", "offsets"), CASES)
def test_workload_is_laid_out_as_written_by_hand(
    cls: type[Any], abi: str, size: int, offsets: list[int]
) -> None:
    """`Particle`, `Batch` and `Odd` lie as the numbers above say."""
    format_ = echo.format_of(cls, abi=abi)
    assert [field.offset for field in format_.fields] == offsets
    assert format_.size_bytes == size
    assert format_.byte_order == ABI_BY_NAME[abi].byte_order
    assert format_.pointer_size == ABI_BY_NAME[abi].pointer_size


def test_table_covers_every_known_abi() -> None:
    """No ABI is added without its numbers."""
    assert {abi for _, abi, _, _ in CASES} == set(ABI_BY_NAME) - {"native"}


def scalar(kind: Kind, size: int) -> Scalar:
    return Scalar(kind, size)


def placed(*types: Type, abi: str = "x86_64") -> Record:
    return place("R", [Field(f"f{i}", type_) for i, type_ in enumerate(types)], abi_named(abi))


BYTE, SHORT, WORD, LONG = (Scalar(Kind.INT, size) for size in (1, 2, 4, 8))
PADDED: list[tuple[str, tuple[Type, ...], str, list[int], int, int]] = [
    ("a field after a smaller one", (BYTE, WORD), "x86_64", [0, 4], 8, 4),
    ("a smaller field after a larger one", (WORD, BYTE), "x86_64", [0, 4], 8, 4),
    ("8 bytes on i386", (BYTE, LONG), "i386", [0, 4], 12, 4),
    ("8 bytes on m68k", (BYTE, LONG), "m68k", [0, 2], 10, 2),
    ("a complex aligns as its halves", (BYTE, Scalar(Kind.COMPLEX, 8)), "x86_64", [0, 4], 12, 4),
    ("a double complex", (BYTE, Scalar(Kind.COMPLEX, 16)), "x86_64", [0, 8], 24, 8),
    ("characters align to nothing", (BYTE, Scalar(Kind.CHARS, 8)), "x86_64", [0, 1], 9, 1),
    ("a UUID aligns to nothing", (BYTE, Scalar(Kind.UUID, 16)), "x86_64", [0, 1], 17, 1),
    ("an array aligns as its element", (BYTE, StaticArray(SHORT, (3, 2))), "x86_64", [0, 2], 14, 2),
    ("a reference", (BYTE, Text(8)), "x86_64", [0, 8], 16, 8),
    ("bytes hold two words", (BYTE, Blob(4)), "armhf", [0, 4], 12, 4),
    ("dimensions stand in the slot", (BYTE, Sequence(LONG, (None, 3, None), 4)), "armhf", [0, 4], 16, 4),
    ("an optional number grows by its alignment", (Nullable(WORD), BYTE), "x86_64", [0, 8], 12, 4),
    ("an optional byte", (Nullable(BYTE), BYTE), "x86_64", [0, 2], 3, 1),
    ("an optional text stays as large", (Nullable(Text(8)), BYTE), "x86_64", [0, 8], 16, 8),
]


@pytest.mark.parametrize(
    ("types", "abi", "offsets", "size", "alignment"),
    [case[1:] for case in PADDED],
    ids=[case[0] for case in PADDED],
)
def test_padding_follows_alignment(
    types: tuple[Type, ...], abi: str, offsets: list[int], size: int, alignment: int
) -> None:
    """Members are aligned as their ABI asks, and the struct to its strictest member."""
    record = placed(*types, abi=abi)
    assert [field.offset for field in record.fields] == offsets
    assert (record.size, record.alignment) == (size, alignment)


def test_nested_record_keeps_its_alignment_and_padding() -> None:
    """A struct inside a struct is aligned to its own strictest member."""
    inner = placed(LONG, BYTE)
    outer = placed(BYTE, inner, BYTE)
    assert [field.offset for field in outer.fields] == [0, 8, 24]
    assert (outer.size, outer.alignment) == (32, 8)


def test_nested_record_is_not_capped_by_the_abi() -> None:
    """The ceiling of an ABI is for its scalars; an alignment that a struct was given stays its own."""
    inner = dataclasses.replace(placed(WORD, abi="m68k"), size=16, alignment=16)
    outer = placed(BYTE, StaticArray(inner, (2,)), BYTE, Nullable(inner), LONG, abi="m68k")
    assert [field.offset for field in outer.fields] == [0, 16, 48, 64, 96]
    assert (outer.size, outer.alignment) == (112, 16)


def test_packed_members_stand_side_by_side() -> None:
    """As with C's attributes: no padding before a member, whatever it is, and an alignment if given."""
    inner = dataclasses.replace(placed(WORD), size=16, alignment=16)
    fields = [Field("a", BYTE), Field("b", inner), Field("c", LONG)]
    for alignment, size in ((1, 25), (4, 28)):
        record = place("R", fields, abi_named("x86_64"), packed=True, alignment=alignment)
        assert [field.offset for field in record.fields] == [0, 1, 17]
        assert (record.size, record.alignment) == (size, alignment)


def test_empty_record_takes_a_byte() -> None:
    """As in C++, so that every element of an array has a place of its own."""
    empty = dataclasses.make_dataclass("Nothing", [])
    assert echo.format_of(empty).size_bytes == 1
    assert echo.encoder(empty)(empty()) == b"\0"


def test_offsets_given_before_are_ignored() -> None:
    """`place` decides every offset anew."""
    assert placed(WORD).fields == place("R", [Field("f0", WORD, 77)], abi_named("x86_64")).fields
