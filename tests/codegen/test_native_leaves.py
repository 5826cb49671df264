"""Times, UUIDs, complex numbers and small floats in C: what formats/leaves.py makes of them."""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import math
import struct
import sys
import uuid
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import echo_core as echo
from echo_core._c import events
from echo_core.codegen import cpython
from echo_core.codegen.plain.generic import GenericCodec
from echo_core.errors import EchoError
from echo_core.formats.declare import format_of
from tests.codegen.test_value_trees import demand_walker
from tests.formats.strategies import examples

BERLIN = ZoneInfo("Europe/Berlin")
INT64 = st.integers(-(2**63), 2**63 - 1)
ZONES = st.sampled_from(
    [
        dt.UTC,
        dt.timezone(dt.timedelta(0), "zero"),
        dt.timezone(dt.timedelta(hours=5, minutes=45, microseconds=7)),
        dt.timezone(-dt.timedelta(hours=23, minutes=59)),
        BERLIN,
    ]
)


class Late(dt.datetime):
    """A datetime of a class of its own."""


class Zone(dt.tzinfo):
    """A zone that only Python code knows."""

    def tzname(self, when: dt.datetime | None) -> str:
        return f"strange in {when and when.year}"

    def dst(self, when: dt.datetime | None) -> None:
        del when


class Strange(Zone):
    """One that has no offset in 1999."""

    def utcoffset(self, when: dt.datetime | None) -> dt.timedelta | None:
        return None if when is None or when.year == 1999 else dt.timedelta(seconds=when.year)


class Wrong(Zone):
    """One that fails."""

    def utcoffset(self, when: dt.datetime | None) -> dt.timedelta | None:
        raise ArithmeticError


@dataclass(slots=True)
class Leaves:
    when: dt.datetime
    span: dt.timedelta
    id: uuid.UUID
    wide: echo.Complex128
    narrow: echo.Complex64
    half: echo.Float16


LEAVES = Leaves(
    dt.datetime(2024, 5, 17, 12, 34, 56, 789012, dt.UTC),
    -dt.timedelta(days=1, microseconds=7),
    uuid.UUID(int=2**127 + 5),
    1 + 2j,
    -0.5j,
    1.5,
)


def generic_codec(cls: type[Any]) -> GenericCodec[Any]:
    format_ = format_of(cls)
    return GenericCodec(cls, format_, format_, lossy=False)


def outcome(call: Any, argument: Any) -> Any:
    """The result, or the error that there is instead."""
    try:
        return call(argument)
    except (EchoError, ArithmeticError) as error:
        return type(error), str(error)


def with_field(name: str, value: Any) -> Leaves:
    return Leaves(**{each: getattr(LEAVES, each) for each in Leaves.__slots__} | {name: value})


def assert_written_alike(name: str, value: Any, *, in_c: bool | None = None) -> None:
    """The walker has the outcome of the generic codec; `in_c` says whether without asking it."""
    walker, generic = demand_walker(Leaves), generic_codec(Leaves)
    event = with_field(name, value)
    assert outcome(walker.encode, event) == outcome(generic.encode, event)
    assert in_c is None or walker.compiled == int(in_c)


def assert_read_alike(name: str, data: bytes) -> None:
    """Whatever the bytes of one field are; all are read without asking the generic codec."""
    walker, generic = demand_walker(Leaves), generic_codec(Leaves)
    at = format_of(Leaves).layout.record.fields[list(Leaves.__slots__).index(name)].offset
    record = generic.encode(LEAVES)
    record = record[:at] + data + record[at + len(data) :]
    ours, theirs = walker.decode(record), generic.decode(record)
    assert repr(ours) == repr(theirs)
    assert type(getattr(ours, name)) is type(getattr(theirs, name))
    assert (walker.compiled, walker.interpreted) == (1, 0)


@examples(400)
@given(st.datetimes(timezones=ZONES, allow_imaginary=True), st.integers(0, 1))
@example(dt.datetime(2023, 10, 29, 2, 30, tzinfo=BERLIN), 1)
@example(dt.datetime(1677, 9, 21, 0, 12, 43, 145225, dt.UTC), 0)
@example(dt.datetime(1677, 9, 21, 0, 12, 43, 145224, dt.UTC), 0)
@example(dt.datetime(2262, 4, 11, 23, 47, 16, 854775, dt.UTC), 0)
@example(dt.datetime(2262, 4, 11, 23, 47, 16, 854776, dt.UTC), 0)
@example(dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), 0)
@example(dt.datetime.max.replace(tzinfo=dt.UTC), 0)
def test_a_datetime_is_the_nanoseconds_that_arithmetic_gives(when: dt.datetime, fold: int) -> None:
    """In every zone, on both sides of a clock that was put back, and refused where it is too far away."""
    assert_written_alike("when", when.replace(fold=fold))


@pytest.mark.parametrize(
    ("value", "in_c"),
    [
        (dt.datetime(2024, 5, 17, tzinfo=Strange()), True),
        (dt.datetime(1999, 5, 17, tzinfo=Strange()), False),
        (dt.datetime(2024, 5, 17), False),
        (dt.datetime(2024, 5, 17, tzinfo=Wrong()), False),
        (Late(2024, 5, 17, tzinfo=dt.UTC), False),
        (dt.date(2024, 5, 17), False),
        (7, False),
        (None, False),
    ],
)
def test_what_is_no_common_datetime_is_judged_as_ever(value: Any, in_c: bool) -> None:
    """Zones are asked; whatever else there is goes to the generic codec."""
    assert_written_alike("when", value, in_c=in_c)


@examples(400)
@given(INT64)
@example(-1)
@example(-999)
@example(-1000)
@example(-(2**63))
@example(2**63 - 1)
@example(951782400 * 10**9)  # 29 February 2000
def test_any_nanoseconds_become_the_same_times(nanoseconds: int) -> None:
    """Cut towards zero, before 1970 and after."""
    data = struct.pack("<q", nanoseconds)
    assert_read_alike("when", data)
    assert_read_alike("span", data)


@examples(200)
@given(st.timedeltas())
@example(dt.timedelta.max)
@example(dt.timedelta.min)
@example(dt.timedelta(microseconds=9223372036854775))
@example(dt.timedelta(microseconds=9223372036854776))
@example(dt.timedelta(microseconds=-9223372036854775))
@example(dt.timedelta(microseconds=-9223372036854776))
def test_a_timedelta_is_the_nanoseconds_that_arithmetic_gives(span: dt.timedelta) -> None:
    """As far as 64 bits reach."""
    assert_written_alike("span", span)


@examples(200)
@given(st.uuids() | st.integers(0, 2**128 - 1).map(lambda number: uuid.UUID(int=number)))
@example(uuid.UUID(int=0))
@example(uuid.UUID(int=2**60 - 1))
@example(uuid.UUID(int=2**64))
@example(uuid.UUID(int=2**128 - 1))
def test_a_uuid_is_its_bytes_and_comes_back_whole(it: uuid.UUID) -> None:
    """Equal, of the same hash and text, and as safe as one that was received can be."""
    assert_written_alike("id", it, in_c=bool(events.HAS_UUIDS))
    assert_read_alike("id", it.bytes)
    again = demand_walker(Leaves).decode(generic_codec(Leaves).encode(with_field("id", it))).id
    assert (again, hash(again), str(again), again.bytes) == (it, hash(it), str(it), it.bytes)
    assert again.is_safe is uuid.SafeUUID.unknown
    assert again.int * 3 // 3 == it.int
    assert (again.int >> 64, again.int & (2**64 - 1)) == (it.int >> 64, it.int & (2**64 - 1))


class MyUUID(uuid.UUID):
    """A UUID of a class of its own."""


@pytest.mark.parametrize("value", [MyUUID(int=7), "0" * 32, 7, bytes(16), None])
def test_what_is_no_uuid_itself_is_judged_as_ever(value: Any) -> None:
    """A subclass may say something else of its bytes."""
    assert_written_alike("id", value, in_c=False)


@examples(200)
@given(st.complex_numbers() | st.floats() | st.integers(-(2**70), 2**70))
@example(complex(1e300, 0))
@example(complex(0, -1e300))
@example(10**400)
def test_complex_numbers_are_written_alike(number: Any) -> None:
    """Real numbers are complex ones too; what a smaller one cannot hold is refused."""
    assert_written_alike("wide", number)
    assert_written_alike("narrow", number)


@examples(200)
@given(st.binary(min_size=16, max_size=16))
def test_any_bytes_are_the_same_complex_numbers(data: bytes) -> None:
    """Infinite ones and NaN among them."""
    assert_read_alike("wide", data)
    assert_read_alike("narrow", data[:8])


@examples(400)
@given(st.floats(width=16) | st.floats(-70000, 70000) | st.floats(-1e-4, 1e-4) | st.floats() | st.integers())
@example(65519.99999999999)
@example(65520.0)
@example(-65520.0)
@example(2.0**-25)
@example(math.nextafter(2.0**-25, 1))
@example(2.0**-14 - 2.0**-26)
@example(5e-324)
@example(-0.0)
@example(math.inf)
@example(math.nan)
def test_a_small_float_is_rounded_as_python_rounds(number: Any) -> None:
    """To the nearest one, of two as near to the even one; what is beyond the largest is refused."""
    assert_written_alike("half", number)


def test_every_small_float_is_read() -> None:
    """All 65,536, at once; a NaN is one of the same sign."""

    @dataclass(slots=True)
    class All:
        halves: list[echo.Float16]

    halves = b"".join(struct.pack("<H", bits) for bits in range(65536))
    record = generic_codec(All).encode(All([])) + halves
    record = struct.pack("<qq", 16, 65536) + record[16:]
    ours, theirs = (codec(record).halves for codec in (demand_walker(All).decode, generic_codec(All).decode))
    assert list(map(repr, ours)) == list(map(repr, theirs))


@dataclass(slots=True)
class Lists:
    times: list[dt.datetime]
    spans: tuple[dt.timedelta, ...]
    ids: list[uuid.UUID]
    maybe: list[dt.datetime | None]
    id: uuid.UUID | None
    deep: list[list[uuid.UUID]]


@examples(100)
@given(st.data())
def test_they_are_written_wherever_they_stand(data: st.DataObject) -> None:
    """In lists, in tuples, where there may be none, and in lists of lists."""
    times = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1), timezones=ZONES)
    spans = st.timedeltas(dt.timedelta(days=-1000), dt.timedelta(days=1000))
    event = Lists(
        data.draw(st.lists(times)),
        tuple(data.draw(st.lists(spans))),
        data.draw(st.lists(st.uuids())),
        data.draw(st.lists(times | st.none())),
        data.draw(st.uuids() | st.none()),
        data.draw(st.lists(st.lists(st.uuids()))),
    )
    walker, generic = demand_walker(Lists), generic_codec(Lists)
    record = generic.encode(event)
    assert walker.encode(event) == record
    assert repr(walker.decode(record)) == repr(generic.decode(record))
    assert walker.interpreted == 0


@given(st.sampled_from(["s390x", "i386"]), st.uuids(), INT64)
@examples(30)
def test_they_come_from_other_machines(abi: str, id_: uuid.UUID, nanoseconds: int) -> None:
    """Of either byte order: what is converted is read by the same code."""
    when = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=nanoseconds // 2000)
    event = Leaves(when, dt.timedelta(microseconds=nanoseconds // 2000), id_, 1 - 2j, 0.5j, -0.25)
    data = echo.encoder(Leaves, abi=abi)(event)
    assert echo.decoder(Leaves, sender=echo.format_of(Leaves, abi=abi))(data) == event


def test_nothing_leaks() -> None:
    """Whether a value is made, written, refused, or goes to the generic codec."""

    @echo.event
    class Kept:
        leaves: list[dt.datetime | None]
        ids: list[uuid.UUID]
        id: uuid.UUID
        when: dt.datetime
        half: echo.Float16 = 0.5

    codec = echo.codec(Kept, tier="auto" if cpython.problem() else "compiled")
    encode, decode, walker = codec.encode, codec.decode, demand_walker(Leaves)
    when = dt.datetime(2024, 5, 17, tzinfo=BERLIN)

    refused: list[Any] = [(), (1,), ([], [], 5, when), ([], [], LEAVES.id, dt.datetime(2024, 5, 17))]

    def use() -> None:
        event = Kept([when, None], [LEAVES.id], LEAVES.id, when=when)
        again = decode(encode(event))
        assert (again.leaves, again.ids, again.id, again.when) == ([when, None], [LEAVES.id], LEAVES.id, when)
        assert walker.decode(walker.encode(LEAVES)) == LEAVES
        for arguments in refused:
            with contextlib.suppress(EchoError, TypeError):
                Kept(*arguments)

    def growth() -> int:
        """In blocks; other threads may take some meanwhile, once."""
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(1000):
            use()
        gc.collect()
        return sys.getallocatedblocks() - before

    growth()
    assert min(growth() for _ in range(4)) < 200
