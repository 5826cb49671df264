"""The report of synthetic samples: every number on the page against one worked out apart from it."""

from __future__ import annotations

import importlib
import json
import math
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from echo_core.spark_eval.measure import codecs, workloads
from echo_core.spark_eval.report import folder as report
from echo_core.spark_eval.report import result_tables
from echo_core.spark_eval.report.units import duration, size, times
from tests.spark_eval import synthetic

pytest.importorskip("matplotlib", reason="needs the extra `spark`")
pytestmark = pytest.mark.once

Tables = dict[str, dict[str, list[float | str]]]


class _Reader(HTMLParser):
    """Collects tables by the name of their caption, and the text of every section."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: Tables = {}
        self.headers: dict[str, list[str]] = {}
        self.text_by_section: dict[str, str] = {}
        self.references: list[str] = []
        self.tags: list[str] = []
        self._section = self._table = ""
        self._row: list[float | str] = []
        self._words: list[str] = []
        self._value: float | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.references += [given[name] or "" for name in ("src", "href", "xlink:href") if name in given]
        if tag == "section":
            self._section = given["id"] or ""
            self.text_by_section[self._section] = ""
        elif tag == "caption":
            self._table = (given["id"] or "").removeprefix("table-")
            self.tables[self._table], self.headers[self._table] = {}, []
        elif tag == "data":
            self._value = float(given["value"] or "nan")
        elif tag == "tr":
            self._row = []
        elif tag in ("th", "td"):
            self._words, self._value = [], None

    def handle_data(self, data: str) -> None:
        self._words.append(data)
        if self._section:
            self.text_by_section[self._section] += data

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td"):
            text = "".join(self._words).strip()
            self._row.append(text if self._value is None else self._value)
        elif tag == "tr":
            first = str(self._row[0])
            if self.headers[self._table]:
                self.tables[self._table][first] = self._row[1:]
            else:
                self.headers[self._table] = [str(name) for name in self._row]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = synthetic.write(tmp_path_factory.mktemp("comparison"))
    assert report.write(written) == written / "report.html"
    return written


@pytest.fixture(scope="module")
def page(folder: Path) -> _Reader:
    reader = _Reader()
    reader.feed((folder / "report.html").read_text("utf-8"))
    return reader


Samples = dict[tuple[str, ...], dict[int, list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def samples(folder: Path) -> Samples:
    """The quiet samples by cell and block; every block of the synthetic run has some."""
    parquet: Any = importlib.import_module("pyarrow.parquet")
    found: Samples = {}
    for row in parquet.read_table(folder / "samples.parquet").to_pylist():
        key = tuple(row[name] for name in ("codec", "operation", "shape", "sender", "target"))
        found.setdefault(key, {}).setdefault(row["block"], [])
        if not row["noisy"]:
            found[key][row["block"]].append(row)
    assert all(rows for blocks in found.values() for rows in blocks.values())
    return found


def _per_record(samples: Samples, key: tuple[str, ...], clock: str = "wall_ns") -> float:
    rows = [row for block in samples[key].values() for row in block]
    return float(np.median([row[clock] for row in rows]) / rows[0]["records"])


def _blocks(samples: Samples, key: tuple[str, ...], clock: str = "wall_ns") -> list[float]:
    return [float(np.median([row[clock] for row in rows])) for _, rows in sorted(samples[key].items())]


def _ratio(samples: Samples, ours: tuple[str, ...], rival: tuple[str, ...], clock: str = "wall_ns") -> Any:
    return np.array(_blocks(samples, rival, clock)) / np.array(_blocks(samples, ours, clock))


REFERENCE = {"objects": "echo dataclass", "columns": "echo columns"}


def test_page_has_the_parts_in_order(page: _Reader) -> None:
    """What it is comes first, then what was found, and every figure last."""
    assert list(page.text_by_section) == [
        "about", "headline", "losses", "environment", "cost", "bytes", "senders", "ratios", "targets",
        "setup", "noise", "everything",
    ]  # fmt: skip


def test_every_name_of_a_comparison_is_explained() -> None:
    """A codec, shape or sender that is added brings its line."""
    assert {*codecs.CODECS} == {*result_tables.CODEC_WORDS}
    assert {*workloads.SHAPES} == {*result_tables.SHAPE_WORDS}
    assert {*workloads.SENDERS} == {*result_tables.SENDER_WORDS}


def test_page_needs_nothing_but_itself(page: _Reader, folder: Path) -> None:
    """No script, and no address but places on the page."""
    assert "script" not in page.tags
    assert all(reference.startswith(("#", "data:,")) for reference in page.references)
    text = (folder / "report.html").read_text("utf-8")
    assert not re.search(r"url\((?!#)|@import|https?://(?!www\.w3\.org/)", text)


def test_full_table_has_every_cell_with_its_medians(page: _Reader, samples: Samples) -> None:
    """Wall, CPU, bytes and the spread of both clocks."""
    table = page.tables["cells"]
    assert len(table) == len(samples)
    for key, blocks in samples.items():
        records, payload, wall, cpu, _, spread, cpu_spread, *_ = table[", ".join(key)]
        row = blocks[0][0]
        assert (records, payload) == (row["records"], row["payload_bytes"] / row["records"])
        assert wall == pytest.approx(_per_record(samples, key))
        assert cpu == pytest.approx(_per_record(samples, key, "cpu_ns"))
        for clock, found in (("wall_ns", spread), ("cpu_ns", cpu_spread)):
            medians = _blocks(samples, key, clock)
            median = _per_record(samples, key, clock) * row["records"]
            assert found == pytest.approx((max(medians) - min(medians)) / median)


def test_every_comparison_is_there_with_its_range(page: _Reader, samples: Samples) -> None:
    """Wall and CPU, each with median, lowest and highest over the blocks."""
    table = page.tables["all-ratios"]
    pairs = [
        (ours, rival)
        for ours in samples
        for rival in samples
        if ours[0].startswith("echo") and not rival[0].startswith("echo") and ours[1:] == rival[1:]
    ]
    assert len(table) == len(pairs) > 100
    for ours, rival in pairs:
        expected: list[float] = []
        for clock in ("wall_ns", "cpu_ns"):
            found = _ratio(samples, ours, rival, clock)
            expected += [float(np.median(found)), found.min(), found.max()]
        assert table[f"{ours[0]} : {', '.join(rival)}"] == pytest.approx(expected)


def _value(table: str, row: str, column: str, samples: Samples) -> float | None:
    """What a place of a table should hold, or None where that was not measured."""
    kind, *rest = table.split("-")
    key: tuple[str, ...]
    if kind == "cost":
        key = (row, rest[0], column, "same", rest[1])
    elif kind == "senders":
        shape, codec = row.split(", ", 1)
        key = (codec, "decode", shape, column, rest[0])
    elif kind == "targets":
        key = (row, rest[0], "batch-1000", "same", column)
    else:
        key = (row, rest[0], column, "same", rest[1])
        ours = (REFERENCE[rest[1]], *key[1:])
        return float(np.median(_ratio(samples, ours, key))) if {key, ours} <= samples.keys() else None
    return _per_record(samples, key) if key in samples else None


def test_tables_beside_the_plots_hold_the_same_medians(page: _Reader, samples: Samples) -> None:
    """Costs, senders, ratios, objects and columns: each place of each table."""
    checked = 0
    for name, table in page.tables.items():
        if name.split("-")[0] not in ("cost", "senders", "targets", "ratios") or name == "senders":
            continue
        for row, values in table.items():
            for column, value in zip(page.headers[name][1:], values, strict=True):
                expected = _value(name, row, column, samples)
                assert value == ("\N{EN DASH}" if expected is None else pytest.approx(expected))
                checked += 1
    assert checked > 500


def test_bytes_are_those_of_the_samples(page: _Reader, samples: Samples) -> None:
    """Per record, for every codec and shape."""
    for codec, values in page.tables["bytes"].items():
        for shape, value in zip(page.headers["bytes"][1:], values, strict=True):
            key = next(key for key in samples if key[0] == codec and key[2:4] == (shape, "same"))
            assert value == samples[key][0][0]["payload_bytes"] / samples[key][0][0]["records"]


def _by_rival(samples: Samples, operation: str, target: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for key in samples:
        if not key[0].startswith("echo") and (key[1], key[3], key[4]) == (operation, "same", target):
            ratio = _ratio(samples, (REFERENCE[target], *key[1:]), key)
            found.setdefault(key[0], []).append(float(np.median(ratio)))
    return found


def test_headline_has_the_numbers_of_the_data(page: _Reader, samples: Samples) -> None:
    """Each rival's median over the shapes, in the sentence on its operation and target."""
    text = page.text_by_section["headline"]
    for target, operation in (("objects", "decode"), ("objects", "encode"), ("columns", "decode")):
        (sentence,) = re.findall(rf"(?i){operation[:-1]}ing \w+ {target}, .*", text)
        for rival, ratios in _by_rival(samples, operation, target).items():
            if np.median(ratios) >= 1:
                assert f"{rival} ({times(float(np.median(ratios)))})" in sentence
    assert f"a record of batch-100 takes {size(98.24)} bytes; xml etree {size(402.24)}" in text


def test_every_cell_that_a_rival_wins_is_named(page: _Reader, samples: Samples) -> None:
    """By codec, operation and target, then by rival, shape and sender; and no other cell is."""
    text = page.text_by_section["losses"]
    lost = 0
    for ours in (key for key in samples if key[0].startswith("echo")):
        start = f"{ours[0]}, {ours[1][:-1]}ing {'to' if ours[1] == 'decode' else 'from'} {ours[4]}: "
        line = next((line for line in text.splitlines() if line.startswith(start)), "")
        for rival in (key for key in samples if key[1:] == ours[1:] and not key[0].startswith("echo")):
            median = float(np.median(_ratio(samples, ours, rival)))
            part = next((p for p in line.split("; ") if f"{rival[0]} in " in p), "")
            (shape,) = re.findall(rf"(?<![-\w]){rival[2]} \(([^)]*)\)", part) or [""]
            named = shape.split(", ")
            sender = "" if rival[3] == "same" else f"from {rival[3]} "
            assert any(n.startswith(sender + times(1 / median)) for n in named) == (median < 1)
            lost += median < 1
    assert lost > 10


def test_spread_is_summed_up(page: _Reader, samples: Samples) -> None:
    """p50, p90 and the largest of all cells, for both clocks; the run is called quiet."""
    for clock, row in (("wall_ns", "wall"), ("cpu_ns", "cpu")):
        spreads: list[float] = []
        for key, blocks in samples.items():
            medians = _blocks(samples, key, clock)
            whole = _per_record(samples, key, clock) * blocks[0][0]["records"]
            spreads.append((max(medians) - min(medians)) / whole)
        expected = [*np.quantile(spreads, [0.5, 0.9]), max(spreads)]
        assert page.tables["spread"][row] == pytest.approx(expected)
    assert "This run is quiet" in page.text_by_section["noise"]


def test_set_up_stands_in_a_table_of_its_own(page: _Reader) -> None:
    """The compilation of the first block is what a process pays."""
    assert page.tables["setup"]["echo dataclass, decode"] == [250_000, 250_000, 9_000_000, 9_000_000]
    assert page.tables["setup"]["pickle, encode"][:2] == [20_000, 20_000]


def test_environment_is_told_and_escaped(page: _Reader, folder: Path) -> None:
    """A name with markup in it is shown, not obeyed."""
    table = page.tables["environment"]
    assert table["machine: cpu"] == ["A <fast> processor @ 3.0 GHz"]
    assert table["machine: memory"] == ["7.6 GiB"]
    assert "A &lt;fast> processor" in (folder / "report.md").read_text("utf-8")


def test_text_of_every_number_is_its_value(folder: Path) -> None:
    """What is read is the value in the same element, rounded."""
    text = (folder / "report.html").read_text("utf-8")
    found = re.findall(r'<data value="([^"]+)">([^<]+)</data>', text)
    assert len(found) > 5000
    for value, shown in found:
        number = float(value)
        texts = {
            duration(number), times(number), size(number), f"{number:,.0f}", f"{number:.3f}",
            f"{number * 100:.1f} %", "noisy",
        }  # fmt: skip
        assert math.isnan(number) or shown.split(" (")[0] in texts


def test_markdown_refers_to_figures_that_are_there(folder: Path) -> None:
    """And the page holds the same ones."""
    names = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (folder / "report.md").read_text("utf-8"))
    assert len(names) > 10
    assert {*names} == {f"figures/{path.name}" for path in (folder / "figures").iterdir()}
    for name in names:
        ElementTree.parse(folder / name)
        assert f'id="{Path(name).stem}-title"' in (folder / "report.html").read_text("utf-8")


def test_markdown_has_the_tables_of_the_page(page: _Reader, folder: Path) -> None:
    """The same document, written twice."""
    text = (folder / "report.md").read_text("utf-8")
    rows = sum(len(table) for table in page.tables.values())
    rules = re.findall(r"^\| --- \|", text, re.MULTILINE)
    assert len(rules) == len(page.tables)
    assert len(re.findall(r"^\| ", text, re.MULTILINE)) == rows + 2 * len(page.tables)


def test_writing_again_changes_nothing(folder: Path) -> None:
    """A report is a function of its samples."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    report.write(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_figures_of_an_earlier_report_go(tmp_path: Path) -> None:
    """Those that its page refers to, and no other file."""
    figures = tmp_path / report.FIGURES
    figures.mkdir()
    for name in ("senders-old.svg", "mine.svg"):
        (figures / name).touch()
    (tmp_path / report.PAGE).write_text(f"![Old]({report.FIGURES}/senders-old.svg)")
    report.write(synthetic.write(tmp_path))
    assert not (figures / "senders-old.svg").exists()
    assert (figures / "mine.svg").exists()


def test_one_block_without_an_environment_is_reported_as_what_it_is(tmp_path: Path) -> None:
    """No spread is made up where there is nothing to compare."""
    synthetic.write(tmp_path, blocks=1)
    (tmp_path / "environment.json").unlink()
    text = report.write(tmp_path).read_text("utf-8")
    assert "Spread unknown" in text
    assert "nan" not in re.sub(r'<data value="nan">', "", text)


def test_noisy_run_says_so(tmp_path: Path, folder: Path) -> None:
    """Blocks that differ by half make the figures worth little, and the page says it."""
    pyarrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    rows = parquet.read_table(folder / "samples.parquet").to_pylist()
    for row in rows:
        row["wall_ns"] *= 1 + 0.25 * row["block"]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "samples.parquet")
    text = report.write(tmp_path).read_text("utf-8")
    assert "<strong>This run is noisy</strong>" in text
    assert f"{len(list(synthetic.cells())):,} cells of" in text


def test_one_codec_and_one_shape_are_enough(tmp_path: Path, folder: Path) -> None:
    """Parts without anything to show are short, not wrong."""
    compute: Any = importlib.import_module("pyarrow.compute")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    table = parquet.read_table(folder / "samples.parquet")
    wanted = compute.and_(
        compute.equal(table["codec"], "echo dataclass"), compute.equal(table["shape"], "single")
    )
    parquet.write_table(table.filter(wanted), tmp_path / "samples.parquet")
    shutil.copy(folder / "environment.json", tmp_path)
    text = report.write(tmp_path).read_text("utf-8")
    assert "No rival was measured" in text
    assert json.loads((tmp_path / "environment.json").read_text("utf-8"))["spark"] in text
