"""The tables that hold everything: every cell, every comparison, and what each codec takes to set up."""

from __future__ import annotations

from typing import Any

from echo_core.spark_eval.report import palette
from echo_core.spark_eval.report.document import Number, Row, Table, Value
from echo_core.spark_eval.report.statistics import CellSummary, Key
from echo_core.spark_eval.report.study import OPERATIONS, Study, codec_order, ordered_place
from echo_core.spark_eval.report.units import UNKNOWN, duration, percent, size, times


def setup(study: Study) -> Table:
    """The dearest build of any of a codec's cells, and the median of their dearest builds."""
    rows = [_setup_row(study, codec, operation) for codec in study.codecs() for operation in OPERATIONS]
    header = ("codec", "schema, median", "schema, largest", "compilation, median", "compilation, largest")
    caption = "Set-up of a cell in its dearest block; paid once in a process, and in no other figure here."
    return Table("setup", caption, header, [row for row in rows if row.values])


def _setup_row(study: Study, codec: str, operation: str) -> Row:
    cells = [study.cells[key] for key in study.keys(codec=codec, operation=operation)]
    values: list[Value] = []
    for builds in ([c.setup_ns.high for c in cells], [c.compile_ns.high for c in cells]):
        if builds:
            middle = sorted(builds)[len(builds) // 2]
            values += [_build(middle), _build(max(builds))]
    return Row(f"{codec}, {operation}", values, palette.family(codec) == "echo")


def _build(nanoseconds: float) -> Value:
    return Number(nanoseconds, duration(nanoseconds)) if nanoseconds else UNKNOWN


CELL_HEADER = (
    "cell", "records", "bytes", "wall", "cpu", "wall/cpu", "spread wall", "spread cpu", "schema",
    "compilation", "samples", "disturbed", "noisy",
)  # fmt: skip


def cells(study: Study) -> Table:
    caption = "Every cell: medians per record, spread of the blocks' medians, set-up in the median block."
    rows = [_cell_row(cell) for cell in sorted(study.cells.values(), key=lambda cell: study_order(cell.key))]
    return Table("cells", caption, CELL_HEADER, rows)


def study_order(key: Key) -> tuple[Any, ...]:
    return (key.operation, key.target, ordered_place(key.shape), key.sender, codec_order(key.codec))


def label(key: Key) -> str:
    return f"{key.codec}, {key.operation}, {key.shape}, {key.sender}, {key.target}"


def _cell_row(cell: CellSummary) -> Row:
    wall, cpu = cell.wall_ns_per_record, cell.cpu_ns_per_record
    values: list[Value] = [
        Number(cell.records, f"{cell.records:,}"),
        Number(cell.bytes_per_record, size(cell.bytes_per_record)),
        Number(wall, duration(wall)),
        Number(cpu, duration(cpu)),
        Number(cell.wall_per_cpu, f"{cell.wall_per_cpu:.3f}"),
        Number(cell.wall.spread, percent(cell.wall.spread)),
        Number(cell.cpu.spread, percent(cell.cpu.spread)),
        _build(cell.setup_ns.median),
        _build(cell.compile_ns.median),
        Number(cell.sample_count, str(cell.sample_count)),
        Number(cell.disturbed_count, str(cell.disturbed_count)),
        Number(1, "noisy", "noisy") if cell.noisy else "",
    ]
    return Row(label(cell.key), values, cell.key.is_ours)


def all_ratios(study: Study) -> Table:
    header = ("ours, rival and cell", "wall", "lowest", "highest", "cpu", "lowest", "highest")
    rows = [
        Row(
            f"{ratio.ours.codec} : {label(ratio.rival)}",
            [
                Number(value, times(value), "rival" if value < 1 else "")
                for value in (*ratio.wall, *ratio.cpu)
            ],
        )
        for ratio in sorted(study.ratios, key=lambda ratio: (study_order(ratio.rival), ratio.ours))
    ]
    return Table("all-ratios", "Every comparison: time of the rival / time of ours.", header, rows)
