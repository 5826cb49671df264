"""Contenders that take turns: everyone once a round, so that a slow spell of the machine meets all."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from bench.transport import measuring
from bench.transport.endpoint import Peer
from bench.transport.forms import payload_bytes
from bench.transport.processes import floors, session
from bench.transport.processes.placement import Placement
from bench.transport.processes.worker import Task
from bench.transport.statistics import Times, ratio_of_rounds

MOST = 50_000  # round trips in a round
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Stream:
    """A round of a stream."""

    per_s: float
    added_bytes: float | None
    """Bytes over TCP for each message beyond its particles; None: it did not go over TCP."""


@dataclass(frozen=True, slots=True)
class Contender(Generic[R]):
    """Who is measured, and how one round of it goes."""

    name: str
    measure: Callable[[], R]
    is_ours: bool = False


@dataclass(slots=True)
class Results(Generic[R]):
    """What each contender's rounds gave, and why others gave nothing."""

    rounds_by_name: dict[str, list[R]] = field(default_factory=dict[str, list[R]])
    failures: dict[str, str] = field(default_factory=dict[str, str])

    def median(self, name: str, figure: Callable[[R], float]) -> float:
        return statistics.median(map(figure, self.rounds_by_name[name]))

    def ratio(self, name: str, other: str, figure: Callable[[R], float]) -> float:
        """The median of the ratios within a round."""
        ours, theirs = self.rounds_by_name[name], self.rounds_by_name[other]
        return ratio_of_rounds([figure(it) for it in ours], [figure(it) for it in theirs])


def in_rounds(contenders: Sequence[Contender[R]], rounds: int) -> Results[R]:
    """All of them in turn. A peer that fails is left out from then on, and its reason kept; ours may not."""
    results: Results[R] = Results({each.name: [] for each in contenders})
    for _ in range(rounds):
        for each in contenders:
            if each.name in results.failures:
                continue
            try:
                results.rounds_by_name[each.name].append(each.measure())
            except (session.SessionError, subprocess.SubprocessError) as error:
                if each.is_ours:
                    raise
                results.failures[each.name] = str(error).strip().splitlines()[-1]
                del results.rounds_by_name[each.name]
    return results


def stride(n: int) -> int:
    """Messages between two looks at the clock, the same for everyone: few where a message takes long."""
    return 8 if n else 64


def latency_of(peer: Peer, n: int, placement: Placement, budget_s: float) -> Contender[Times]:
    """Round trips between two processes."""

    def measure() -> Times:
        asked = {"peer": peer, "n": n, "budget_s": budget_s, "most": MOST}
        tasks = [
            Task(measuring.ask, asked, placement),
            Task(measuring.answer, {"peer": peer, "n": n}, placement),
        ]
        trips, _ = session.run(tasks, launcher=peer.launcher)
        return Times.of(trips.times_ns)

    return Contender(peer.name, measure, is_ours=peer.is_ours)


def latency_of_floor(carrier: str, n: int, placement: Placement, budget_s: float) -> Contender[Times]:
    """The same in C."""

    def measure() -> Times:
        trips = floors.round_trips(carrier, n, placement, budget_s=budget_s, most=MOST)
        return Times.of(trips.times_ns)

    return Contender(f"floor {carrier}", measure)


def stream_of(peer: Peer, n: int, budget_s: float, *, receivers: int = 1) -> Contender[Stream]:
    """One way, to one receiver or several; every one must get every message."""

    def measure() -> Stream:
        its = {"peer": peer, "n": n, "receivers": receivers}
        tasks = [Task(measuring.send, its | {"budget_s": budget_s, "stride": stride(n)})]
        tasks += [Task(measuring.count, its) for _ in range(receivers)]
        (began_ns, sent), *counted = session.run(tasks, launcher=peer.launcher)
        ended_ns = max(ended for ended, _, _ in counted)
        if any(received != sent for _, received, _ in counted):
            msg = f"Expected {sent} messages at every receiver, got {[got for _, got, _ in counted]}"
            raise session.SessionError(msg)
        over_tcp = counted[0][2] / (sent + 1)  # the last of the stream is one more
        added = over_tcp - payload_bytes(n) if over_tcp >= payload_bytes(n) else None
        return Stream(sent / (ended_ns - began_ns) * 1e9, added)

    return Contender(peer.name, measure, is_ours=peer.is_ours)


def stream_of_floor(
    carrier: str, n: int, budget_s: float, *, receivers: int = 1, looks_every: int | None = None
) -> Contender[Stream]:
    """The same in C."""
    placement = Placement.TWO_CORES if carrier == "shm-spin" and receivers == 1 else Placement.ANYWHERE
    every = looks_every or stride(n)

    def measure() -> Stream:
        rate = floors.messages_per_s(
            carrier, n, placement, budget_s=budget_s, stride=every, receivers=receivers
        )
        return Stream(rate, None)

    suffix = "" if looks_every is None else f", clock every {looks_every}"
    return Contender(f"floor {carrier}{suffix}", measure)
