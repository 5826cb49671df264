"""Receptions are made once for each pair of formats, and so are refusals."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Any
from weakref import ref

import numpy as np
import pytest

import echo_core as echo
from echo_core.codegen import conversion
from echo_core.codegen.batches import arrays
from echo_core.codegen.plain import generic
from echo_core.formats.comparing.compare import Report
from echo_core.formats.declare import format_of
from echo_core.streams import receptions
from echo_core.streams.receptions import Receptions, Wanted
from tests.echo_core.channel_events import Misfit, Plain, Reading1, Reading2
from tests.echo_core.conftest import MakeNode

LIMIT_S = 30.0


def test_a_refusal_is_made_once() -> None:
    """A peer that offers the same format again and again costs little."""
    known = Receptions()
    refusal = known.of(Wanted(Misfit, is_array=False, is_lossy=False), format_of(Plain))
    assert isinstance(refusal, Report)
    assert known.of(Wanted(Misfit, is_array=False, is_lossy=False), format_of(Plain)) is refusal


def test_a_reception_is_made_once() -> None:
    known = Receptions()
    wanted = Wanted(Reading1, is_array=False, is_lossy=False)
    made = known.of(wanted, format_of(Reading2))
    assert isinstance(made, receptions.Reception)
    assert known.of(wanted, format_of(Reading2)) is made


@pytest.mark.parametrize("wanted", [Wanted(Reading1, False, False), Wanted(Reading1, True, False)], ids=str)
@pytest.mark.parametrize("sent", [Reading1, Reading2])
def test_a_reception_takes_one_comparison(
    wanted: Wanted, sent: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparing two formats of many fields takes longer than all else that a reception needs."""
    compared: list[tuple[Any, ...]] = []

    def counting(*formats: Any, **options: Any) -> Report:
        compared.append(formats)
        return echo.compare(*formats, **options)

    for module in (receptions, arrays, conversion, generic):
        monkeypatch.setattr(module, "compare", counting)
    assert isinstance(Receptions().of(wanted, format_of(sent)), receptions.Reception)
    assert len(compared) == 1


def test_refusals_are_bounded_and_cost_no_receptions() -> None:
    known = Receptions()
    wanted = Wanted(Plain, is_array=False, is_lossy=False)
    made = known.of(wanted, format_of(Plain))
    senders: list[type[Any]] = [make_dataclass(f"T{i}", [("id", str)]) for i in range(300)]
    first = ref(known.of(wanted, format_of(senders[0])))
    for sender in senders:
        assert isinstance(known.of(wanted, format_of(sender)), Report)
    assert first() is None
    assert known.of(wanted, format_of(Plain)) is made


def test_a_refusal_says_what_the_sink_would_say() -> None:
    node = echo.Node(transports=["process"])
    with node, node.create_channel("x") as channel:
        channel.source(Plain)
        sink = channel.sink(Misfit)
        with pytest.raises(echo.IncompatibleError, match="Plain -> Misfit"):
            sink.wait_matched()


@dataclass
class Marks:
    """What a class made for its format holds otherwise: as an array, and in a list."""

    flags: list[bool]
    tags: tuple[str, ...]


@pytest.mark.parametrize("is_declared_here", [False, True])
def test_reflection_makes_a_class_whatever_is_open_here(
    make_node: MakeNode, *, is_declared_here: bool
) -> None:
    """A source of the same class beside the sink gives it events of that class."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x")
    opened = there.open_channel(channel.id)
    near = opened.source(Marks) if is_declared_here else None
    sink = opened.sink(None)
    far = channel.source(Marks)
    far.wait_matched()
    far.submit(Marks([True], ("a",)))
    event = sink.get(LIMIT_S)
    assert (type(event) is Marks, type(event.flags), type(event.tags)) == (False, np.ndarray, list)
    near = near or opened.source(Marks)
    near.submit(Marks([False], ()))
    event = sink.get(LIMIT_S)
    assert (type(event) is Marks, type(event.flags), type(event.tags)) == (True, list, tuple)


def test_what_a_source_of_this_process_sends_as_an_array_is_of_its_class_whoever_came_first(
    make_node: MakeNode,
) -> None:
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("x")
    opened = there.open_channel(channel.id)
    sink = opened.sink(None)
    far = channel.source(Reading1)
    far.wait_matched()
    near = opened.source(Reading1)
    array = np.zeros(1, near.format.dtype)
    for source, is_own in ((far, False), (near, True)):
        source.submit_array(array)
        assert (type(sink.get(LIMIT_S)) is Reading1) == is_own
