"""Recorders and sources are killed and begun again: nothing is missing without a word, or there twice."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

import echo_core as echo
from echo_core.logs.reading import LogReader
from tests.echo_core.census import peers_of, until
from tests.echo_core.channel_events import Plain, plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S
from tests.echo_core.processes import Actor

RECORDER = """
id_, path, level = sys.argv[1:4]
with echo.open_channel(id_) as channel, channel.record(path, level=level) as recorder:
    say("recording")
    while (word := hear()) == "sync":
        recorder.sync()
        say(recorder.statistics().written_events)
say("ended")
"""

SOURCE = """
id_ = sys.argv[1]
with echo.open_channel(id_) as channel, channel.source(Plain, name="it") as source:
    source.wait_matched(int(sys.argv[2]))
    say("matched")
    for i in range(10**9):
        source.submit(Plain(i, 0.5))
        if i % 1000 == 999:
            say(i)
            hear()
"""


class Numbers:
    """Of one stream of a log: what is there, and what is said to be missing."""

    def __init__(self, path: Path, source_id: str) -> None:
        self.found: list[int] = []
        self.causes: set[str] = set()
        self.missing: list[int] = []
        with LogReader(path) as reader:
            streams = [each.number for each in reader.streams if each.key.source.hex() == source_id]
            for block in reader.blocks(streams=streams):
                self.found += block.sequences().tolist()
            for gap in reader.gaps:
                if gap.stream in streams:
                    self.missing += range(gap.first, gap.last + 1)
                    self.causes.add(gap.cause)
            assert reader.damage == ()

    @property
    def all(self) -> list[int]:
        assert self.found == sorted(self.found)
        return sorted(self.found + self.missing)


class Submitting:
    """A source that goes on in a thread of this process, whatever happens to others."""

    def __init__(self, source: echo.Source[Plain]) -> None:
        self.source = source
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for i in itertools.count():
            self.source.submit(plain(i))
            if i % 50 == 49 and self._ends.wait(0.001):
                return

    @property
    def events(self) -> int:
        return self.source.statistics().events

    def go_on(self, events: int = 1000) -> None:
        until_events = self.events + events
        until(lambda: self.events >= until_events)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._ends.set()
        self._thread.join()


def recorder_of(channel: echo.Channel[Plain], path: Path, level: str = "buffered") -> Actor:
    recorder = Actor(RECORDER, channel.id, str(path), level)
    assert recorder.hear() == "recording"
    return recorder


def _synced(recorder: Actor) -> int:
    """How many events it has written by now."""
    recorder.tell("sync")
    return int(recorder.hear())


def _flush(source: echo.Source[Plain]) -> None:
    """All has arrived where somebody is still there; that a link was lost is said once."""
    with contextlib.suppress(echo.LinkError):
        source.flush(LIMIT_S)
    source.flush(LIMIT_S)


def _end(recorder: Actor) -> None:
    recorder.tell("end")
    assert "ended" in recorder.demand_quiet_end()


@pytest.mark.parametrize(("transport", "level"), [("shm", "buffered"), ("tcp", "synced")])
def test_recorders_that_are_killed_leave_a_log_that_says_what_is_missing(
    make_node: MakeNode, tmp_path: Path, transport: str, level: str
) -> None:
    """Each goes on with the log of the one before it, which has what was confirmed, if it is synced."""
    channel = make_node(transports=[transport]).create_channel("test", Plain)
    path = tmp_path / "a.echolog"
    with channel.source() as source, Submitting(source) as submitting:
        for _ in range(3):
            recorder = recorder_of(channel, path, level)
            until(lambda: source.sinks == 1)
            submitting.go_on()
            until(lambda: _synced(recorder) > 0)  # noqa: B023 - at once
            submitting.go_on()
            recorder.kill()
            until(lambda: source.sinks == 0)
            if level == "synced":
                confirmed = source.statistics().confirmed
                assert len(Numbers(path, source.id).found) >= confirmed
            submitting.go_on(100)
        last = recorder_of(channel, path)
        until(lambda: source.sinks == 1)
        submitting.go_on()
        submitting.end()
        _flush(source)
        events = submitting.events
        _end(last)
    numbers = Numbers(path, source.id)
    assert numbers.all == list(range(numbers.found[0], events))
    assert numbers.causes == {"absent"}


FORKING = """
channel = echo.create_channel("forking", Plain)
recorder, source = channel.record(sys.argv[1]), channel.source()
source.submit(Plain(1, 0.5))
recorder.sync()
if os.fork() == 0:
    say("forked")
    hear()
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_of_a_recorder_that_is_killed_does_not_keep_its_log(
    make_node: MakeNode, tmp_path: Path
) -> None:
    """The log is the parent's, whose end is that of its lock."""
    parent = Actor(FORKING, str(tmp_path / "a.echolog"), forks=True)
    assert parent.hear() == "forked"
    channel = make_node().create_channel("test", Plain)

    def has_begun() -> bool:  # the kernel takes its time for a process that is killed
        try:
            channel.record(tmp_path / "a.echolog").close()
        except echo.LogError:
            return False
        return True

    until(has_begun)
    parent.tell("end")
    parent.kill()
    with LogReader(tmp_path / "a.echolog") as reader:
        assert [each.events for each in reader.streams] == [1]


def test_sources_that_are_killed_are_streams_of_their_own(make_node: MakeNode, tmp_path: Path) -> None:
    """The next one under that name begins at 0, and is another epoch."""
    channel = make_node(transports=["shm"]).create_channel("test", Plain)
    with channel.record(tmp_path / "a.echolog") as recorder:
        for round_ in range(2):
            source = Actor(SOURCE, channel.id, "1")
            assert source.hear() == "matched"
            assert source.hear() == "999"
            until(lambda: recorder.statistics().events == 1000 * (round_ + 1))  # noqa: B023 - at once
            source.kill()
            until(lambda: recorder.statistics().streams == 0)
    with LogReader(tmp_path / "a.echolog") as reader:
        streams = reader.streams
        assert [(each.first, each.last, each.events) for each in streams] == [(0, 999, 1000)] * 2
        assert {each.key.source_name for each in streams} == {"it"}
        assert len({each.key.epoch for each in streams}) == 2
        assert [each.activity for each in reader.members] == ["joined", "lost"] * 2
        assert reader.gaps == ()


def test_two_recorders_have_the_same(make_node: MakeNode, tmp_path: Path) -> None:
    """In processes of their own; one that is stopped keeps nothing from the other."""
    channel = make_node(transports=["shm"]).create_channel("test", Plain)
    paths = tmp_path / "a.echolog", tmp_path / "b.echolog"
    recorders = [recorder_of(channel, path) for path in paths]
    with channel.source() as source:
        source.wait_matched(2)
        for i in range(1000):
            source.submit(plain(i))
        _flush(source)
        _end(recorders[0])
        until(lambda: source.sinks == 1)
        for i in range(1000):
            source.submit(plain(i))
        _flush(source)
        _end(recorders[1])
    assert [Numbers(path, source.id).found for path in paths] == [list(range(1000)), list(range(2000))]


def _relinked(here: echo.Node, there: echo.Node, meanwhile: Callable[[], object]) -> None:
    """Their link is lost, and another one made."""
    before, beyond = peers_of(here), peers_of(there)
    for peer in before:
        peer.link.shut()
    meanwhile()
    until(lambda: not set(before) & set(peers_of(here)) and peers_of(here) != [])
    until(lambda: not set(beyond) & set(peers_of(there)) and peers_of(there) != [])


@pytest.mark.parametrize("keep", [0, 10])
def test_a_link_that_is_lost_and_back_leaves_a_gap(make_node: MakeNode, tmp_path: Path, keep: int) -> None:
    """What a source keeps meanwhile is none, and what was recorded before is not recorded again."""
    here, there = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    channel = here.create_channel("test", Plain)
    path = tmp_path / "a.echolog"
    with there.open_channel(channel.id).record(path) as recorder, channel.source(keep=keep) as source:
        source.wait_matched()
        submitted = 0

        def submit(count: int) -> None:
            nonlocal submitted
            for _ in range(count):
                source.submit(plain(submitted))
                submitted += 1

        submit(20)
        _flush(source)
        for lost in (15, 5):
            _relinked(here, there, lambda: submit(lost))  # noqa: B023 - at once
            source.wait_matched()
            submit(3)
            _flush(source)
            until(lambda: recorder.statistics().streams == 1)
        assert recorder.statistics().missing == submitted - recorder.statistics().events
    numbers = Numbers(path, source.id)
    assert numbers.all == list(range(submitted))
    assert numbers.causes == {"link"}
    if keep == 0:
        assert numbers.missing == [*range(20, 35), *range(38, 43)]
    else:
        assert numbers.missing == list(range(20, 25))
