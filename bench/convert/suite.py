"""Conversions from foreign layouts, beside memcpy of the same bytes and numpy doing the same.

The parts of this suite that want more room than a function have modules of their own: an extra field, FFS,
what is in native form already, and the checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import echo_core as echo
from bench.convert import bounds, extra_field, ffs, native_form
from bench.convert.loops import convert_ns, copy_ns
from bench.convert.senders import PARTICLE, aligned, check, many, particles, placed, senders
from bench.report import Row
from bench.timing import Call, all_timed, best_in_turn, timed
from bench.workload import Particle
from echo_core.codegen.conversion import Conversion

IN_CACHE, IN_MEMORY = (10, 100, 1000), (100_000, 1_000_000)


def measure(*, quick: bool) -> list[Row]:
    """All figures of the table "Conversion"."""
    return [
        *_records(quick),
        *extra_field.measure(quick=quick),
        *ffs.measure(quick=quick),
        *_arrays(quick),
        *_calls(quick),
        *_views(quick),
        *native_form.measure(quick=quick),
        *bounds.measure(quick=quick),
    ]


def timed_records(sender: echo.Format, count: int) -> dict[str, Callable[[], float]]:
    """Seconds for so many records by us, by memcpy and by numpy; what they make is checked at once."""
    conversion = Conversion(sender, PARTICLE)
    loaded = conversion.loaded()
    source = placed(many(sender, count))
    target, floor = (aligned(count * PARTICLE.size_bytes) for _ in range(2))
    calls = max(1, 100_000 // count)

    def ours() -> float:
        address = loaded.addresses["convert_many"]  # `loaded` keeps the code there
        return 1e-9 * convert_ns(address, source, target, count, calls=calls, repeats=1)

    def copied() -> float:
        return 1e-9 * copy_ns(target, floor, calls=calls, repeats=1)

    ours()
    check(target.tobytes(), count)
    by_numpy = timed(record_calls(sender, count)["numpy"], max(1, 1000 // count))
    return {"ours": ours, "memcpy": copied, "numpy": by_numpy}


def record_calls(sender: echo.Format, count: int) -> dict[str, Call]:
    """So many records as a call from Python, into room that is there; each is checked."""
    convert = echo.converter(sender, PARTICLE, tier="compiled")
    data = many(sender, count)
    ours, floor, theirs = (aligned(count * PARTICLE.size_bytes) for _ in range(3))
    into, source = theirs.view(PARTICLE.dtype), np.frombuffer(data, sender.dtype)
    pairs = [(into[name], source[name]) for name in PARTICLE.dtype.names or ()]
    calls: dict[str, Call] = {
        "ours": (convert, data, ours),
        "memcpy": (np.copyto, floor, ours),
        "numpy": (_copy_fields, pairs),
    }
    for function, *arguments in calls.values():
        function(*arguments)
    for made in (ours, floor, theirs):
        check(made.tobytes(), count)
    return calls


def _copy_fields(pairs: list[tuple[Any, Any]]) -> None:
    """numpy's astype would make a new array, and goes by position."""
    for into, source in pairs:
        np.copyto(into, source)


def _records(quick: bool) -> Iterator[Row]:
    for name, (sender, cached, beyond) in senders().items():
        for count in IN_CACHE + IN_MEMORY[: 1 if quick else 2]:
            taken = best_in_turn(timed_records(sender, count), 5 if quick else 15)
            ours = taken["ours"]
            goal = cached if count in IN_CACHE else beyond
            what = f"{count} records, {1e9 * ours / count:.3g} ns each"
            yield Row(what, ours / taken["memcpy"], goal, "x memcpy", group=name)
            what = f"{count} records, faster than numpy"
            yield Row(what, taken["numpy"] / ours, None, "x", at_least=True, group=name)


@echo.event
class Doubles:
    """What array codes send."""

    values: echo.Array[echo.Float64, ...]


@echo.event
class Floats:
    """The same in single precision."""

    values: echo.Array[echo.Float32, ...]


def _arrays(quick: bool) -> Iterator[Row]:
    """Swapped arrays of numbers: the call from Python, beside numpy's copy and its swap."""
    for cls, dtype in ARRAYS:
        for kib in ARRAY_KIB:
            calls = all_timed(array_calls(cls, dtype, kib), max(1, 20_000 // kib))
            taken = best_in_turn(calls, 5 if quick else 15)
            group = f"swapped {dtype}[], from Python"
            yield Row(f"{kib} KiB", taken["ours"] / taken["memcpy"], 1.1, "x memcpy", group=group)
            what = f"{kib} KiB, faster than numpy"
            yield Row(what, taken["numpy"] / taken["ours"], None, "x", at_least=True, group=group)


ARRAYS = ((Doubles, "f8"), (Floats, "f4"))
ARRAY_KIB = (16, 256, 4096)


def array_calls(cls: type[Any], dtype: str, kib: int) -> dict[str, Call]:
    """One array by us, by memcpy and by numpy, into room that is there; each is checked."""
    convert = echo.converter(echo.format_of(cls, abi="s390x"), echo.format_of(cls), tier="compiled")
    values = np.arange(kib * 1024 // int(dtype[1]), dtype=dtype)
    data = echo.encoder(cls, abi="s390x")(cls(values))
    source, swapped, native = np.frombuffer(data, np.uint8), values.astype(f">{dtype}"), np.zeros_like(values)
    target, floor = np.zeros(len(data), np.uint8), np.zeros(len(data), np.uint8)
    calls: dict[str, Call] = {
        "ours": (convert, data, target),
        "memcpy": (np.copyto, floor, source),
        "numpy": (np.copyto, native, swapped),
    }
    for function, *arguments in calls.values():
        function(*arguments)
    assert target.tobytes() == echo.encoder(cls)(cls(values))
    assert floor.tobytes() == data
    assert np.array_equal(native, values)
    return calls


def one_record_calls() -> dict[str, Call]:
    """One record, the whole call from Python, beside one that does nothing; each is checked."""
    sender = echo.format_of(Particle, abi="s390x")
    convert = echo.converter(sender, PARTICLE, tier="compiled")
    data, target = many(sender, 1), bytearray(96)

    def by_numpy(data: bytes) -> Any:
        return np.frombuffer(data, sender.dtype).astype(PARTICLE.dtype)

    convert(data, target)
    check(bytes(target), 1)
    assert by_numpy(data).tolist() == particles()[:1].tolist()
    return {"empty": (callable, data), "ours": (convert, data, target), "numpy": (by_numpy, data)}


def _calls(quick: bool) -> Iterator[Row]:
    taken = best_in_turn(all_timed(one_record_calls(), 5000), 10 if quick else 100)
    group = "one record, whole call from Python"
    yield Row("over an empty call", 1e9 * (taken["ours"] - taken["empty"]), 40, "ns", group=group)
    what = f"faster than numpy, {1e9 * taken['numpy']:.4g} ns"
    yield Row(what, taken["numpy"] / taken["ours"], 50, "x", at_least=True, group=group)


def view_calls() -> dict[str, Call]:
    """A sender of the same layout is not converted at all: records in two sizes."""
    decode = echo.array_decoder(Particle)
    small, large = particles().tobytes(), particles().tobytes() * 1000
    assert decode(large).shape == (1_000_000,)
    assert np.shares_memory(decode(large), np.frombuffer(large, np.uint8))
    return {"1000": (decode, small), "1000000": (decode, large)}


def _views(quick: bool) -> Iterator[Row]:
    taken = best_in_turn(all_timed(view_calls(), 1000), 5 if quick else 15)
    what = "a view: a million records over a thousand"
    yield Row(what, taken["1000000"] / taken["1000"], 1.5, "x", group="same layout")
