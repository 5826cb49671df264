"""A log is read up to where a sink has the events live: none is missing, and none comes twice."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from pathlib import Path

import pytest

import echo_core as echo
from echo_core.errors import LogError
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain, Reading1, Reading2, plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S, Pair, opened

LAST = -1


def taken(sink: echo.Sink[Plain], path: Path, lasts: int = 1) -> list[int]:
    """The ids of its events, up to the last of so many sources."""
    found: list[int] = []
    for event in sink.after(path, timeout_s=LIMIT_S):
        if event.id == LAST:
            lasts -= 1
            if lasts == 0:
                break
        else:
            found.append(event.id)
    return found


def test_what_was_recorded_comes_first(pair: Pair, tmp_path: Path) -> None:
    """And what comes behind it."""
    here, there = opened(pair, Plain)
    with here.record(tmp_path) as recorder, here.source() as source:
        for i in range(100):
            source.submit(plain(i))
        recorder.sync()
        with there.sink(Plain) as sink:
            source.wait_matched(2)
            for i in range(100, 200):
                source.submit(plain(i))
            source.submit(plain(LAST))
            assert taken(sink, tmp_path) == list(range(200))


def test_under_running_sources_nothing_is_missing_or_twice(pair: Pair, tmp_path: Path) -> None:
    """Two sources that go on, while the log is some seconds behind."""
    here, there = opened(pair, Plain)
    has_joined = threading.Event()

    def run(source: echo.Source[Plain]) -> None:
        for i in itertools.count():
            source.submit(plain(i))
            if i % 100 == 99 and has_joined.wait(0.001):
                break
        source.submit(plain(LAST))

    with here.record(tmp_path) as recorder, here.source() as one, here.source() as other:
        threads = [threading.Thread(target=run, args=(source,)) for source in (one, other)]
        for thread in threads:
            thread.start()
        until(lambda: recorder.statistics().events > 1000)
        got: dict[str, list[int]] = defaultdict(list)
        lasts = 0
        with there.sink(Plain) as sink:
            sink.wait_matched(2)
            threading.Timer(0.2, recorder.sync).start()  # what a recorder does now and then
            for event, info in sink.after(tmp_path, timeout_s=LIMIT_S, with_info=True):
                assert info.number == len(got[info.source_id])
                got[info.source_id].append(event.id)
                if not info.is_kept:
                    has_joined.set()
                lasts += event.id == LAST
                if lasts == 2:
                    break
        for thread in threads:
            thread.join()
    assert set(got) == {one.id, other.id}
    for ids in got.values():
        assert ids == [*range(len(ids) - 1), LAST]


def test_a_source_that_has_gone_is_in_the_log_alone(pair: Pair, tmp_path: Path) -> None:
    here, there = opened(pair, Plain)
    with here.record(tmp_path) as recorder:
        with here.source() as source:
            source.submit(plain(1))
        recorder.sync()
        with here.source() as source, there.sink(Plain) as sink:
            source.wait_matched(2)
            source.submit(plain(2))
            source.submit(plain(LAST))
            assert taken(sink, tmp_path) == [1, 2]


def test_a_sink_of_another_version_reads_what_was_recorded(make_node: MakeNode, tmp_path: Path) -> None:
    """As it would have got it live; other types are left out."""
    channel = make_node().create_channel("test")
    with (
        channel.record(tmp_path) as recorder,
        channel.source(Reading2) as source,
        channel.source(Plain) as other,
    ):
        source.submit(Reading2("a", 0.5, 1))
        other.submit(plain(1))
        recorder.sync()
        with channel.sink(Reading1) as sink:
            source.submit(Reading2("a", 0.5, 2))
            events = sink.after(echo.open_log(tmp_path))
            assert [next(events).id, next(events).id] == [1, 2]
            sink.close()
            assert list(events) == []


def test_what_the_log_has_not_got_is_told(
    make_node: MakeNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is waited for as long as is said."""
    channel = make_node().create_channel("test", Plain)
    with channel.source() as source:
        with channel.record(tmp_path):
            source.submit(plain(0))
        source.submit(plain(1))
        with channel.sink(Plain) as sink:
            source.submit(plain(2))
            events = sink.after(tmp_path, timeout_s=0.2)
            assert [next(events).id, next(events).id] == [0, 2]
    assert "has not got the last 1 events" in caplog.text


def test_what_cannot_be_joined_is_refused(make_node: MakeNode, tmp_path: Path) -> None:
    channel = make_node().create_channel("test", Plain)
    with channel.sink(Plain) as sink, pytest.raises(LogError):
        next(sink.after(tmp_path / "none.echolog"))
    with channel.record(tmp_path):
        pass
    with channel.sink(Plain, print) as sink, pytest.raises(echo.ChannelError, match="handler"):
        sink.after(tmp_path)
    with channel.sink(Plain, batch=True) as sink, pytest.raises(echo.ChannelError, match="arrays"):
        sink.after(tmp_path)


def test_misspelt_field_is_told_of_what_was_recorded(
    tmp_path: Path, make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """As it is of what comes: here nothing does."""

    @echo.event(name="Sample")
    class Recorded:
        id: int
        temperature: float

    @echo.event(name="Sample")
    class Misspelt:
        id: int
        temprature: float = 0.0

    channel = make_node().create_channel("samples")
    with channel.record(tmp_path / "a.echolog"), channel.source(Recorded, name="thermometer") as source:
        source.submit(Recorded(1, 300.0))
    with channel.sink(Misspelt) as sink:
        caplog.clear()
        assert next(sink.after(tmp_path / "a.echolog")).id == 1
    assert "`Sample.temprature` takes its default: `thermometer` of " in caplog.text
    assert "has `temperature` instead" in caplog.text
