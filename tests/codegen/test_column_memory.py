"""Memory for columns: kept for the next batch, never for two at once."""

from __future__ import annotations

import copy
import errno
import gc
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echo_core.codegen.batches.memory import CACHE_BYTES, MIN_BYTES, Spare, cache_bytes

DOUBLE = np.dtype("f8")
COUNT = MIN_BYTES // 8


def place(array: np.ndarray[Any, Any]) -> int:
    """Where an array begins."""
    return int(array.ctypes.data)


@pytest.mark.parametrize("dtype", ["f8", "S16", "(3,)f4", "?"])
@pytest.mark.parametrize("count", [0, 1, 10, 1_000_000])
def test_array_is_like_one_of_numpys(count: int, dtype: str) -> None:
    """Of any size and type, with rows where an element is an array."""
    made, wanted = Spare().empty(count, np.dtype(dtype)), np.empty(count, dtype)
    assert (made.shape, made.dtype, made.strides) == (wanted.shape, wanted.dtype, wanted.strides)
    assert made.flags.writeable
    made[:] = np.ones(1, dtype)
    assert (made == np.ones(1, dtype)).all()


def test_large_array_begins_on_a_page() -> None:
    """And so on a cache line."""
    assert place(Spare().empty(COUNT, DOUBLE)) % os.sysconf("SC_PAGESIZE") == 0


def test_memory_is_used_again_when_its_last_array_is_gone() -> None:
    """A slice, or a view of another type, is one too."""
    spare = Spare()
    first = spare.empty(COUNT, DOUBLE)
    at, part = place(first), first[5:].view("i4")
    del first
    second = spare.empty(COUNT, DOUBLE)
    assert place(second) != at
    part[:] = 7
    assert (part == 7).all()
    del part
    assert place(spare.empty(COUNT, DOUBLE)) == at


def rooms_in_use() -> int:
    """How many arrays' memory there is in this process."""
    gc.collect()
    return sum(type(it).__name__ == "_Held" and "batches" in type(it).__module__ for it in gc.get_objects())


def test_one_room_is_kept() -> None:
    """However many there were at once."""
    before = rooms_in_use()  # of other tests
    spare = Spare()
    several = [spare.empty(COUNT, DOUBLE) for _ in range(4)]
    places = {place(array) for array in several}
    assert len(places) == 4
    several.clear()
    assert rooms_in_use() == before
    assert place(spare.empty(COUNT, DOUBLE)) in places


@pytest.mark.parametrize(("count", "expected"), [(2 * COUNT, True), (COUNT, True), (4 * COUNT, False)])
def test_room_of_another_size_is_used_where_it_fits(count: int, expected: bool) -> None:
    """It may be twice too large; beyond that it would hold more than anyone needs."""
    spare = Spare()
    first = spare.empty(2 * COUNT, DOUBLE)
    at = place(first)
    del first
    held = spare.empty(count, DOUBLE)
    assert (place(held) == at and len(held) <= 2 * COUNT) is expected


def test_cache_is_as_large_as_the_system_says(tmp_path: Path) -> None:
    """The largest one counts."""
    for index, size in enumerate(("48K", "1024K", "32M")):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        (folder / "size").write_text(f"{size}\n")
    assert cache_bytes(tmp_path) == 32 << 20


@pytest.mark.parametrize("size", [None, "", "large", "8X"])
def test_cache_of_unknown_size_is_taken_for_a_large_one(size: str | None, tmp_path: Path) -> None:
    """Streaming what would have stayed in the cache is the worse mistake."""
    if size is not None:
        (tmp_path / "index0").mkdir()
        (tmp_path / "index0" / "size").write_text(size)
    assert cache_bytes(tmp_path) == CACHE_BYTES


def test_kernel_without_huge_pages_gives_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers that the advice is invalid."""

    class Refusing(mmap.mmap):
        def madvise(self, *_: int) -> None:
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr("echo_core.codegen.batches.memory.mmap.mmap", Refusing)
    array = Spare().empty(COUNT, DOUBLE)
    array[:] = 1
    assert array.sum() == COUNT


def test_what_holds_the_memory_is_not_copied() -> None:
    """Two of them would give it back twice."""
    array = Spare().empty(COUNT, DOUBLE)
    holder: Any = array
    while isinstance(holder, np.ndarray):
        holder = holder.base
    with pytest.raises(TypeError):
        copy.copy(holder)
    assert np.array_equal(copy.copy(array), array, equal_nan=True)
