"""Applications that nobody tuned, beside the same with pyzmq: on a quiet machine, and on a busy one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.report import Row, Table
from bench.transport.applications import Sent, Taken, camera, telemetry
from bench.transport.outcome import Options, Outcome
from bench.transport.processes import session
from bench.transport.processes.worker import Task
from bench.transport.rounds import Contender, Results, in_rounds

_COMPUTING = "number = 0\nwhile True:\n    number = (number * 31 + 7) % 1_000_003\n"


@dataclass(frozen=True, slots=True)
class Run:
    """A round of an application."""

    per_s: float
    sender_us: float
    """Processor time of the sender for each message."""


@dataclass(frozen=True, slots=True)
class Application:
    """Ours, in one form or more, and the peer's."""

    name: str
    ours: Sequence[Contender[Run]]
    peer: Contender[Run]
    goal: float
    """So many times as many messages a second as the peer."""


def measure(options: Options) -> Outcome:
    """Each application quiet and busy, in rounds with its peer."""
    outcome = Outcome()
    for application in applications(options):
        for load, loaded in (("quiet", contextlib.nullcontext), ("busy", busy)):
            contenders = [*application.ours, application.peer]
            with loaded():
                results = in_rounds(contenders, options.rounds)
            _report(outcome, application, f"{application.name}, {load} machine", results)
    return outcome


def applications(options: Options) -> Iterator[Application]:
    """Those there are."""
    seconds = 0.1 if options.quick else 1.0
    for_time = {"seconds": seconds}
    yield Application(
        "camera frames of 512 KiB",
        [
            _contender(f"echo/{form}", camera.publish, camera.watch, for_time, {"form": form})
            for form in camera.FORMS
        ],
        _contender("zmq-push/numpy", camera.push, camera.pull, for_time, is_ours=False),
        1.5,
    )
    yield Application(
        "telemetry",
        [
            _contender(f"echo/{form}", telemetry.publish, telemetry.watch, for_time, {"form": form})
            for form in telemetry.CLASSES
        ],
        _contender("zmq-push/msgspec", telemetry.push, telemetry.pull, for_time, is_ours=False),
        1.3,
    )


def _contender(
    name: str,
    sends: Callable[..., Sent],
    takes: Callable[..., Taken],
    for_time: dict[str, Any],
    both: dict[str, Any] | None = None,
    *,
    is_ours: bool = True,
) -> Contender[Run]:
    both = both or {}

    def measure_once() -> Run:
        sent, taken = session.run([Task(sends, for_time | both), Task(takes, both)])
        if taken.count != sent.count:
            msg = f"Expected {sent.count} messages at the receiver, got {taken.count}"
            raise session.SessionError(msg)
        seconds = (taken.ended_ns - sent.began_ns) / 1e9
        return Run(sent.count / seconds, sent.cpu_ns / sent.count / 1e3)

    return Contender(name, measure_once, is_ours=is_ours)


@contextlib.contextmanager
def busy() -> Generator[None]:
    """As many other processes compute as there are processors."""
    count = len(os.sched_getaffinity(0))
    others = [subprocess.Popen([sys.executable, "-c", _COMPUTING]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def _per_s(run: Run) -> float:
    return run.per_s


def _sender_us(run: Run) -> float:
    return run.sender_us


def _report(outcome: Outcome, application: Application, heading: str, results: Results[Run]) -> None:
    lines = [
        (
            name,
            f"{results.median(name, _per_s):,.0f}",
            f"{results.median(name, _sender_us):.3g}",
            _spread(rounds),
        )
        for name, rounds in results.rounds_by_name.items()
    ]
    columns = ("", "messages/s", "sender's CPU, us each", "messages/s of each round")
    notes = [f"{name} was left out: {reason}" for name, reason in results.failures.items()]
    outcome.tables.append(Table(heading, columns, lines, notes))
    peer = application.peer.name
    if peer not in results.rounds_by_name:
        return
    for each in application.ours:
        ratio = results.ratio(each.name, peer, _per_s)
        cpu = results.ratio(each.name, peer, _sender_us)
        what = f"{each.name} beside {peer}"
        outcome.rows += [
            Row(f"{what}: messages", ratio, application.goal, "x", at_least=True, group=heading),
            Row(f"{what}: sender's CPU", cpu, 1.0, "x", group=heading),
        ]


def _spread(rounds: Sequence[Run]) -> str:
    rates = sorted(run.per_s for run in rounds)
    return f"{rates[0]:,.0f} to {rates[-1]:,.0f}"
