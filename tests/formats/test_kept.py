"""What is made of formats stays while it is used; what nobody uses stays up to a cost."""

from __future__ import annotations

import gc

from echo_core.formats.format import Format
from echo_core.formats.kept import Kept


class Thing:
    pass


def test_what_nobody_uses_stays_up_to_a_cost_and_the_newest_in_any_case() -> None:
    kept: Kept[str, Thing] = Kept(10)
    for name in "abc":
        kept.put(name, Thing(), 4)
    assert kept.get("a") is None
    assert kept.get("b") is not None
    kept.put("large", Thing(), 100)
    assert [kept.get(name) is not None for name in ("b", "c", "large")] == [False, False, True]


def test_what_was_used_last_stays() -> None:
    kept: Kept[str, Thing] = Kept(8)
    kept.put("a", Thing(), 4)
    kept.put("b", Thing(), 4)
    kept.get("a")
    kept.put("c", Thing(), 4)
    assert [kept.get(name) is not None for name in "abc"] == [True, False, True]


def test_what_somebody_uses_is_found_however_much_there_is() -> None:
    kept: Kept[int, Thing] = Kept(3)
    used = [kept.put(i, Thing(), 1) for i in range(100)]
    assert [kept.get(i) for i in range(100)] == used
    del used
    gc.collect()
    assert sum(kept.get(i) is not None for i in range(100)) == 3


def test_what_nobody_uses_exceeds_its_cost_by_an_eighth_at_most() -> None:
    """Costs are added up now and then, so that the thousandth value takes no longer than the first."""
    kept: Kept[int, Thing] = Kept(800)
    for i in range(3000):
        kept.put(i, Thing(), 1)
    assert 800 <= sum(kept.get(i) is not None for i in range(3000)) <= 901


def test_a_class_that_is_in_use_is_made_once_whatever_else_is_made() -> None:
    """A peer that sends other formats does not change what a component holds."""
    text = "struct Event{i} {{ int field_{i}; }};"
    mine = Format.from_c(text.format(i=0))
    cls = mine.record_class()
    for i in range(5000):
        Format.from_c(text.format(i=i + 1)).record_class() if i % 10 == 0 else None
    assert Format.from_c(text.format(i=0)).record_class() is cls
