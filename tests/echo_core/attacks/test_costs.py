"""Legal events and formats that cost much more than their bytes: what they cost is bounded."""

from __future__ import annotations

import contextlib
import gc
import random
import time
from dataclasses import dataclass, make_dataclass
from typing import Any

import pytest

import echo_core as echo
from echo_core.codegen.machine import background
from echo_core.streams.receptions import Reception
from echo_core.transports.protocol import messages
from tests.codegen.test_counting import Bit, Flood, LazyFlood, SlottedFlood, flood
from tests.echo_core.census import resident_bytes, until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S, Collector
from tests.echo_core.hostile_peer import STREAM, HostilePeer
from tests.transports.frames import write_frame

OBJECTS = 1000
LARGEST = (OBJECTS - 2) // 2  # one-byte records in one event


@dataclass
class Report:
    title: str
    bits: list[Bit]


# The same as a component declares it that needs no list.
Title: Any = make_dataclass("Report", [("title", str)])


@pytest.fixture(params=["unix", "tcp"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("cls", [Flood, SlottedFlood, LazyFlood, None])
def test_an_event_of_too_many_objects_is_refused_for_that_sink(
    make_node: MakeNode, transport: str, cls: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It is a failure of the sink's; other events, other sinks and the link go on."""
    failed, taken = Collector(), Collector()

    def tell(_: object, error: BaseException) -> None:
        failed(error)

    node = make_node(
        transports=[transport],
        limits=echo.Limits(event_objects=OBJECTS),
        on_failure=tell,
    )
    channel = node.create_channel("floods", Flood)
    sink = channel.sink(cls, taken, match="shape")
    with HostilePeer.linked(channel.id, transport) as peer:
        peer.join_and_offer(Flood)
        for bits in (LARGEST, LARGEST + 1, 4 << 20, 1):
            peer.send(write_frame(STREAM, flood(bits)))
        sizes = [len(event.bits) for event in taken.wait(2)]
        assert node.statistics().links_lost == 0
    assert sizes == [LARGEST, 1]
    [first, second] = failed.wait(2)
    assert isinstance(first, echo.LimitError)
    assert "at most 1000 objects (`Limits.event_objects`), got one of 1002" in str(first)
    assert "8388610" in str(second)
    assert sink.statistics().failures == 2
    assert any("Limits.event_objects" in message for message in caplog.messages)


def test_other_sinks_of_the_same_node_take_what_one_refuses(make_node: MakeNode, transport: str) -> None:
    """What counts is what the event becomes for a sink."""
    node = make_node(transports=[transport], limits=echo.Limits(event_objects=OBJECTS))
    channel = node.create_channel("reports", Report)
    refusing, taking = channel.sink(Report, print), channel.sink(Title)
    source = make_node(transports=[transport]).open_channel(channel.id).source(Report)
    source.wait_matched(2)
    source.submit(Report("many", [Bit(1)] * OBJECTS))
    source.submit(Report("few", []))
    assert [taking.get(LIMIT_S).title for _ in range(2)] == ["many", "few"]
    source.flush(LIMIT_S)
    assert refusing.statistics().failures == 1
    assert taking.statistics().failures == 0


# ---------------------------------------------------------------------------------------------------
# Formats

FIELDS = 500  # of each: of more no code is compiled
TYPES: list[Any] = [int, float, echo.Int8, echo.Int16, echo.Float32, bool]
KEPT_BYTES = 128 << 20  # once: what the system's allocator keeps of what was in use at once is used again


def wide_formats(count: int, seed: int = 0) -> list[bytes]:
    """Metadata of so many formats, no two of which have the same code."""
    dice = random.Random(seed)
    return [
        echo.format_of(
            make_dataclass(f"Wide{seed}_{i}", [(f"f{i}_{k}", dice.choice(TYPES)) for k in range(FIELDS)])
        ).metadata
        for i in range(count)
    ]


def offer(peer: HostilePeer, formats: list[bytes]) -> None:
    """A source of each format."""
    peer.say(peer.join(), messages.Declared(0, "", ()))
    for i, metadata in enumerate(formats):
        peer.say(messages.Format(i, metadata), messages.Source(STREAM + i, 0, i, 0, bytes(16), ""))


class FormatVictim:
    """A node whose sink takes any format, with an honest link beside that of the peer."""

    def __init__(self, make_node: MakeNode) -> None:
        echo.decoder(
            Plain, sender=echo.format_of(Plain, abi="s390x"), tier="compiled"
        )  # imports the compiler
        self.node = make_node(transports=["unix", "tcp"])
        self.channel = self.node.create_channel("any")
        self.channel.sink(None, print)
        good = self.node.create_channel("good", Plain)
        self._source = good.source()
        self._sink = make_node(transports=["unix"]).open_channel(good.id).sink(Plain)
        self._source.wait_matched()

    def demand_delivery(self) -> None:
        self._source.submit(Plain(1, 0.5))
        assert self._sink.get(LIMIT_S) == Plain(1, 0.5)

    def demand_only_the_good_link(self) -> None:
        until(lambda: len(self.node.statistics().links) == 1, "the hostile link to be gone")

    @property
    def offered(self) -> int:
        return self.channel.statistics().remote_sources


@pytest.fixture
def victim(make_node: MakeNode) -> FormatVictim:
    return FormatVictim(make_node)


def test_formats_of_a_peer_that_has_gone_are_not_compiled(victim: FormatVictim, transport: str) -> None:
    """8 of 500 fields: one takes half a second."""
    formats = wide_formats(8)
    with HostilePeer.linked(victim.channel.id, transport) as peer:
        offer(peer, formats)
        until(lambda: victim.offered == 8, "all sources")
        victim.demand_delivery()
    victim.demand_only_the_good_link()
    used_s = time.process_time()
    assert background.drain(LIMIT_S)
    victim.demand_delivery()
    assert time.process_time() - used_s < 1.0


@pytest.mark.slow
def test_what_formats_of_a_peer_cost_is_not_kept(victim: FormatVictim, transport: str) -> None:
    """However often it comes again, with other formats each time."""
    gc.collect()
    memory = resident_bytes()
    for seed in range(4):
        formats = wide_formats(15, seed)
        with HostilePeer.linked(victim.channel.id, transport) as peer:
            offer(peer, formats)
            until(lambda: victim.offered == 15, "all sources")
        victim.demand_only_the_good_link()
        gc.collect()
    known = sum(isinstance(it, Reception) and len(it.report.entries) == FIELDS for it in gc.get_objects())
    assert known <= 8
    assert resident_bytes() - memory < KEPT_BYTES


@pytest.mark.once
@pytest.mark.slow
def test_a_link_that_brings_too_many_fields_is_ended(
    victim: FormatVictim, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """50 formats of 500 fields; nobody else notices."""
    formats = wide_formats(50)  # first, as a link on which nobody joins is ended soon
    with HostilePeer.linked(victim.channel.id, transport) as peer, contextlib.suppress(ConnectionError):
        offer(peer, formats)
        peer.expect_end()
    victim.demand_only_the_good_link()
    victim.demand_delivery()
    until(lambda: "bytes of one side's metadata" in caplog.text, "the reason in the log")
