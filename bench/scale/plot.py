"""A study as an SVG picture: a panel for each cost, sizes from left to right, both axes logarithmic.

What counts as flat is a band: from the least cost to 1.25 times that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from bench.scale.growth import MOST, Costs, Growth, Judged, Study, shortened

_WIDTH, _HEIGHT, _COLUMNS = 440, 230, 2
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 16, 60, 34

_STYLE = """
svg { font: 11px system-ui, sans-serif; background: #fff; fill: #333 }
.heading { font-weight: 600; font-size: 12px } .note, .tick { fill: #777 }
.axis { stroke: #ddd } .band { fill: #2f6fb7; opacity: .12 }
.line { fill: none; stroke-width: 1.6 } .ours { stroke: #2f6fb7 }
.peer0 { stroke: #d29a5b } .peer1 { stroke: #9aa3ad } .peer2 { stroke: #7a9a5b }
text.peer0 { fill: #d29a5b; stroke: none } text.peer1 { fill: #9aa3ad; stroke: none }
text.peer2 { fill: #7a9a5b; stroke: none } text.ours { fill: #2f6fb7; stroke: none }
"""


def as_svg(study: Study) -> str:
    """All panels of a study."""
    parts = [
        f'<g transform="translate({i % _COLUMNS * _WIDTH} {i // _COLUMNS * _HEIGHT})">{_panel(growth)}</g>'
        for i, growth in enumerate(study.growths)
    ]
    width, height = _WIDTH * _COLUMNS, _HEIGHT * math.ceil(len(study.growths) / _COLUMNS)
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}><style>{_STYLE}</style>{"".join(parts)}</svg>\n'


class _Axis:
    """Values to places, by their logarithms."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self._low, self._high = math.log(min(values) / 1.1), math.log(max(values) * 1.1)
        self._start, self._end = start, end

    def place(self, value: float) -> float:
        share = (math.log(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Powers of ten; with 2 and 5 of each where there are few."""
        for digits in ((1,), (1, 2, 5), range(1, 10)):
            steps = [digit * 10.0**power for power in range(-6, 12) for digit in digits]
            ticks = [it for it in steps if self._low <= math.log(it) <= self._high]
            if len(ticks) > 1:
                break
        return ticks


def _panel(growth: Growth) -> str:
    named: list[tuple[str, str, Costs]] = [("ours", "echo_core", growth.costs)]
    named += [(f"peer{i % 3}", name, costs) for i, (name, costs) in enumerate(growth.peers.items())]
    drawn = [
        (kind, name, {size: cost for size, cost in costs.items() if cost > 0}) for kind, name, costs in named
    ]
    values = [cost for _, _, costs in drawn for cost in costs.values()] or [1.0]
    across = _Axis(sorted({size for _, _, costs in drawn for size in costs}) or [1], _LEFT, _WIDTH - _RIGHT)
    least = min(drawn[0][2].values(), default=1.0)
    up = _Axis([*values, min(values) / 1.5, MOST * least * 1.2], _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<text class="heading" x="8" y="16">{escape(growth.what)}</text>',
        f'<text class="note" x="8" y="32">{escape(growth.unit)}</text>',
        *(_level(up, value) for value in up.ticks()),
        *(_size(across, size) for size in sorted(growth.costs)),
        _band(up, drawn[0][2]) if growth.judged is Judged.FLAT else "",
        *(_line(kind, costs, across, up) for kind, _, costs in drawn),
        *(_name(kind, name, i) for i, (kind, name, _) in enumerate(drawn)),
    ]
    return "".join(parts)


def _band(up: _Axis, costs: Costs) -> str:
    if not costs:
        return ""
    least = min(costs.values())
    top, bottom = up.place(MOST * least), up.place(least)
    width = _WIDTH - _LEFT - _RIGHT
    return f'<rect class="band" x="{_LEFT}" y="{top:.1f}" width="{width}" height="{bottom - top:.1f}"/>'


def _line(kind: str, costs: Costs, across: _Axis, up: _Axis) -> str:
    places = [(across.place(size), up.place(cost)) for size, cost in sorted(costs.items())]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    marks = "".join(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="2"/>' for x, y in places)
    return f'<polyline class="line {kind}" points="{points}"/>{marks}'


def _name(kind: str, name: str, i: int) -> str:
    place = f'x="{_WIDTH - _RIGHT}" y="{16 + 13 * i}" text-anchor="end"'
    return f'<text class="{kind}" {place}>{escape(name)}</text>'


def _level(up: _Axis, value: float) -> str:
    y = up.place(value)
    line = f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return line + f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'


def _size(across: _Axis, size: int) -> str:
    x = across.place(size)
    return f'<text class="tick" x="{x:.1f}" y="{_HEIGHT - 14}" text-anchor="middle">{shortened(size)}</text>'
