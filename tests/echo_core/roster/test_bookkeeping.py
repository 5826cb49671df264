"""What is told once the books are closed: in order, by one thread at a time, and not without bounds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from echo_core.errors import TimedOutError
from echo_core.roster.bookkeeping import MAX_TO_TELL, Bookkeeping
from echo_core.transports.threads import OwnThread
from tests.echo_core.handles.test_conformance import LIMIT_S
from tests.echo_core.processes import Actor


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


@pytest.mark.parametrize("exits", [SystemExit, GeneratorExit, KeyboardInterrupt])
def test_a_listener_ends_no_thread_of_the_library(
    exits: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """One that a component has made ends as the listener wants; what is left is told with the next change."""
    books = Bookkeeping()
    heard: list[int] = []

    def leave(word: int) -> None:
        heard.append(word)
        raise exits

    own = OwnThread(partial(_tell, books, leave, 1, 2), "echo-test")
    own.start()
    own.join(LIMIT_S)
    assert heard == [1, 2]
    assert caplog.text.count("a handler of notices failed") == 2
    with pytest.raises(exits):
        _tell(books, leave, 3, 4)
    with pytest.raises(exits):
        _tell(books, leave)
    assert heard == [1, 2, 3, 4]
    assert len(caplog.records) == 2


def test_what_a_change_said_before_it_failed_is_told() -> None:
    """And who waits looks again: part of the change was made."""
    books = Bookkeeping()
    heard: list[int] = []

    def fail() -> None:
        with books.changing():
            books.tell_later(partial(heard.append, 1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert heard == [1]


def _waiting(books: Bookkeeping, is_met: Callable[[], bool]) -> threading.Thread:
    """Until that; it has looked once, and can be woken."""
    has_looked = threading.Event()

    def look() -> bool:
        try:
            return is_met()
        finally:
            has_looked.set()

    waiter = threading.Thread(target=books.wait_for, args=(look, None, str))
    waiter.start()
    assert has_looked.wait(LIMIT_S)
    return waiter


def test_who_waits_looks_again_at_every_change() -> None:
    """However many wait, and without a limit."""
    books = Bookkeeping()
    changes: list[int] = []

    def have_come(least: int) -> bool:
        return len(changes) >= least

    waiters = [_waiting(books, partial(have_come, least)) for least in (1, 2, 2, 3)]
    for change in range(3):
        with books.changing(), books.changing():
            changes.append(change)
    for waiter in waiters:
        waiter.join(LIMIT_S)
        assert not waiter.is_alive()


def test_who_waits_in_vain_leaves_nothing_behind() -> None:
    """Else the next change would have to wake all that ever waited."""
    books = Bookkeeping()
    with pytest.raises(TimedOutError, match=r"Expected a word within 0\.001 s"):
        books.wait_for(lambda: False, 0.001, lambda: "a word")
    assert not books._asleep  # pyright: ignore[reportPrivateUsage]


def test_a_forked_child_has_books_that_nobody_holds() -> None:
    """Whoever held them is not there; a fork amid a change ends that change in both."""
    with Actor(_FORKED, forks=True) as actor:
        assert actor.demand_quiet_end() == "child\nchild\nparent\n"


_FORKED = """
from functools import partial
from echo_core.roster.bookkeeping import books

is_held, may_go_on = threading.Event(), threading.Event()

def hold():
    with books.changing():
        is_held.set()
        may_go_on.wait()

def change(word):
    with books.changing():
        books.tell_later(partial(say, word))

holder = threading.Thread(target=hold)
holder.start()
is_held.wait()
if os.fork() == 0:
    change("child")
    os._exit(0)
os.wait()
may_go_on.set()
holder.join()
with books.changing():
    child = os.fork()
if child == 0:
    change("child")
    os._exit(0)
os.wait()
change("parent")
"""


# In a process of its own: here an interrupt could come within the locks of a tool that watches the tests.
# It is kept while others go on, as by `except` and in sys.last_exc: what its frames hold stays as it is.
_INTERRUPTED = """
import gc, queue, signal
from functools import partial
from echo_core.roster.bookkeeping import Bookkeeping

gc.disable()  # a collection would swallow an interrupt
sys.setswitchinterval(1e-5)  # so that who is woken sleeps again before the interrupt
has_come = False
changes = 0

def interrupt(*_):
    global has_come
    has_come = True
    raise KeyboardInterrupt

def change_until_interrupted(books, seconds):  # whose caller catches: some jumps are in no `try`
    global changes
    signal.setitimer(signal.ITIMER_REAL, seconds)
    while not has_come:
        with books.changing(), books.changing():
            changes += 1
            books.tell_later(partial(int, "1"))

def watch(books, seen):  # until it has been told
    known = 0
    while known >= 0:
        books.wait_for(lambda: changes != known, None, str)
        known = changes
        seen.put(known)

def tell(books, heard):
    global changes
    with books.changing():
        changes = -1
        books.tell_later(partial(heard.put, "told"))

signal.signal(signal.SIGALRM, interrupt)
until = time.monotonic() + 8  # a slow machine tries fewer moments
for microseconds in range(100, 1100):
    books, heard, seen, has_come, changes = Bookkeeping(), queue.SimpleQueue(), queue.SimpleQueue(), False, 0
    kept = None
    watcher = threading.Thread(target=watch, args=(books, seen), daemon=True)
    watcher.start()
    try:
        change_until_interrupted(books, microseconds * 1e-6)
    except KeyboardInterrupt as error:
        kept = error
    while changes and seen.get(timeout=LIMIT_S / 4) != changes:
        pass
    threading.Thread(target=tell, args=(books, heard), daemon=True).start()
    assert heard.get(timeout=LIMIT_S / 4) == "told"
    while seen.get(timeout=LIMIT_S / 4) != -1:
        pass
    watcher.join()
    if time.monotonic() > until:
        break
say("in order")
"""


_INTERRUPTED_TELLING = """
import gc, signal
from functools import partial
from echo_core.roster.bookkeeping import Bookkeeping

gc.disable()

def interrupt(*_):
    raise KeyboardInterrupt

def tell_much(books, seconds):
    with books.changing():
        books.tell_later(*[partial(int, "1")] * 5000)
        signal.setitimer(signal.ITIMER_REAL, seconds)
    while True:
        pass

signal.signal(signal.SIGALRM, interrupt)
until = time.monotonic() + 8
for microseconds in range(200, 600):
    books, heard = Bookkeeping(), []
    try:
        tell_much(books, microseconds * 1e-6)
    except KeyboardInterrupt:
        pass
    with books.changing():
        books.tell_later(partial(heard.append, "told"))
    assert heard == ["told"], microseconds
    if time.monotonic() > until:
        break
say("told")
"""


def test_an_interrupt_of_who_tells_leaves_the_rest_to_the_next() -> None:
    """Where a loop jumps back, too."""
    with Actor(_INTERRUPTED_TELLING) as actor:
        assert actor.demand_quiet_end() == "told\n"


def test_an_interrupt_leaves_the_books_in_order() -> None:
    """At whatever moment it comes: who comes later is not kept out, and who waits sees the last change."""
    with Actor(_INTERRUPTED) as actor:
        assert actor.demand_quiet_end() == "in order\n"


_KEPT_OUT = """
import signal
from echo_core.roster.bookkeeping import books

is_held, may_go_on = threading.Event(), threading.Event()

def hold():
    with books.changing():
        is_held.set()
        may_go_on.wait()

def interrupt(*_):
    raise KeyboardInterrupt

holder = threading.Thread(target=hold)
holder.start()
is_held.wait()
signal.signal(signal.SIGALRM, interrupt)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    with books.changing():
        say("inside")
except KeyboardInterrupt:
    say("interrupted")
may_go_on.set()
holder.join()
with books.changing():
    say("inside")
"""


def test_who_waits_for_the_lock_can_be_interrupted() -> None:
    """And does not have it then."""
    with Actor(_KEPT_OUT) as actor:
        assert actor.demand_quiet_end() == "interrupted\ninside\n"
