"""What a source keeps of each value of a field, over all transports, and in process."""

from __future__ import annotations

import enum
import time
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S, Pair, opened
from tests.echo_core.losses import links_lost
from tests.echo_core.processes import Actor


class State(enum.Enum):
    OPEN = 1
    SHUT = 2


@echo.event
class Head:
    sensor: int
    valve: str


@echo.event
class Sample:
    id: int
    name: str
    head: Head
    state: State
    code: echo.Chars[8]
    values: list[float]
    note: str | None = None


@echo.named("Plainly")
@dataclass
class Plainly:
    id: int
    sensor: echo.Int32


def sample(i: int, of: int) -> Sample:
    """All its keys have `of` values, but the enum, which has two."""
    which = i % of
    state = State.OPEN if which else State.SHUT
    return Sample(i, f"name {which}", Head(which, "v" * which), state, f"c{which}", [0.5] * (i % 5))


def ids(sink: echo.Sink[Any], count: int) -> list[int]:
    return [sink.get(LIMIT_S).id for _ in range(count)]


@pytest.mark.parametrize("per", ["name", "head.sensor", "head.valve", "code"])
@pytest.mark.parametrize("last", [1, 3])
def test_a_late_sink_gets_the_last_of_each_value(pair: Pair, per: str, last: int) -> None:
    """In the order of submission; then what is new. So does one beside it, and one after all have gone."""
    here, there = opened(pair, Sample)
    source = here.source(keep=echo.Keep(last, per))
    for i in range(40):  # the values 0 and 1 come for the last time early on
        source.submit(sample(i, 4 if i < 20 else 2) if i < 30 else sample(i, 4))
    expected = kept_of([sample(i, 4 if i < 20 else 2) if i < 30 else sample(i, 4) for i in range(40)], last)
    first = there.sink(Sample)
    assert ids(first, len(expected)) == expected
    second = there.sink(Sample)
    assert ids(second, len(expected)) == expected
    source.submit(sample(100, 4))
    for sink in (first, second):
        event, info = sink.get_with_info(LIMIT_S)
        assert (event.id, info.number, info.is_kept) == (100, 40, False)
        assert sink.statistics().lost == 0
        sink.close()
    until(lambda: source.sinks == 0)
    assert ids(there.sink(Sample), 1)[0] == kept_of([*map(late, range(40)), sample(100, 4)], last)[0]
    assert source.statistics().forgotten_keys == 0


def late(i: int) -> Sample:
    return sample(i, 2 if 20 <= i < 30 else 4)


def kept_of(events: list[Sample], last: int) -> list[int]:
    by_value: dict[str, list[int]] = {}
    for event in events:
        by_value.setdefault(event.name, []).append(event.id)
    return sorted(i for of_value in by_value.values() for i in of_value[-last:])


def test_infos_have_their_own_numbers_and_times(pair: Pair) -> None:
    here, there = opened(pair, Sample)
    source = here.source(keep=echo.Keep(per="name"), timestamps=True)
    before = time.time_ns()
    for i in (0, 1, 5, 9, 13):  # the first of one value, others of another one
        source.submit(sample(i, 4))
    for _ in range(2):
        sink = there.sink(Sample)
        infos = [sink.get_with_info(LIMIT_S)[1] for _ in range(2)]
        assert [(info.number, info.is_kept) for info in infos] == [(0, True), (4, True)]
        assert before <= (infos[0].submitted_ns or 0) <= (infos[1].submitted_ns or 0) <= time.time_ns()


@pytest.mark.parametrize("per", ["id", "sensor"])
def test_dataclasses_formats_and_arrays_are_kept_by_key(pair: Pair, per: str) -> None:
    here, there = opened(pair, Plainly)
    format_ = echo.Format.from_metadata(echo.format_of(Plainly).metadata)
    source, relay = (here.source(kind, keep=echo.Keep(2, per)) for kind in (Plainly, format_))
    array = np.zeros(9, source.format.dtype)
    array["id"], array["sensor"] = 7, np.arange(9) // 3
    source.submit(Plainly(7, 5))
    source.submit_array(array)
    relay.submit(format_.record_class()(id=8, sensor=1))
    relay.submit_records(array.tobytes())
    expected = {"id": [(7, 2)] * 2, "sensor": [(7, 5), *[(7, i // 2) for i in range(6)]]}[per]
    from_relay = {"id": [(8, 1), *[(7, 2)] * 2], "sensor": [(7, i // 2) for i in range(6)]}[per]
    with there.sink(Plainly) as sink:
        got: dict[str, list[tuple[int, int]]] = {}
        for _ in range(len(expected) + len(from_relay)):
            event, info = sink.get_with_info(LIMIT_S)
            got.setdefault(info.source_id, []).append((event.id, event.sensor))
    assert got == {source.id: expected, relay.id: from_relay}


def test_keys_of_another_byte_order_are_found(pair: Pair) -> None:
    here, there = opened(pair, Sample)
    source = here.source(Sample, abi="s390x", keep=echo.Keep(per="name"))
    for i in range(10):
        source.submit(sample(i, 3))
    for _ in range(2):
        assert ids(there.sink(Sample), 3) == [7, 8, 9]


def test_the_value_that_was_longest_without_an_event_is_forgotten(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """Counted, and logged once."""
    here, there = opened(pair, Sample)
    source = here.source(keep=echo.Keep(per="name", max_keys=3), name="valves")
    for i in (0, 1, 2, 0, 3, 4):
        source.submit(sample(i, 5))
    assert source.statistics().forgotten_keys == 2
    assert ids(there.sink(Sample), 3) == [0, 3, 4]
    until(lambda: any("forget" in line for line in caplog.messages))
    for i in range(100):
        source.submit(sample(i, 100))
    source.flush(LIMIT_S)
    assert ids(there.sink(Sample), 3) == [97, 98, 99]
    assert here.statistics().sources == 1
    told = [line for line in caplog.messages if "forget" in line]
    assert [line.partition(": ")[2] for line in told] == [
        "source `valves` has begun to forget values of `name`: it keeps 3 at most"
    ]


def test_a_process_whose_link_was_lost_gets_the_last_of_what_it_has_missed(make_node: MakeNode) -> None:
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x", Sample)
    source = channel.source(keep=echo.Keep(per="name"))
    sink = there.open_channel(channel.id).sink(Sample)
    source.wait_matched()
    for i in range(3):
        source.submit(sample(i, 3))
    assert ids(sink, 3) == [0, 1, 2]
    with links_lost(here, there):
        assert source.sinks == 0
        for i in (3, 6, 9, 10):
            source.submit(sample(i, 3))
    assert ids(sink, 2) == [9, 10]


def test_a_field_that_is_not_there_is_named(make_node: MakeNode) -> None:
    channel = make_node().create_channel("x", Sample)
    for per, words in {
        "nmae": "Expected a field of `Sample`, got `nmae` - at `nmae`: is `name` meant?",
        "head.sensors": "Expected a field of `Head`, got `sensors` - at `head.sensors`: is `sensor` meant?",
        "name.x": "Expected a record as `name`, got str",
        "values": "as a key, got ",
        "note": "as a key, got ",
        "head": "as a key, got ",
    }.items():
        with pytest.raises(echo.FormatError) as caught:
            channel.source(keep=echo.Keep(per=per))
        assert words in str(caught.value), caught.value
        assert f"`{per}`" in str(caught.value)


# Says what it gets until it is killed. The positions of three, and then what is new.
DASHBOARD = """
node = echo.Node(transports=[sys.argv[1]])
sink = node.open_channel(sys.argv[2]).sink(Plain)
for _ in range(4):
    event, info = sink.get_with_info(LIMIT_S)
    say(event.id, event.x, info.number, info.is_kept)
hear()
"""


@pytest.mark.parametrize("transport", ["shm", "unix", "tcp"])
def test_each_dashboard_that_is_started_after_another_was_killed_gets_the_last_of_each(
    make_node: MakeNode, transport: str
) -> None:
    channel = make_node(transports=[transport]).create_channel("positions", Plain)
    source = channel.source(keep=echo.Keep(per="id"))
    for i in range(100):
        source.submit(Plain(i % 3, i / 2))
    submitted = 100
    last = [97, 98, 99]
    for _ in range(3):
        with Actor(DASHBOARD, transport, channel.id) as dashboard:
            said = [dashboard.hear() for _ in last]
            assert said == [f"{number % 3} {number / 2} {number} True" for number in last]
            source.submit(Plain(submitted % 3, submitted / 2))
            assert dashboard.hear() == f"{submitted % 3} {submitted / 2} {submitted} False"
            last = [*last[1:], submitted]
            submitted += 1
            dashboard.kill()
        until(lambda: source.sinks == 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"last": 0}, "1 or more as last, got 0"),
        ({"last": 1.5}, "1 or more as last, got 1.5"),
        ({"max_keys": 0}, "1 or more as max_keys, got 0"),
        ({"max_keys": True}, "1 or more as max_keys, got True"),
        ({"per": ""}, "the name of a field as per, got ''"),
        ({"per": 3}, "the name of a field as per, got 3"),
    ],
)
def test_what_cannot_be_kept_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(echo.ChannelError) as caught:
        echo.Keep(**arguments)
    assert words in str(caught.value)


def test_a_keep_does_not_change(make_node: MakeNode) -> None:
    """Nor is more kept than may be."""
    keep = echo.Keep(10, per="id", max_keys=1001)
    with pytest.raises(FrozenInstanceError):
        keep.last = 1  # type: ignore[misc]
    channel = make_node().create_channel("x", Sample)
    for given, words in ((keep, "to keep 0 to 10000 events, got 10010"), ("1", "got '1'"), (True, "True")):
        with pytest.raises(echo.ChannelError, match=words):
            channel.source(keep=given)  # type: ignore[arg-type]
    assert echo.Keep(3) == echo.Keep(last=3)
