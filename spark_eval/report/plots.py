"""The plots of the report; each is a function from numbers to an SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from echo_core.spark_eval.report import canvas, palette
from echo_core.spark_eval.report.canvas import log_axis, name_groups, name_rows, round_size, round_times
from echo_core.spark_eval.report.summaries import Range
from echo_core.spark_eval.report.units import round_duration, times, times_range

_MARKERS = "osD^vP"
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))


@dataclass(frozen=True, slots=True)
class Line:
    """One codec's cost against the number of records."""

    codec: str
    records: Sequence[int]
    nanoseconds: Sequence[float]


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    codec: str  # determines the colour
    value: float
    text: str
    group: str = ""  # named once, at the first of its bars


@dataclass(frozen=True, slots=True)
class RatioRow:
    """One rival's ratios: by shape, each with its range over the blocks."""

    rival: str
    by_shape: Mapping[str, Range]


@dataclass(frozen=True, slots=True)
class Pair:
    """One codec's cost to objects and to columns, if it supports them."""

    codec: str
    objects: float | None
    columns: float | None


def _ranks(codecs: Sequence[str]) -> dict[str, int]:
    """Each codec's position in its family, which selects marker and dash."""
    seen: dict[str, int] = {}
    ranks: dict[str, int] = {}
    for codec in codecs:
        role = palette.family(codec)
        ranks[codec] = seen.get(role, 0)
        seen[role] = ranks[codec] + 1
    return ranks


def cost_lines(lines: Sequence[Line], *, name: str, title: str, description: str) -> str:
    """Log-log lines with their names at the right end."""
    return canvas.draw(
        lambda axes: _paint_lines(axes, lines),
        name=name, title=title, description=description,
        height=350, margins=canvas.Margins(right=118),
    )  # fmt: skip


def _paint_lines(axes: Any, lines: Sequence[Line]) -> None:
    ranks = _ranks([line.codec for line in lines])
    for line in lines:
        ours = palette.family(line.codec) == "echo"
        colour = palette.light(palette.family(line.codec))
        rank = ranks[line.codec]
        axes.plot(
            line.records, line.nanoseconds, color=colour, linewidth=2.4 if ours else 1.3,
            linestyle=_DASHES[rank % len(_DASHES)], marker=_MARKERS[rank % len(_MARKERS)],
            markersize=5 if ours else 4, markeredgewidth=0, zorder=4 if ours else 3,
        )  # fmt: skip
    records = sorted({n for line in lines for n in line.records})
    costs = [cost for line in lines for cost in line.nanoseconds]
    low, high = min(costs) / 1.4, max(costs) * 1.4
    axes.set(xscale="log", yscale="log", xlabel="records in a batch", ylim=(low, high))
    axes.set_xlim(records[0] / 1.25, records[-1] * 1.25)
    log_axis(axes.yaxis, low, high, round_duration)
    axes.xaxis.set_ticks(records, [f"{n:,}" for n in records])
    axes.xaxis.set_ticks([], minor=True)
    axes.grid(axis="y")
    _name_line_ends(axes, lines)


def _name_line_ends(axes: Any, lines: Sequence[Line]) -> None:
    to_pixels, to_axes = axes.transData, axes.transAxes.inverted()
    ends = [
        to_axes.transform(to_pixels.transform((line.records[-1], line.nanoseconds[-1]))) for line in lines
    ]
    gap = 13.5 / axes.bbox.height
    placed = canvas.spread_apart([end[1] for end in ends], gap, 0.01, 0.99)
    for line, end, height in zip(lines, ends, placed, strict=True):
        role = palette.family(line.codec)
        colour = palette.light(role)
        axes.plot(
            [end[0] + 0.012, 1.025, 1.045], [end[1], height, height], transform=axes.transAxes,
            color=colour, linewidth=0.6, clip_on=False,
        )  # fmt: skip
        axes.text(
            1.06, height, line.codec, transform=axes.transAxes, color=colour, va="center",
            weight="bold" if role == "echo" else "normal",
        )  # fmt: skip


def cost_dots(rows: Sequence[Bar], *, name: str, title: str, description: str) -> str:
    """A row per codec on a logarithmic axis, for the cost at one size."""
    return canvas.draw(
        lambda axes: _paint_dots(axes, rows),
        name=name, title=title, description=description,
        height=58 + 21 * len(rows), margins=canvas.Margins(left=112, right=66, top=8),
    )  # fmt: skip


def _paint_dots(axes: Any, rows: Sequence[Bar]) -> None:
    low, high = min(row.value for row in rows) / 1.5, max(row.value for row in rows) * 1.5
    axes.set(xscale="log", xlim=(low, high), ylim=(len(rows) - 0.4, -0.6), xlabel="time per record")
    for place, row in enumerate(rows):
        role = palette.family(row.codec)
        axes.plot([low, row.value], [place, place], color=palette.light("rule"), linewidth=0.8, zorder=1)
        axes.plot([row.value], [place], "o", markersize=7, color=palette.light(role), markeredgewidth=0)
        axes.text(
            1.02, place, row.text, transform=axes.get_yaxis_transform(), va="center",
            color=palette.light("ink"), weight="bold" if role == "echo" else "normal",
        )  # fmt: skip
    log_axis(axes.xaxis, low, high, round_duration)
    name_rows(axes, [(row.label, palette.family(row.codec)) for row in rows])
    axes.grid(axis="x")


def bars(
    rows: Sequence[Bar], *, name: str, title: str, description: str, axis: str, mark: float | None = None
) -> str:
    """Horizontal bars from zero with their values at the end; `mark` draws a line to compare with."""
    left = 200 if any(row.group for row in rows) else 112
    return canvas.draw(
        lambda axes: _paint_bars(axes, rows, axis, mark),
        name=name, title=title, description=description,
        height=58 + 19 * len(rows), margins=canvas.Margins(left=left, right=106, top=8),
    )  # fmt: skip


def _paint_bars(axes: Any, rows: Sequence[Bar], axis: str, mark: float | None) -> None:
    for place, row in enumerate(rows):
        role = palette.family(row.codec)
        axes.barh(place, row.value, height=0.68, color=palette.light(role), linewidth=0)
        axes.annotate(
            row.text, (row.value, place), xytext=(5, 0), textcoords="offset points", va="center",
            color=palette.light("ink"), weight="bold" if role == "echo" else "normal",
        )  # fmt: skip
    highest = max(row.value for row in rows)
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, highest * 1.02), xlabel=axis)
    axes.locator_params(axis="x", nbins=4)
    axes.xaxis.set_major_formatter(round_size)
    name_rows(axes, [(row.label, palette.family(row.codec)) for row in rows])
    name_groups(axes, [(row.group, palette.family(row.codec)) for row in rows])
    axes.grid(axis="x")
    if mark is not None:
        axes.axvline(mark, color=palette.light("ink"), linewidth=1, zorder=4)


def ratio_ranges(rows: Sequence[RatioRow], *, ours: str, name: str, title: str, description: str) -> str:
    """A row per rival, a dot per shape with its range over blocks; hollow where the rival is faster."""
    return canvas.draw(
        lambda axes: _paint_ratios(axes, rows, ours),
        name=name, title=title, description=description,
        height=82 + 34 * len(rows), margins=canvas.Margins(left=104, right=86, top=34),
    )  # fmt: skip


def _paint_ratios(axes: Any, rows: Sequence[RatioRow], ours: str) -> None:
    everything = [ratio for row in rows for ratio in row.by_shape.values()]
    low = min(0.8, min(r.low for r in everything) / 1.15)
    high = max(1.25, max(r.high for r in everything) * 1.15)
    axes.set(xscale="log", xlim=(low, high), ylim=(len(rows) - 0.45, -0.55))
    axes.axvspan(low, 1, color=palette.light("shade"), linewidth=0, zorder=0)
    axes.axvline(1, color=palette.light("ink"), linewidth=1, zorder=2)
    for place, row in enumerate(rows):
        _paint_rival(axes, place, row)
    log_axis(axes.xaxis, low, high, round_times)
    axes.set_xlabel(f"time of the rival / time of {ours}")
    axes.grid(axis="x")
    name_rows(axes, [(row.rival, palette.family(row.rival)) for row in rows])
    muted = palette.light("muted")
    above = {"xycoords": axes.get_xaxis_transform(), "textcoords": "offset points", "color": muted}
    axes.annotate("rival faster ←", (1, 1), xytext=(-6, 8), ha="right", **above)
    axes.annotate("→ ours faster", (1, 1), xytext=(6, 8), ha="left", **above)


def _paint_rival(axes: Any, place: int, row: RatioRow) -> None:
    colour = palette.light(palette.family(row.rival))
    count = len(row.by_shape)
    for n, ratio in enumerate(row.by_shape.values()):
        height = place + (n - (count - 1) / 2) * 0.66 / max(count, 1)
        axes.plot([ratio.low, ratio.high], [height, height], color=colour, linewidth=1.4)
        face = colour if ratio.median >= 1 else palette.light("surface")
        axes.plot(
            [ratio.median], [height], "o", markersize=4.6, color=colour, markerfacecolor=face,
            markeredgewidth=1.2, zorder=4,
        )  # fmt: skip
    medians = [ratio.median for ratio in row.by_shape.values()]
    text = times_range(Range(0, min(medians), max(medians)))
    axes.text(
        1.02, place, text, transform=axes.get_yaxis_transform(), va="center", color=palette.light("muted")
    )


def objects_and_columns(rows: Sequence[Pair], *, name: str, title: str, description: str) -> str:
    """A row per codec: a dot for objects, a square for columns, and the factor between them."""
    return canvas.draw(
        lambda axes: _paint_pairs(axes, rows),
        name=name, title=title, description=description,
        height=78 + 23 * len(rows), margins=canvas.Margins(left=112, right=64, top=26),
    )  # fmt: skip


def _paint_pairs(axes: Any, rows: Sequence[Pair]) -> None:
    values = [v for row in rows for v in (row.objects, row.columns) if v is not None]
    low, high = min(values) / 1.5, max(values) * 1.5
    axes.set(xscale="log", xlim=(low, high), ylim=(len(rows) - 0.4, -0.6), xlabel="time per record")
    for place, row in enumerate(rows):
        colour = palette.light(palette.family(row.codec))
        if row.objects is not None and row.columns is not None:
            axes.plot([row.columns, row.objects], [place, place], color=colour, linewidth=1.6)
            axes.text(
                1.02, place, times(row.objects / row.columns), transform=axes.get_yaxis_transform(),
                va="center", color=palette.light("muted"),
            )  # fmt: skip
        for value, marker in ((row.objects, "o"), (row.columns, "s")):
            if value is not None:
                axes.plot([value], [place], marker, markersize=7, color=colour, markeredgewidth=0)
    log_axis(axes.xaxis, low, high, round_duration)
    name_rows(axes, [(row.codec, palette.family(row.codec)) for row in rows])
    axes.grid(axis="x")
    axes.text(0, 1.03, "● objects   ■ columns", transform=axes.transAxes, color=palette.light("muted"))
