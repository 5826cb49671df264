"""The tables of the report; every number keeps the value that it was rounded from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from echo_core.spark_eval.report import glossary, palette
from echo_core.spark_eval.report.document import Number, Row, Table, Value
from echo_core.spark_eval.report.figures import sender_cells, target_pairs, target_shape
from echo_core.spark_eval.report.headline import DOING, by_rival, what, wire_sizes
from echo_core.spark_eval.report.statistics import CellSummary, Key, Range, Ratio, middle
from echo_core.spark_eval.report.study import OPERATIONS, SAME, Study
from echo_core.spark_eval.report.units import TIMES, UNKNOWN, duration, size, times, times_range


def _is_ours(codec: str) -> bool:
    return palette.family(codec) == "echo"


def _cost(cell: CellSummary | None) -> Value:
    if cell is None:
        return UNKNOWN
    value = cell.wall_ns_per_record
    return Number(value, duration(value), "noisy" if cell.noisy else "")


def _ratio(ratio: Range) -> Number:
    text = times(ratio.median)
    if times(ratio.low) != times(ratio.high):
        text = f"{text} ({times_range(ratio).removesuffix(TIMES)})"
    return Number(ratio.median, text, "rival" if ratio.median < 1 else "")


def environment(facts: Mapping[str, Any]) -> Table:
    rows = [Row(name, [text]) for name, text in _flat(facts, "")]
    return Table("environment", "Where and with what it was measured.", ("what", "value"), rows)


def _words(name: str, caption: str, known: Mapping[str, str], met: Iterable[str]) -> Table:
    rows = [Row(word, [known[word]], _is_ours(word)) for word in met if word in known]
    return Table(name, caption, (name.removesuffix("s"), "what it is"), rows, "words")


def words(study: Study) -> list[Table]:
    """What the names of this run stand for."""
    return [
        _words("codecs", "The codecs.", glossary.CODECS, study.codecs()),
        _words("shapes", "The shapes of events.", glossary.SHAPES, study.shapes()),
        _words("senders", "The senders.", glossary.SENDERS, study.senders()),
    ]


def _flat(facts: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, str]]:
    for name, value in facts.items():
        if name == "packages" and isinstance(value, Mapping):
            packages = cast(Mapping[str, Any], value)
            yield prefix + name, ", ".join(f"{package} {version}" for package, version in packages.items())
        elif isinstance(value, Mapping):
            yield from _flat(cast(Mapping[str, Any], value), f"{prefix}{name}: ")
        else:
            yield (prefix + name.removesuffix("_bytes").replace("_", " ")), _fact(name, value)


def _fact(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_bytes"):
        return f"{value / 2**30:.1f} GiB"
    return str(value)


def costs(study: Study) -> list[Table]:
    return [
        _costs(study, operation, target)
        for operation in OPERATIONS
        for target in study.targets()
        if study.keys(operation=operation, target=target, sender=SAME)
    ]


def _costs(study: Study, operation: str, target: str) -> Table:
    wanted = {"operation": operation, "target": target, "sender": SAME}
    shapes = study.shapes(**wanted)
    rows = [
        Row(
            codec,
            [_cost(study.cells.get(Key(codec, operation, shape, SAME, target))) for shape in shapes],
            _is_ours(codec),
        )
        for codec in study.codecs(**wanted)
    ]
    caption = f"{what(operation, target)}: wall time per record, sender of the same layout."
    return Table(f"cost-{operation}-{target}", caption, ("codec", *shapes), rows)


def wire(study: Study) -> Table:
    shapes = study.shapes(sender=SAME)
    sizes = {shape: wire_sizes(study, shape) for shape in shapes}

    def value(codec: str, shape: str) -> Value:
        count = sizes[shape].get(codec)
        return UNKNOWN if count is None else Number(count, size(count))

    rows = [
        Row(codec, [value(codec, shape) for shape in shapes], _is_ours(codec))
        for codec in study.codecs(sender=SAME)
    ]
    return Table("bytes", "Bytes per record on the wire.", ("codec", *shapes), rows)


def senders(study: Study) -> list[Table]:
    tables: list[Table] = []
    for target in study.targets():
        rows = [
            _sender_row(study, codec, cells)
            for shape in study.shapes(operation="decode", target=target)
            for codec in study.codecs(operation="decode", shape=shape, target=target)
            if len(cells := sender_cells(study, codec, shape, target)) > 1
        ]
        if rows:
            caption = (
                f"Decoding to {target}: wall time per record, and its ratio to that from the same layout."
            )
            header = ("shape, codec", *study.senders())
            tables.append(Table(f"senders-{target}", caption, header, rows))
    return tables


def _sender_row(study: Study, codec: str, cells: Mapping[str, CellSummary]) -> Row:
    same = cells.get(SAME)

    def value(sender: str) -> Value:
        cell = cells.get(sender)
        if cell is None or same is None or cell is same:
            return _cost(cell)
        cost = cell.wall_ns_per_record
        text = f"{duration(cost)} ({times(cost / same.wall_ns_per_record)})"
        return Number(cost, text, "noisy" if cell.noisy else "")

    shape = next(iter(cells.values())).key.shape
    return Row(f"{shape}, {codec}", [value(sender) for sender in study.senders()], _is_ours(codec))


def summary(study: Study) -> Table:
    """Each rival against our reference, over the shapes: the median and the extremes of the medians."""
    columns = {
        what(operation, target): {
            rival: middle([ratio.wall.median for ratio in its])
            for rival, its in by_rival(study.against_reference(operation, target)).items()
        }
        for target in study.targets()
        for operation in reversed(OPERATIONS)
    }

    def value(rival: str, column: Mapping[str, Range]) -> Value:
        return _ratio(column[rival]) if rival in column else UNKNOWN

    rivals = [codec for codec in study.codecs() if not _is_ours(codec)]
    rows = [Row(rival, [value(rival, column) for column in columns.values()]) for rival in rivals]
    caption = (
        "Time of the rival / time of ours, sender of the same layout: median over the shapes (least to most)."
    )
    return Table("summary", caption, ("rival", *(name.lower() for name in columns)), rows)


def ratios(study: Study) -> list[Table]:
    return [
        _ratios(study, operation, target, found)
        for operation in OPERATIONS
        for target in study.targets()
        if (found := study.against_reference(operation, target))
    ]


def _ratios(study: Study, operation: str, target: str, found: Sequence[Ratio]) -> Table:
    shapes = study.shapes(codec=study.reference(target), operation=operation, target=target, sender=SAME)
    rows: list[Row] = []
    for rival, its in by_rival(found).items():
        by_shape = {ratio.rival.shape: _ratio(ratio.wall) for ratio in its}
        rows.append(Row(rival, [by_shape.get(shape, UNKNOWN) for shape in shapes]))
    caption = (
        f"{what(operation, target)}: time of the rival / time of {study.reference(target)}, "
        "median over blocks (lowest to highest)."
    )
    return Table(f"ratios-{operation}-{target}", caption, ("rival", *shapes), rows)


def targets(study: Study) -> list[Table]:
    tables: list[Table] = []
    for operation in OPERATIONS:
        rows = [
            Row(pair.codec, [_plain_cost(pair.objects), _plain_cost(pair.columns)], _is_ours(pair.codec))
            for pair in target_pairs(study, operation)
        ]
        if rows:
            caption = f"{DOING[operation]} {target_shape(study)}: wall time per record."
            tables.append(Table(f"targets-{operation}", caption, ("codec", "objects", "columns"), rows))
    return tables


def _plain_cost(value: float | None) -> Value:
    return UNKNOWN if value is None else Number(value, duration(value))
