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
from collections.abc import Callable, Generator
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
_OTHER = Role(Part.PONG, 1, 1)


def submitting(submit: Callable[[Any], object], event: Any) -> Run:
    """Submits one event over and over; the loop is C's, and takes a few dozen instructions for each."""

    def run(count: int, mark: Callable[[], None]) -> None:
        collections.deque(map(submit, itertools.repeat(event, count)), maxlen=0)
        mark()

    return run


@contextlib.contextmanager
def _submit_in_process(form: str) -> Generator[Run]:
    """To one handler, which is C's as well."""
    cls = _CLASSES[form]
    event = cls(*values(particle(7)))
    handled: collections.deque[Any] = collections.deque(maxlen=1)
    with echo.Node() as node:
        channel = node.create_channel("in process", cls)
        channel.sink(cls, handled.append)
        yield submitting(channel.source(cls).submit, event)
    assert handled[0] is event


@contextlib.contextmanager
def _submit_to_process(name: str) -> Generator[Run]:
    """What the submitting thread does for a sink in another process."""
    end = new_end(name, 0, Role(Part.PING, 0, 1))
    end.handle = _ignore
    with _met(end, name, answers=False) as partner:
        yield submitting(end.send, end.form.message)
        end.flush()
        assert partner.ask("latest") == values(end.form.message)


def _ignore(_: object) -> None:
    """A handler of events that never come."""


def _nothing() -> None:
    """In place of a mark."""


@contextlib.contextmanager
def _hand_over(name: str, *, answers: bool) -> Generator[Run]:
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

    end = new_end(name, 0, Role(Part.PING, 0, 1))
    end.handle = handle
    with _met(end, name, answers=answers) as partner:

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

        def run(count: int, mark: Callable[[], None]) -> None:
            send, get, event = end.send, end.receive, end.form.message
            for _ in itertools.repeat(None, count):
                send(event)
                get()
            mark()

        yield run


@contextlib.contextmanager
def _met(end: End, name: str, *, answers: bool) -> Generator[Child]:
    with links.met(end, name, 0, Placement.ANYWHERE, [_OTHER], answers=answers) as partners:
        yield partners[0]


submit_dataclass_in_process = functools.partial(_submit_in_process, "dataclass")
submit_record_in_process = functools.partial(_submit_in_process, "record")
submit_dataclass_to_unix_socket = functools.partial(_submit_to_process, "echo-unix/dataclass")
submit_record_to_unix_socket = functools.partial(_submit_to_process, "echo-unix/record")
submit_record_to_shared_memory = functools.partial(_submit_to_process, "echo-shm/record")
hand_over_dataclasses = functools.partial(_hand_over, "echo-unix/dataclass", answers=False)
hand_over_records = functools.partial(_hand_over, "echo-unix/record", answers=False)
trip_of_dataclass_over_unix_socket = functools.partial(_hand_over, "echo-unix/dataclass", answers=True)
trip_of_record_over_unix_socket = functools.partial(_hand_over, "echo-unix/record", answers=True)
trip_of_record_over_shared_memory = functools.partial(_hand_over, "echo-shm/record", answers=True)
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
