"""The figures of the report, and the cells that each shows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from echo_core.spark_eval.report import plots
from echo_core.spark_eval.report.document import Figure
from echo_core.spark_eval.report.headline import DOING, by_rival, what, wire_sizes
from echo_core.spark_eval.report.study import OPERATIONS, SAME, Study
from echo_core.spark_eval.report.summaries import CellSummary, Key
from echo_core.spark_eval.report.units import duration, size, times

BYTES_SHAPES = ("single", "batch-100", "wide", "story")
SENDER_PANELS = (
    ("single", "objects"),
    ("batch-100", "objects"),
    ("story", "objects"),
    ("batch-1000", "columns"),
)
_BATCH = "batch-"


def cost_figures(study: Study) -> list[Figure]:
    return [
        _cost(study, operation, target, lines)
        for operation in OPERATIONS
        for target in study.targets()
        if (lines := _lines(study, operation, target))
    ]


def _lines(study: Study, operation: str, target: str) -> list[plots.Line]:
    lines: list[plots.Line] = []
    for codec in study.codecs(operation=operation, target=target, sender=SAME):
        keys = study.keys(codec=codec, operation=operation, target=target, sender=SAME)
        cells = sorted(
            (study.cells[key] for key in keys if key.shape.startswith(_BATCH)), key=lambda cell: cell.records
        )
        if cells:
            costs = [cell.wall_ns_per_record for cell in cells]
            lines.append(plots.Line(codec, [cell.records for cell in cells], costs))
    return lines


def _cost(study: Study, operation: str, target: str, lines: Sequence[plots.Line]) -> Figure:
    title = f"{what(operation, target)}: time per record"
    ends = "; ".join(f"{line.codec} {duration(line.nanoseconds[-1])}" for line in lines)
    name = f"cost-{operation}-{target}"
    if all(len(line.records) == 1 for line in lines):
        rows = [
            plots.Bar(line.codec, line.codec, line.nanoseconds[0], duration(line.nanoseconds[0]))
            for line in lines
        ]
        svg = plots.cost_dots(rows, name=name, title=title, description=ends)
        return Figure(name, title, f"In a batch of {lines[0].records[0]:,}; the axis is logarithmic.", svg)
    description = f"Lines on logarithmic axes. In the largest batch: {ends}."
    svg = plots.cost_lines(lines, name=name, title=title, description=description)
    return Figure(name, title, "Both axes are logarithmic.", svg)


def bytes_figures(study: Study) -> list[Figure]:
    return [_bytes(study, shape) for shape in BYTES_SHAPES if study.keys(shape=shape, sender=SAME)]


def _bytes(study: Study, shape: str) -> Figure:
    rows = [
        plots.Bar(label, codec, count, f"{size(count)} B")
        for label, codec, count in merged(wire_sizes(study, shape))
    ]
    title = f"Bytes per record on the wire: {shape}"
    svg = plots.bars(
        rows,
        name=f"bytes-{shape}",
        title=title,
        description="; ".join(f"{row.label} {row.text}" for row in rows),
        axis="bytes per record",
    )
    return Figure(f"bytes-{shape}", title, "", svg)


def merged(sizes: dict[str, float]) -> list[tuple[str, str, float]]:
    """(label, codec, size); codecs of a family with equal sizes share a row."""
    rows: list[tuple[str, str, float]] = []
    for (_, count), group in groupby(sizes.items(), key=lambda item: (item[0].split()[0], item[1])):
        codecs = [codec for codec, _ in group]
        label = codecs[0] if len(codecs) == 1 else f"{codecs[0].split()[0]} (all {len(codecs)})"
        rows.append((label, codecs[0], count))
    return rows


def sender_cells(study: Study, codec: str, shape: str, target: str) -> dict[str, CellSummary]:
    """What one codec pays to decode from each kind of sender."""
    keys = (Key(codec, "decode", shape, sender, target) for sender in study.senders())
    return {key.sender: study.cells[key] for key in keys if key in study.cells}


def sender_figures(study: Study) -> list[Figure]:
    figures = [_senders(study, shape, target) for shape, target in SENDER_PANELS]
    return [figure for figure in figures if figure is not None]


def _senders(study: Study, shape: str, target: str) -> Figure | None:
    rows: list[plots.Bar] = []
    for codec in study.codecs(operation="decode", shape=shape, target=target):
        cells = sender_cells(study, codec, shape, target)
        same = cells.pop(SAME, None)
        for sender, cell in cells.items():
            if same is not None:
                factor = cell.wall_ns_per_record / same.wall_ns_per_record
                text = f"{times(factor)}, {duration(cell.wall_ns_per_record)}"
                rows.append(plots.Bar(sender, codec, factor, text, codec))
    if not rows:
        return None
    title = f"Decoding to {target} from other senders: {shape}"
    svg = plots.bars(
        rows,
        name=f"senders-{shape}-{target}",
        title=title,
        description="; ".join(f"{row.group} {row.label} {row.text}" for row in rows),
        axis="time / time from a sender of the same layout",
        mark=1,
    )
    return Figure(f"senders-{shape}-{target}", title, "", svg)


def ratio_figures(study: Study) -> list[Figure]:
    figures: list[Figure] = []
    for operation in OPERATIONS:
        for target in study.targets():
            grouped = by_rival(study.against_reference(operation, target))
            rows = [
                plots.RatioRow(rival, {ratio.rival.shape: ratio.wall for ratio in ratios})
                for rival, ratios in grouped.items()
            ]
            if rows:
                figures.append(_ratios(study.reference(target), operation, target, rows))
    return figures


def _ratios(ours: str, operation: str, target: str, rows: Sequence[plots.RatioRow]) -> Figure:
    title = f"{what(operation, target)}: each rival against {ours}"
    svg = plots.ratio_ranges(
        rows,
        ours=ours,
        name=f"ratios-{operation}-{target}",
        title=title,
        description="Dots on a logarithmic axis, one for each shape; the table below holds the numbers.",
    )
    shapes = ", ".join(rows[0].by_shape)
    order = f"In a row from top to bottom: {shapes}. " if len(rows[0].by_shape) > 1 else f"Shape: {shapes}. "
    note = f"{order}Bars are the range over blocks; where a dot is hollow the rival is faster."
    return Figure(f"ratios-{operation}-{target}", title, note, svg)


def target_shape(study: Study) -> str | None:
    """The largest batch, where the fixed cost of a call is negligible."""
    batches = [cell for cell in study.cells.values() if cell.key.shape.startswith(_BATCH)]
    return max(batches, key=lambda cell: cell.records).key.shape if batches else None


def target_pairs(study: Study, operation: str) -> list[plots.Pair]:
    shape = target_shape(study)
    if shape is None:
        return []

    def cost(codec: str, target: str) -> float | None:
        cell = study.cells.get(Key(codec, operation, shape, SAME, target))
        return None if cell is None else cell.wall_ns_per_record

    codecs = study.codecs(operation=operation, shape=shape, sender=SAME)
    return [plots.Pair(codec, cost(codec, "objects"), cost(codec, "columns")) for codec in codecs]


def target_figures(study: Study) -> list[Figure]:
    figures: list[Figure] = []
    for operation in OPERATIONS:
        if rows := target_pairs(study, operation):
            name = f"targets-{operation}"
            title = f"{DOING[operation]} {target_shape(study)}: objects and columns"
            svg = plots.objects_and_columns(
                rows,
                name=name,
                title=title,
                description="Dots and squares; the table below holds the numbers.",
            )
            figures.append(Figure(name, title, "The factor is objects / columns.", svg))
    return figures
