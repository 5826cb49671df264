"""Fields and nesting: what a byte more of a record costs to encode, decode and convert."""

from __future__ import annotations

import dataclasses
import importlib
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import echo_core as echo
from bench.available import made_by
from bench.scale.growth import Costs, Growth, Study, in_turn, marginal
from bench.timing import Call

Declare = Callable[[str, list[tuple[str, Any]]], Any]
NS = 1e9
TEXT = "twelve chars"
COPIED = 0.1
"""Nanoseconds for a byte that is copied from memory to memory: what costs less does not grow with bytes."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A class of some size, its values, and the text that reads them all."""

    cls: Any
    made: Any
    read: str


def fields(quick: bool) -> Study:
    """From one field to four hundred, of numbers and of texts."""
    sizes = (1, 10, 40) if quick else (1, 25, 50, 100, 200, 400)
    growths = [
        *_growths("floats", sizes, lambda declare, n: _flat(declare, n, float, 2.5), quick),
        *_growths("texts", sizes, lambda declare, n: _flat(declare, n, str, TEXT), quick),
    ]
    return Study("fields", "fields of a record", growths, (_NOTE,))


def nesting(quick: bool) -> Study:
    """Records within records, each with four numbers, or one text, of its own."""
    sizes = (1, 4, 8) if quick else (1, 2, 4, 8, 16)
    growths = [
        *_growths("floats", sizes, lambda declare, n: _nested(declare, n, float, 2.5), quick),
        *_growths("texts", sizes, lambda declare, n: _nested(declare, n, str, TEXT), quick),
    ]
    return Study("nesting", "records within records", growths, (_NOTE,))


_NOTE = (
    "ns for each byte of our record that a step adds, also of the peer, whose bytes are others. The least and"
    f" the greatest step are compared; less than {COPIED} ns a byte, what copying takes, counts as that."
)


def _flat(declare: Declare, count: int, annotation: Any, value: Any) -> Tree:
    names = [f"f{i}" for i in range(count)]
    cls = declare("Flat", [(name, annotation) for name in names])
    return Tree(cls, cls(*[value] * count), "; ".join(f"it.{name}" for name in names))


def _nested(declare: Declare, depth: int, annotation: Any, value: Any) -> Tree:
    names = [f"f{i}" for i in range(4)]
    members: list[tuple[str, Any]] = [(name, annotation) for name in names]
    made, cls = None, None
    for level in range(depth):
        inner: list[tuple[str, Any]] = [] if cls is None else [("inner", cls)]
        cls = declare(f"Level{level}", [*members, *inner])
        made = cls(*[value] * 4, *([] if made is None else [made]))
    reads: list[str] = []
    for level in range(depth):
        reads += [f"it.{name}" for name in names]
        reads += ["it = it.inner"] if level + 1 < depth else []
    return Tree(cls, made, "; ".join(reads))


def _growths(
    shape: str, sizes: Sequence[int], tree: Callable[[Declare, int], Tree], quick: bool
) -> list[Growth]:
    bytes_by_size = {n: len(echo.encoder((t := tree(_slots, n)).cls)(t.made)) for n in sizes}
    ours = {"dataclass": _tasks(sizes, tree, _slots), "@echo.event": _tasks(sizes, tree, _event)}
    peer = dict(made_by({"msgspec": lambda: [("msgspec Struct", _tasks(sizes, tree, _struct))]}))
    costs = _costs({**ours, **peer}, bytes_by_size, quick)
    growths: list[Growth] = []
    for name, what in ((name, what) for name, tasks in ours.items() for what in tasks):
        beside = {its: costs[its, what] for its in peer if (its, what) in costs}
        growths.append(
            Growth(f"{shape}, {name}: {what}", "ns/byte", costs[name, what], beside, resolution=COPIED)
        )
    return growths


Tasks = Mapping[str, Mapping[int, timeit.Timer]]


def _tasks(sizes: Sequence[int], tree: Callable[[Declare, int], Tree], declare: Declare) -> Tasks:
    """By what is done, and by size."""
    tasks: dict[str, dict[int, timeit.Timer]] = {}
    for size in sizes:
        for what, timer in _timers(tree(declare, size), declare).items():
            tasks.setdefault(what, {})[size] = timer
    return tasks


def _timers(tree: Tree, declare: Declare) -> dict[str, timeit.Timer]:
    encode, decode, calls = _functions(tree, declare)
    data = encode(tree.made)
    assert decode(data) == tree.made
    names = {"made": tree.made, "data": data, "encode": encode, "decode": decode}
    timers = {
        "encode": timeit.Timer("encode(made)", globals=names),
        "decode and read": timeit.Timer(f"it = decode(data); {tree.read}", globals=names),
    }
    for what, (function, argument) in calls.items():
        timers[what] = timeit.Timer("f(x)", globals={"f": function, "x": argument})
    return timers


def _functions(tree: Tree, declare: Declare) -> tuple[Any, Any, Mapping[str, Call]]:
    """To encode, to decode, and what else there is: a conversion, whatever class it is for."""
    if declare is _struct:
        msgspec = importlib.import_module("msgspec")
        return msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(tree.cls).decode, {}
    codec = echo.codec(tree.cls, tier="compiled")
    if declare is _event:
        return codec.encode, codec.decode, {}
    swapped = echo.encoder(tree.cls, abi="s390x")(tree.made)
    convert = echo.converter(echo.format_of(tree.cls, abi="s390x"), codec.format, tier="compiled")
    assert bytes(convert(swapped)) == codec.encode(tree.made)
    return codec.encode, codec.decode, {"convert from big-endian": (convert, swapped)}


def _slots(name: str, members: list[tuple[str, Any]]) -> Any:
    return dataclasses.make_dataclass(name, members, slots=True)


def _event(name: str, members: list[tuple[str, Any]]) -> Any:
    return echo.event(type(name, (), {"__annotations__": dict(members), "__module__": __name__}))


def _struct(name: str, members: list[tuple[str, Any]]) -> Any:
    return importlib.import_module("msgspec").defstruct(name, members)


def _costs(
    everyone: Mapping[str, Tasks], bytes_by_size: Mapping[int, float], quick: bool
) -> dict[tuple[str, str], Costs]:
    costs: dict[tuple[str, str], Costs] = {}
    for name, tasks in everyone.items():
        for what, timers in tasks.items():
            timed = {size: repeated(timer, 0.001 if quick else 0.01) for size, timer in timers.items()}
            costs[name, what] = marginal(in_turn(timed, 3 if quick else 11), bytes_by_size, NS)
    return costs


def repeated(timer: timeit.Timer, budget_s: float) -> Callable[[], float]:
    """Seconds for one call, each time it is asked; so many calls as fit into the budget."""
    timer.timeit(3)
    number = max(1, int(budget_s / max(timer.timeit(5) / 5, 1e-9)))
    return lambda: timer.timeit(number) / number
