"""What cannot work is refused where it is asked for, not at another process that it would cost its link."""

from __future__ import annotations

from dataclasses import make_dataclass
from typing import Any

import pytest

import echo_core as echo
from echo_core.transports.limits import MAX_TYPES, MIN_PAYLOAD_BYTES
from tests.echo_core.channel_events import Plain, Story
from tests.echo_core.conftest import MakeNode

LONG = "x" * 256
Pair = tuple[echo.Node, echo.Node]


@pytest.mark.parametrize("cls", [Plain, None])
def test_arrays_of_records_that_vary_in_size_are_refused_with_a_report(pair: Pair, cls: Any) -> None:
    """Whoever comes first; the link stays."""
    channel = pair[0].create_channel("x")
    opened = pair[1].open_channel(channel.id)
    early = opened.sink(cls, batch=True)
    source = channel.source(Story)
    late = opened.sink(cls, batch=True)
    for sink in (early, late):
        with pytest.raises(echo.IncompatibleError, match="varies in size"):
            sink.wait_matched()
        assert "Story" in str(sink.refusals[0])
        assert {"title", "body"} < {entry.path.rpartition(".")[2] for entry in sink.refusals[0].refused}
    with pytest.raises(echo.IncompatibleError, match="varies in size"):
        source.wait_matched()
    assert pair[1].statistics().links_lost == 0


def test_a_class_that_varies_in_size_has_no_arrays(make_node: MakeNode) -> None:
    channel = make_node().create_channel("x")
    with pytest.raises(echo.FormatError, match="fixed size"):
        channel.sink(Story, batch=True)
    assert channel.statistics().sinks == 0


@pytest.mark.parametrize("name", [LONG, "\ud800"])
def test_names_that_do_not_fit_are_refused(make_node: MakeNode, name: str) -> None:
    channel = make_node().create_channel("x")
    with pytest.raises(echo.ChannelError, match="Expected a name"):
        make_node(name=name)
    with pytest.raises(echo.ChannelError, match="Expected a name"):
        make_node().create_channel(name)
    with pytest.raises(echo.ChannelError, match="Expected a name"):
        channel.source(Plain, name=name)
    assert channel.statistics().sources == 0


def test_a_channel_has_so_many_types_and_no_more(make_node: MakeNode) -> None:
    types = [make_dataclass(f"T{i}", [("a", int)]) for i in range(MAX_TYPES + 1)]
    with pytest.raises(echo.ChannelError, match=f"at most {MAX_TYPES} types"):
        make_node().create_channel("x", *types)


@pytest.mark.parametrize("size_bytes", [0, MIN_PAYLOAD_BYTES - 1, 2**31])
def test_payloads_are_bounded_by_what_peers_and_links_take(size_bytes: int) -> None:
    with pytest.raises(echo.ChannelError, match="payload_bytes"):
        echo.Limits(payload_bytes=size_bytes)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_who_listens_everywhere_has_to_say_where_that_is(make_node: MakeNode, host: str) -> None:
    with pytest.raises(echo.ChannelError, match="advertised_host"):
        make_node(host=host)
    make_node(host=host, transports=["unix"])
