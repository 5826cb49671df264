"""What flows on a channel is in its log: records, numbers, gaps, members; whatever the transport."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echo_core as echo
from echo_core.errors import LogError
from echo_core.handles.recorders import record
from echo_core.logs.disk import RealDisk, Writable
from echo_core.logs.reading import LogReader
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain, Reading1, Story, plain, reading, story
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S, Pair, opened


def recorded(path: Path, name: str = "") -> list[tuple[int, bytes]]:
    """Numbers and records, of sources of that name or of all."""
    with LogReader(path, on_damage="raise") as reader:
        assert not reader.is_torn
        return [
            (block.first_sequence + i, bytes(block.record(i)))
            for block in reader.blocks()
            for i in range(block.count)
            if name in ("", block.stream.key.source_name)
        ]


def numbers(path: Path, name: str = "") -> list[int]:
    return [number for number, _ in recorded(path, name)]


def ranges(path: Path) -> list[tuple[int, int]]:
    """Of numbers that follow one another: from the one to before the other."""
    found: list[tuple[int, int]] = []
    with LogReader(path, on_damage="raise") as reader:
        for block in reader.blocks(verify=False):
            first, end = block.first_sequence, block.last_sequence + 1
            if found and found[-1][1] == first:
                found[-1] = found[-1][0], end
            else:
                found.append((first, end))
    return found


def gaps(path: Path) -> list[tuple[int, int, str]]:
    with LogReader(path) as reader:
        return [(gap.first, gap.last, gap.cause) for gap in reader.gaps]


def activities(path: Path) -> list[str]:
    with LogReader(path) as reader:
        return [member.activity for member in reader.members]


class FullDisk(RealDisk):
    """Has no room for records, where `is_full`."""

    def __init__(self) -> None:
        self.is_full = False

    def write(self, fd: int, data: Writable, offset: int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(fd, data, offset)


class FailingDisk(RealDisk):
    """Loses what is written, once it `has_failed`, and says so."""

    def __init__(self) -> None:
        self.has_failed = False

    def write(self, fd: int, data: Writable, offset: int) -> None:
        if self.has_failed:
            raise OSError(errno.EIO, "Input/output error")
        super().write(fd, data, offset)


class SlowDisk(RealDisk):
    """Writes once it is let."""

    def __init__(self) -> None:
        self.may_write = threading.Event()
        self.may_write.set()

    def write(self, fd: int, data: Writable, offset: int) -> None:
        assert self.may_write.wait(LIMIT_S)
        super().write(fd, data, offset)


# ---------------------------------------------------------------------------
# What is recorded


def test_every_type_of_a_channel_is_recorded(pair: Pair, tmp_path: Path) -> None:
    """As encoders make it, under the names and numbers of its sources."""
    here, there = opened(pair, Reading1, Plain, Story)
    recorder = there.record(tmp_path / "a.echolog")
    kinds: list[tuple[type[Any], Any]] = [(Reading1, reading), (Plain, plain), (Story, story)]
    sources = [here.source(cls, name=cls.__name__) for cls, _ in kinds]
    for source, (_, make) in zip(sources, kinds, strict=True):
        source.wait_matched()
        for i in range(100):
            source.submit(make(i))
    here.drain(LIMIT_S)
    recorder.close()
    for cls, make in kinds:
        encode = echo.encoder(cls)
        assert recorded(Path(recorder.path), cls.__name__) == [(i, encode(make(i))) for i in range(100)]
    with LogReader(recorder.path) as reader:
        assert {stream.key.source for stream in reader.streams} == {bytes.fromhex(it.id) for it in sources}
        assert {stream.key.channel_name for stream in reader.streams} == {"test"}
        assert reader.gaps == ()
    counted = recorder.statistics()
    assert (counted.events, counted.written_events, counted.dropped, counted.missing) == (300, 300, 0, 0)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("one"), st.integers(0, 2)),
        st.tuples(st.just("array"), st.integers(1, 2000)),
        st.tuples(st.just("records"), st.integers(0, 50)),
        st.tuples(st.just("flush"), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=15)
@given(actions=ACTIONS)
def test_what_is_recorded_is_what_a_sink_gets(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, int]]
) -> None:
    """Each record, and its number, in that order; whatever mixture of events and arrays."""
    path = tmp_path_factory.mktemp("log")
    with echo.Node(transports=["shm"]) as one, echo.Node(transports=["shm"]) as other:
        here, there = opened((one, other), Reading1)
        got: list[tuple[int, bytes]] = []
        encode = echo.encoder(Reading1)
        there.sink(Reading1, lambda event, info: got.append((info.number, encode(event))))
        with there.record(path), here.source() as source:
            source.wait_matched(2)
            for action, count in actions:
                array = np.zeros(count, source.format.dtype)
                array["id"] = np.arange(count)
                if action == "one":
                    source.submit(reading(count))
                elif action == "array":
                    source.submit_array(array)
                elif action == "records":
                    source.submit_records(array.tobytes())
                else:
                    source.flush(LIMIT_S)
            source.flush(LIMIT_S)
    assert [(n, _without_padding(r)) for n, r in recorded(path)] == [(n, _without_padding(r)) for n, r in got]


def _without_padding(data: bytes) -> bytes:
    return data[:12]


def test_what_a_source_keeps_is_recorded_once(pair: Pair, tmp_path: Path) -> None:
    """Also where the recorder begins anew in the same log."""
    here, there = opened(pair, Plain)
    source = here.source(keep=3)
    for i in range(5):
        source.submit(plain(i))
    path = tmp_path / "a.echolog"
    for _ in range(2):
        with there.record(path) as recorder:
            source.wait_matched()
            source.flush(LIMIT_S)
            until(lambda: recorder.statistics().streams == 1)
    source.submit(plain(5))
    with there.record(path):
        source.wait_matched()
        source.submit(plain(6))
        source.flush(LIMIT_S)
    assert numbers(path) == [2, 3, 4, 5, 6]
    assert gaps(path) == []


def test_what_nobody_was_there_to_record_is_a_gap(pair: Pair, tmp_path: Path) -> None:
    """Told by who goes on with the log, and never twice."""
    here, there = opened(pair, Plain)
    path = tmp_path / "a.echolog"
    with here.source() as source:
        for round_ in range(3):
            with there.record(path):
                source.wait_matched()
                for i in range(2):
                    source.submit(plain(i))
                source.flush(LIMIT_S)
            until(lambda: source.sinks == 0)
            for i in range(round_ + 1):
                source.submit(plain(i))
    assert numbers(path) == [0, 1, 3, 4, 7, 8]
    assert gaps(path) == [(2, 2, "absent"), (5, 6, "absent")]


def test_several_channels_share_a_log(make_node: MakeNode, tmp_path: Path) -> None:
    node = make_node()
    one, other = node.create_channel("one", Plain), node.create_channel("other", Plain)
    with record([one, other.id], tmp_path / "a.echolog") as recorder:
        for channel in (one, other):
            with channel.source() as source:
                source.wait_matched()
                source.submit(plain(len(channel.name)))
        until(lambda: recorder.statistics().events == 2)
    with LogReader(recorder.path) as reader:
        assert sorted(stream.key.channel_name for stream in reader.streams) == ["one", "other"]
    assert [record_ for _, record_ in recorded(Path(recorder.path))] == [
        echo.encoder(Plain)(plain(3)),
        echo.encoder(Plain)(plain(5)),
    ]


def test_who_comes_and_goes_is_told(pair: Pair, tmp_path: Path) -> None:
    here, there = opened(pair, Plain)
    path = tmp_path / "a.echolog"
    with there.record(path) as recorder:
        with here.source() as source:
            source.wait_matched()
        until(lambda: recorder.statistics().streams == 0)
    assert activities(path) == ["joined", "left"]


def test_a_condition_is_judged_by_sources(pair: Pair, tmp_path: Path) -> None:
    """What passes has numbers of its own; what does not is no gap."""
    here, there = opened(pair, Plain)
    with there.record(tmp_path / "a.echolog", where="id >= 3") as recorder, here.source() as source:
        source.wait_matched()
        for i in range(6):
            source.submit(plain(i))
        source.flush(LIMIT_S)
        until(lambda: recorder.statistics().events == 3)
    assert recorded(tmp_path / "a.echolog") == [(i, echo.encoder(Plain)(plain(i + 3))) for i in range(3)]
    assert gaps(tmp_path / "a.echolog") == []


def test_a_type_without_the_condition_s_fields_is_told(
    make_node: MakeNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Others are recorded; without any the error says what is missing."""
    channel = make_node().create_channel("mixed", Reading1, Plain)
    with channel.record(tmp_path / "a.echolog", where="temperature > 1") as recorder:
        with channel.source(Reading1) as source, channel.source(Plain) as other:
            source.submit(Reading1(1, 2.0))
            other.submit(plain(1))
        assert recorder.statistics().events == 1
    assert "nothing of `Plain` is recorded" in caplog.text
    with pytest.raises(echo.ExpressionError, match="pressure"):
        channel.record(tmp_path / "b.echolog", where="pressure > 1")


# ---------------------------------------------------------------------------
# The last seconds


def test_the_last_seconds_are_recorded_once_they_are_wanted(pair: Pair, tmp_path: Path) -> None:
    """And all that comes from then on."""
    here, there = opened(pair, Plain)
    path = tmp_path / "a.echolog"
    with there.record(path, before_s=3600.0) as recorder, here.source() as source:
        source.wait_matched()
        for i in range(10):
            source.submit(plain(i))
        source.flush(LIMIT_S)
        assert (recorder.statistics().kept_events, recorder.statistics().events) == (10, 0)
        assert recorder.statistics().is_waiting
        recorder.trigger()
        for i in range(10, 20):
            source.submit(plain(i))
        source.flush(LIMIT_S)
        assert (recorder.statistics().kept_events, recorder.statistics().events) == (0, 20)
        recorder.trigger()  # it has been
    assert numbers(path) == list(range(20))


def test_without_a_trigger_nothing_is_recorded(make_node: MakeNode, tmp_path: Path) -> None:
    channel = make_node().create_channel("test", Plain)
    with channel.record(tmp_path / "a.echolog", before_s=3600.0), channel.source() as source:
        source.submit(plain(1))
    assert numbers(tmp_path / "a.echolog") == []
    with (
        channel.record(tmp_path / "b.echolog") as recorder,
        pytest.raises(echo.ChannelError, match="before_s"),
    ):
        recorder.trigger()


def test_the_memory_of_the_last_seconds_is_bounded(make_node: MakeNode, tmp_path: Path) -> None:
    """The oldest go first, and are no gap."""
    channel = make_node().create_channel("test", Reading1)
    source = channel.source()
    with channel.record(tmp_path / "a.echolog", before_s=3600.0) as recorder:
        array = np.zeros(1 << 20, source.format.dtype)
        for _ in range(6):  # 96 MiB
            source.submit_array(array)
        assert 1 << 20 <= recorder.statistics().kept_events <= 4 << 20
        recorder.trigger()
        source.submit(reading(1))
    [(first, end)] = ranges(tmp_path / "a.echolog")
    assert 2 << 20 <= first < end == (6 << 20) + 1
    assert gaps(tmp_path / "a.echolog") == []


# ---------------------------------------------------------------------------
# Disks


def test_what_a_slow_disk_does_not_take_is_one_gap(
    make_node: MakeNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The source is not held up; the loss is counted once and told."""
    channel, disk = make_node().create_channel("test", Reading1), SlowDisk()
    source = channel.source()
    array = np.zeros(1 << 18, source.format.dtype)  # 4 MiB
    with record(channel, tmp_path / "a.echolog", disk=disk) as recorder:
        disk.may_write.clear()
        for _ in range(10):
            source.submit_array(array)
        dropped = recorder.statistics().dropped
        assert dropped > 0
        assert source.statistics().dropped_at_sinks == dropped
        disk.may_write.set()
        recorder.sync(LIMIT_S)
        source.submit(reading(1))
    got, missing = ranges(tmp_path / "a.echolog"), gaps(tmp_path / "a.echolog")
    assert sum(last + 1 - first for first, last, _ in missing) == dropped == recorder.statistics().dropped
    assert sum(end - first for first, end in got) + dropped == (10 << 18) + 1
    assert got[-1][1] == (10 << 18) + 1
    assert "drop events" in caplog.text or "events were dropped" in caplog.text


def test_sources_wait_for_a_slow_disk_where_that_is_asked_for(pair: Pair, tmp_path: Path) -> None:
    """Nothing is dropped."""
    here, there = opened(pair, Reading1)
    disk, done = SlowDisk(), threading.Event()
    source = here.source(backlog=echo.Backlog(when_full="block"))
    array = np.zeros(1 << 18, source.format.dtype)

    def submit() -> None:
        for _ in range(30):
            source.submit_array(array)
        source.flush(LIMIT_S)
        done.set()

    with record(there, tmp_path / "a.echolog", on_full="block", disk=disk) as recorder:
        source.wait_matched()
        disk.may_write.clear()
        thread = threading.Thread(target=submit)
        thread.start()
        until(lambda: recorder.statistics().staged_bytes > 8 << 20)
        assert not done.wait(0.1)
        disk.may_write.set()
        assert done.wait(LIMIT_S)
        thread.join()
    assert ranges(tmp_path / "a.echolog") == [(0, 30 << 18)]
    assert recorder.statistics().dropped == 0


def test_a_full_disk_is_a_gap_that_ends_when_there_is_room(make_node: MakeNode, tmp_path: Path) -> None:
    """Components go on, and so does the log."""
    channel, disk = make_node().create_channel("test", Reading1), FullDisk()
    source = channel.source()
    array = np.zeros(1 << 18, source.format.dtype)  # 4 MiB
    with record(channel, tmp_path / "a.echolog", disk=disk) as recorder:
        source.submit(reading(0))
        recorder.sync(LIMIT_S)
        disk.is_full = True
        for _ in range(10):
            source.submit_array(array)
        with pytest.raises(LogError, match="room"):
            recorder.sync(LIMIT_S)
        assert recorder.statistics().is_full
        dropped = recorder.statistics().dropped
        assert dropped > 0
        disk.is_full = False
        recorder.sync(LIMIT_S)
        source.submit(reading(1))
    assert sum(last + 1 - first for first, last, _ in gaps(tmp_path / "a.echolog")) == dropped
    assert sum(end - first for first, end in ranges(tmp_path / "a.echolog")) == (10 << 18) + 2 - dropped
    assert recorder.statistics().dropped == dropped


def test_a_disk_that_fails_is_nobody_else_s_trouble(
    pair: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Sources come, submit and go; the recorder says that nothing is recorded any more."""
    here, there = opened(pair, Plain)
    disk = FailingDisk()
    recorder = record(there, tmp_path / "a.echolog", disk=disk)
    with here.source() as source:
        source.wait_matched()
        source.submit(plain(0))
        source.flush(LIMIT_S)
        recorder.sync(LIMIT_S)
        disk.has_failed = True
        source.submit(plain(1))
        source.flush(LIMIT_S)
        with pytest.raises(LogError, match="failed"):
            recorder.sync(LIMIT_S)
        with here.source() as other:
            other.submit(plain(2))
            other.flush(LIMIT_S)
        source.submit(plain(3))
    until(lambda: recorder.statistics().streams == 0)
    assert recorder.statistics().failure is not None
    assert "is not recorded" in caplog.text
    with pytest.raises(LogError, match="failed"):
        recorder.close()
    assert numbers(tmp_path / "a.echolog") == [0]


def test_a_channel_closes_on_a_disk_that_is_full(
    make_node: MakeNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is lost is told; who closes the recorder itself is told by an error."""
    disk = FullDisk()
    for is_own in (False, True):
        disk.is_full = False
        channel = make_node().create_channel("test", Plain)
        recorder = record(channel, tmp_path / f"{is_own}.echolog", disk=disk)
        with channel.source() as source:
            source.submit(plain(0))
            disk.is_full = True
        if is_own:
            with pytest.raises(LogError, match="room"):
                recorder.close()
        else:
            channel.close()
            assert "not all that came is written" in caplog.text
        recorder.close()
        assert recorder.is_closed


# ---------------------------------------------------------------------------
# Levels


def test_a_source_is_confirmed_what_is_on_the_disk(make_node: MakeNode, tmp_path: Path) -> None:
    """Of a synced log."""
    here, there = opened((make_node(transports=["tcp"]), make_node(transports=["tcp"])), Plain)
    with there.record(tmp_path / "a.echolog", level="synced") as recorder, here.source() as source:
        source.wait_matched()
        for i in range(1000):
            source.submit(plain(i))
        until(lambda: source.statistics().confirmed == 1000)
        written = recorder.statistics()
        assert (written.written_events, written.synced) == (1000, written.written)


def test_a_source_is_confirmed_what_a_full_disk_takes_later(
    make_node: MakeNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that is full is no failure, so sources are not left without credit when it has room again."""
    here, there = opened((make_node(transports=["tcp"]), make_node(transports=["tcp"])), Plain)
    disk = FullDisk()
    with (
        record(there, tmp_path / "a.echolog", level="synced", disk=disk) as recorder,
        here.source() as source,
    ):
        source.wait_matched()
        disk.is_full = True
        source.submit(plain(0))
        until(lambda: "nothing more is recorded until there is room" in caplog.text)
        assert recorder.statistics().is_full
        assert source.statistics().confirmed == 0
        disk.is_full = False
        until(lambda: source.statistics().confirmed == 1)
        source.submit(plain(1))
        source.drain(LIMIT_S)
    assert numbers(tmp_path / "a.echolog") == [0, 1]


@pytest.mark.parametrize("level", ["volatile", "buffered", "synced"])
def test_a_channel_that_closes_has_all_written(make_node: MakeNode, tmp_path: Path, level: Any) -> None:
    """Nobody has closed the recorder."""
    node = make_node()
    channel = node.create_channel("test", Plain)
    recorder = channel.record(tmp_path / "a.echolog", level=level)
    source = channel.source()
    source.submit(plain(1))
    node.close()
    assert recorder.is_closed
    assert numbers(tmp_path / "a.echolog") == [0]
    with pytest.raises(echo.ClosedError):
        channel.record(tmp_path / "b.echolog")


def test_a_log_has_one_recorder(make_node: MakeNode, tmp_path: Path) -> None:
    channel = make_node().create_channel("test", Plain)
    with channel.record(tmp_path / "a.echolog"), pytest.raises(LogError, match="writes"):
        channel.record(tmp_path / "a.echolog")
    first, second = channel.record(tmp_path / "a.echolog"), channel.record(tmp_path / "b.echolog")
    with first, second, channel.source() as source:
        source.submit(plain(1))

    assert numbers(tmp_path / "a.echolog") == numbers(tmp_path / "b.echolog") == [0]


@pytest.mark.parametrize("options", [{"level": "safe"}, {"on_full": "wait"}, {"before_s": -1.0}])
def test_arguments_are_looked_at(make_node: MakeNode, tmp_path: Path, options: dict[str, Any]) -> None:
    channel = make_node().create_channel("test", Plain)
    with pytest.raises(echo.ChannelError):
        channel.record(tmp_path / "a.echolog", **options)


def test_an_argument_that_is_wrong_leaves_no_log_locked(make_node: MakeNode, tmp_path: Path) -> None:
    """Who mends it records to the same log."""
    channel = make_node().create_channel("test", Reading1)
    with pytest.raises(echo.ChannelError, match="at least 0, got -1"):
        channel.record(tmp_path / "a.echolog", before_s=-1)
    channel.record(tmp_path / "a.echolog", before_s=1).close()


def test_a_condition_wants_a_type_and_a_recorder_a_channel(make_node: MakeNode, tmp_path: Path) -> None:
    """Else it would not be known what the one reads, and nothing would come to the other."""
    channel = make_node().create_channel("test")
    with pytest.raises(echo.ChannelError, match="declared with a type, for `where`, got `test`"):
        channel.record(tmp_path / "a.echolog", where="n > 1")
    with pytest.raises(echo.ChannelError, match="at least one channel to record, got none"):
        echo.record([], tmp_path / "a.echolog")
    assert not (tmp_path / "a.echolog").exists()
