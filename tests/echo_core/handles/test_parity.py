"""Sinks of the source's process get what sinks of other processes get."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given

import echo_core as echo
from echo_core.codegen.plain.records import write
from tests.echo_core.conftest import MakeNode
from tests.echo_core.handles.test_conformance import LIMIT_S
from tests.formats.strategies import examples, layouts, plain_values


@echo.event
class Frame:
    number: int
    pixels: echo.Array[echo.UInt8, ...]
    corner: echo.Array[float, 2]
    tags: list[str] = echo.field(default_factory=list[str])


@dataclass
class Rows:
    """A plain dataclass, whose values nobody looks at when they are assigned."""

    values: echo.Array[echo.Float32, ...]
    parts: list[Frame] = field(default_factory=list[Frame])
    note: str | None = None


@echo.event
class Small:
    """Nothing that could be written into."""

    number: int
    ratio: echo.Float32
    text: str
    tag: echo.Chars[4]


class Ends:
    """A source with one sink in its process and one beyond a link."""

    def __init__(self, here: echo.Node, there: echo.Node) -> None:
        self.here, self.there = here, there

    def both(self, cls: Any, event: Any) -> tuple[Any, Any]:
        with (
            self.here.create_channel("x", cls) as channel,
            self.there.open_channel(channel.id, timeout_s=LIMIT_S) as opened,
        ):
            near, far, source = channel.sink(cls), opened.sink(cls), channel.source(cls)
            source.wait_matched(2, LIMIT_S)
            source.submit(event)
            return near.get(LIMIT_S), far.get(LIMIT_S)


@pytest.fixture
def ends(make_node: MakeNode) -> Ends:
    return Ends(make_node(), make_node(transports=["unix"]))


def test_a_list_given_for_an_array_is_an_array_at_every_sink(ends: Ends) -> None:
    made: Any = Frame, Rows  # type checkers would want arrays
    frame = made[0](1, [1, 2, 3], [0.5, 1.5], ["a"])
    for event in (frame, made[1]([1, 2.5], [frame])):
        near, far = ends.both(type(event), event)
        assert repr(near) == repr(far)
        assert "array(" in repr(near)


def test_a_buffer_that_is_used_again_changes_no_event_that_was_submitted(make_node: MakeNode) -> None:
    """Whether it is an array or a list, at handlers that keep events as at queues."""
    channel = make_node().create_channel("x", Frame)
    kept: list[Frame] = []
    queue, source = channel.sink(Frame), channel.source()
    channel.sink(Frame, kept.append)
    pixels, corner, tags = np.zeros(4, "u1"), np.zeros(2), ["0"]
    event = Frame(0, pixels, corner, tags)
    for i in range(3):
        pixels[:], corner[:], tags[0] = i, i, str(i)
        event.corner[:] = i
        source.submit(event)
    for i, frame in enumerate(kept):
        assert (frame.pixels.tolist(), frame.corner.tolist(), frame.tags) == ([i] * 4, [i, i], [str(i)])
        assert repr(queue.get(LIMIT_S)) == repr(frame)


def test_events_that_nobody_can_write_into_are_handed_over_by_reference(make_node: MakeNode) -> None:
    """They cost no copy."""
    channel = make_node().create_channel("x", Small)
    sink, event = channel.sink(Small), Small(1, 0.1, "text", "tag")
    channel.source().submit(event)
    assert sink.get(LIMIT_S) is event


def test_what_cannot_be_sent_is_refused_in_process_too(make_node: MakeNode) -> None:
    """A sink of this process never gets what others could not."""
    channel = make_node().create_channel("x", Rows)
    sink, source = channel.sink(Rows), channel.source()
    rows: Any = Rows
    with pytest.raises(echo.EncodeError, match=r"Rows\.values"):
        source.submit(rows([1, "two"]))
    assert sink.statistics().events == 0


@pytest.fixture(scope="module")
def shared_ends() -> Iterator[Ends]:
    """For all examples: links are not what they are about."""
    with echo.Node() as here, echo.Node(transports=["unix"]) as there:
        yield Ends(here, there)


@examples(60)
@given(data=st.data())
def test_random_events_of_random_classes_are_the_same_at_both_sinks(
    shared_ends: Ends, data: st.DataObject
) -> None:
    """Values, types, and what became of lists that were given for arrays."""
    layout = data.draw(layouts())
    plain = data.draw(plain_values(layout))
    assume("NaT" not in repr(plain))  # which no sender may send
    sender = echo.Format.from_metadata(echo.Format(layout).metadata)
    event = echo.decoder(None, sender=sender)(write(plain, layout))
    values = {member.name: getattr(event, member.name) for member in fields(event)}
    kinds = {name: getattr(getattr(value, "dtype", None), "kind", "O") for name, value in values.items()}
    given_lists = {
        name: values[name].tolist()
        for name, kind in kinds.items()
        if kind in "biufc" and data.draw(st.booleans())
    }
    near, far = shared_ends.both(type(event), replace(event, **given_lists))
    assert repr(near) == repr(far)
