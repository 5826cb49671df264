"""One matplotlib axes, plain and quiet, that becomes an SVG of the page; nothing global is configured."""

from __future__ import annotations

import importlib
import io
import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from echo_core.spark_eval.report import palette, svg

FONT_SIZE = 11
GROUP_OFFSET = 196  # from the axes to where groups of rows are named
WIDTH = 440  # of every figure, in the SVG's own units, so that text comes out alike in all

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
    """matplotlib logs of font caches and folders that it cannot write; neither matters here."""
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
    """Lets `paint` draw on fresh axes; equal data make equal bytes."""
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
    """Moves positions as little as a simple rule can, until neighbours are `gap` apart within bounds."""
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
