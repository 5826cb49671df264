"""Seconds for one call, of one candidate or of several that take turns."""

from __future__ import annotations

import gc
import statistics
import timeit
from collections.abc import Callable, Mapping
from typing import Any

Call = tuple[Any, ...]  # a function and its arguments


def seconds_each(call: Callable[[Any], object], argument: Any, count: int, *, quick: bool) -> float:
    """Seconds for each of `count` events that one call does: the best of several runs."""
    timer = timeit.Timer("f(x)", globals={"f": call, "x": argument})
    calls = max(1, int((0.002 if quick else 0.02) / max(timer.timeit(3) / 3, 1e-9)))
    gc.collect()
    return min(timer.repeat(5 if quick else 9, calls)) / calls / count


def medians_in_turn(timed: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Everyone once, in turn, so many times: what slows the machine down for a while slows all of them."""
    taken: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(rounds):
        for name, time in timed.items():
            taken[name].append(time())
    return {name: statistics.median(times) for name, times in taken.items()}


def best_in_turn(timed: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The same with each one's best time, for work that is so short that noise only ever adds."""
    best = dict.fromkeys(timed, float("inf"))
    for _ in range(rounds):
        for name, time in timed.items():
            best[name] = min(best[name], time())
    return best


def median_ratio(first: Callable[[], float], second: Callable[[], float], rounds: int) -> float:
    """The first's time over the second's, each pair in one go: a core's clock may change between pairs."""
    return statistics.median(first() / second() for _ in range(rounds))


def timed(call: Call, number: int) -> Callable[[], float]:
    """Seconds for one call, out of a run of `number`, each time it is asked."""
    function, *arguments = call
    names = {f"a{i}": argument for i, argument in enumerate(arguments)}
    timer = timeit.Timer(f"f({', '.join(names)})", globals={"f": function, **names})
    return lambda: timer.timeit(number) / number


def all_timed(calls: Mapping[str, Call], number: int) -> dict[str, Callable[[], float]]:
    """The same for several."""
    return {name: timed(call, number) for name, call in calls.items()}
