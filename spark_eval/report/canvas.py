"""Draws one matplotlib axes as an SVG, without changing matplotlib's global settings.

Also shared parts of the figures' axes: logarithmic scales with few ticks, and named rows.
"""

from __future__ import annotations

import importlib
import io
import logging
import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from echo_core.spark_eval.report import palette, svg
from echo_core.spark_eval.report.units import TIMES, digits, size

FONT_SIZE = 11
GROUP_OFFSET = 196  # distance from the axes to the names of groups
WIDTH = 440  # of every figure, in SVG units, so that text has the same size in all

_SETTINGS = {
    "axes.axisbelow": True,
    "axes.edgecolor": palette.light("rule"),
    "axes.labelcolor": palette.light("muted"),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 72,
    "font.family": ["DejaVu Sans"],
    "font.size": FONT_SIZE,
    "grid.color": palette.light("rule"),
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "savefig.dpi": 72,
    "svg.fonttype": "none",
    "text.color": palette.light("ink"),
    "xtick.color": palette.light("muted"),
    "xtick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.color": palette.light("muted"),
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
}


@dataclass(frozen=True, slots=True)
class Margins:
    """Around the axes, in the units of the SVG."""

    left: float = 62
    right: float = 16
    top: float = 12
    bottom: float = 42


@contextmanager
def _quiet() -> Generator[None]:
    """Suppress matplotlib's messages about font caches and folders that are not writable."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def draw(
    paint: Callable[[Any], None],
    *,
    name: str,
    title: str,
    description: str,
    height: float,
    margins: Margins,
) -> str:
    """Let `paint` draw on new axes, and return the SVG. Equal data give equal bytes."""
    with _quiet():
        matplotlib: Any = importlib.import_module("matplotlib")
        figures: Any = importlib.import_module("matplotlib.figure")
        backend: Any = importlib.import_module("matplotlib.backends.backend_svg")
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(_SETTINGS | {"svg.hashsalt": name})
            figure = figures.Figure(figsize=(WIDTH / 72, height / 72))
            backend.FigureCanvasSVG(figure)
            figure.patch.set_visible(False)
            axes = figure.add_axes(_rectangle(height, margins))
            axes.patch.set_visible(False)
            paint(axes)
            written = io.StringIO()
            figure.savefig(written, format="svg", metadata={"Date": None})
    return svg.clean(written.getvalue(), name=name, title=title, description=description)


def _rectangle(height: float, margins: Margins) -> tuple[float, float, float, float]:
    return (
        margins.left / WIDTH,
        margins.bottom / height,
        (WIDTH - margins.left - margins.right) / WIDTH,
        (height - margins.top - margins.bottom) / height,
    )


def spread_apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move positions a little, so that neighbours are at least `gap` apart and all within bounds."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed: list[float] = []
    for i in order:
        placed.append(max(wanted[i], low, placed[-1] + gap if placed else low))
    limit = high
    for n in reversed(range(len(placed))):
        placed[n] = min(placed[n], limit)
        limit = placed[n] - gap
    result = [0.0] * len(wanted)
    for i, position in zip(order, placed, strict=True):
        result[i] = position
    return result


def _log_ticks(low: float, high: float) -> list[float]:
    """Ticks at 1, 2, 5 (or 1, 3) of each decade if they fit, otherwise powers of ten."""
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
    """Write the name of each group left of its first row, with lines between groups."""
    edge = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points", "va": "center"}
    before = ""
    for place, (group, role) in enumerate(rows):
        if group == before:
            continue
        before = group
        style = _name_style(role)
        axes.annotate(group, (0, place), xytext=(-GROUP_OFFSET, 0), **edge, **style)
        if place:
            axes.axhline(place - 0.5, color=palette.light("rule"), linewidth=0.7, zorder=0)


def name_rows(axes: Any, rows: Sequence[tuple[str, str]]) -> None:
    """Label the rows, given as (label, role)."""
    axes.set_yticks(range(len(rows)), [label for label, _ in rows])
    for label, (_, role) in zip(axes.get_yticklabels(), rows, strict=True):
        label.set(**_name_style(role))


def _name_style(role: str) -> dict[str, str]:
    """Our codecs are bold, not only coloured."""
    ours = role == "echo"
    return {"color": palette.light("echo" if ours else "ink"), "weight": "bold" if ours else "normal"}
