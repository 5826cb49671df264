"""Links from the inside: what ends one, and what must not."""

from __future__ import annotations

import logging
import sys

import pytest

import echo_core as echo
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode

LIMIT_S = 10.0


def test_a_handler_that_exits_its_thread_leaves_no_dead_link(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    """The link is over, both sides know, and the next channel gets another one."""
    caplog.set_level(logging.CRITICAL)
    here, there = make_node(transports=["tcp"]), make_node(transports=["tcp"])
    channel = here.create_channel("test", Plain)
    opened = there.open_channel(channel.id)
    sink = opened.sink(Plain, lambda _: sys.exit(3))
    source = channel.source()
    source.wait_matched(1, LIMIT_S)
    source.submit(Plain(1, 0.0))
    until(lambda: not there.statistics().links and not here.statistics().links)
    assert sink.sources == 0
    assert source.sinks == 0
    assert there.open_channel(here.create_channel("other", Plain).id).statistics().peers == 1
