"""Events that nobody looks at on their way: who sent a broken one loses its link, never who passed it on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import echo_core as echo
from tests.echo_core.census import until
from tests.echo_core.conftest import MakeNode
from tests.echo_core.hostile_peer import LIMIT_S, STREAM, HostilePeer
from tests.transports.frames import write_frame


@echo.event
class Cell:
    tag: echo.Chars[5]
    n: echo.Int64


@echo.event
class Told:
    """What a relay holds as it came."""

    id: int
    label: echo.Chars[6]
    name: str
    tags: list[str]
    cells: echo.Array[Cell, ...]


@dataclass
class _Read:
    """The same, whose values are made when it comes."""

    id: int
    label: echo.Chars[6]
    name: str
    tags: list[str]
    cells: echo.Array[Cell, ...]


_Read.__name__ = "Told"
CELLS = np.array([(b"c1", 1), (b"c2", 2)], echo.format_of(Cell).dtype)
GOOD = Told(1, "label", "name", ["tag1", "tag2"], CELLS)


class Relay:
    """A node whose handler submits to another channel what it is given, and a reader there."""

    def __init__(self, make_node: MakeNode) -> None:
        self.node = make_node(transports=["unix"])
        self.channel = self.node.create_channel("in", Told)
        onward = self.node.create_channel("out", Told)
        source = onward.source(Told)
        self.channel.sink(Told, source.submit)
        self._reader = make_node(transports=["unix"])
        self._sink = self._reader.open_channel(onward.id).sink(_Read)
        source.wait_matched()

    def demand_delivery(self) -> None:
        event = self._sink.get(LIMIT_S)
        assert (event.name, event.tags) == ("name", ["tag1", "tag2"])
        assert event.cells["tag"].tolist() == [b"c1", b"c2"]

    def demand_only_the_good_link(self) -> None:
        until(lambda: self.node.statistics().links_lost == 1, "the hostile link to be gone")
        assert self._reader.statistics().links_lost == 0
        assert len(self.node.statistics().links) == 1


@pytest.mark.parametrize("text", [b"label", b"name", b"tag1", b"tag2", b"c1", b"c2"])
def test_text_that_is_no_utf8_costs_its_sender_the_link(
    make_node: MakeNode, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Wherever in the record it stands."""
    data = echo.encoder(Told)(GOOD)
    relay = Relay(make_node)
    with HostilePeer.linked(relay.channel.id, "unix") as peer:
        peer.connection.settimeout(LIMIT_S)
        peer.join_and_offer(Told)
        peer.send(write_frame(STREAM, data))
        relay.demand_delivery()
        peer.send(write_frame(STREAM, data.replace(text, b"\xff" + text[1:])))
        peer.expect_end()
    relay.demand_only_the_good_link()
    assert "Expected UTF-8, got the byte 0xff" in caplog.text


@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_damage_in_an_array_costs_its_sender_the_link(
    make_node: MakeNode, transport: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its bytes go as they are, and the first event that cannot be made of them ends the link."""
    channel = make_node(transports=[transport]).create_channel("in", Cell)
    receiver = make_node(transports=[transport])
    sink = receiver.open_channel(channel.id).sink(Cell)
    source = channel.source(Cell)
    source.wait_matched()
    damaged = CELLS.copy()
    damaged["tag"][1] = b"\xff"
    source.submit_array(damaged)
    until(lambda: receiver.statistics().links_lost == 1, "the link to be gone")
    assert sink.get(LIMIT_S) == Cell("c1", 1)
    assert "Expected UTF-8, got the byte 0xff at 0 of 1 - at `Cell.tag`" in caplog.text
