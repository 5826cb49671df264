"""Between processes: round trips, and streams to one receiver or several, as in the transports' suites."""

from __future__ import annotations

import contextlib
import functools
import queue
import statistics
from collections.abc import Callable, Generator, Sequence
from typing import Any

from bench.against.children import Child
from bench.against.workloads import Case, Measure
from bench.against.workloads.partner import new_end, placed
from bench.transport import loops
from bench.transport.endpoint import End, Part, Role
from bench.transport.processes.placement import Placement
from bench.transport.rounds import MOST, stride

_WAIT_S = 100.0
_WARM_S = 0.1


@functools.cache
def _partner(index: int) -> Child:
    """Started once for all cases: it has this process's environment, and so its echo_core."""
    return Child("bench.against.workloads.partner")


def partner_modules() -> list[str]:
    """What the partners that were started have imported of echo_core."""
    count = _partner.cache_info().currsize
    return [module for index in range(1, count + 1) for module in _partner(index).ask("modules")]


def close_partners() -> None:
    for index in range(1, _partner.cache_info().currsize + 1):
        _partner(index).close()
    _partner.cache_clear()


@contextlib.contextmanager
def met(
    end: End, name: str, n: int, placement: Placement, roles: Sequence[Role], *, answers: bool = True
) -> Generator[list[Child]]:
    """The end and its partners, joined."""
    partners = [_partner(role.index) for role in roles]
    for role, partner in zip(roles, partners, strict=True):
        partner.ask("open", name, n, role, placement, answers)
    offers = [end.offer(), *(None for _ in partners)]
    for partner in partners:
        partner.begin("join", offers)
    end.join(offers)
    for partner in partners:
        partner.answer()
    try:
        yield partners
    finally:
        for partner in partners:
            partner.ask("close")
        end.close()


def trips(name: str, n: int, placement: Placement) -> Case:
    """The middle of the round trips of a measurement; each answer is checked."""

    @contextlib.contextmanager
    def opened() -> Generator[Measure]:
        _partner(1)  # before this thread has one core: a child inherits that
        with placed(placement, 0):
            end = new_end(name, n, Role(Part.PING, 0, 1))
            ask = _handled(end) if end.calls_handlers else None
            with met(end, name, n, placement, [Role(Part.PONG, 1, 1)]):
                ask = ask or _awaited(end)
                ask(_WARM_S)
                yield lambda budget_s: statistics.median(ask(budget_s)) * 1e-9

    return opened


def _awaited(end: End) -> Callable[[float], Any]:
    """A thread asks that waits for each answer."""
    loop, form = loops.ping(end.form), end.form

    def ask(budget_s: float) -> Any:
        return loop(form.message, end.send, end.receive, form.encode, form.decode, int(budget_s * 1e9), MOST)

    return ask


def _handled(end: End) -> Callable[[float], Any]:
    """A handler asks that is called with each answer."""
    finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
    begin, end.handle = loops.ping_handler(end.form)(end.form.message, end, finished.put)

    def ask(budget_s: float) -> Any:
        begin(int(budget_s * 1e9), MOST)
        return finished.get(timeout=_WAIT_S)

    return ask


def stream(name: str, n: int, receivers: int = 1) -> Case:
    """From the first message that was sent to the last that came; every receiver gets all, in order."""

    @contextlib.contextmanager
    def opened() -> Generator[Measure]:
        end = new_end(name, n, Role(Part.SOURCE, 0, receivers))
        roles = [Role(Part.SINK, index, receivers) for index in range(1, receivers + 1)]
        with met(end, name, n, Placement.ANYWHERE, roles) as partners:
            measure = functools.partial(_stream, end, loops.source(end.form), stride(n), partners)
            measure(_WARM_S)
            yield measure

    return opened


def _stream(
    end: End, loop: Callable[..., Any], looks_every: int, partners: Sequence[Child], budget_s: float
) -> float:
    form = end.form
    began_ns, sent = loop(form.message, end.send, form.encode, int(budget_s * 1e9), looks_every)
    end.send(loops.end_message(form))
    end.flush()
    counted = [partner.ask("received") for partner in partners]
    if any(received != sent for _, received in counted):
        msg = f"Expected {sent} messages at every receiver, got {[received for _, received in counted]}"
        raise loops.WrongAnswerError(msg)
    taken_ns: int = max(ended_ns for ended_ns, _ in counted) - began_ns
    return 1e-9 * taken_ns / int(sent)


def latency() -> dict[str, Case]:
    """The cells of `bench latency`."""
    from bench.transport.suites.latency import CELLS

    return {
        f"{cell.heading}: {name}": trips(name, cell.n, cell.placement) for cell in CELLS for name in cell.ours
    }


def throughput() -> dict[str, Case]:
    """What `bench throughput` has of ours."""
    from bench.transport.suites import throughput as suite

    alone = {f"particles alone: {name}": stream(name, 0) for name in suite.ALONE}
    arrays = {f"arrays of 1000: {name}": stream(name, 1000) for name in (*suite.ARRAYS_TCP, *suite.IN_PLACE)}
    return alone | arrays


def fanout() -> dict[str, Case]:
    """What `bench fanout` has of ours, but for the sinks that misbehave."""
    from bench.transport.suites.fanout import OURS, SINKS

    return {f"{SINKS} sinks: {name}": stream(name, 0, SINKS) for name in OURS}
