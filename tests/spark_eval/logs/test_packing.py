"""Blocks into tasks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_core.spark_eval.logs.packing import Extent, Place, packed, parts_of, reached
from tests.formats.strategies import examples

SIZES = st.lists(st.tuples(st.integers(1, 100), st.integers(1, 10), st.booleans()), max_size=30)


def extents_of(sizes: list[tuple[int, int, bool]]) -> list[Extent]:
    """Blocks of such bytes and events, some of which are wanted: between those lie others."""
    ends = [(1, 4096), *((1 + i // 10, 100 * (i % 10) + 4196) for i in range(len(sizes)))]
    pairs = zip(itertools.pairwise(ends), sizes, strict=True)
    return [Extent(begin, end, size, events) for (begin, end), (size, events, wanted) in pairs if wanted]


@pytest.mark.parametrize(
    ("total_mib", "most_mib", "cores", "parts"),
    [(0, 128, 2, 1), (10, 128, 8, 1), (96, 128, 2, 2), (384, 128, 2, 4), (100, 128, 64, 6), (100, 1, 2, 100)],
)
def test_cores_have_as_much_to_do(total_mib: int, most_mib: int, cores: int, parts: int) -> None:
    """Unless that is too little for a task."""
    assert parts_of(total_mib << 20, most_mib << 20, cores) == parts


@examples(100)
@given(sizes=SIZES, count=st.integers(1, 40))
def test_every_block_is_in_one_part(sizes: list[tuple[int, int, bool]], count: int) -> None:
    """Parts are in order, do not overlap, and hold no more than a block too much."""
    extents = extents_of(sizes)
    parts = list(packed(extents, count))
    assert parts == sorted(parts)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(parts))
    held = [[it for it in extents if begin <= it.begin and it.end <= end] for begin, end in parts]
    assert [it for part in held for it in part] == extents
    total = sum(it.bytes for it in extents)
    assert len(parts) <= count
    assert all(sum(it.bytes for it in part) <= total / count + 101 for part in held)


@examples(100)
@given(sizes=SIZES, most=st.integers(1, 40))
def test_limit_of_rows_is_kept_but_for_one_block(sizes: list[tuple[int, int, bool]], most: int) -> None:
    """So that a stream goes on, whatever the limit."""
    extents = extents_of(sizes)
    start: Place = (1, 4096)
    end = reached(extents, most, start)
    taken = [it for it in extents if it.end <= end]
    assert (end == start) is (not extents)
    assert len(taken) <= 1 or sum(it.events for it in taken) <= most
    left = [it for it in extents if it.end > end]
    assert not left or sum(it.events for it in [*taken, left[0]]) > most
