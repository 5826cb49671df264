"""Readable numbers: three digits, a unit, and no exponent."""

from __future__ import annotations

import math

from echo_core.spark_eval.report.summaries import Range

TIMES = "\N{MULTIPLICATION SIGN}"
TO = "\N{EN DASH}"
UNKNOWN = TO
_STEPS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


def digits(value: float, significant: int = 3) -> str:
    """The value with that many significant digits; digits before the point are always kept."""
    if value == 0 or not math.isfinite(value):
        return UNKNOWN if math.isnan(value) else f"{value:.0f}"
    before = math.floor(math.log10(abs(float(f"{value:.{significant - 1}e}")))) + 1
    return f"{value:,.{max(0, significant - before)}f}"


def duration(nanoseconds: float) -> str:
    for size, unit in _STEPS:
        if nanoseconds >= size * 0.9995:
            return f"{digits(nanoseconds / size)} {unit}"
    return f"{digits(nanoseconds)} ns"


def round_duration(nanoseconds: float) -> str:
    """A duration for an axis tick, which is a round number."""
    step, unit = next((step for step in _STEPS if nanoseconds >= step[0] * 0.9995), _STEPS[-1])
    return f"{nanoseconds / step:g} {unit}"


def size(count: float) -> str:
    return digits(count) if count < 100 else f"{count:,.0f}"


def times(ratio: float) -> str:
    """A ratio; near 1 with two decimals, to show on which side of 1 it is."""
    if math.isnan(ratio):
        return UNKNOWN
    if ratio < 0.0995:
        return f"{digits(ratio, 2)}{TIMES}"
    return f"{ratio:,.{0 if ratio >= 9.95 else 1 if ratio >= 1.995 else 2}f}{TIMES}"


def times_range(ratio: Range) -> str:
    """From lowest to highest, or one of them if they have the same text."""
    if times(ratio.low) == times(ratio.high):
        return times(ratio.low)
    return f"{times(ratio.low).removesuffix(TIMES)}{TO}{times(ratio.high)}"


def percent(share: float) -> str:
    return UNKNOWN if math.isnan(share) else f"{share * 100:.1f} %"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
