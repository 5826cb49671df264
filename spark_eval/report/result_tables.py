"""The tables of the report; every number keeps its exact value.

First those beside the figures, then those that hold everything: set-up, every cell, every comparison. The
words explain the names of codecs, shapes and senders to readers who have not seen the code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from echo_core.spark_eval.report import palette
from echo_core.spark_eval.report.document import Number, Row, Table, Value
from echo_core.spark_eval.report.figures import sender_cells, target_pairs, target_shape
from echo_core.spark_eval.report.headline import DOING, by_rival, what, wire_sizes
from echo_core.spark_eval.report.study import OPERATIONS, SAME, Study, codec_order, ordered_place
from echo_core.spark_eval.report.summaries import CellSummary, Key, Range, Ratio, middle
from echo_core.spark_eval.report.units import TIMES, UNKNOWN, duration, percent, size, times, times_range

CODEC_WORDS = {
    "echo dataclass": "plain dataclasses; decoding makes every object",
    "echo event": "`@echo.event` records; decoding makes a record that reads a field when it is asked for",
    "echo event, read": "`@echo.event` records, every field read once after decoding",
    "echo array": "a numpy array of records; its columns are views of the fields",
    "echo columns": "a contiguous numpy array for each field, gathered into records before encoding",
    "xml etree": "elements, by xml.etree.ElementTree",
    "xml lxml": "elements, by lxml",
    "xml expat": "attributes, read by a handler of expat",
    "msgpack map": "msgpack, a dict with field names for every record",
    "msgpack array": "msgpack, a row without names for every record",
    "pickle": "pickle of the instances as they are",
    "pickle of rows": "pickle of rows without names",
    "pickle numpy": "pickle of an event with a numpy array of records",
    "msgspec": "msgspec's msgpack with field names, into the dataclass itself",
    "msgspec struct": "msgspec's msgpack without names, into structs of its own",
    "protobuf": "protobuf messages, and instances made of them",
    "arrow ipc": "an Arrow record batch of one row, the particles a list column",
}

SHAPE_WORDS = {
    "single": "one record of 16 fields, 96 bytes",
    "batch-1": "an event with a list of 1 such record",
    "batch-10": "an event with a list of 10 such records",
    "batch-100": "an event with a list of 100 such records",
    "batch-1000": "an event with a list of 1,000 such records",
    "odd": "one record of kinds that machines lay out differently",
    "wide": "one record of 200 fields",
    "story": "one record with strings, optional fields and nested lists",
}

SENDER_WORDS = {
    "same": "the reader's own layout",
    "big-endian": "a machine of the other byte order",
    "reordered": "the same fields in the opposite order",
    "extra": "fields that the reader does not know",
}


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
    """The meaning of the names in this run."""
    return [
        _words("codecs", "The codecs.", CODEC_WORDS, study.codecs()),
        _words("shapes", "The shapes of events.", SHAPE_WORDS, study.shapes()),
        _words("senders", "The senders.", SENDER_WORDS, study.senders()),
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
    """Each rival against our reference codec: median and extremes over the shapes."""
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


def setup(study: Study) -> Table:
    """The most expensive build of a codec's cells, and the median of the cells' most expensive builds."""
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
    return Row(f"{codec}, {operation}", values, _is_ours(codec))


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
