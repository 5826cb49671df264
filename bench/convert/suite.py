"""Conversions from foreign layouts, beside memcpy of the same bytes and numpy doing the same.

The parts of this suite that want more room than a function have modules of their own: an extra field, FFS,
what is in native form already, and the checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import echo_core as echo
from bench.convert import bounds, extra_field, ffs, native_form
from bench.convert.calls import ARRAY_KIB, ARRAYS, array_calls, one_record_calls, record_calls, view_calls
from bench.convert.loops import convert_ns, copy_ns
from bench.convert.senders import PARTICLE, aligned, check, many, placed, senders
from bench.report import Row
from bench.timing import all_timed, best_in_turn, timed
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


def _calls(quick: bool) -> Iterator[Row]:
    taken = best_in_turn(all_timed(one_record_calls(), 5000), 10 if quick else 100)
    group = "one record, whole call from Python"
    yield Row("over an empty call", 1e9 * (taken["ours"] - taken["empty"]), 40, "ns", group=group)
    what = f"faster than numpy, {1e9 * taken['numpy']:.4g} ns"
    yield Row(what, taken["numpy"] / taken["ours"], 50, "x", at_least=True, group=group)


def _views(quick: bool) -> Iterator[Row]:
    taken = best_in_turn(all_timed(view_calls(), 1000), 5 if quick else 15)
    what = "a view: a million records over a thousand"
    yield Row(what, taken["1000000"] / taken["1000"], 1.5, "x", group="same layout")
