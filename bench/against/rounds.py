"""Rounds in which two commits take turns.

A round has new processes of both, since where a process's memory lies is a matter of luck that lasts as long
as it lives. Within a round each row is measured old, new, new, old, or the other way round, as a coin says:
what slows the machine down for a while, or ever more, meets both.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from bench.against.checkouts import Checkout
from bench.against.children import Child, QuestionError
from bench.against.paired import Key, Pair, Row, Verdict

# Seconds of one measurement: calls repeat within a millisecond, round trips and streams want more.
BUDGETS_S: Mapping[str, float] = {
    "codec": 0.008,
    "convert": 0.01,
    "fanout": 0.1,
    "inprocess": 0.01,
    "latency": 0.05,
    "throughput": 0.08,
}


class Side(Protocol):
    """A commit's process, as far as a round needs it."""

    def ask(self, question: str, *arguments: Any) -> Any: ...


def compared(
    old: Checkout,
    new: Checkout,
    suites: Sequence[str],
    rounds: int,
    *,
    tolerance: float,
    told: Callable[[str], None],
    only: str = "",
) -> list[Row]:
    """Every row of these suites, or those with a text in their names."""

    def all_keys(side: Side) -> list[Key]:
        names = ((suite, name) for suite in suites for name in side.ask("names", suite))
        return [key for key in names if only in key[1]]

    def again(keys: Sequence[Key]) -> list[Row]:
        told(f"measuring again what seems slower: {', '.join(name for _, name in keys)}")
        return _rows(old, new, rounds, lambda _: keys, told)

    return confirmed(_rows(old, new, rounds, all_keys, told), again, tolerance)


def confirmed(
    rows: Sequence[Row], again: Callable[[Sequence[Key]], Sequence[Row]], tolerance: float
) -> list[Row]:
    """What seems slower is measured once more, and only that then counts.

    Of forty rows that are the same, one is slower by chance: its interval is one of 95 %. Hardly one is so
    twice.
    """
    suspects = [row.key for row in rows if row.ratio.verdict(tolerance) is Verdict.SLOWER]
    second = {row.key: row for row in again(suspects)} if suspects else {}
    return [second.get(row.key, row) for row in rows]


def _rows(
    old: Checkout,
    new: Checkout,
    rounds: int,
    chosen: Callable[[Side], Sequence[Key]],
    told: Callable[[str], None],
) -> list[Row]:
    pairs: dict[Key, list[Pair]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            told(f"round {number + 1} of {rounds}")
            for key, pair in _round(old, new, Path(folder), number, chosen):
                pairs.setdefault(key, []).append(pair)
    return [Row(key, measured) for key, measured in pairs.items()]


def _round(
    old: Checkout, new: Checkout, caches: Path, number: int, chosen: Callable[[Side], Sequence[Key]]
) -> Iterator[tuple[Key, Pair]]:
    coin = random.Random(number)
    with _started(old, caches / "old", number) as one, _started(new, caches / "new", number) as other:
        for key in chosen(other):
            pair = pair_of(one, other, key, BUDGETS_S[key[0]], old_first=coin.random() < 0.5)
            if pair is not None:
                yield key, pair
        for checkout, side in ((old, one), (new, other)):
            checkout.check_imported(side.ask("modules"))


def _started(checkout: Checkout, cache: Path, seed: int) -> Child:
    return Child("bench.against.workloads.worker", checkout.environment(cache, seed=seed))


def pair_of(old: Side, new: Side, key: Key, budget_s: float, *, old_first: bool) -> Pair | None:
    """Each side twice, the one that begins also last; the better of a side's two times is its time.

    None: the old commit cannot do it yet.
    """
    new.ask("open", *key)
    try:
        old.ask("open", *key)
    except QuestionError:
        new.ask("close")
        return None
    first, second = (old, new) if old_first else (new, old)
    times: dict[Side, list[float]] = {old: [], new: []}
    for side in (first, second, second, first):
        times[side].append(side.ask("measure", budget_s))
    for side in (first, second):
        side.ask("close")
    return Pair(min(times[old]), min(times[new]))
