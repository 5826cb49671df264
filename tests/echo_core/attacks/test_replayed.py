"""A recorded session, cut off at every byte and with every byte changed, against a node that is in use."""

from __future__ import annotations

import gc
import logging
from dataclasses import dataclass

import pytest

import echo_core as echo
from echo_core.codegen.machine import engine
from echo_core.errors import EchoError
from echo_core.transports import limits
from echo_core.transports.protocol import messages
from tests.echo_core.census import left_behind, resident_bytes, settled_census, until
from tests.echo_core.channel_events import Reading1
from tests.echo_core.conftest import MakeNode
from tests.echo_core.hostile_peer import LIMIT_S, STREAM, Change, HostilePeer, unchanged
from tests.transports.frames import write_frame

TRANSPORTS = ("tcp", "unix")
SAMPLE_STEP = 17  # a prime: so the sample falls on every offset within a word
MEMORY_BYTES = 48 << 20


@dataclass
class Victim:
    """A node that is attacked, and the link that must not notice."""

    node: echo.Node
    channel: echo.Channel[Reading1]
    good_source: echo.Source[Reading1]
    good_sink: echo.Sink[Reading1]
    delivered: int = 0

    def demand_delivery(self) -> None:
        self.delivered += 1
        self.good_source.submit(Reading1(self.delivered, 0.5))
        assert self.good_sink.get(LIMIT_S) == Reading1(self.delivered, 0.5)

    def demand_only_the_good_link(self) -> None:
        until(lambda: len(self.node.statistics().links) == 1, "the hostile link to be gone")


@pytest.fixture(params=TRANSPORTS)
def attacked_by(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def victim(make_node: MakeNode, monkeypatch: pytest.MonkeyPatch) -> Victim:
    """Sinks of every kind take the attacker's events; the good link has a channel of its own."""
    node = make_node(transports=["tcp", "unix"])
    channel = node.create_channel("attacked", Reading1)
    channel.sink(Reading1, lambda event: None)
    channel.sink(Reading1, backlog=echo.Backlog(events=5, when_full="drop_oldest"))
    channel.source(Reading1)
    good = node.create_channel("good", Reading1)
    source = good.source()
    sink = make_node(transports=["unix"]).open_channel(good.id).sink(Reading1)
    source.wait_matched()
    monkeypatch.setattr(limits, "HANDSHAKE_TIMEOUT_S", 0.3)  # for those who announce more than they say
    return Victim(node, channel, source, sink)


def session(uid: str, transport: str, change: Change) -> int:
    """All that a peer says in a life; how many bytes it would have said."""
    with HostilePeer.connected(uid, transport, change) as peer:
        peer.connection.settimeout(LIMIT_S)
        try:
            peer.shake_hands()
            peer.join_and_offer(Reading1)
            peer.send(write_frame(STREAM, echo.encoder(Reading1)(Reading1(1, 1.0)) * 3))
            peer.say(
                messages.Gap(STREAM, 3),
                messages.Attach(STREAM, 1, 0, 65536, 1 << 24),
                messages.Dropped(STREAM, 1),
                messages.Unreachable(STREAM, "no"),
                messages.Flush(7),
                messages.Attach(STREAM, 0, 0, 65536, 1 << 24),
                messages.Closed(STREAM),
                messages.Leave(0),
                messages.Bye(messages.Farewell.CLOSING, "over"),
            )
        except (EchoError, ConnectionError):  # the other side has had enough already
            return peer.sent
        if not peer.is_cut:
            peer.shut_sending()
            peer.expect_end()
        return peer.sent


def length(victim: Victim, transport: str) -> int:
    return session(victim.channel.id, transport, unchanged)


def cut_at(offset: int) -> Change:
    return lambda position, data: data[: max(0, offset - position)]


def changed_at(offset: int, mask: int) -> Change:
    def change(position: int, data: bytes) -> bytes:
        at = offset - position
        if not 0 <= at < len(data):
            return data
        return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]

    return change


def attack(victim: Victim, transport: str, changes: list[Change]) -> None:
    _load_compiler()
    session(victim.channel.id, transport, unchanged)
    victim.demand_only_the_good_link()
    gc.collect()
    before, memory = settled_census(), resident_bytes()
    for i, change in enumerate(changes):
        session(victim.channel.id, transport, change)
        if i % 8 == 0:
            victim.demand_delivery()
    victim.demand_delivery()
    victim.demand_only_the_good_link()
    gc.collect()
    assert left_behind(before) == ""
    assert resident_bytes() - memory < MEMORY_BYTES


def _load_compiler() -> None:
    """LLVM takes more memory than an attack may, but once: at the first format that has to be converted."""
    engine.compile_ir("define void @nothing() {\n  ret void\n}\n", engine.native_target())


def surprises(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said of a link or a handshake and is no warning that names its fault."""
    return [record.getMessage() for record in caplog.records if not _names_its_fault(record)]


def _names_its_fault(record: logging.LogRecord) -> bool:
    if "cannot take" in record.getMessage():  # a format that was changed into another one
        return True
    error = record.args[-1] if isinstance(record.args, tuple) else None
    is_warning = record.levelno == logging.WARNING and record.exc_info is None
    return is_warning and isinstance(error, EchoError | OSError | str)


def test_the_session_itself_is_in_order(
    victim: Victim, attacked_by: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # who is welcome has the usual time
    session(victim.channel.id, attacked_by, unchanged)
    victim.demand_only_the_good_link()
    assert victim.node.statistics().links_lost == 0
    assert victim.node.statistics().handshakes_failed == 0
    assert [record for record in caplog.records if "lost" in record.getMessage()] == []


def test_a_session_that_is_cut_off_costs_its_link_alone(
    victim: Victim, attacked_by: str, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = range(0, length(victim, attacked_by), SAMPLE_STEP)
    attack(victim, attacked_by, [cut_at(offset) for offset in offsets])
    assert surprises(caplog) == []


def test_a_session_with_a_changed_byte_costs_its_link_alone(
    victim: Victim, attacked_by: str, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = range(0, length(victim, attacked_by), SAMPLE_STEP)
    masks = (0xFF, 0x01, 0x80)
    attack(victim, attacked_by, [changed_at(offset, masks[offset % 3]) for offset in offsets])
    assert surprises(caplog) == []


@pytest.mark.slow
def test_every_cut_costs_its_link_alone(
    victim: Victim, attacked_by: str, caplog: pytest.LogCaptureFixture
) -> None:
    attack(victim, attacked_by, [cut_at(offset) for offset in range(length(victim, attacked_by))])
    assert surprises(caplog) == []


@pytest.mark.slow
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_changed_byte_costs_its_link_alone(
    victim: Victim, attacked_by: str, mask: int, caplog: pytest.LogCaptureFixture
) -> None:
    changes = [changed_at(offset, mask) for offset in range(length(victim, attacked_by))]
    attack(victim, attacked_by, changes)
    assert surprises(caplog) == []
