"""Peers with the right key that break rules, flood or never read: each costs itself its link alone."""

from __future__ import annotations

import itertools
import secrets
import struct
import threading
from collections.abc import Callable
from dataclasses import make_dataclass, replace

import pytest

import echo_core as echo
from echo_core.transports import limits
from echo_core.transports.protocol import messages
from echo_core.transports.protocol.messages import Message
from tests.echo_core.census import (
    Census,
    left_behind,
    origin_of,
    resident_bytes,
    settled_census,
    targets_of,
    until,
)
from tests.echo_core.channel_events import Other, Reading1
from tests.echo_core.conftest import MakeNode
from tests.echo_core.hostile_peer import STREAM, HostilePeer, identity
from tests.echo_core.victims import LIMIT_S, PAYLOAD_BYTES, Victim
from tests.transports.frames import HEADER, write_frame
from tests.transports.samples import member as told_of

MEMORY_BYTES = 64 << 20


@pytest.fixture
def victim(make_node: MakeNode) -> Victim:
    return Victim(make_node)


@pytest.fixture
def impatient_victim(make_node: MakeNode) -> Victim:
    """It does not wait for long for a peer that reads nothing."""
    return Victim(make_node, stall_s=0.3)


@pytest.fixture(params=["tcp", "unix"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def frame(message: Message) -> bytes:
    return write_frame(message.kind, messages.encode(message))


BROKEN_RULES = {
    "payload of at most": HEADER.pack(PAYLOAD_BYTES + 1, STREAM),
    "a frame, got one of stream 0": HEADER.pack(8, 0) + bytes(8),
    "a stream that was asked for": write_frame(STREAM + 9, bytes(16)),
    "asked for and is under way, got 64": frame(messages.Closed(STREAM)) + write_frame(STREAM, bytes(16)),
    "asked for and is under way, got 65": frame(
        messages.Source(STREAM + 1, 0, 0, 0, bytes(16), "not started")
    )
    + write_frame(STREAM + 1, bytes(16)),
    "asked for and is under way, got 66": HEADER.pack(PAYLOAD_BYTES, STREAM + 2),  # by its header
    f"at most {limits.MAX_CONTROL_BYTES} bytes": HEADER.pack(limits.MAX_CONTROL_BYTES + 1, 9),  # likewise
    "0 in front of a gap's events": write_frame(messages.Gap.kind, struct.pack("<IIQ", STREAM, 1, 1)),
    "at most 0 events that were kept": frame(messages.Started(STREAM, 1, 1)),
    "keeps at most 10000 events": frame(messages.Source(STREAM + 1, 0, 0, 10_001, bytes(16), "x")),
    "at most 10000 events, got 10002": frame(
        messages.Source(STREAM + 1, 0, 0, 3, bytes(16), "x", keys=3334, per="id")
    ),
    "a field of `Reading1`, got `nothing`": frame(
        messages.Source(STREAM + 1, 0, 0, 1, bytes(16), "x", keys=1, per="nothing")
    ),
    "a kind of control frame": write_frame(63, b""),
    "no memory is shared": write_frame(messages.Loan.kind, struct.pack("<IIQ", STREAM, 0, 16)),
    "records of 16 bytes": write_frame(STREAM, bytes(15)),
    "the number of a format": frame(messages.Source(STREAM + 1, 0, 7, 0, bytes(16), "x")),
    "which is in use": frame(messages.Source(STREAM, 0, 0, 0, bytes(16), "again")),
    "a stream from 64": frame(messages.Source(1 << 20, 0, 0, 0, bytes(16), "far")),
    "a flush that is under way": frame(messages.Flushed(3)),
    "STARTED once for each ATTACH": frame(messages.Started(STREAM, 0, 0)),
    "0 or 1, got 2": write_frame(
        messages.Source.kind,
        messages.encode(messages.Source(STREAM + 1, 0, 0, 0, bytes(16), "x"))[:-12]
        + struct.pack("<III", 2, 0, 0),
    ),
    "0 behind the stream of a question": write_frame(
        messages.Ask.kind, struct.pack("<IIQQ", STREAM, 1, 1, 0)
    ),
    "a question of 24 bytes": write_frame(messages.Ask.kind, struct.pack("<IIQ", STREAM, 0, 1)),
    "asked for and is under way, got 67": frame(messages.Ask(STREAM + 3, 1, 0)),
    "an alias of 2 or more": frame(messages.Join(0, bytes(16), bytes(32))),
}


@pytest.mark.parametrize("rule", BROKEN_RULES)
def test_breaking_a_rule_ends_the_link_with_a_named_error(
    victim: Victim, transport: str, rule: str, caplog: pytest.LogCaptureFixture
) -> None:
    with HostilePeer.linked(victim.id, transport) as peer:
        peer.connection.settimeout(LIMIT_S)
        peer.join_and_offer(Reading1)
        peer.send(BROKEN_RULES[rule])
        peer.expect_end()
    victim.demand_only_the_good_link()
    lost = [line for line in caplog.messages if "lost" in line]
    assert len(lost) == 1
    assert rule.lower() in lost[0].lower()
    assert victim.events == []


BEHIND_THE_END = {
    "asked for and is under way, got 64": write_frame(STREAM, bytes(16)),
    "which is ending": frame(messages.Closed(STREAM)),
    "which is in use": frame(messages.Source(STREAM, 0, 0, 0, bytes(16), "again")),
}


@pytest.mark.parametrize("rule", BEHIND_THE_END)
def test_nothing_may_follow_the_end_of_a_source_whose_events_wait_in_a_queue(
    victim: Victim, transport: str, rule: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its number is free once they are taken, and these are had all the same."""
    sink = victim.channel.sink(Reading1)
    with HostilePeer.linked(victim.id, transport) as peer:
        peer.connection.settimeout(LIMIT_S)
        peer.join_and_offer(Reading1)
        event = write_frame(STREAM, bytes(16))
        peer.send(event + frame(messages.Closed(STREAM)) + BEHIND_THE_END[rule])
        peer.expect_end()
    victim.demand_only_the_good_link()
    [lost] = [line for line in caplog.messages if "lost" in line]
    assert rule in lost
    assert sink.get(LIMIT_S) == Reading1(0, 0.0)


TIMED = STREAM + 1
BROKEN_TIMES = {
    "a time of 8 bytes before the records, got 7": write_frame(TIMED, bytes(7)),
    "from 1 to 2**63 - 1 ns, got 0": write_frame(TIMED, bytes(24)),
    "from 1 to 2**63 - 1 ns, got 9223372036854775808": write_frame(
        TIMED, struct.pack("<Q", 1 << 63) + bytes(16)
    ),
    "records of 16 bytes": write_frame(TIMED, struct.pack("<Q", 1) + bytes(15)),
    "records of 16 bytes each, got 0": write_frame(TIMED, struct.pack("<Q", 1)),
    "records of 16 bytes each, got 24": write_frame(STREAM, struct.pack("<Q", 1) + bytes(16)),  # has no times
}


@pytest.mark.parametrize("rule", BROKEN_TIMES)
def test_times_that_cannot_be_end_the_link_with_a_named_error(
    victim: Victim, transport: str, rule: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where a source says that it has times, and sends none, or the other way round."""
    with HostilePeer.linked(victim.id, transport) as peer:
        peer.connection.settimeout(LIMIT_S)
        peer.join_and_offer(Reading1)
        peer.say(
            messages.Source(TIMED, 0, 0, 0, bytes(16), "timed", times=True), messages.Started(TIMED, 0, 0)
        )
        peer.send(BROKEN_TIMES[rule])
        peer.expect_end()
    victim.demand_only_the_good_link()
    assert [rule in line for line in caplog.messages if "lost" in line] == [True]
    assert victim.events == []


def flood(
    victim: Victim,
    transport: str,
    frames: Callable[[int], bytes],
    count: int,
    memory_bytes: int = MEMORY_BYTES,
) -> None:
    """Sends until all is sent or the link ends; then nothing may be left of it."""
    before = settled_census()
    memory = resident_bytes()
    with HostilePeer.linked(victim.id, transport) as peer:
        peer.connection.settimeout(LIMIT_S)
        reader = threading.Thread(target=peer.expect_end)
        reader.start()
        try:
            peer.join_and_offer(Reading1)
            for first in range(0, count, 100):
                peer.send(b"".join(map(frames, range(first, min(count, first + 100)))))
                if first % 5000 == 0:
                    victim.demand_delivery()
        except ConnectionError:  # the link was ended under it
            pass
        peer.shut_sending()
        reader.join()
    victim.demand_only_the_good_link()
    assert left_behind(before) == ""
    assert resident_bytes() - memory < memory_bytes


@pytest.mark.parametrize(("fields", "what"), [(1, "1024 formats"), (1000, "metadata")])
def test_formats_up_to_the_limit_and_beyond_are_borne(
    victim: Victim, transport: str, fields: int, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    wide = make_dataclass("Wide", [(f"field_{i}", int) for i in range(fields)])
    metadata = echo.format_of(wide).metadata
    flood(victim, transport, lambda i: frame(messages.Format(i + 1, metadata)), limits.MAX_FORMATS + 1)
    (told,) = caplog.messages
    assert "A link carries at most" in told
    assert what in told


def test_messages_that_are_kept_are_kept_in_bounds(victim: Victim, transport: str) -> None:
    source = victim.channel.source(Reading1)
    report = "x" * 1000

    def unreachable(i: int) -> bytes:
        return frame(messages.Unreachable(STREAM, report))

    flood(victim, transport, unreachable, 20_000)
    assert len(origin_of(source).unreachable) <= 16


def test_sources_that_no_sink_can_take_are_kept_in_bounds(victim: Victim, transport: str) -> None:
    """Each is refused with a report, and closed again."""
    other = frame(messages.Format(1, echo.format_of(Other).metadata))
    (target,) = targets_of(victim.channel)

    def refused(i: int) -> bytes:
        offered = frame(messages.Source(STREAM + 1, 0, 1, 0, bytes(16), "other")) + frame(
            messages.Closed(STREAM + 1)
        )
        return other + offered if i == 0 else offered

    flood(victim, transport, refused, 2000)
    assert len(target.refusals) <= 16


def test_members_that_nobody_is_cost_a_few_threads(victim: Victim, transport: str) -> None:
    most = 0

    def member(i: int) -> bytes:
        nonlocal most
        most = max(most, sum(thread.name.startswith("echo-meet-") for thread in threading.enumerate()))
        id_ = secrets.token_bytes(16)
        told = told_of(id_, "unix:@echo-nobody", "tcp://127.0.0.1:1")
        return frame(told) + frame(replace(told, standing=messages.Standing.LEFT))

    flood(victim, transport, member, 500)
    assert most <= 16


def test_streams_up_to_the_limit_take_no_time_that_others_notice(victim: Victim) -> None:
    victim.channel.sink(Reading1)
    flood(victim, "unix", lambda i: frame(messages.Source(STREAM + 1 + i, 0, 0, 0, bytes(16), "")), 10_000)
    assert victim.node.statistics().links_lost == 0


def test_every_stream_that_there_can_be_is_borne(victim: Victim, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit that is reached in a second, even while coverage is measured."""
    monkeypatch.setattr(limits, "MAX_STREAMS", 8192)
    victim.channel.sink(Reading1)
    offered = limits.MAX_STREAMS + 1
    flood(
        victim,
        "unix",
        lambda i: frame(messages.Source(STREAM + 1 + i, 0, 0, 0, bytes(16), "")),
        offered,
        32 << 20,
    )
    assert victim.node.statistics().links_lost == 1


def test_a_peer_that_asks_and_never_reads_loses_its_link(impatient_victim: Victim, transport: str) -> None:
    """Its flushes are answered, and the answers wait for it: so long as stall_s allows."""
    victim = impatient_victim
    before = settled_census()
    memory = resident_bytes()
    with HostilePeer.linked(victim.id, transport) as peer:
        peer.connection.settimeout(LIMIT_S)
        peer.say(peer.join())
        with pytest.raises(ConnectionError):
            _ask_for_ever(peer)
        victim.demand_only_the_good_link()
    assert left_behind(before) == ""
    assert resident_bytes() - memory < MEMORY_BYTES


def _ask_for_ever(peer: HostilePeer) -> None:
    for first in itertools.count(0, 1000):
        peer.send(b"".join(frame(messages.Flush(number)) for number in range(first, first + 1000)))


def test_a_sink_that_never_reads_loses_its_link(impatient_victim: Victim, transport: str) -> None:
    """A source that blocks for it is let go, and other links have not waited."""
    victim = impatient_victim
    source = victim.channel.source(Reading1, backlog=echo.Backlog(events=1000, timeout_s=LIMIT_S))
    with HostilePeer.linked(victim.id, transport) as peer:
        peer.connection.settimeout(LIMIT_S)
        peer.say(peer.join(), messages.Declared(0, "", ()))
        offered = next(told for told in peer.messages() if isinstance(told, messages.Source))
        peer.say(messages.Attach(offered.stream, 1, 0, 1 << 62, 1 << 62))
        source.wait_matched(2)  # and the victim's own
        submitting = threading.Thread(target=_submit_until, args=(source, lambda: source.sinks < 2))
        submitting.start()
        victim.demand_delivery()
        victim.demand_only_the_good_link()
        submitting.join(LIMIT_S)
        assert not submitting.is_alive()
    assert source.statistics().dropped > 0


def _submit_until(source: echo.Source[Reading1], is_over: Callable[[], bool]) -> None:
    while not is_over():
        for i in range(1000):
            source.submit(Reading1(i, 0.0))


def test_a_hundred_links_leave_nothing(victim: Victim, transport: str) -> None:
    before: Census | None = None
    for i in range(100):
        with HostilePeer.linked(victim.id, transport) as peer:
            peer.join_and_offer(Reading1)
        if i == 10:
            victim.demand_only_the_good_link()
            before = settled_census()
    victim.demand_only_the_good_link()
    assert before is not None
    assert left_behind(before) == ""
    until(lambda: victim.channel.statistics().peers == 0)


ESCAPES = "\x1b[2J\nWARNING forged\r\u202e\u2028"


def test_what_a_peer_says_of_itself_is_escaped_where_people_read_it(
    victim: Victim, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Names, farewells and reports: in the log and in notices."""
    notices: list[echo.Notice] = []
    victim.channel.watch(notices.append)
    told = victim.channel.source(Reading1)
    with HostilePeer.connected(victim.id, transport) as peer:
        peer.shake_hands(replace(identity(), name=ESCAPES))
        peer.say(
            peer.join(),
            messages.Declared(0, ESCAPES, ()),
            messages.Format(0, echo.format_of(Other).metadata),
            messages.Source(STREAM, 0, 0, 0, bytes(16), ESCAPES),
            messages.Unreachable(STREAM, ESCAPES),
            messages.Bye(7, ESCAPES),
        )
        peer.expect_end()
    until(lambda: any(isinstance(notice, echo.PeerLeft) for notice in list(notices)))
    seen = [repr(notice) for notice in notices] + [str(notice.peer) for notice in notices] + caplog.messages
    seen += [notice.name for notice in notices if isinstance(notice, echo.SourceOpened)]
    assert any("forged" in text for text in seen)
    for text in seen:
        assert not set(ESCAPES) & set(text) - set("[2JWARNING forged\n"), text
        assert "\nWARNING" not in text  # the lines of a report are indented
    told.close()


@pytest.mark.parametrize("cls", [Reading1, Other])
def test_a_source_that_closes_before_it_starts_is_released_and_granted_nothing(
    victim: Victim, cls: type[object]
) -> None:
    """Whether a sink wants it or none does: credit would be of a stream that there is not."""
    with HostilePeer.linked(victim.id, "unix") as peer:
        peer.connection.settimeout(LIMIT_S)
        peer.say(
            peer.join(),
            messages.Declared(0, "", ()),
            messages.Format(0, echo.format_of(cls).metadata),
            messages.Source(STREAM, 0, 0, 0, bytes(16), "hasty"),
            messages.Flush(1),
        )
        said = peer.messages()
        offered = list(itertools.takewhile(lambda it: not isinstance(it, messages.Flushed), said))
        assert any(isinstance(it, messages.Attach) for it in offered) == (cls is Reading1)
        peer.say(messages.Closed(STREAM), messages.Flush(2))
        answers = list(itertools.takewhile(lambda it: not isinstance(it, messages.Flushed), said))
        assert [it.stream for it in answers if isinstance(it, messages.Released)] == [STREAM]
        assert not [it for it in answers if isinstance(it, messages.Credit)]
    victim.demand_only_the_good_link()
