"""Receptions are made once for each pair of formats, and so are refusals."""

from __future__ import annotations

from dataclasses import make_dataclass
from typing import Any

import pytest

import echo_core as echo
from echo_core import receptions
from echo_core.formats.compare import Report
from echo_core.formats.declare import format_of
from echo_core.receptions import Receptions, Wanted
from tests.echo_core.channel_events import Other, Plain, Reading1, Reading2


def test_a_refusal_is_made_once() -> None:
    """A peer that offers the same format again and again costs little."""
    known = Receptions()
    refusal = known.of(Wanted(Other, is_array=False, is_lossy=False), format_of(Plain))
    assert isinstance(refusal, Report)
    assert known.of(Wanted(Other, is_array=False, is_lossy=False), format_of(Plain)) is refusal


def test_a_reception_is_made_once() -> None:
    known = Receptions()
    wanted = Wanted(Reading1, is_array=False, is_lossy=False)
    made = known.of(wanted, format_of(Reading2))
    assert isinstance(made, receptions.Reception)
    assert known.of(wanted, format_of(Reading2)) is made


def test_refusals_are_bounded_and_cost_no_receptions() -> None:
    known = Receptions()
    wanted = Wanted(Plain, is_array=False, is_lossy=False)
    made = known.of(wanted, format_of(Plain))
    senders: list[type[Any]] = [make_dataclass(f"T{i}", [("id", str)]) for i in range(200)]
    first = known.of(wanted, format_of(senders[0]))
    for sender in senders:
        assert isinstance(known.of(wanted, format_of(sender)), Report)
    assert known.of(wanted, format_of(senders[0])) is not first
    assert known.of(wanted, format_of(Plain)) is made


def test_a_refusal_says_what_the_sink_would_say() -> None:
    node = echo.Node(transports=["process"])
    with node, node.create_channel("x") as channel:
        channel.source(Plain)
        sink = channel.sink(Other)
        with pytest.raises(echo.IncompatibleError, match="Plain -> Other"):
            sink.wait_matched()
