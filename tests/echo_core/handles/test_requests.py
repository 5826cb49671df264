"""What cannot work is refused where it is asked for, not at another process that it would cost its link."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from dataclasses import make_dataclass
from functools import partial
from typing import Any

import pytest

import echo_core as echo
from echo_core.transports.limits import MAX_TYPES, MIN_PAYLOAD_BYTES
from tests.echo_core.channel_events import Plain, Story
from tests.echo_core.conftest import MakeNode

LONG = "x" * 256
Pair = tuple[echo.Node, echo.Node]


@echo.event(name="Story")
class Headline:
    """What arrays can be made of, of stories that have a number alone."""

    id: int


@pytest.mark.parametrize("cls", [Headline, None])
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stall_s", 0.0),
        ("stall_s", -1.0),
        ("stall_s", 1e-10),
        ("stall_s", math.nan),
        ("delay_s", -1e-9),
        ("delay_s", math.nan),
        ("connect_s", -1.0),
        ("connect_s", math.nan),
        ("links", -1),
    ],
)
def test_limits_that_no_link_takes_are_refused_at_once(name: str, value: float) -> None:
    """Not by the first link, of which another process has heard already."""
    with pytest.raises(echo.ChannelError, match=name):
        echo.Limits(**{name: value})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_limits_may_be_none_at_all() -> None:
    limits = echo.Limits(stall_s=math.inf, delay_s=0, connect_s=0, links=0)
    assert (limits.stall_s, limits.links) == (math.inf, 0)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_who_listens_everywhere_has_to_say_where_that_is(make_node: MakeNode, host: str) -> None:
    with pytest.raises(echo.ChannelError, match="advertised_host"):
        make_node(host=host)
    make_node(host=host, transports=["unix"])


class _Awaited:
    async def __call__(self, event: object) -> None: ...

    async def one_by_one(self, event: object) -> AsyncIterator[object]:
        yield event


@pytest.mark.parametrize(
    "handler", [_Awaited(), _Awaited().__call__, _Awaited().one_by_one, partial(_Awaited().__call__, 1)]
)
def test_an_asynchronous_handler_is_refused(make_node: MakeNode, handler: Any) -> None:
    """Nobody would await what it returns."""
    channel = make_node().create_channel("x", Plain)
    with pytest.raises(echo.ChannelError, match=r"asynchronous .*: .*`async for`"):
        channel.sink(Plain, handler)
    with pytest.raises(echo.ChannelError, match="asynchronous"):
        channel.watch(handler)
    with pytest.raises(echo.ChannelError, match="asynchronous"):
        make_node(on_failure=handler)
    assert channel.statistics().sinks == 0


def test_what_cannot_be_called_is_no_handler(make_node: MakeNode) -> None:
    channel = make_node().create_channel("x", Plain)
    wrong: Any = 5
    for ask in (
        lambda: channel.sink(Plain, wrong),
        lambda: channel.watch(wrong),
        lambda: make_node(on_failure=wrong),
    ):
        with pytest.raises(echo.ChannelError, match="Expected a handler that can be called, got 5"):
            ask()
    assert channel.statistics().sinks == 0


def test_options_of_another_type_are_refused(make_node: MakeNode) -> None:
    channel = make_node().create_channel("x", Plain)
    wrong: Any = 5
    asked: list[tuple[str, Callable[[], object]]] = [
        ("a name", lambda: make_node(name=wrong)),
        ("`Limits`", lambda: make_node(limits=wrong)),
        ("a name", lambda: make_node().create_channel(wrong, Plain)),
        ("a name", lambda: channel.source(name=wrong)),
        ("`Backlog`", lambda: channel.source(backlog=wrong)),
        ("`Backlog`", lambda: channel.sink(Plain, backlog=wrong)),
    ]
    for expected, ask in asked:
        with pytest.raises(echo.ChannelError, match=f"Expected {expected}, got 5"):
            ask()
    assert channel.statistics().sinks == channel.statistics().sources == 0


@pytest.mark.parametrize("cls", [Plain, Story])
@pytest.mark.parametrize("array", [None, [1, 2]])
def test_what_is_no_array_is_refused(make_node: MakeNode, cls: type[Any], array: Any) -> None:
    source = make_node().create_channel("x", cls).source()
    with pytest.raises(echo.FormatError, match=f"Expected a numpy array of records, got {type(array)}"):
        source.submit_array(array)


class _Secretive:
    @property
    def dtype(self) -> object:
        raise ZeroDivisionError


def test_what_keeps_an_array_from_saying_its_dtype_is_told_as_it_is(make_node: MakeNode) -> None:
    source: Any = make_node().create_channel("x", Plain).source()
    with pytest.raises(ZeroDivisionError):
        source.submit_array(_Secretive())
