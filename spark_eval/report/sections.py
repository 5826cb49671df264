"""The sections of the report, assembled as a document."""

from __future__ import annotations

import math

from echo_core.spark_eval.report import figures, result_tables
from echo_core.spark_eval.report.document import Document, Number, Row, Section, Table
from echo_core.spark_eval.report.headline import losses, sentences
from echo_core.spark_eval.report.study import Study
from echo_core.spark_eval.report.summaries import SPREAD_LIMIT, WALL_PER_CPU_LIMIT, Quantiles, quantiles
from echo_core.spark_eval.report.units import counted, percent


def document(study: Study) -> Document:
    sections = [
        _about(study), _headline(study), losses(study), _environment(study), _costs(study), _bytes(study),
        _senders(study), _ratios(study), _targets(study), _setup(study), _noise(study), _everything(study),
    ]  # fmt: skip
    when = str(study.environment.get("when", "")).replace("T", " ")[:16]
    kind = "quick run" if study.environment.get("quick") else "full run"
    subtitle = f"{kind}, {counted(len(study.cells), 'cell')}" + (f", {when}" if when else "")
    return Document("The cost of encoding and decoding events", subtitle, sections)


def _about(study: Study) -> Section:
    has_spark = str(study.environment.get("spark", "none")) != "none"
    place = "inside the tasks of a Spark executor" if has_spark else "in one process, without Spark"
    text = (
        "This page compares echo_core with other ways to turn events into bytes and back, measured "
        f"{place}. A cell is a codec, an operation, a shape of event, a sender and a target; "
        "every cell is built anew in each block, each of which has an order of its own, and one runs at a "
        "time. Times are medians of the wall clock per record, without set-up. A ratio is the time of the "
        "rival divided by ours in the same block: over 1 ours is faster, under 1 (marked ▼) the rival is. "
        f"Rivals are held against `{study.reference('objects')}` where the target is objects and "
        f"`{study.reference('columns')}` where it is columns; figures marked ~ are noisy."
    )
    return Section("about", "What this is", paragraphs=[text])


def _headline(study: Study) -> Section:
    first, *others = sentences(study)
    found = [result_tables.summary(study)] if study.ratios else []
    return Section("headline", "In short", paragraphs=[first], bullets=others, tables=found)


def _environment(study: Study) -> Section:
    return Section(
        "environment",
        "Environment",
        tables=[result_tables.environment(study.environment), *result_tables.words(study)],
    )


def _costs(study: Study) -> Section:
    text = (
        "Time per record against the number of records in a batch: what falls to the right is a cost per "
        "call, what stays is a cost per record. The tables have the other shapes as well."
    )
    return Section(
        "cost", "Cost per record", paragraphs=[text],
        figures=figures.cost_figures(study), tables=result_tables.costs(study),
    )  # fmt: skip


def _bytes(study: Study) -> Section:
    text = "What one record takes of the encoded event, with headers shared by the records of a batch."
    return Section(
        "bytes", "Bytes on the wire", paragraphs=[text],
        figures=figures.bytes_figures(study), tables=[result_tables.wire(study)],
    )  # fmt: skip


def _senders(study: Study) -> Section:
    text = (
        "What a reader pays when the sender has another byte order, other places for the fields, or fields "
        "that the reader does not know. A codec is absent where it has no such sender: the bytes of XML and "
        "msgpack are the same whatever the machine, so a big-endian sender compares with their first column."
    )
    return Section(
        "senders", "The cost of heterogeneity", paragraphs=[text],
        figures=figures.sender_figures(study), tables=result_tables.senders(study),
    )  # fmt: skip


def _ratios(study: Study) -> Section:
    text = "Both sides of a ratio were measured in the same block; the range is over the blocks."
    return Section(
        "ratios", "Ratios to each rival", paragraphs=[text],
        figures=figures.ratio_figures(study), tables=result_tables.ratios(study),
    )  # fmt: skip


def _targets(study: Study) -> Section:
    text = "Columns spare the making of one object for each record. A codec stands where it was measured."
    return Section(
        "targets", "Objects and columns", paragraphs=[text],
        figures=figures.target_figures(study), tables=result_tables.targets(study),
    )  # fmt: skip


def _setup(study: Study) -> Section:
    text = (
        "Schemas are read and machine code is compiled once in a process, before the first event. A process "
        "that meets a format again pays nothing, so the dearest of a cell's builds is the one that tells."
    )
    return Section("setup", "Set-up", paragraphs=[text], tables=[result_tables.setup(study)])


def _noise(study: Study) -> Section:
    cells = list(study.cells.values())
    wall, cpu = (quantiles(c.wall.spread for c in cells), quantiles(c.cpu.spread for c in cells))
    noisy = sum(cell.noisy for cell in cells)
    rule = (
        "A cell is marked noisy where wall time exceeds CPU time by more than "
        f"{(WALL_PER_CPU_LIMIT - 1) * 100:.0f} % or the blocks' medians differ by more than "
        f"{SPREAD_LIMIT * 100:.0f} %: {counted(noisy, 'cell')} of {len(cells):,} here."
    )
    table = Table(
        "spread", "Spread of a cell's median between blocks: (largest - smallest) / median, over all cells.",
        ("clock", "half of the cells below", "nine in ten below", "largest"),
        [_spread_row("wall", wall), _spread_row("cpu", cpu)],
    )  # fmt: skip
    return Section("noise", "Spread and noise", paragraphs=[_verdict(wall), rule], tables=[table])


def _verdict(wall: Quantiles) -> str:
    if math.isnan(wall.p90):
        return (
            "**Spread unknown**: one block was run, so nothing says how far its figures would be met again."
        )
    figures = (
        f"over its blocks the medians of half the cells lie within {percent(wall.p50)} of each other, "
        f"those of nine in ten within {percent(wall.p90)}"
    )
    if wall.p90 > SPREAD_LIMIT:
        return f"**This run is noisy**: {figures}. Differences of that size mean nothing."
    return f"This run is quiet: {figures}."


def _spread_row(clock: str, spread: Quantiles) -> Row:
    return Row(clock, [Number(v, percent(v)) for v in (spread.p50, spread.p90, spread.largest)])


def _everything(study: Study) -> Section:
    text = "Every cell and every comparison; the samples themselves are in samples.parquet."
    return Section(
        "everything", "All figures", paragraphs=[text],
        tables=[result_tables.cells(study), result_tables.all_ratios(study)], folded=True,
    )  # fmt: skip
