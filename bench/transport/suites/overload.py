"""Sinks that misbehave: one that stops altogether, and one that is slower than its source."""

from __future__ import annotations

import array
import os
import queue
import signal
import statistics
import time
from pathlib import Path
from typing import Any

import echo_core as echo
from bench.codec.peer import Slots, values
from bench.report import Row, Table
from bench.transport.forms import END
from bench.transport.loops import WrongAnswerError
from bench.transport.outcome import Options, Outcome
from bench.transport.processes import session
from bench.transport.processes.placement import Placement
from bench.transport.processes.worker import Station, Task
from bench.transport.statistics import QUANTILES, Times
from bench.workload import particle

_WAIT_S = 200.0
_PERIOD_NS = 200_000
"""Between two events of the paced source."""
_BURDEN_NS = 20_000
"""What the slow sink spends on an event."""
_BACKLOG_EVENTS = 1000
_UNCHANGED = 1.1  # a ratio of two p99s that is no more than noise
_FILLING = -3
"""The id of an event that only takes up room."""
_ALONE, *_, _STOPPED = _PHASES = "alone", "the other one runs", "the other one is stopped"


def measure(options: Options, outcome: Outcome) -> None:
    """Ours alone: the figures of others in the goals are from their own papers."""
    for transport in ("tcp", "shm"):
        _measure_stopped(transport, options, outcome)
    for policy in ("drop_oldest", "drop_newest", "block"):
        _measure_order(policy, options, outcome)


def _measure_stopped(transport: echo.Transport, options: Options, outcome: Outcome) -> None:
    rounds = [_stopped_round(transport, options) for _ in range(options.rounds)]
    heading = f"{transport}: time to a sink beside another one"
    lines = [
        (phase, *(f"{statistics.median(times[phase].us(q) for times in rounds):.4g}" for q in QUANTILES))
        for phase in _PHASES
    ]
    outcome.tables.append(Table(heading, ("", *(f"p{100 * q:g} us" for q in QUANTILES)), lines))
    for phase in _PHASES[1:]:
        change = statistics.median(times[phase].us(0.99) / times[_ALONE].us(0.99) for times in rounds)
        goal = _UNCHANGED if phase == _STOPPED else None
        outcome.rows.append(Row(f"p99, times that alone: {phase}", change, goal, "x", group=heading))


def _stopped_round(transport: echo.Transport, options: Options) -> dict[str, Times]:
    its = {"transport": transport}
    events = 500 if options.quick else 2500
    tasks = [
        Task(pace, its | {"events": events}, Placement.ANYWHERE),
        Task(time_arrivals, its, Placement.ANYWHERE),
        Task(be_stopped, its, Placement.ANYWHERE),
    ]
    _, phases, _ = session.run(tasks)
    if [len(times) for times in phases] != [events] * len(_PHASES):
        msg = f"Expected {events} events in each phase, got {[len(times) for times in phases]}"
        raise WrongAnswerError(msg)
    return {phase: Times.of(times) for phase, times in zip(_PHASES, phases, strict=True)}


def pace(station: Station, *, transport: echo.Transport, events: int) -> None:
    """Sends its clock at a steady pace: to one sink, to two, and when one of them takes nothing any more."""
    node = echo.Node(transports=(transport,))
    channel = node.create_channel("paced", Slots)
    source = channel.source(Slots, backlog=echo.Backlog(events=_BACKLOG_EVENTS, when_full="drop_oldest"))
    pids = station.exchange((os.getpid(), channel.id))
    source.wait_matched(1, _WAIT_S)
    station.exchange()
    _send_paced(source, events)
    station.exchange()
    source.wait_matched(2, _WAIT_S)
    _send_paced(source, events)
    victim = pids[2][0]
    try:
        _stop(victim)
        _fill(node, source)
        before = _dropped(node)
        _send_paced(source, events)
        _demand_drops(_dropped(node) - before, events)
    finally:
        os.kill(victim, signal.SIGCONT)
    source.flush(_WAIT_S)
    station.exchange()
    node.close()


def _stop(process: int) -> None:
    """Its threads stop one by one, each when it next runs."""
    os.kill(process, signal.SIGSTOP)
    limit = time.monotonic() + _WAIT_S
    while not all(_is_stopped(thread) for thread in Path(f"/proc/{process}/task").iterdir()):
        if time.monotonic() > limit:
            msg = f"Expected process {process} to stop within {_WAIT_S} s"
            raise WrongAnswerError(msg)
        time.sleep(_PERIOD_NS / 1e9)


def _is_stopped(thread: Path) -> bool:
    _, _, behind_the_name = thread.joinpath("stat").read_text().rpartition(") ")
    return behind_the_name.startswith("T")


def _fill(node: echo.Node, source: echo.Source[Any]) -> None:
    """Until all is full on the way to the sink that is stopped, and nothing waits for the other one."""
    event = Slots(*values(particle(0)))
    event.id = _FILLING
    limit = time.monotonic() + _WAIT_S
    while (waiting := sorted(link.queued_events for link in node.statistics().links)) != [0, _BACKLOG_EVENTS]:
        if time.monotonic() > limit:
            msg = f"Expected one way to be full and one empty within {_WAIT_S} s, got {waiting} events there"
            raise WrongAnswerError(msg)
        if waiting[-1] < _BACKLOG_EVENTS:
            for _ in range(100):
                source.submit(event)
        time.sleep(_PERIOD_NS / 1e9)


def _dropped(node: echo.Node) -> int:
    """On the way to the sink that is stopped."""
    return max(link.dropped for link in node.statistics().links)


def _demand_drops(dropped: int, events: int) -> None:
    """Each event that comes takes the place of one that waits."""
    if dropped < events:
        msg = f"Expected {events} events for the stopped sink to be dropped, got {dropped}"
        raise WrongAnswerError(msg)


def _send_paced(source: echo.Source[Any], events: int) -> None:
    event = Slots(*values(particle(0)))
    due = time.perf_counter_ns()
    for step in range(events + 1):
        due += _PERIOD_NS
        time.sleep(max(0, due - time.perf_counter_ns()) / 1e9)
        event.id = END if step == events else time.perf_counter_ns()
        source.submit(event)


def time_arrivals(station: Station, *, transport: echo.Transport) -> list[Any]:
    """How long each event was on its way, phase by phase."""
    phases: list[Any] = [array.array("q")]
    done: queue.SimpleQueue[None] = queue.SimpleQueue()

    def handle(event: Any) -> None:
        if event.id == END:
            phases.append(array.array("q"))
            if len(phases) > len(_PHASES):
                done.put(None)
        elif event.id != _FILLING:
            phases[-1].append(time.perf_counter_ns() - event.id)

    node, channel = _joined(station, transport)
    channel.sink(Slots, handle)
    station.exchange()
    station.exchange()
    done.get(timeout=_WAIT_S)
    station.exchange()
    node.close()
    return phases[: len(_PHASES)]


def be_stopped(station: Station, *, transport: echo.Transport) -> None:
    """Comes when the other has been alone, takes events until it is stopped, and is let go at the end."""
    node, channel = _joined(station, transport)
    station.exchange()
    station.exchange()
    channel.sink(Slots, _ignore)
    station.exchange()
    node.close()


def _ignore(event: Any) -> None:
    pass


def _joined(station: Station, transport: echo.Transport) -> tuple[echo.Node, echo.Channel[Any]]:
    node = echo.Node(transports=(transport,))
    (_, channel_id), *_ = station.exchange((os.getpid(), None))
    return node, node.open_channel(channel_id)


def _measure_order(policy: echo.WhenFull, options: Options, outcome: Outcome) -> None:
    tasks = [Task(flood, {"policy": policy, "seconds": 2 * options.budget_s}), Task(check_order, {})]
    sent, (received, disordered) = session.run(tasks)
    heading = "order at a sink that is too slow, over TCP"
    share = 100 * disordered / received
    what = f"{policy}: events out of order, of {received} received and {sent} sent"
    outcome.rows.append(Row(what, share, 0, "%", group=heading))


def flood(station: Station, *, policy: echo.WhenFull, seconds: float) -> int:
    """Sends more than the sink can take, then the end."""
    node = echo.Node(transports=("tcp",))
    channel = node.create_channel("flooded", Slots)
    backlog = echo.Backlog(events=_BACKLOG_EVENTS, when_full=policy)
    source = channel.source(Slots, backlog=backlog)
    station.exchange(channel.id)
    source.wait_matched(1, _WAIT_S)
    station.exchange()
    event, step = Slots(*values(particle(0))), 0
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        event.id = step
        source.submit(event)
        step += 1
    source.flush(_WAIT_S)  # the end finds room then, whatever the policy
    event.id = END
    source.submit(event)
    source.flush(_WAIT_S)
    station.exchange()
    node.close()
    return step


def check_order(station: Station) -> tuple[int, int]:
    """How many came, and how many of them after one that was sent later."""
    received, disordered, latest = 0, 0, -1
    done: queue.SimpleQueue[None] = queue.SimpleQueue()

    def handle(event: Any) -> None:
        nonlocal received, disordered, latest
        if event.id == END:
            done.put(None)
            return
        received += 1
        disordered += event.id <= latest
        latest = max(latest, event.id)
        busy_until = time.perf_counter_ns() + _BURDEN_NS
        while time.perf_counter_ns() < busy_until:
            pass

    node = echo.Node(transports=("tcp",))
    channel_id, _ = station.exchange()
    node.open_channel(channel_id).sink(Slots, handle)
    station.exchange()
    done.get(timeout=_WAIT_S)
    station.exchange()
    node.close()
    return received, disordered
