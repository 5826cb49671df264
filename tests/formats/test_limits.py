"""Each named limit at one below, at it, and one above: for what is declared and for what a peer sends."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, cast

import pytest

import echo_core as echo
from echo_core.errors import FormatError, WireError
from echo_core.formats import limits
from echo_core.formats.abi import abi_named
from echo_core.formats.entries import Code
from echo_core.formats.layout import Layout, place
from echo_core.formats.metadata import to_metadata
from echo_core.formats.types import (
    Default,
    Enumeration,
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
from tests.formats.tables import built, field, record, recounted, tables_of, wrapper

BYTE = Scalar(Kind.INT, 1)
X86 = abi_named("x86_64")


# Declarations: a class that has `n` of what is limited.


def declared_bytes_of_metadata(n: int) -> type[Any]:
    fields = [(f"f{i}", str, "x" * limits.MAX_DEFAULT_BYTES) for i in range(15)]
    empty = dataclasses.make_dataclass("R", [*fields, ("last", str, "")])
    left = n - len(echo.format_of(empty).metadata)
    return dataclasses.make_dataclass("R", [*fields, ("last", str, "x" * left)])


def declared_bytes(n: int) -> type[Any]:
    half = limits.MAX_RECORD_BYTES // 2
    arrays = [("a", echo.Array[echo.Int8, half]), ("b", echo.Array[echo.Int8, n - half])]
    return dataclasses.make_dataclass("R", arrays)


def declared_fields(n: int) -> type[Any]:
    return dataclasses.make_dataclass("R", [(f"f{i}", echo.Int8) for i in range(n)])


def declared_nested_fields(n: int) -> type[Any]:
    inner: Any = dataclasses.make_dataclass("Inner", [(f"f{i}", echo.Int8) for i in range(400)])
    listed: Any = list
    fields = [("a", inner), ("b", listed[inner]), *((f"f{i}", echo.Int8) for i in range(n - 802))]
    return dataclasses.make_dataclass("R", fields)


def declared_lists(n: int) -> type[Any]:
    annotation: Any = echo.Int8
    for _ in range(n - 1):  # the record itself is one level
        annotation = list[annotation]
    return dataclasses.make_dataclass("R", [("x", annotation)])


def declared_classes(n: int) -> type[Any]:
    annotation: Any = echo.Int8
    for i in range(n):
        annotation = dataclasses.make_dataclass(f"R{i}", [("x", annotation)])
    return cast("type[Any]", annotation)


def declared_wrappers(n: int) -> type[Any]:
    deep = list[list[list[list[list[echo.Int8]]]]]
    fields: list[tuple[str, Any]] = [(f"f{i}", deep) for i in range(n // 5)]
    fields += [(f"g{i}", list[echo.Int8]) for i in range(n % 5)]
    return dataclasses.make_dataclass("R", fields)


def declared_dimensions(n: int) -> type[Any]:
    shape: tuple[Any, ...] = (2,) * n
    return dataclasses.make_dataclass("R", [("x", echo.Array[(echo.Int8, *shape)])])


def declared_varying_dimensions(n: int) -> type[Any]:
    shape: tuple[Any, ...] = (...,) * n
    return dataclasses.make_dataclass("R", [("x", echo.Array[(echo.Int8, *shape)])])


def declared_field_name(n: int) -> type[Any]:
    return dataclasses.make_dataclass("R", [("é" * (n // 2) + "x" * (n % 2), echo.Int8)])


def declared_class_name(n: int) -> type[Any]:
    return dataclasses.make_dataclass("R" * n, [("x", echo.Int8)])


def declared_unit(n: int) -> type[Any]:
    return dataclasses.make_dataclass("R", [("x", echo.Int8, echo.field(unit="m" * n))])


def declared_alias(n: int) -> type[Any]:
    return dataclasses.make_dataclass("R", [("x", echo.Int8, echo.field(aliases=("y" * n,)))])


def declared_aliases(n: int) -> type[Any]:
    names = tuple(f"y{i}" for i in range(n))
    return dataclasses.make_dataclass("R", [("x", echo.Int8, echo.field(aliases=names))])


def declared_former_names(n: int) -> type[Any]:
    names = tuple(f"R{i}" for i in range(n))
    plain: type[Any] = dataclasses.make_dataclass("R", [("x", echo.Int8)])
    return echo.named(aliases=names)(plain)


def declared_members(n: int) -> type[Any]:
    made: Any = enum.IntEnum  # mypy asks for members that are written out
    numbered = made("Numbered", [(f"M{i}", i) for i in range(n)])
    return dataclasses.make_dataclass("R", [("x", numbered)])


DECLARED: list[tuple[int, Callable[[int], type[Any]]]] = [
    (limits.MAX_METADATA_BYTES, declared_bytes_of_metadata),
    (limits.MAX_RECORD_BYTES, declared_bytes),
    (limits.MAX_FIELDS, declared_fields),
    (limits.MAX_FIELDS, declared_nested_fields),
    (limits.MAX_NESTING, declared_lists),
    (limits.MAX_NESTING, declared_classes),
    (limits.MAX_WRAPPERS, declared_wrappers),
    (limits.MAX_DIMENSIONS, declared_dimensions),
    (limits.MAX_DIMENSIONS, declared_varying_dimensions),
    (limits.MAX_NAME_BYTES, declared_field_name),
    (limits.MAX_NAME_BYTES, declared_class_name),
    (limits.MAX_NAME_BYTES, declared_unit),
    (limits.MAX_NAME_BYTES, declared_alias),
    (limits.MAX_ALIASES, declared_aliases),
    (limits.MAX_ALIASES, declared_former_names),
    (limits.MAX_ENUM_MEMBERS, declared_members),
]


@pytest.mark.parametrize(("limit", "declared"), DECLARED)
def test_declaration_up_to_the_limit_has_a_format(limit: int, declared: Callable[[int], type[Any]]) -> None:
    """One below and the limit itself are declared, and the format can be sent."""
    for n in (limit - 1, limit):
        format_ = echo.format_of(declared(n))
        assert echo.Format.from_metadata(format_.metadata) == format_


@pytest.mark.parametrize(("limit", "declared"), DECLARED)
def test_declaration_above_the_limit_is_refused(limit: int, declared: Callable[[int], type[Any]]) -> None:
    """One above is the caller's fault, where it is declared."""
    cls = declared(limit + 1)
    with pytest.raises(FormatError, match="Expected"):
        echo.format_of(cls)


def test_default_above_the_limit_stays_with_its_class() -> None:
    """A long default is not refused: it is made where it is needed, as a factory's is."""
    for n, local in [
        (limits.MAX_DEFAULT_BYTES - 1, False),
        (limits.MAX_DEFAULT_BYTES, False),
        (limits.MAX_DEFAULT_BYTES + 1, True),
    ]:
        cls = dataclasses.make_dataclass("R", [("x", bytes, b"x" * n)])
        default = echo.format_of(cls).fields[0].default
        assert default is not None
        assert default.local is local


# Metadata: bytes that describe `n` of what is limited, whether any layout may have it or not.


def sent(*fields: Field, alignment: int | None = None, name: str = "R") -> bytes:
    placed = place(name, fields, X86)
    size = 32 if alignment else placed.size
    return to_metadata(Layout("little", 8, Record(name, size, alignment or placed.alignment, placed.fields)))


def sent_bytes_of_metadata(n: int) -> bytes:
    layout = Layout(
        "little", 8, echo.format_of(declared_bytes_of_metadata(limits.MAX_METADATA_BYTES - 1)).record
    )
    tables = tables_of(layout)
    longer = n - (limits.MAX_METADATA_BYTES - 1)
    tables["fields"][-1]["default_size"] += longer
    tables["texts"] += b"x" * longer
    return recounted(tables)


def sent_bytes(n: int) -> bytes:
    half = limits.MAX_RECORD_BYTES // 2
    return sent(Field("a", StaticArray(BYTE, (half,))), Field("b", StaticArray(BYTE, (n - half,))))


def sent_fields(n: int) -> bytes:
    names = [f"f{i:04}" for i in range(n)]
    fields = [field(5, offset=i) for i in range(n)]
    texts = ("R" + "".join(names)).encode()
    return built({"records": [record(1, n, n)], "fields": fields, "texts": texts})


def sent_nested_fields(n: int) -> bytes:
    inner = place("Inner", [Field(f"f{i}", BYTE) for i in range(400)], X86)
    others = [Field(f"f{i}", BYTE) for i in range(n - 802)]
    return sent(Field("a", inner), Field("b", Sequence(inner, (None,), 8)), *others)


def sent_wrappers(n: int) -> bytes:
    type_: Type = BYTE
    for _ in range(n - 1):
        type_ = Sequence(type_, (None,), 8)
    return sent(Field("x", type_))


def sent_all_wrappers(n: int) -> bytes:
    tables = tables_of(echo.format_of(declared_wrappers(limits.MAX_WRAPPERS - 1)).layout)
    for i in range(n - (limits.MAX_WRAPPERS - 1)):  # lists become lists of optionals
        at = sum(entry["wrappers"] for entry in tables["fields"][: i + 1])
        tables["fields"][i]["wrappers"] += 1
        tables["wrappers"].insert(at, wrapper(Code.NULLABLE))
    return recounted(tables)


def sent_records(n: int) -> bytes:
    type_: Type = BYTE
    for i in range(n):
        type_ = place(f"R{i}", [Field("x", type_)], X86)
    assert isinstance(type_, Record)
    return to_metadata(Layout("little", 8, type_))


def sent_dimensions(n: int) -> bytes:
    return sent(Field("x", StaticArray(BYTE, (2,) * n)))


def sent_varying_dimensions(n: int) -> bytes:
    return sent(Field("x", Sequence(BYTE, (None,) * n, 8)))


def sent_elements(n: int) -> bytes:
    """A sequence that grows by so many bytes with each of its varying length."""
    return sent(Field("x", Sequence(BYTE, (None, n), 8)))


def sent_aliases(n: int) -> bytes:
    return sent(Field("x", BYTE, aliases=tuple(f"y{i}" for i in range(n))))


def sent_former_names(n: int) -> bytes:
    names = tuple(f"R{i}" for i in range(n))
    return to_metadata(Layout("little", 8, Record("R", 1, 1, (Field("x", BYTE),), names)))


def sent_members(n: int) -> bytes:
    return sent(Field("x", Enumeration("E", 4, tuple((f"M{i}", i) for i in range(n)))))


def sent_default(n: int) -> bytes:
    return sent(Field("x", Text(8), default=Default(b"x" * n)))


METADATA: list[tuple[int, Callable[[int], bytes]]] = [
    (limits.MAX_METADATA_BYTES, sent_bytes_of_metadata),
    (limits.MAX_RECORD_BYTES, sent_bytes),
    (limits.MAX_RECORD_BYTES, sent_elements),
    (limits.MAX_FIELDS, sent_fields),
    (limits.MAX_FIELDS, sent_nested_fields),
    (limits.MAX_NESTING, sent_wrappers),
    (limits.MAX_NESTING, sent_records),
    (limits.MAX_WRAPPERS, sent_all_wrappers),
    (limits.MAX_DIMENSIONS, sent_dimensions),
    (limits.MAX_DIMENSIONS, sent_varying_dimensions),
    (limits.MAX_ALIASES, sent_aliases),
    (limits.MAX_ALIASES, sent_former_names),
    (limits.MAX_ENUM_MEMBERS, sent_members),
    (limits.MAX_DEFAULT_BYTES, sent_default),
]


@pytest.mark.parametrize(("limit", "sent"), METADATA)
def test_metadata_up_to_the_limit_is_accepted(limit: int, sent: Callable[[int], bytes]) -> None:
    """One below and the limit itself give a format, whose metadata is the same again."""
    for n in (limit - 1, limit):
        data = sent(n)
        assert echo.Format.from_metadata(data).metadata == data


@pytest.mark.parametrize(("limit", "sent"), METADATA)
def test_metadata_above_the_limit_is_refused(limit: int, sent: Callable[[int], bytes]) -> None:
    """One above is the peer's fault."""
    data = sent(limit + 1)
    with pytest.raises(WireError, match="Expected"):
        echo.Format.from_metadata(data)


def test_metadata_spells_no_name_above_the_limit() -> None:
    """A name's size is a byte, and its greatest value is the limit."""
    for n in (limits.MAX_NAME_BYTES - 1, limits.MAX_NAME_BYTES):
        data = sent(Field("x" * n, BYTE, unit="m" * n, aliases=("y" * n,)), name="R" * n)
        assert echo.Format.from_metadata(data).metadata == data
    with pytest.raises(FormatError):
        sent(Field("x" * (limits.MAX_NAME_BYTES + 1), BYTE))


def test_alignment_is_a_power_of_two_up_to_its_limit() -> None:
    """Only metadata may speak of more than 8; all else is refused."""
    accepted: list[int] = []
    for alignment in range(1, 256):
        try:
            echo.Format.from_metadata(sent(Field("x", BYTE), alignment=alignment))
            accepted.append(alignment)
        except WireError as error:
            assert "alignment" in str(error)  # noqa: PT017 - one of 255
    assert accepted == [1, 2, 4, 8, limits.MAX_ALIGNMENT]


def test_wrapper_count_of_one_field_is_bounded_before_its_wrappers_are_read() -> None:
    """What a field may not have is not looked at."""
    many = limits.MAX_NESTING + 1
    tables = {
        "records": [record(1, 1, 64)],
        "fields": [field(1, wrappers=many)],
        "wrappers": [wrapper(Code.NULLABLE)] * many,
        "texts": b"Rx",
    }
    with pytest.raises(WireError, match="Expected at most 16 levels of nesting, got 17"):
        echo.Format.from_metadata(built(tables))


COUNTS: list[tuple[str, int, Any]] = [
    ("records", limits.MAX_FIELDS + 1, record(0, 0, 1)),
    ("fields", limits.MAX_FIELDS, field(0)),
    ("wrappers", limits.MAX_WRAPPERS, wrapper(Code.NULLABLE)),
    ("enums", limits.MAX_FIELDS, {"name_size": 0, "size": 1, "members": 0}),
    ("aliases", (2 * limits.MAX_FIELDS + 1) * limits.MAX_ALIASES, 0),
]


@pytest.mark.parametrize(("name", "limit", "entry"), COUNTS)
def test_tables_are_not_read_above_what_any_format_needs(name: str, limit: int, entry: Any) -> None:
    """A count above the limit is refused before its table; up to it, for what stands in the table."""
    message = "bytes that do not begin or end as it does"
    for n, is_read in [(limit - 1, True), (limit, True), (limit + 1, False)]:
        with pytest.raises(WireError) as caught:
            echo.Format.from_metadata(built({name: [entry] * n}))
        assert (message not in str(caught.value)) is is_read


def test_every_limit_is_tested_here() -> None:
    """A limit that is added needs its tests."""
    tested = {limit for limit, _ in [*DECLARED, *METADATA]} | {limits.MAX_ALIGNMENT}
    named = {value for name, value in vars(limits).items() if name.startswith("MAX_")}
    assert named == tested


def test_optionals_count_as_a_level() -> None:
    """An optional record in a list in an array in a record is five levels."""
    inner = place("Inner", [Field("x", BYTE)], X86)
    outer = place("R", [Field("x", StaticArray(Sequence(Nullable(inner), (None,), 8), (2,)))], X86)
    assert outer.depth == 5
