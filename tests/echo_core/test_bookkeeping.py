"""What is told once the books are closed: in order, by one thread at a time, and not without bounds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from echo_core.bookkeeping import MAX_TO_TELL, Bookkeeping
from tests.echo_core.processes import Actor
from tests.echo_core.test_conformance import LIMIT_S


class _SlowListener:
    """Takes the first word only when it is allowed to."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.is_told, self.may_go_on = threading.Event(), threading.Event()

    def __call__(self, word: int) -> None:
        self.is_told.set()
        assert self.may_go_on.wait(LIMIT_S)
        self.heard.append(word)


def _tell(books: Bookkeeping, listener: Callable[[Any], object], *words: object) -> None:
    with books.changing():
        for word in words:
            books.tell_later(partial(listener, word))


@pytest.fixture
def listener() -> _SlowListener:
    return _SlowListener()


def _telling(books: Bookkeeping, listener: _SlowListener, word: int) -> threading.Thread:
    teller = threading.Thread(target=_tell, args=(books, listener, word))
    teller.start()
    assert listener.is_told.wait(LIMIT_S)
    return teller


def test_one_thread_at_a_time_tells(listener: _SlowListener) -> None:
    """Who finds another at it leaves its words to that one, and does not wait."""
    books = Bookkeeping()
    teller = _telling(books, listener, 1)
    _tell(books, listener, 2, 3)
    assert listener.heard == []
    listener.may_go_on.set()
    teller.join(LIMIT_S)
    assert listener.heard == [1, 2, 3]


def test_who_is_told_may_change_the_books() -> None:
    """What comes of that is told after what was said before."""
    books = Bookkeeping()
    heard: list[int] = []

    def hear(word: int) -> None:
        heard.append(word)
        if word == 1:
            with books.changing():
                books.tell_later(partial(hear, 3))

    with books.changing():
        books.tell_later(partial(hear, 1))
        books.tell_later(partial(hear, 2))
    assert heard == [1, 2, 3]


def test_what_waits_to_be_told_is_bounded(listener: _SlowListener, caplog: pytest.LogCaptureFixture) -> None:
    """The rest is counted, and that it is dropped said once."""
    books = Bookkeeping()
    teller = _telling(books, listener, 0)
    _tell(books, listener, *range(1, MAX_TO_TELL + 6))
    listener.may_go_on.set()
    teller.join(LIMIT_S)
    assert listener.heard == list(range(MAX_TO_TELL + 1))
    assert books.untold == 5
    assert len(caplog.records) == 1


def test_what_is_said_at_once_is_told_whole(listener: _SlowListener) -> None:
    """Or not at all, once so much waits."""
    books = Bookkeeping()
    heard: list[int] = []
    teller = _telling(books, listener, 0)
    with books.changing():
        books.tell_later(*(partial(heard.append, word) for word in range(MAX_TO_TELL + 5)))
        books.tell_later(*(partial(heard.append, -1) for _ in range(3)))
        books.tell_later()
    listener.may_go_on.set()
    teller.join(LIMIT_S)
    assert heard == list(range(MAX_TO_TELL + 5))
    assert books.untold == 3


def test_a_listener_that_fails_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    books = Bookkeeping()
    heard: list[int] = []
    with books.changing():
        books.tell_later(lambda: 1 / 0)
        books.tell_later(partial(heard.append, 1))
    assert heard == [1]
    assert "ZeroDivisionError" in caplog.text


# In a process of its own: here an interrupt could come within the locks of a tool that watches the tests.
_INTERRUPTED = """
import gc, signal
from functools import partial
from echo_core.bookkeeping import Bookkeeping

gc.disable()  # a collection would swallow an interrupt
has_come = False

def interrupt(*_):
    global has_come
    has_come = True
    raise KeyboardInterrupt

def change_until_interrupted(books, seconds):  # whose caller catches: some jumps are in no `try`
    signal.setitimer(signal.ITIMER_REAL, seconds)
    while not has_come:
        with books.changing(), books.changing():
            books.tell_later(partial(int, "1"))

signal.signal(signal.SIGALRM, interrupt)
for microseconds in range(100, 1100):
    books, heard, has_come = Bookkeeping(), [], False
    try:
        change_until_interrupted(books, microseconds * 1e-6)
    except KeyboardInterrupt:
        pass
    def tell():
        with books.changing():
            books.tell_later(partial(heard.append, "told"))
    later = threading.Thread(target=tell, daemon=True)
    later.start()
    later.join(LIMIT_S)
    assert heard == ["told"], (microseconds, heard)
say("in order")
"""


def test_an_interrupt_leaves_the_books_in_order() -> None:
    """At whatever moment it comes: who comes later is neither kept out, nor left without a word."""
    with Actor(_INTERRUPTED) as actor:
        assert actor.demand_quiet_end() == "in order\n"
