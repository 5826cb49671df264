"""Lists in lists that are one array of several dimensions: as the generic codec does them, but in C."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import echo_core as echo
from echo_core._c import links
from echo_core._c.events import Walker
from tests.codegen.test_value_trees import demand_walker, generic_codec, outcome
from tests.formats.strategies import examples


class Level(enum.Enum):
    LOW = -1
    HIGH = 7


@dataclass(slots=True)
class Named:
    name: str
    number: int


@dataclass(slots=True)
class Tables:
    rows: echo.Int32
    texts: echo.Array[str, ..., 3]
    levels: echo.Array[Level, 2, 2]
    names: echo.Array[Named, "rows", 2]  # noqa: F821, UP037 - a dimension
    cube: echo.Array[str | None, ..., ..., ...]
    numbers: echo.Array[echo.Int16, 2, ...]


LOW, HIGH = Level
ONE, TWO = Named("one", 1), Named("two", 2)


def tables(**changes: Any) -> Tables:
    """An event with tables of every kind."""
    given: dict[str, Any] = {
        "rows": 1,
        "texts": [["a", "b", "c"], ("", "é", "f" * 70)],
        "levels": [[LOW, HIGH], [HIGH, LOW]],
        "names": [[ONE, TWO]],
        "cube": [[["a", None]], [[None, "d"]]],
        "numbers": [[1, 2, 3], [4, 5, -6]],
    }
    return Tables(**(given | changes))


def assert_alike(event: Tables, *, in_c: bool | None = None) -> None:
    """The same record or error, of one size, and the same event again; `in_c` says whether by C alone."""
    walker, generic = demand_walker(Tables), generic_codec(Tables)
    record = outcome(generic.encode, event)
    assert outcome(walker.encode, event) == record
    if isinstance(record, bytes):
        assert repr(walker.decode(record)) == repr(generic.decode(record))
        queue = links.Queue(max_events=1, max_bytes=1, policy=links.DROP_NEWEST, timeout_ns=0)
        outlet = links.Outlet(Tables, walker.encode)
        outlet.direct = (links.Delivery(queue, bytes, print),)
        outlet.submit(event)
        assert queue.depth_bytes == len(record)
    assert in_c is None or (walker.interpreted == 0) == in_c


def test_tables_of_every_kind_are_walked() -> None:
    """Lists and tuples in each other; what is made of a record are lists."""
    assert_alike(tables(), in_c=True)


OTHERS: list[dict[str, Any]] = [
    {"texts": []},
    {"texts": [[]]},
    {"cube": [[], []]},
    {"cube": []},
    {"rows": 0, "names": []},
    {"numbers": [[], []]},
    {"texts": [["a", "b"]]},
    {"texts": [["a", "b", "c"], ["d"]]},
    {"texts": ["abc"]},
    {"texts": [["a", "b", 5]]},
    {"rows": 2},
    {"levels": [[LOW, HIGH]]},
    {"levels": [[LOW, HIGH], None]},
    {"cube": [["a"]]},
    {"cube": 5},
    {"numbers": [[1, 2], [3, 40000]]},
    {"numbers": [[1, 2], [3, 4.5]]},
]


@pytest.mark.parametrize("changes", OTHERS)
def test_what_is_no_table_is_judged_as_ever(changes: dict[str, Any]) -> None:
    """Rows of other lengths, none at all, and other values in their place."""
    assert_alike(tables(**changes))


def rows_of(values: st.SearchStrategy[Any], *lengths: int) -> st.SearchStrategy[Any]:
    for length in reversed(lengths):
        values = st.lists(values, min_size=length, max_size=length)
    return values


@examples(100)
@given(st.data(), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_random_tables_are_those_of_the_generic_codec(data: st.DataObject, x: int, y: int, z: int) -> None:
    """Whatever their lengths and values."""
    texts = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=80)
    named = st.builds(Named, texts, st.integers(-(2**63), 2**63 - 1))
    event = tables(
        rows=x,
        texts=data.draw(rows_of(texts, y, 3)),
        levels=data.draw(rows_of(st.sampled_from(Level), 2, 2)),
        names=data.draw(rows_of(named, x, 2)),
        cube=data.draw(rows_of(texts | st.none(), x, y, z)),
        numbers=data.draw(rows_of(st.integers(-(2**15), 2**15 - 1), 2, z)),
    )
    assert_alike(event, in_c=True)


def test_rows_that_stand_for_very_many_are_refused() -> None:
    """The same row again and again makes a table that no record could hold."""
    row = ["x"] * 10**6
    event = tables(cube=[[row] * 10**6] * 10**6)
    with pytest.raises((MemoryError, echo.EncodeError)):
        demand_walker_in_c(event)


def demand_walker_in_c(event: Tables) -> bytes:
    """Encodes without the generic codec, which would try."""

    def refuse(_: Any) -> Any:
        raise MemoryError

    walker = Walker(demand_walker(Tables).value, None, refuse, refuse)
    encode: Callable[[Any], bytes] = walker.encode
    return encode(event)


@echo.event
class Grid:
    when: echo.Array[dt.datetime | None, ..., 2]
    names: echo.Array[str, 2, ...]


def test_events_keep_tables_as_they_are_given() -> None:
    """And make lists of them when they are received."""
    when = dt.datetime(2024, 5, 17, tzinfo=dt.UTC)
    times: Any = [[when, None], [None, when]]
    event = Grid(times, [["a", "b"], ["c", "d"]])
    again = echo.decoder(Grid)(echo.encoder(Grid)(event))
    assert again == event
    with pytest.raises(echo.EncodeError):
        event.names = [["a"], ["b", "c"]]
