"""The one lock: who waits looks again at every change, whoever is interrupted, and after a fork."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from echo_core.errors import TimedOutError
from echo_core.roster.bookkeeping import Bookkeeping
from tests.echo_core.handles.test_conformance import LIMIT_S
from tests.echo_core.processes import Actor


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
    books.settle(LIMIT_S)

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
