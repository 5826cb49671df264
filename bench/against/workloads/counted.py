"""Runs that are counted instruction by instruction, in a process that callgrind watches.

A counted run is a context manager that prepares, and gives a function that does so many events and then calls
its second argument, in the thread that is counted. It is named `module:function`, so that tests can have
their own.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import gc
import importlib
import itertools
import queue
import sys
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

import echo_core as echo
from bench.against.children import Child, modules_of, serve
from bench.against.workloads import links
from bench.against.workloads.partner import new_end
from bench.codec.peer import Slots, values
from bench.transport.endpoint import End, Part, Role
from bench.transport.processes.placement import Placement
from bench.workload import Particle, particle

Run = Callable[[int, Callable[[], None]], None]
_CLASSES = {"dataclass": Slots, "record": Particle}
_WAIT_S = 100.0
_REPEATS = 5
_LOOK_S = 0.3


def submitting(submit: Callable[[Any], object], event: Any) -> Run:
    """Submits one event over and over; the loop is C's, and takes a few dozen instructions for each."""

    def run(count: int, mark: Callable[[], None]) -> None:
        collections.deque(map(submit, itertools.repeat(event, count)), maxlen=0)
        mark()

    return run


@contextlib.contextmanager
def _submit_in_process(form: str, *, handlers: int = 1) -> Generator[Run]:
    """To handlers that are C's as well."""
    cls = _CLASSES[form]
    event = cls(*values(particle(7)))
    handled: collections.deque[Any] = collections.deque(maxlen=handlers)
    with echo.Node() as node:
        channel = node.create_channel("in process", cls)
        for _ in range(handlers):
            channel.sink(cls, handled.append)
        yield submitting(channel.source(cls).submit, event)
    assert all(it is event for it in handled)


@contextlib.contextmanager
def _submit_and_get_in_process(form: str) -> Generator[Run]:
    """By a queue that one thread puts into, and takes from."""
    cls = _CLASSES[form]
    event = cls(*values(particle(7)))
    with echo.Node() as node:
        channel = node.create_channel("in process", cls)
        sink = channel.sink(cls)
        yield _submitting_and_getting(channel.source(cls).submit, sink.get, event)


def _submitting_and_getting(submit: Callable[[Any], object], get: Callable[[], object], event: Any) -> Run:
    def run(count: int, mark: Callable[[], None]) -> None:
        for _ in itertools.repeat(None, count):
            submit(event)
            get()
        mark()

    return run


@contextlib.contextmanager
def _submit_to_processes(name: str, *, receivers: int = 1) -> Generator[Run]:
    """What the submitting thread does for sinks in other processes."""
    end = new_end(name, 0, Role(Part.PING, 0, receivers))
    end.handle = _ignore
    with _met(end, name, answers=False) as partners:
        yield submitting(end.send, end.form.message)
        end.flush()
        assert all(partner.ask("latest") == values(end.form.message) for partner in partners)


def _ignore(_: object) -> None:
    """A handler of events that never come."""


def _nothing() -> None:
    """In place of a mark."""


@contextlib.contextmanager
def _hand_over(name: str, *, answers: bool, n: int = 0) -> Generator[Run]:
    """What the link's thread does for a handler.

    Either of many events that wait together, or of lone ones: the handler sends each back, and the next one
    comes as the answer to that. So a submit is counted with each, and nothing depends on when who is awake.
    """
    finished: queue.SimpleQueue[None] = queue.SimpleQueue()
    left, at_last = 0, _nothing

    def handle(event: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            at_last()
            finished.put(None)
        elif answers:
            end.send(event)

    end = new_end(name, n, Role(Part.PING, 0, 1))
    end.handle = handle
    with _met(end, name, n, answers=answers) as (partner,):

        def run(count: int, mark: Callable[[], None]) -> None:
            nonlocal left, at_last
            left, at_last = count, mark
            if answers:
                end.send(end.form.message)
            else:
                partner.ask("send", count)
            finished.get(timeout=_WAIT_S)

        yield run


@contextlib.contextmanager
def _submit_and_get(name: str) -> Generator[Run]:
    """Round trips of a thread that waits for each answer, and reads the link meanwhile."""
    end = new_end(name, 0, Role(Part.PING, 0, 1))
    with _met(end, name, answers=True):
        yield _submitting_and_getting(end.send, end.receive, end.form.message)


@contextlib.contextmanager
def _met(end: End, name: str, n: int = 0, *, answers: bool) -> Generator[Sequence[Child]]:
    """With as many partners as the end has receivers."""
    others = [Role(Part.PONG, index, 1) for index in range(1, end.role.receivers + 1)]
    with links.met(end, name, n, Placement.ANYWHERE, others, answers=answers) as partners:
        yield partners


submit_dataclass_in_process = functools.partial(_submit_in_process, "dataclass")
submit_record_in_process = functools.partial(_submit_in_process, "record")
submit_record_to_20_handlers = functools.partial(_submit_in_process, "record", handlers=20)
submit_and_get_in_process = functools.partial(_submit_and_get_in_process, "record")
submit_dataclass_to_unix_socket = functools.partial(_submit_to_processes, "echo-unix/dataclass")
submit_record_to_unix_socket = functools.partial(_submit_to_processes, "echo-unix/record")
submit_record_to_tcp = functools.partial(_submit_to_processes, "echo-tcp/record")
submit_record_to_shared_memory = functools.partial(_submit_to_processes, "echo-shm/record")
submit_record_to_4_unix_sockets = functools.partial(_submit_to_processes, "echo-unix/record", receivers=4)
hand_over_dataclasses = functools.partial(_hand_over, "echo-unix/dataclass", answers=False)
hand_over_records = functools.partial(_hand_over, "echo-unix/record", answers=False)
trip_of_dataclass_over_unix_socket = functools.partial(_hand_over, "echo-unix/dataclass", answers=True)
trip_of_record_over_unix_socket = functools.partial(_hand_over, "echo-unix/record", answers=True)
trip_of_record_over_tcp = functools.partial(_hand_over, "echo-tcp/record", answers=True)
trip_of_record_over_shared_memory = functools.partial(_hand_over, "echo-shm/record", answers=True)
trip_of_array_over_tcp = functools.partial(_hand_over, "echo-tcp/array", answers=True, n=1000)
trip_of_batch_over_tcp = functools.partial(_hand_over, "echo-tcp/batch", answers=True, n=1000)
trip_of_array_over_shared_memory = functools.partial(_hand_over, "echo-shm/array", answers=True, n=1000)
submit_and_get = functools.partial(_submit_and_get, "echo-unix-waiting/record")


def count(named: str, label: str, count: int, marks: str) -> None:
    """Has callgrind write down the counts of so many events and of twice as many, a few times over."""
    module, _, function = named.partition(":")
    write: Any = ctypes.CDLL(marks).bench_mark

    def run_marked(run: Run, events: int, what: str) -> None:
        run(events, lambda: write(f"{label} {what}".encode()))

    with getattr(importlib.import_module(module), function)() as run:
        for _ in range(2):
            run(count, _nothing)
            _await_compiler()
        run_marked(run, count, "begin")
        for repeat in range(_REPEATS):
            run_marked(run, count, f"{repeat} once")
            run_marked(run, 2 * count, f"{repeat} twice")


def _await_compiler() -> None:
    """Until the thread that compiles in the background has nothing to do, and so this process."""
    before_s = -1.0
    while (now_s := time.process_time()) - before_s > 0.1 * _LOOK_S:
        before_s = now_s
        time.sleep(_LOOK_S)


def main() -> None:
    """`python -m bench.against.workloads.counted FD`: serves `bench.against.instructions`."""
    gc.disable()
    sys.setswitchinterval(_WAIT_S)  # else a thread that wants the GIL would have the counted one give it up
    try:
        serve({"count": count, "modules": lambda: modules_of("echo_core") + links.partner_modules()})
    finally:
        links.close_partners()


if __name__ == "__main__":
    main()
