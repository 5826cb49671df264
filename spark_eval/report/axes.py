"""What the figures' axes have in common: logarithmic scales with few ticks, and rows with names."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from echo_core.spark_eval.report import canvas, palette
from echo_core.spark_eval.report.units import TIMES, digits, size


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 where they fit, otherwise the powers of ten."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if math.log10(high / low) < 1.4 else (1, 3) if math.log10(high / low) < 2.2 else (1,)
    return [s * 10.0**d for d in decades for s in steps if low <= s * 10.0**d <= high]


def round_size(value: float, _place: int) -> str:
    return digits(value, 2) if value < 10 else size(value)


def round_times(ratio: float) -> str:
    return f"{ratio:,g}{TIMES}"


def log_axis(axis: Any, low: float, high: float, text: Callable[[float], str]) -> None:
    ticks = _log_ticks(low, high)
    axis.set_ticks(ticks, [text(tick) for tick in ticks])
    axis.set_ticks([], minor=True)


def name_groups(axes: Any, rows: Sequence[tuple[str, str]]) -> None:
    """At the left edge of the figure, before the first row of each, with a rule above all but the first."""
    edge = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "va": "center"}
    before = ""
    for place, (group, role) in enumerate(rows):
        if group == before:
            continue
        before = group
        style = _name_style(role)
        axes.annotate(group, (0, place), xytext=(-canvas.GROUP_OFFSET, 0), **edge, **style)
        if place:
            axes.axhline(place - 0.5, color=palette.light("rule"), linewidth=0.7, zorder=0)


def name_rows(axes: Any, rows: Sequence[tuple[str, str]]) -> None:
    """Labels of a horizontal figure from (label, role)."""
    axes.set_yticks(range(len(rows)), [label for label, _ in rows])
    for label, (_, role) in zip(axes.get_yticklabels(), rows, strict=True):
        label.set(**_name_style(role))


def _name_style(role: str) -> dict[str, str]:
    """Ours are told from rivals by weight as well as by colour."""
    ours = role == "echo"
    return {"color": palette.light("echo" if ours else "ink"), "weight": "bold" if ours else "normal"}
