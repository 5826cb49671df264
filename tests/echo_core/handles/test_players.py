"""A log is played: its events flow again, from sources as those that it was recorded of."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.errors import LogError
from echo_core.logs.reading import LogReader
from echo_core.logs.writing import LogWriter
from tests.echo_core.census import until
from tests.echo_core.channel_events import Misfit, Plain, Reading1, Story, plain, reading, story
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S, Collector, Pair, opened
from tests.echo_core.logs.logs import TIME_NS, key_of

KINDS: list[tuple[type[Any], Any]] = [(Reading1, reading), (Plain, plain), (Story, story)]


@pytest.fixture
def log(make_node: MakeNode, tmp_path: Path) -> Path:
    """100 events of three types."""
    channel = make_node().create_channel("test", Reading1, Plain, Story)
    with channel.record(tmp_path / "a.echolog"):
        for cls, make in KINDS:
            with channel.source(cls, name=f"the {cls.__name__}") as source:
                for i in range(100):
                    source.submit(make(i))
    return tmp_path / "a.echolog"


def written(path: Path, times_ms: list[int]) -> Path:
    """A log of one event at each time."""
    with LogWriter(path) as writer:
        stream = writer.stream(key_of(), echo.format_of(Plain))
        for i, at in enumerate(times_ms):
            stream.append(echo.encoder(Plain)(plain(i)), sequence=i, time_ns=TIME_NS + at * 1_000_000)
    return path


def test_all_that_was_recorded_flows_again(pair: Pair, log: Path) -> None:
    """Every type, from sources of the same names."""
    here, there = opened(pair, Reading1, Plain, Story)
    sinks = [there.sink(cls) for cls, _ in KINDS]
    with echo.play(log, into=here, speed=0, wait_matched=1) as player:
        player.wait(LIMIT_S)
        counted = player.statistics()
        assert (counted.events, counted.lost, counted.missing, counted.damaged) == (300, 0, 0, 0)
        for sink, (cls, make) in zip(sinks, KINDS, strict=True):
            got = [sink.get_with_info(LIMIT_S) for _ in range(100)]
            assert [event for event, _ in got] == [make(i) for i in range(100)]
            assert {info.source for _, info in got} == {f"the {cls.__name__}"}


def test_what_is_played_can_be_recorded(pair: Pair, log: Path, tmp_path: Path) -> None:
    """The same records in the same order, by their numbers."""
    here, there = opened(pair, Reading1, Plain, Story)
    with there.record(tmp_path / "b.echolog"), echo.play(log, into=here, speed=0, wait_matched=1) as player:
        player.wait(LIMIT_S)

    def records(path: Path) -> dict[str, list[bytes]]:
        with LogReader(path) as reader:
            found: dict[str, list[bytes]] = {}
            for block in reader.blocks():
                found.setdefault(block.stream.key.source_name, []).extend(map(bytes, block))
            return found

    assert records(tmp_path / "b.echolog") == records(log)


@pytest.mark.parametrize(
    "types", [[Plain], ["Plain"], [echo.format_of(Plain)]], ids=["class", "name", "format"]
)
def test_types_can_be_chosen(make_node: MakeNode, log: Path, types: Any) -> None:
    channel = make_node().create_channel("test", Plain)
    collector = Collector()
    channel.sink(Plain, collector)
    with echo.play(echo.open_log(log), into=channel, speed=0, types=types) as player:
        player.wait(LIMIT_S)
    assert collector.events == [plain(i) for i in range(100)]
    with pytest.raises(echo.IncompatibleError):
        echo.play(log, into=channel)
    assert channel.statistics().sources == 0


def test_streams_can_be_chosen(make_node: MakeNode, log: Path) -> None:
    channel = make_node().create_channel("test")
    with LogReader(log) as reader:
        [stream] = [each for each in reader.streams if each.key.source_name == "the Story"]
    with channel.sink(None) as sink, echo.play(log, into=channel, speed=0, streams=[stream]) as player:
        player.wait(LIMIT_S)
        assert player.statistics().events == sink.statistics().events == 100


def test_times_bound_what_is_played(make_node: MakeNode, tmp_path: Path) -> None:
    path = written(tmp_path / "a.echolog", [0, 100, 200, 300, 400])
    channel, collector = make_node().create_channel("test"), Collector()
    channel.sink(Plain, collector)
    at = TIME_NS / 1e9
    with echo.play(path, into=channel, speed=0, since_s=at + 0.05, until_s=at + 0.25) as player:
        player.wait(LIMIT_S)
    assert collector.events == [plain(1), plain(2)]


def test_events_are_as_far_apart_as_they_were(make_node: MakeNode, tmp_path: Path) -> None:
    """At least; a busy machine takes longer, and says so."""
    path = written(tmp_path / "a.echolog", [0, 100, 200])
    channel = make_node().create_channel("test")
    began = time.monotonic()
    with echo.play(path, into=channel, speed=2.0) as player:
        player.wait(LIMIT_S)
        assert time.monotonic() - began >= 0.1
        counted = player.statistics()
        assert counted.events == 3
        assert counted.late == 0 or counted.most_late_s >= 0.01


def test_it_pauses_seeks_and_loops(make_node: MakeNode, tmp_path: Path) -> None:
    path = written(tmp_path / "a.echolog", [0, 3_600_000, 7_200_000])
    channel, collector = make_node().create_channel("test"), Collector()
    channel.sink(Plain, collector)
    with echo.play(path, into=channel) as player:
        collector.wait(1)
        player.seek(TIME_NS / 1e9 + 7000)
        assert collector.wait(2) == [plain(0), plain(2)]
        player.wait(LIMIT_S)
        with pytest.raises(echo.ClosedError):
            player.seek(0.0)
    with echo.play(path, into=channel, speed=0, loop=True) as player:
        collector.wait(20)
        player.pause()
        until(lambda: player.statistics().is_paused)
        assert player.statistics().rounds >= 5
        seen = len(collector.events)
        player.resume()
        collector.wait(seen + 10)
        with pytest.raises(echo.TimedOutError):
            player.wait(0.01)
    assert player.is_closed


def test_sinks_that_are_slow_hold_it_up(pair: Pair, tmp_path: Path) -> None:
    """Nothing is dropped for want of room."""
    here, there = opened(pair, Reading1)
    path, count = tmp_path / "a.echolog", 200_000
    with here.record(path), here.source() as source:
        source.submit_array(np.zeros(count, source.format.dtype))
    sink = there.sink(Reading1, backlog=echo.Backlog(events=1000, when_full="block"))
    with echo.play(path, into=here, speed=0, wait_matched=1) as player:
        for _ in range(count):
            sink.get(LIMIT_S)
        player.wait(LIMIT_S)
        assert (player.statistics().events, player.statistics().lost) == (count, 0)


def test_what_a_log_lacks_is_told(
    make_node: MakeNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Gaps, and records that are not what their type allows, which nobody gets."""
    path = tmp_path / "a.echolog"
    encode = echo.encoder(Story)
    with LogWriter(path) as writer:
        stream = writer.stream(key_of(), echo.format_of(Story))
        stream.append(encode(story(0)), sequence=0)
        stream.gap(1, 7, "link")
        stream.append(b"\xff" * len(encode(story(0))), sequence=8)
        stream.append(encode(story(9)), sequence=9)
    channel, collector = make_node().create_channel("test"), Collector()
    channel.sink(Story, collector)
    with echo.play(path, into=channel, speed=0) as player:
        player.wait(LIMIT_S)
        counted = player.statistics()
        assert (counted.events, counted.missing, counted.damaged) == (2, 7, 1)
    assert collector.events == [story(0), story(9)]
    assert "7 were not recorded, 1 are damaged" in caplog.text


def test_a_player_ends_with_its_channel(make_node: MakeNode, tmp_path: Path) -> None:
    """And says so to whoever waits for it."""
    path = written(tmp_path / "a.echolog", [0, 3_600_000])
    channel = make_node().create_channel("test")
    player = echo.play(path, into=channel, loop=True, speed=0)
    until(lambda: player.statistics().rounds > 0)
    channel.close()
    with pytest.raises(echo.ClosedError):
        player.wait(LIMIT_S)
    player.close()
    player.close()


def test_what_cannot_be_played_is_refused(make_node: MakeNode, tmp_path: Path, log: Path) -> None:
    channel = make_node().create_channel("test", Misfit)
    with pytest.raises(LogError):
        echo.play(tmp_path / "none", into=channel)
    with pytest.raises(LogError, match="speed"):
        echo.play(log, into=channel, speed=-1.0)
    with pytest.raises(echo.IncompatibleError):
        echo.play(log, into=channel)


def test_types_that_a_log_has_not_got_are_an_error(make_node: MakeNode, log: Path) -> None:
    """Playing nothing would look as if all were well."""
    channel = make_node().create_channel("again")
    with pytest.raises(echo.IncompatibleError, match=r"Expected a log of `Readin`, got one with `\w+`, `"):
        echo.play(log, channel, types=[Plain, "Readin"])


def test_streams_are_those_of_the_log(log: Path, make_node: MakeNode) -> None:
    """Not their names, which is said."""
    channel = make_node().create_channel("again")
    wrong: Any = ["simulation"]
    with pytest.raises(echo.LogError, match="Expected streams of the log, got 'simulation'"):
        echo.play(log, into=channel, streams=wrong)
