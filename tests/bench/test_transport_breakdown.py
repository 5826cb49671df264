"""Samples of processes, and what they were at."""

from __future__ import annotations

import os
import time

import pytest

from bench.transport.outcome import Options
from bench.transport.suites import breakdown, profiles
from bench.transport.suites.profiles import Part, Profile, Sample, part_of


@pytest.fixture
def perf() -> None:
    """perf samples here. It is tried by a test that needs it, not by whoever collects tests."""
    if reason := profiles.unavailable():
        pytest.skip(reason)


@pytest.mark.parametrize(
    ("library", "symbol", "part"),
    [
        ("[kernel.kallsyms]", "futex_wake", Part.KERNEL),
        ("[nf_tables]", "nft_do_chain", Part.KERNEL),
        ("/usr/lib/libc.so.6", "syscall", Part.KERNEL),
        ("/usr/lib/libc.so.6", "__libc_recv", Part.KERNEL),
        ("/usr/lib/libc.so.6", "__memmove_avx512_unaligned_erms", Part.REST),
        ("[vdso]", "__vdso_clock_gettime", Part.REST),
        ("/usr/lib/libc.so.6", "pthread_mutex_lock@@GLIBC_2.2.5", Part.LOCKS),
        ("/usr/lib/libpython3.11.so.1.0", "take_gil", Part.LOCKS),
        ("/usr/lib/libpython3.11.so.1.0", "_PyEval_EvalFrameDefault", Part.INTERPRETER),
        ("/usr/bin/python3.12", "PyFloat_FromDouble", Part.OBJECTS),
        ("/usr/bin/python3.12", "subtype_dealloc", Part.OBJECTS),
        ("/site-packages/numpy/_core/_multiarray_umath.so", "array_subscript", Part.NUMPY),
        ("/echo_core/_c/events.abi3.so", "decode_one", Part.CODEC),
        ("[unknown]", "[unknown]", Part.CODEC),
        ("/echo_core/_c/links.abi3.so", "hand_out", Part.LINKS),
    ],
)
def test_a_sample_belongs_to_a_part(library: str, symbol: str, part: Part) -> None:
    """By its library, and in libraries of several parts by its function."""
    assert part_of(library, symbol) is part


def sample(symbol: str) -> Sample:
    """Of a link."""
    return Sample(0, 0, 1, "python", symbol, "/_c/links.so")


def test_parts_and_functions_are_counted() -> None:
    """Every part is there, also one that was never hit."""
    samples = [sample("take"), sample("put"), sample("take")]
    assert profiles.counts(samples) == {part: 3 if part is Part.LINKS else 0 for part in Part}
    assert profiles.costliest(samples, Part.LINKS, 1) == [("take", 2)]
    assert profiles.costliest(samples, Part.KERNEL, 1) == []


@pytest.mark.usefixtures("perf")
def test_a_profile_tells_what_a_process_was_at_and_when() -> None:
    """A loop of Python for a while: most of that time is there, and none of another."""
    with Profile() as profile:
        began_ns = time.perf_counter_ns()
        while time.perf_counter_ns() < began_ns + 300_000_000:
            pass
        ended_ns = time.perf_counter_ns()
    samples = profile.of(os.getpid(), began_ns, ended_ns)
    counts = profiles.counts(samples)
    assert 0 < len(samples) * profile.period_ns < 1.1 * (ended_ns - began_ns)
    assert counts[Part.INTERPRETER] + counts[Part.OBJECTS] + counts[Part.REST] > 0.5 * len(samples)
    assert counts[Part.LINKS] == 0
    closed_ns = time.perf_counter_ns()
    assert profile.of(os.getpid(), closed_ns, closed_ns + 10**9) == []


def test_without_perf_the_reason_is_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figure is made up."""
    monkeypatch.setattr(profiles, "unavailable", lambda: "perf does not run here")
    outcome = breakdown.measure(Options(quick=True))
    assert [table.lines for table in outcome.tables] == [[("perf does not run here",)]]
    assert not outcome.rows


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.usefixtures("perf")
def test_a_round_trip_is_broken_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts and what is none of them make up the whole."""
    monkeypatch.setattr(breakdown, "TRIPS", breakdown.TRIPS[-1:])
    monkeypatch.setattr(breakdown, "FLOWS", [breakdown.Flow("echo-tcp/record", receivers=2)])
    outcome = breakdown.measure(Options(quick=True))
    trip, flow = [table for table in outcome.tables if "functions" not in table.heading]
    assert trip.columns == ("", "floor shm-futex", "echo-shm/record", "echo-shm/dataclass")
    assert flow.columns == ("", "sender", "receiver 1", "receiver 2")
    for table in (trip, flow):
        for column in range(1, len(table.columns)):
            *parts, whole = [float(line[column]) for line in table.lines]
            assert sum(parts) == pytest.approx(whole, abs=len(parts))
            assert whole > 0
            assert sum(parts[:-1]) < 1.1 * whole * (os.cpu_count() or 1)
