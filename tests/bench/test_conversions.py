"""What is timed is checked first: conversions, their peers, and FFS where it is there. Sizes are tiny."""

from __future__ import annotations

import gc
import importlib.util
import mmap
from collections.abc import Iterator

import pytest

from bench.convert.bounds import timed_fixed, timed_record
from bench.convert.calls import Doubles, array_calls, one_record_calls, record_calls
from bench.convert.columns import into_arrays, new_arrays
from bench.convert.extra_field import LATER_ODD, timed_many, timed_odd
from bench.convert.ffs import SENDERS, Sender, timed
from bench.convert.ffs_library import library
from bench.convert.native_form import other_ways, our_ways
from bench.convert.senders import check, odd, particles, senders, senders_with_and_without
from bench.convert.suite import timed_records
from bench.memory import allocated_bytes, growth_kib
from bench.workload import Odd


@pytest.mark.parametrize("name", senders())
def test_records_are_checked(name: str) -> None:
    """By us, by memcpy and by numpy, from Python and in loops of C."""
    sender = senders()[name][0]
    assert set(record_calls(sender, 7)) == set(timed_records(sender, 7)) == {"ours", "memcpy", "numpy"}


def test_a_wrong_byte_is_found() -> None:
    """The check that all conversions of particles go through."""
    native = bytearray(particles()[:3].tobytes())
    check(bytes(native), 3)
    native[100] ^= 1
    with pytest.raises(AssertionError):
        check(bytes(native), 3)


def test_calls_are_checked() -> None:
    """One record, an array, and what needs no conversion at all."""
    assert one_record_calls()
    assert array_calls(Doubles, "f8", 1)
    assert our_ways()
    assert other_ways()


@pytest.mark.parametrize("name", senders_with_and_without())
def test_an_extra_field_changes_nothing_else(name: str) -> None:
    """Each run is checked before it is timed."""
    for sender in senders_with_and_without()[name]:
        assert timed_many(sender, 3)() > 0
    for cls in (Odd, LATER_ODD):
        assert timed_odd(cls, 8)[0]() > 0


def test_checked_and_unchecked_conversions_agree() -> None:
    """Of records of fixed size and of records with variable parts."""
    for timed_ in (timed_fixed(2), timed_record(Odd, odd(8))):
        assert all(run() > 0 for run in timed_.values())


@pytest.mark.parametrize("sender", SENDERS, ids=lambda sender: sender.name)
def test_ffs_converts_what_we_convert(sender: Sender) -> None:
    """Its particles are ours; where it is not there, its stated figures stand in."""
    expected = {"ours", "memcpy", "FFS"} if library() else {"ours", "memcpy"}
    assert set(timed(sender, 3)) == expected


def test_columns_are_checked() -> None:
    """By whoever makes them."""
    records = particles()[:20]
    assert set(into_arrays(records)) == {"ours", "memcpy", "numpy"}
    arrow: set[str] = {"pyarrow"} if importlib.util.find_spec("pyarrow") else set()
    assert set(new_arrays(records)) == {"ours", "memcpy", "numpy"} | arrow


@pytest.fixture
def lone_collector() -> Iterator[None]:
    """Nobody is called when garbage is collected: hypothesis is from its first test on, and keeps times."""
    callbacks = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = callbacks


@pytest.mark.usefixtures("lone_collector")
def test_what_is_kept_is_counted() -> None:
    """A result of a thousand bytes is one, and calls that keep all they make are seen to grow."""
    assert 1000 <= allocated_bytes(bytes, 1000) <= 1100
    kept: list[mmap.mmap] = []

    def keep() -> None:
        kept.append(mmap.mmap(-1, 100_000))  # pages of its own: the heap may have some to spare
        kept[-1].write(b"x" * 100_000)

    assert growth_kib(keep, 100) > 5000
