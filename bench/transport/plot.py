"""Histograms of times as one SVG picture: a panel for each cell, a row for each contender."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from bench.transport.outcome import Chart
from bench.transport.statistics import Bin, Times, histogram

_WIDTH, _LABELS, _ROW, _GAP, _HEAD, _AXIS = 900, 210, 46, 6, 34, 30
_BINS = 140
_LEAST, _MOST = 0.005, 0.995
"""Shares of all times between which the axis lies; what is outside is in the outermost bins."""

_STYLE = """
svg { font: 12px system-ui, sans-serif; background: #fff; fill: #333 }
.heading { font-weight: 600; font-size: 14px }
.axis { stroke: #ddd } .tick, .figure { fill: #777; font-size: 11px }
.floor { fill: #9aa3ad } .peer { fill: #d29a5b } .ours { fill: #2f6fb7 } .middle { stroke: #111 }
"""


def as_svg(charts: Sequence[Chart]) -> str:
    """Each panel has a logarithmic axis of its own."""
    parts: list[str] = []
    top = 0
    for chart in charts:
        parts.append(f'<g transform="translate(0 {top})">{_panel(chart)}</g>')
        top += _height(chart)
    box = f'viewBox="0 0 {_WIDTH} {top}" width="{_WIDTH}" height="{top}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}><style>{_STYLE}</style>{"".join(parts)}</svg>\n'


def _height(chart: Chart) -> int:
    return _HEAD + len(chart.times_by_name) * (_ROW + _GAP) + _AXIS


def _panel(chart: Chart) -> str:
    times = {name: Times.of(each) for name, each in chart.times_by_name.items()}
    low_us = min(it.us(_LEAST) for it in times.values()) / 1.1
    high_us = max(it.us(_MOST) for it in times.values()) * 1.1
    axis = _Axis(low_us, high_us)
    parts = [f'<text class="heading" x="8" y="22">{escape(chart.heading)}</text>']
    bottom = _height(chart) - _AXIS
    parts += [_tick(axis, us, bottom) for us in axis.ticks()]
    for i, (name, its) in enumerate(times.items()):
        parts.append(_row(axis, name, its, _HEAD + i * (_ROW + _GAP)))
    return "".join(parts)


class _Axis:
    """Microseconds to places from left to right."""

    def __init__(self, low_us: float, high_us: float) -> None:
        self.low_us, self.high_us = low_us, high_us

    def bins(self, times: Times) -> list[Bin]:
        return histogram(times.ordered_ns, low_us=self.low_us, high_us=self.high_us, bins=_BINS)

    def x(self, us: float) -> float:
        share = math.log(us / self.low_us) / math.log(self.high_us / self.low_us)
        return _LABELS + share * (_WIDTH - _LABELS - 10)

    def ticks(self) -> list[float]:
        """1, 2 and 5 of every power of ten that is on the axis."""
        steps = (digit * 10.0**power for power in range(-1, 7) for digit in (1, 2, 5))
        return [us for us in steps if self.low_us <= us <= self.high_us]


def _tick(axis: _Axis, us: float, bottom: int) -> str:
    x = axis.x(us)
    line = f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{_HEAD}" y2="{bottom}"/>'
    return line + f'<text class="tick" x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{us:g} us</text>'


def _row(axis: _Axis, name: str, times: Times, top: int) -> str:
    kind = "floor" if name.startswith("floor") else "ours" if name.startswith("echo-") else "peer"
    bins = axis.bins(times)
    most = max(each.count for each in bins)
    outline = "".join(_bar(axis, each, most, top) for each in bins if each.count)
    middle = axis.x(min(max(times.us(0.5), axis.low_us), axis.high_us))
    figures = f"p50 {times.us(0.5):.4g} us, p99 {times.us(0.99):.4g} us"
    return (
        f'<text x="8" y="{top + 20}">{escape(name)}</text>'
        f'<text class="figure" x="8" y="{top + 36}">{figures}</text>'
        f'<path class="{kind}" d="{outline}"/>'
        f'<line class="middle" x1="{middle:.1f}" x2="{middle:.1f}" y1="{top}" y2="{top + _ROW}"/>'
    )


def _bar(axis: _Axis, each: Bin, most: int, top: int) -> str:
    """A part of a path. A single time among thousands is still to be seen."""
    left, right = axis.x(each.low_us), axis.x(each.high_us)
    height = max(0.5, _ROW * each.count / most)
    return f"M{left:.1f} {top + _ROW}v{-height:.1f}h{right - left:.1f}v{height:.1f}z"
