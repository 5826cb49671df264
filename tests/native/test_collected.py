"""Events that refer to objects: how they begin and end, and what the garbage collector knows of them."""

from __future__ import annotations

import copy
import dataclasses
import decimal
import gc
import pickle
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
import pytest

import echo_core as echo
from echo_core._c.events import Value, plain_type
from tests.echo_core.census import resident_bytes
from tests.echo_core.events.native_events import codec


@echo.event
class Note:
    n: int = 0
    text: str = ""


@echo.event
class Listing:
    n: int = 0
    items: list[int] = dataclasses.field(default_factory=list[int])


@echo.event
class Reply(Note):
    more: str = ""
    notes: list[Note] = dataclasses.field(default_factory=list[Note])


@echo.event
class Leaf:
    n: int = 0


@echo.event
class Chain(Leaf):
    inner: Leaf = dataclasses.field(default_factory=Leaf)


@pytest.fixture(autouse=True)
def _settled() -> Iterator[None]:
    """Garbage of other tests is gone before, and that of this one after it."""
    gc.collect()
    yield
    gc.collect()


def new_canary() -> tuple[list[int], Callable[[], bool]]:
    """A list that a `list[int]` may hold, and whether it is gone."""

    class Canary(list[int]):
        pass

    canary = Canary([1])
    reference = weakref.ref(canary)
    return canary, lambda: reference() is None


def test_event_of_texts_is_not_tracked() -> None:
    """Neither when it is made nor when it is decoded, read and written."""
    functions = codec(Note)
    event = functions.decode(functions.encode(Note(1, "text")))
    assert (event.n, event.text) == (1, "text")
    event.text = "another"
    assert not gc.is_tracked(event)
    assert not gc.is_tracked(Note(1, "text"))


def test_event_is_tracked_as_soon_as_it_refers_to_a_list() -> None:
    """By its constructor, by an assignment, and by being read."""
    functions = codec(Listing)
    made = Listing(1, [2])
    decoded = functions.decode(functions.encode(made))
    assert gc.is_tracked(made)
    assert not gc.is_tracked(decoded)
    assert decoded.items == [2]
    assert gc.is_tracked(decoded)
    empty = Listing.__new__(Listing)
    assert not gc.is_tracked(empty)
    empty.items = [3]
    assert gc.is_tracked(empty)


def test_cycle_of_events_ends() -> None:
    """The collector finds a cycle through the slots of events that were tracked late."""
    canary, is_gone = new_canary()
    reply = Reply(notes=[])
    reply.notes.append(reply)
    reply.notes.append(Listing(items=canary))  # type: ignore[arg-type] # checked when it is encoded
    del canary
    assert not is_gone()
    del reply
    gc.collect()
    assert is_gone()


def test_slots_of_a_derived_class_are_visited_and_released() -> None:
    """Those of a class statement on an event, its dictionary too, beside those of the event."""

    class Derived(Listing):
        __slots__ = ("own",)
        own: Any

    class Open(Derived):
        pass

    for cls in (Derived, Open):
        canary, is_gone = new_canary()
        event = cls(1, canary)
        event.own = event
        assert event in gc.get_referents(event)
        assert canary in gc.get_referents(event)
        del canary
        del event
        gc.collect()
        assert is_gone()


def test_event_class_derived_from_another_has_slots_of_its_own() -> None:
    """Reading, writing, encoding and the end of its instances are as those of any other."""
    functions = codec(Reply)
    before = sys.getrefcount(Reply)
    for _ in range(100):
        back = functions.decode(functions.encode(Reply(1, "a", "b", [Note(2, "c")])))
        assert back == Reply(1, "a", "b", [Note(2, "c")])
        del back
    assert sys.getrefcount(Reply) == before


def test_class_is_released_with_its_last_instance() -> None:
    """Neither instances that have ended nor memory that is kept for others hold a class."""

    def make() -> weakref.ref[type[Any]]:
        plain: Any = dataclasses.make_dataclass("Passing", [("text", str), ("items", list[int])])
        made: Any = echo.event(plain)
        events = [made("text", [i]) for i in range(10)]
        assert events[3].items == [3]
        return weakref.ref(made)

    reference = make()
    gc.collect()
    assert reference() is None


def test_memory_that_is_used_again_is_empty() -> None:
    """An event made without `__init__` where another one was has none of its values."""
    for _ in range(1000):
        Note(7, "secret")
        empty = Note.__new__(Note)
        assert empty.n == 0
        with pytest.raises(AttributeError):
            _ = empty.text


def test_finalizer_runs_once_and_may_bring_an_event_back() -> None:
    """As `object` has it: the finalizer of an object that came back is not called again."""
    calls: list[int] = []
    kept: list[Any] = []

    @echo.event
    class Stubborn:
        n: int
        text: str

        def __del__(self) -> None:
            calls.append(self.n)
            if self.n % 2:
                kept.append(self)

    for n in range(6):
        Stubborn(n, "text")
    assert calls == [0, 1, 2, 3, 4, 5]
    assert [event.text for event in kept] == ["text"] * 3
    kept.clear()
    assert calls == [0, 1, 2, 3, 4, 5]
    Stubborn(6, "text")
    assert calls[6:] == [6]


def test_finalizer_that_is_set_later_is_called_and_one_that_is_taken_away_is_not() -> None:
    """What is known of a class is what it is now."""

    @echo.event
    class Changing:
        n: int
        text: str

    calls: list[int] = []
    cls: Any = Changing

    def note(event: Changing) -> None:
        calls.append(event.n)

    for n in range(4):
        Changing(n, "before")
        cls.__del__ = note
        Changing(10 + n, "while")
        del cls.__del__
        Changing(20 + n, "after")
    assert calls == [10, 11, 12, 13]


def test_finalizer_of_a_derived_class_is_called() -> None:
    """Once, also where the collector calls it."""
    calls: list[int] = []

    class Derived(Listing):
        def __del__(self) -> None:
            calls.append(self.n)

    Derived(1, [1])
    lonely: Any = Derived(2, [2])
    lonely.me = lonely
    del lonely
    gc.collect()
    assert calls == [1, 2]


def test_finalizer_may_use_the_memory_of_events_that_end() -> None:
    """Events are made and let go of while another one ends, whose values end within one another."""
    made: list[str] = []

    class Busy(list[int]):
        def __del__(self) -> None:
            made.extend(Note(i, f"text {i}").text for i in range(3))

    for i in range(200):
        Listing(i, Busy([i]))
    assert made == [f"text {i}" for i in range(3)] * 200


def test_long_chain_of_events_ends() -> None:
    """The end of an event within the end of another does not use up the stack."""
    chain: Leaf = Leaf(0)
    for i in range(200_000):
        chain = Chain(i, chain)
    del chain


def test_long_chain_with_finalizers_ends() -> None:
    """Nor where Python is asked to call these."""
    calls: list[int] = []

    @echo.event
    class Link(Leaf):
        inner: Leaf = dataclasses.field(default_factory=Leaf)

        def __del__(self) -> None:
            calls.append(self.n)

    chain: Leaf = Leaf(0)
    for i in range(50_000):
        chain = Link(i, chain)
    del chain
    assert sorted(calls) == list(range(50_000))


def test_weak_references_are_told() -> None:
    """Instances of a derived class have them, and those of an event class have not."""

    class Derived(Note):
        pass

    event = Derived(1, "text")
    reference = weakref.ref(event)
    assert reference() is event
    del event
    assert reference() is None
    with pytest.raises(TypeError):
        weakref.ref(Note())


def test_events_are_copied_and_pickled() -> None:
    """They are made without `__init__` then."""
    event = Reply(1, "a", "b", [Note(2, "c")])
    assert copy.deepcopy(event) == event == pickle.loads(pickle.dumps(event))
    assert copy.copy(event).notes is event.notes


def test_threads_make_and_release_events_of_each_other() -> None:
    """Kept memory goes from one thread to another."""
    ends: list[Any] = []
    wrong: list[Any] = []

    def work(number: int) -> None:
        for i in range(5000):
            text = f"{number}, {i}"
            event = Reply(i, text, text, [Note(i, text)])
            ends.append(event)
            if len(ends) > 50:
                ends.pop(0)
            if (event.n, event.text, event.more, event.notes[0].text) != (i, text, text, text):
                wrong.append(event)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_made_by_a_room_is_no_event() -> None:
    """The type that Python makes between two event classes has instances of its own size."""
    room: Any = next(cls for cls in Reply.__mro__ if "__echo_record_at__" in vars(cls))
    for _ in range(10):
        assert object.__new__(room) is not None


def test_plain_type_wants_room_and_a_number() -> None:
    """Nothing else makes a class."""
    for slots in (-1, 1 << 40):
        with pytest.raises(ValueError, match="Expected room for the record"):
            plain_type("Odd", (object,), slots)


@echo.event
class Bearer(Leaf):
    listing: Listing = dataclasses.field(default_factory=Listing)


@echo.event
class Overridden(Note):
    """What its base keeps in a slot it has in its record, which is large."""

    text: int = 0  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleVariableOverride]
    data: echo.Array[echo.Float64, 40_000] = dataclasses.field(kw_only=True)


def test_a_large_event_that_replaced_the_slot_of_its_base_begins_and_ends() -> None:
    """It has Python's header, which memory that is lent for large events has no room for."""
    for _ in range(20):
        event = Overridden(1, data=np.ones(40_000))
        gc.collect()
        assert event.data[-1] == 1.0


def test_a_base_in_c_ends_its_part_of_an_event() -> None:

    @echo.event
    class Priced(decimal.Decimal):
        text: str = ""

        def __new__(cls, *_: object) -> Self:
            return decimal.Decimal.__new__(cls, 10**20_000)

    def blocks() -> int:
        for _ in range(100):
            Priced()
        gc.collect()
        return resident_bytes()

    blocks()
    before = min(blocks() for _ in range(3))
    assert min(blocks() for _ in range(3)) - before < 400_000  # 100 of them have 0.8 MB each time


def test_chains_end_while_the_finalizer_of_another_thread_waits() -> None:
    """How deep the ends of one thread are says nothing of those of another."""
    may_go, is_inside = threading.Event(), threading.Event()

    class Slow(list[int]):
        def __del__(self) -> None:
            is_inside.set()
            may_go.wait(30)

    thread = threading.Thread(target=lambda: Listing(1, Slow([1])))
    thread.start()
    assert is_inside.wait(30)
    canary, is_gone = new_canary()
    holder = Listing(1, canary)
    del canary
    chain: Leaf = Bearer(1, holder)
    del holder
    for _ in range(5_000):
        chain = Chain(1, chain)
    del chain
    assert is_gone()
    may_go.set()
    thread.join(30)


def test_a_dtype_of_another_size_than_its_element_is_refused() -> None:
    element = Value("d", 8, 8, ())
    with pytest.raises(ValueError, match="a dtype of the element's size"):
        Value("l", 16, 8, (element, (None,), np.ndarray, np.dtype("i1")))
