"""A node that is attacked over one channel, while a link to another node must not notice."""

from __future__ import annotations

import echo_core as echo
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain, Reading1
from tests.echo_core.conftest import MakeNode

LIMIT_S = 30.0
PAYLOAD_BYTES = 1 << 20


class Victim:
    """Its limits are small, so that tests reach them soon."""

    def __init__(self, make_node: MakeNode, stall_s: float = LIMIT_S) -> None:
        bounds = echo.Limits(payload_bytes=PAYLOAD_BYTES, stall_s=stall_s)
        self.node = make_node(transports=["tcp", "unix"], limits=bounds)
        self.channel = self.node.create_channel("attacked", Reading1)
        self.events: list[Reading1] = []
        self.channel.sink(Reading1, self.events.append)
        good = self.node.create_channel("good", Plain)
        self._source = good.source()
        self._sink = make_node(transports=["unix"]).open_channel(good.id).sink(Plain)
        self._source.wait_matched()
        self._sent = 0

    @property
    def id(self) -> str:
        return self.channel.id

    def demand_delivery(self) -> None:
        self._sent += 1
        self._source.submit(Plain(self._sent, 0.5))
        assert self._sink.get(LIMIT_S) == Plain(self._sent, 0.5)

    def demand_only_the_good_link(self) -> None:
        until(lambda: len(self.node.statistics().links) == 1, "the hostile link to be gone")
        self.demand_delivery()
