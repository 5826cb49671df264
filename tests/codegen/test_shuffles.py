"""Records as vectors: the map of bytes as data, the stores that cover a record, and the shuffles as text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core.codegen.emit.ir import Function
from echo_core.codegen.emit.shuffles import (
    MAX_MAPPED_BYTES,
    MAX_UNROLLED,
    ByteMap,
    Chunk,
    Shuffler,
    Sign,
    byte_map,
    chunks_of,
    owned_by_one_chunk,
)
from echo_core.codegen.plans.plan import Cast, Each, Fill, Flag, Move, Operation, When
from tests.codegen.pairs import FLOAT32, FLOAT64, INT16, INT32, INT64, UINT8, UINT16, UINT32
from tests.formats.strategies import examples


def mapped(*operations: Operation, sizes: tuple[int, int] = (8, 8), is_swapped: bool = False) -> ByteMap:
    """The map of these operations, on a little-endian machine."""
    found = byte_map(operations, *sizes, is_swapped=is_swapped, is_little=True)
    assert found is not None
    return found


# ---------------------------------------------------------------------------------------------------
# The map


def test_moved_bytes_come_from_where_they_were() -> None:
    """What nothing writes is zero."""
    assert mapped(Move(2, 5, 3)).sources == (None, None, None, None, None, 2, 3, 4)


@pytest.mark.parametrize(
    ("unit", "expected"),
    [(2, (1, 0, 3, 2, 5, 4, 7, 6)), (4, (3, 2, 1, 0, 7, 6, 5, 4)), (8, tuple(range(7, -1, -1)))],
)
def test_swapped_units_are_mirrored(unit: int, expected: tuple[int, ...]) -> None:
    """Each by itself."""
    assert mapped(Move(0, 0, 8, unit)).sources == expected


def test_constant_bytes_are_in_the_map() -> None:
    """A default costs no instruction of its own."""
    assert mapped(Fill(1, b"ab"), sizes=(8, 4)).sources == (None, b"a", b"b", None)


def test_unsigned_number_grows_by_zeros() -> None:
    """Its bytes are the low ones."""
    grown = mapped(Cast(4, 0, 2, UINT16, UINT32, is_checked=False))
    assert grown.sources == (4, 5, None, None, 6, 7, None, None)
    assert grown.signs == ()


def test_signed_number_grows_from_the_top_of_its_lane() -> None:
    """From where a shift brings it down, its sign filling the lane."""
    grown = mapped(Cast(0, 0, 2, INT16, INT32, is_checked=False))
    assert grown.sources == (None, None, 0, 1, None, None, 2, 3)
    assert grown.signs == (Sign(0, 2, 4), Sign(4, 2, 4))


def test_number_that_grows_is_swapped_on_the_way() -> None:
    """One shuffle does both."""
    cast = Cast(0, 0, 1, INT16, INT32, is_checked=False)
    assert mapped(cast, sizes=(8, 4), is_swapped=True).sources == (None, None, 1, 0)


@pytest.mark.parametrize(
    "operation",
    [
        Cast(0, 0, 1, FLOAT32, FLOAT64, is_checked=False),
        Cast(0, 0, 1, INT64, INT32, is_checked=True),
        Cast(0, 0, 1, INT32, UINT32, is_checked=True),
        Cast(0, 0, 1, UINT32, FLOAT64, is_checked=True),
    ],
    ids=str,
)
def test_cast_that_is_more_than_bytes_is_left_over(operation: Cast) -> None:
    """For the emitter to do afterwards."""
    left = mapped(Move(0, 4, 4), operation)
    assert left.rest == (operation,)
    assert left.sources == (None, None, None, None, 0, 1, 2, 3)


def test_operation_with_a_body_is_left_over_with_it() -> None:
    """Whether a value is there is not known before."""
    when = (When(Flag(4), 4, is_required=False, body=1), Move(0, 0, 4))
    assert mapped(*when, Move(5, 5, 3)).rest == when


def test_number_does_not_grow_in_vectors_on_a_big_endian_machine() -> None:
    """Where its low bytes are the last ones."""
    cast = Cast(0, 0, 1, INT16, INT32, is_checked=False)
    found = byte_map((cast,), 8, 8, is_swapped=False, is_little=False)
    assert found is not None
    assert found.rest == (cast,)


def test_small_static_array_is_mapped_element_by_element() -> None:
    """As if it had been written out."""
    each = (Each(0, 0, 2, 4, 4, 2), Move(0, 2, 2), Fill(0, b"\7"))
    assert mapped(*each).sources == (b"\7", None, 0, 1, b"\7", None, 4, 5)


def test_large_static_array_is_left_over() -> None:
    """A loop is shorter than its map."""
    each = (Each(0, 0, MAX_UNROLLED + 1, 2, 2, 1), Move(0, 1, 1))
    assert mapped(*each, sizes=(2048, 2048)).rest == each


def test_large_record_has_no_map() -> None:
    """Beyond the limit."""
    sizes = MAX_MAPPED_BYTES, MAX_MAPPED_BYTES + 1
    assert byte_map((Move(0, 0, 8),), *sizes, is_swapped=False, is_little=True) is None
    assert byte_map((Move(0, 0, 8),), *sizes[::-1], is_swapped=False, is_little=True) is not None


@pytest.mark.parametrize(
    ("sizes", "moved", "worthwhile"),
    [((8, 8), 8, True), ((7, 8), 7, False), ((8, 7), 7, False), ((8, 8), 4, True), ((8, 8), 3, False)],
)
def test_vectors_are_worthwhile_for_most_of_a_record(
    sizes: tuple[int, int], moved: int, worthwhile: bool
) -> None:
    """And need 8 bytes on both ends."""
    assert mapped(Move(0, 0, moved), sizes=sizes).is_worthwhile is worthwhile


# ---------------------------------------------------------------------------------------------------
# Chunks and windows


@pytest.mark.parametrize(
    ("size", "vector_bytes", "expected"),
    [
        (96, 64, [(0, 64), (64, 32)]),
        (96, 32, [(0, 32), (32, 32), (64, 32)]),
        (100, 64, [(0, 64), (64, 32), (92, 8)]),
        (24, 16, [(0, 16), (16, 8)]),
        (17, 16, [(0, 16), (9, 8)]),
        (15, 16, [(0, 8), (7, 8)]),
        (8, 64, [(0, 8)]),
    ],
)
def test_stores_cover_a_record_the_widest_first(
    size: int, vector_bytes: int, expected: list[tuple[int, int]]
) -> None:
    """The last one reaches back, never beyond."""
    assert chunks_of(size, vector_bytes) == [Chunk(*chunk) for chunk in expected]


@given(st.integers(8, 4096), st.sampled_from((8, 16, 32, 64)))
@examples(200)
def test_chunks_cover_every_byte_and_none_beyond(size: int, vector_bytes: int) -> None:
    """Each of a width that a vector can have."""
    chunks = chunks_of(size, vector_bytes)
    assert {at for c in chunks for at in range(c.start, c.start + c.width)} == set(range(size))
    assert all(c.width in (8, 16, 32, 64) and c.width <= vector_bytes for c in chunks)


@pytest.mark.parametrize(
    ("sign", "owned"),
    [
        (Sign(0, 2, 4), True),
        (Sign(16, 2, 4), False),  # the second store is at 13: its lanes are at 13, 17
        (Sign(17, 2, 4), True),
        (Sign(11, 2, 4), False),  # in two stores
        (Sign(10, 2, 4), False),
        (Sign(12, 2, 4), False),
        (Sign(6, 1, 2), True),
        (Sign(5, 1, 2), False),
    ],
    ids=str,
)
def test_number_that_is_shifted_lies_on_a_lane_of_the_store_that_decides_it(sign: Sign, owned: bool) -> None:
    """Where stores overlap it is the later one."""
    assert owned_by_one_chunk(sign, [Chunk(0, 16), Chunk(13, 8)]) is owned


def shuffled(bytes_: ByteMap, vector_bytes: int) -> list[str]:
    """The instructions for one record."""
    function = Function("void @f(ptr %source, ptr %target)")
    shuffler = Shuffler(function, bytes_, vector_bytes)
    assert shuffler.fits
    shuffler.write("%source", "%target")
    return [line.strip() for line in function.lines]


def loads_of(lines: list[str]) -> list[tuple[int, int]]:
    """Where loads begin and how wide they are."""
    offset_by_name = {"%source": 0}
    found: list[tuple[int, int]] = []
    for line in lines:
        if match := re.match(r"(%\w+) = getelementptr i8, ptr %source, i64 (\d+)", line):
            offset_by_name[match[1]] = int(match[2])
        if match := re.match(r"%\w+ = load <(\d+) x i8>, ptr (%\w+)", line):
            found.append((offset_by_name[match[2]], int(match[1])))
    return found


def test_swapped_record_of_one_vector_is_a_load_a_shuffle_and_a_store() -> None:
    """Three instructions for 64 bytes."""
    lines = shuffled(mapped(Move(0, 0, 64, 8), sizes=(64, 64)), 64)
    assert [re.sub(r".*= ", "", line).split()[0] for line in lines] == ["load", "shufflevector", "store"]
    assert "<64 x i32> <i32 7, i32 6, i32 5" in lines[1]


def test_loads_end_with_the_record() -> None:
    """The last window is moved back where it would reach beyond."""
    lines = shuffled(mapped(Move(90, 0, 8), Move(0, 8, 56), sizes=(98, 64)), 64)
    assert loads_of(lines) == [(0, 64), (34, 64)]


def test_bytes_from_two_windows_are_shuffled_from_both() -> None:
    """One instruction has two vectors to take from."""
    lines = shuffled(mapped(Move(60, 0, 8), Move(0, 8, 8), sizes=(128, 16)), 16)
    assert loads_of(lines) == [(0, 16), (60, 16)]
    assert sum("shufflevector" in line for line in lines) == 1


def test_bytes_from_more_windows_are_blended() -> None:
    """Two at a time; a window that another store has loaded is not loaded again."""
    moves = [Move(32 * i, 4 * i, 4) for i in range(4)]
    bytes_ = mapped(*moves, *(Move(m.source + 4, m.target + 16, 4) for m in moves), sizes=(128, 32))
    lines = shuffled(bytes_, 16)
    assert loads_of(lines)[:4] == [(0, 16), (32, 16), (64, 16), (96, 16)]
    assert sum("shufflevector" in line for line in lines) == 6


def test_loads_serve_all_stores() -> None:
    """The record's own windows, where a store needs no more of them than of windows of its own."""
    moves = (Move(8, 0, 8), Move(40, 8, 8), Move(0, 16, 8), Move(24, 24, 8))
    assert loads_of(shuffled(mapped(*moves, sizes=(48, 32)), 16)) == [(0, 16), (32, 16), (24, 16)]
    lines = shuffled(mapped(Move(4, 0, 16), Move(0, 16, 4), sizes=(32, 32)), 16)
    assert loads_of(lines) == [(4, 16), (0, 16)]


def test_record_scattered_over_too_many_windows_does_not_fit() -> None:
    """Single values are cheaper then."""
    moves = [Move(64 * i, 2 * i, 2) for i in range(8)]
    bytes_ = mapped(*moves, sizes=(512, 16))
    assert not Shuffler(Function("void @f()"), bytes_, 16).fits


def test_constants_and_zeros_are_one_vector() -> None:
    """Blended in last; a record of constants alone needs no load."""
    lines = shuffled(mapped(Move(0, 0, 4), Fill(4, b"\1\2"), sizes=(8, 8)), 16)
    assert "<i8 0, i8 0, i8 0, i8 0, i8 1, i8 2, i8 0, i8 0>" in lines[-2]
    lines = shuffled(mapped(Fill(0, bytes(range(8)))), 16)
    assert len(lines) == 1
    assert lines[0].startswith("store <8 x i8> <i8 0, i8 1, i8 2")


def test_signs_are_shifted_down_in_their_lanes_and_others_left() -> None:
    """One arithmetic shift for all numbers of one width; a lane with another number is shifted by 0."""
    bytes_ = mapped(
        Cast(0, 0, 1, INT16, INT32, is_checked=False),
        Move(2, 4, 4),
        Cast(6, 8, 1, INT16, INT64, is_checked=False),
        sizes=(8, 16),
    )
    text = "\n".join(shuffled(bytes_, 16))
    assert re.search(r"ashr <4 x i32> %v\d+, <i32 16, i32 0, i32 0, i32 0>", text)
    assert re.search(r"ashr <2 x i64> %v\d+, <i64 0, i64 48>", text)


def test_unsigned_numbers_need_no_shift() -> None:
    """Zeros are shuffled in."""
    bytes_ = mapped(Cast(0, 0, 8, UINT8, UINT16, is_checked=False), sizes=(8, 16))
    assert not any("ashr" in line for line in shuffled(bytes_, 16))


@given(st.data())
@examples(150)
def test_loads_stay_within_the_record_and_stores_too(data: st.DataObject) -> None:
    """Whatever the map: the text is read, and every address worked out."""
    source_size, target_size = data.draw(st.integers(8, 200)), data.draw(st.integers(8, 200))
    places = st.none() | st.integers(0, source_size - 1) | st.just(b"\1")
    sources = data.draw(st.lists(places, min_size=target_size, max_size=target_size))
    vector_bytes = data.draw(st.sampled_from((16, 32, 64)))
    bytes_ = ByteMap(source_size, tuple(sources), (), ())
    function = Function("void @f(ptr %source, ptr %target)")
    shuffler = Shuffler(function, bytes_, vector_bytes)
    shuffler.write("%source", "%target")
    for at, width in loads_of([line.strip() for line in function.lines]):
        assert 0 <= at <= source_size - width
    assert shuffler.fits == all(
        len(windows_of(sources[c.start : c.start + c.width], source_size, vector_bytes)) <= 4
        for c in chunks_of(target_size, vector_bytes)
    )


def windows_of(sources: list[int | bytes | None], source_size: int, vector_bytes: int) -> set[int]:
    """The loads that a chunk needs, by the rule: from the least byte on, again where one is not covered."""
    width = 8
    while 2 * width <= min(vector_bytes, source_size):
        width *= 2
    found: set[int] = set()
    left = {s for s in sources if isinstance(s, int)}
    while left:
        begin = min(min(left), source_size - width)
        found.add(begin)
        left -= set(range(begin, begin + width))
    return found
