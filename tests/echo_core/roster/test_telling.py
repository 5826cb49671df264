"""What is told once the books are closed: in order, by a thread of its own, and not without bounds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import echo_core as echo
from echo_core.codegen.machine.budgets import Allowance
from echo_core.roster.bookkeeping import Bookkeeping
from echo_core.roster.telling import MAX_TO_TELL
from tests.echo_core.census import until
from tests.echo_core.channel_events import Plain
from tests.echo_core.conftest import MakeNode
from tests.echo_core.processes import LIMIT_S, Actor


class _SlowListener:
    """Takes the first word only when it is allowed to."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.is_told, self.may_go_on = threading.Event(), threading.Event()

    def __call__(self, word: Any) -> None:
        self.is_told.set()
        assert self.may_go_on.wait(LIMIT_S)
        self.heard.append(word)


def _tell(books: Bookkeeping, listener: Callable[[Any], object], *words: object) -> None:
    with books.changing():
        for word in words:
            books.tell_later(partial(listener, word))


@pytest.fixture
def books() -> Iterator[Bookkeeping]:
    """Whose thread ends with the test."""
    books = Bookkeeping()
    yield books
    books.settle(LIMIT_S)
    books.renew()
    assert books.untold == 0


@pytest.fixture
def listener() -> Iterator[_SlowListener]:
    listener = _SlowListener()
    yield listener
    listener.may_go_on.set()


def test_nobody_waits_for_who_is_told(books: Bookkeeping, listener: _SlowListener) -> None:
    """Neither who makes a change nor who makes the next one; and each is told in order."""
    _tell(books, listener, 1)
    assert listener.is_told.wait(LIMIT_S)
    _tell(books, listener, 2, 3)
    assert listener.heard == []
    listener.may_go_on.set()
    books.settle(LIMIT_S)
    assert listener.heard == [1, 2, 3]


def test_nothing_is_told_before_the_change_is_made(books: Bookkeeping) -> None:
    """Also where the thread that tells is awake already."""
    made: list[bool] = []
    told: list[bool] = []
    for _ in range(100):
        made.clear()
        with books.changing():
            books.tell_later(lambda: told.append(bool(made)))
            with books.changing():
                pass
            made.append(True)
        books.settle(LIMIT_S)
    assert told == [True] * 100


def test_who_is_told_may_change_the_books(books: Bookkeeping) -> None:
    """What comes of that is told after what was said before."""
    heard: list[int] = []

    def hear(word: int) -> None:
        heard.append(word)
        if word == 1:
            _tell(books, hear, 3)
            books.settle(LIMIT_S)  # which does not wait for itself

    _tell(books, hear, 1, 2)
    books.settle(LIMIT_S)
    books.settle(LIMIT_S)
    assert heard == [1, 2, 3]


def test_what_waits_to_be_told_is_bounded(listener: _SlowListener, caplog: pytest.LogCaptureFixture) -> None:
    """The rest is counted, and that it is dropped said once."""
    books = Bookkeeping()
    _tell(books, listener, 0)
    assert listener.is_told.wait(LIMIT_S)
    _tell(books, listener, *range(1, MAX_TO_TELL + 6))
    listener.may_go_on.set()
    books.settle(LIMIT_S)
    assert listener.heard == list(range(MAX_TO_TELL + 1))
    assert books.untold == 5
    assert len(caplog.records) == 1


def test_what_is_said_at_once_is_told_whole(listener: _SlowListener) -> None:
    """Or not at all, once so much waits."""
    books = Bookkeeping()
    heard: list[int] = []
    _tell(books, listener, 0)
    assert listener.is_told.wait(LIMIT_S)
    with books.changing():
        books.tell_later(*(partial(heard.append, word) for word in range(MAX_TO_TELL + 5)))
        books.tell_later(*(partial(heard.append, -1) for _ in range(3)))
        books.tell_later()
    listener.may_go_on.set()
    books.settle(LIMIT_S)
    assert heard == list(range(MAX_TO_TELL + 5))
    assert books.untold == 3


@pytest.mark.parametrize("failure", [ZeroDivisionError, SystemExit, GeneratorExit, KeyboardInterrupt])
def test_a_listener_that_fails_costs_the_others_nothing(
    books: Bookkeeping, failure: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """Nor does one that would end its thread."""
    heard: list[int] = []

    def fail(_: int) -> None:
        raise failure

    _tell(books, fail, 0)
    _tell(books, heard.append, 1)
    books.settle(LIMIT_S)
    assert heard == [1]
    assert caplog.text.count("a handler of notices failed") == 1
    assert failure.__name__ in caplog.text


def test_what_a_change_said_before_it_failed_is_told(books: Bookkeeping) -> None:
    """And who waits looks again: part of the change was made."""
    heard: list[int] = []

    def fail() -> None:
        with books.changing():
            books.tell_later(partial(heard.append, 1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    books.settle(LIMIT_S)
    assert heard == [1]


def test_a_watcher_that_sleeps_holds_up_no_link(make_node: MakeNode, listener: _SlowListener) -> None:
    """Events of another channel of the same link come, newcomers get in, and sources are found."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    stops, work = here.create_channel("stops", Plain), here.create_channel("work", Plain)
    sink = there.open_channel(stops.id).sink(Plain)
    opened = there.open_channel(work.id)
    source = stops.source()
    source.wait_matched(1, LIMIT_S)
    watch = opened.watch(lambda told: listener(told) if isinstance(told, echo.SourceOpened) else None)
    first = work.source(Plain, name="first")
    assert listener.is_told.wait(LIMIT_S)
    source.submit(Plain(1, 0.0))
    assert sink.get(LIMIT_S).id == 1
    work.source(Plain, name="second")
    opened.sink(Plain).wait_matched(2, LIMIT_S)
    assert make_node(transports=["unix"]).open_channel(there.open_channel(work.id).id).name == "work"
    first.close()
    assert listener.heard == []
    listener.may_go_on.set()
    until(lambda: [told.name for told in listener.heard] == ["first", "second"], "both to be told of")
    watch.close()


def test_what_a_watcher_computes_is_not_its_peers_debt(make_node: MakeNode) -> None:
    """Else whoever is told would slow down whom it is told of."""
    here, there = make_node(transports=["unix"]), make_node(transports=["unix"])
    channel = here.create_channel("test", Plain)
    opened = there.open_channel(channel.id)
    charged: list[float] = []
    told = threading.Semaphore(0)

    def compute(_: echo.Notice) -> None:
        sum(range(10_000_000))
        told.release()

    def charge(_: Allowance, seconds: float) -> None:
        charged.append(seconds)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Allowance, "charge", charge)
        began = time.thread_time()
        sum(range(10_000_000))
        computing_s = time.thread_time() - began
        opened.watch(compute)
        channel.source(Plain)
        for _ in range(2):  # who is there, and the source
            assert told.acquire(timeout=LIMIT_S)
        until(lambda: bool(charged), "what was heard to be charged")
    assert sum(charged) < computing_s / 2


_LAST_WORDS = """
node, far = echo.Node(), echo.Node()
channel = node.create_channel("test")
opened = far.open_channel(channel.id)
opened.watch(lambda told: say(type(told).__name__))
channel.source(Plain).close()
"""


def test_what_happens_at_the_end_of_a_process_is_told() -> None:
    """By the thread that tells, for which the exit waits a moment."""
    with Actor(_LAST_WORDS) as actor:
        assert actor.demand_quiet_end() == "SourceOpened\nSourceClosed\n"
