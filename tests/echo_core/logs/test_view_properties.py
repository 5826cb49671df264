"""Any events of any machine, written to a log and read by views: against the plain codec, one by one."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core.codegen.plain.generic import GenericCodec
from echo_core.codegen.plain.records import write as record_of
from echo_core.errors import ConversionError
from echo_core.formats.format import Format
from echo_core.logs.writing import LogWriter
from tests.codegen.pairs import Pair, pair_from
from tests.echo_core.logs.written import START_NS, key_of
from tests.formats.strategies import comparable, examples, layouts, plain_values

NUMBERS = st.lists(st.integers(0, 40), max_size=12, unique=True).map(sorted)


def write(folder: str, format_: Format, records: Sequence[tuple[int, bytes]]) -> Path:
    """A log of these records, each with its number."""
    path = Path(folder) / "run.echolog"
    writer = LogWriter(path, level="volatile")
    stream = writer.stream(key_of("one"), format_)
    for number, record in records:
        assert stream.append(record, sequence=number, time_ns=START_NS + number % 7)
    writer.close()
    return path


def decoded(format_: Format, cls: type[Any], record: bytes) -> Any:
    """What the plain codec makes of it."""
    return comparable(GenericCodec(cls, echo.format_of(cls), format_, lossy=False).decode(record))


@examples(60)
@given(data=st.data())
def test_what_is_written_is_read(data: st.DataObject) -> None:
    """Of any format and any machine, by a class that is made for it, with numbers, times and gaps."""
    format_ = Format(data.draw(layouts()))
    numbers = data.draw(NUMBERS)
    records = [(n, record_of(data.draw(plain_values(format_.layout)), format_.layout)) for n in numbers]
    with tempfile.TemporaryDirectory() as folder, echo.open_log(write(folder, format_, records)) as log:
        found = list(log[None].with_gaps().with_info())
        assert len(log[None]) == len(numbers)
        cls = log[None].event_format.record_class() if numbers else None
    events = [(info.number, info.submitted_ns, comparable(event)) for event, info in found if info]
    assert cls is None or all(type(event) is cls for event, info in found if info)
    assert events == [(n, START_NS + n % 7, decoded(format_, cls, record)) for n, record in records if cls]
    told = [range(gap.first, gap.last + 1) for gap, info in found if not info]
    missing = {number for numbers_ in told for number in numbers_}
    assert missing == ({*range(numbers[0], numbers[-1])} - {*numbers} if numbers else set())


@examples(40)
@given(data=st.data())
def test_any_part_is_what_a_list_of_all_has_there(data: st.DataObject) -> None:
    """By number and time, in both orders of narrowing, as events and as columns."""
    format_ = echo.Format.from_c("struct P { long long id; double x; };", abi="ppc64")
    numbers = data.draw(NUMBERS)
    records = [(n, record_of({"id": n, "x": n / 2}, format_.layout)) for n in numbers]
    first, last, early, late = (data.draw(st.integers(0, 42)) for _ in range(4))
    early, late = START_NS + early % 9, START_NS + late % 9
    expected = [n for n in numbers if first <= n < last and early <= START_NS + n % 7 < late]
    with tempfile.TemporaryDirectory() as folder, echo.open_log(write(folder, format_, records)) as log:
        views = (
            log[None].sequences("one", first, last).between(early, late),
            log[None].between(early, late).sequences("one", first, last),
            log[None].between(early, late).sequences("one", 0).where(f"id >= {first} and id < {last}"),
        )
        for view in views:
            assert [event.id for event in view] == expected
            assert len(view) == len(expected)
            if numbers:
                assert view.columns(["id"])["id"].tolist() == expected
                assert np.array_equal(view.array()["x"], np.array(expected) / 2)


@examples(40)
@given(data=st.data())
def test_a_receiver_of_another_version_reads_what_converts(data: st.DataObject) -> None:
    """Events that do not fit are left out, whether they are read one by one or with where they are from."""
    pair: Pair = pair_from(data, is_lossy=False)
    plain = [data.draw(plain_values(pair.sender.layout)) for _ in range(3)]
    records = list(enumerate(map(pair.message, plain)))
    cls = pair.receiver.record_class()
    expected = [n for n, record in records if _fits(pair.sender, cls, record)]
    with tempfile.TemporaryDirectory() as folder, echo.open_log(write(folder, pair.sender, records)) as log:
        view = log.view(cls, by_shape=True)
        found = [(info.number, comparable(event)) for event, info in view.with_info()]
        assert len(list(view)) == len(expected)
    assert found == [(n, decoded(pair.sender, cls, records[n][1])) for n in expected]


def _fits(sender: Format, cls: type[Any], record: bytes) -> bool:
    try:
        decoded(sender, cls, record)
    except ConversionError:
        return False
    return True
