"""Processes that measure together: started, brought together at exchanges, and ended whatever happens."""

from __future__ import annotations

import contextlib
import multiprocessing.connection
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.transport.processes.worker import Task

ROOT = Path(__file__).resolve().parents[3]
_LIMIT_S = 100.0  # against a wait for ever, not for measurements
_FAREWELL_S = 30.0


class SessionError(Exception):
    """A process of a session failed, died, or did not answer in time."""


def run(tasks: Sequence[Task], *, launcher: Sequence[str] = (), limit_s: float = _LIMIT_S) -> list[Any]:
    """What each task returned."""
    deadline_s = time.monotonic() + limit_s
    with contextlib.ExitStack() as kept:
        folder = kept.enter_context(tempfile.TemporaryDirectory())
        path = f"{folder}/control"
        listening = kept.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(path)
        listening.listen(len(tasks))
        kept.callback(_end, _start(path, len(tasks), launcher))
        controls = _accept(kept, listening, len(tasks), deadline_s)
        for index, task in enumerate(tasks):
            controls[index].send(task)
        return _converse(controls, deadline_s)


def _start(path: str, count: int, launcher: Sequence[str]) -> list[subprocess.Popen[bytes]]:
    commands = [
        [sys.executable, "-m", "bench.transport.processes.worker", path, str(i)] for i in range(count)
    ]
    if launcher:  # one process that starts all, as mpirun does
        parts = [part for command in commands for part in (":", "-n", "1", *command)]
        commands = [[*launcher, *parts[1:]]]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return [subprocess.Popen(command, cwd=ROOT, env=environment) for command in commands]


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        try:
            process.wait(_FAREWELL_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _accept(
    kept: contextlib.ExitStack, listening: socket.socket, count: int, deadline_s: float
) -> dict[int, Connection]:
    controls: dict[int, Connection] = {}
    for _ in range(count):
        listening.settimeout(max(0.1, deadline_s - time.monotonic()))
        try:
            connected = listening.accept()[0]
        except TimeoutError:
            msg = f"{len(controls)} of {count} processes came"
            raise SessionError(msg) from None
        connected.setblocking(True)
        control = kept.enter_context(Connection(connected.detach()))
        controls[control.recv()] = control
    return controls


def _converse(controls: Mapping[int, Connection], deadline_s: float) -> list[Any]:
    """Passes on what is exchanged, until all are done."""
    while True:
        words = _gather(controls, deadline_s)
        values = [words[index][1] for index in sorted(words)]
        kinds = {kind for kind, _ in words.values()}
        if kinds == {"done"}:
            return values
        if kinds != {"here"}:
            msg = f"Some processes are done while others wait: {words}"
            raise SessionError(msg)
        for index in sorted(controls, reverse=True):  # who receives begins before who sends
            controls[index].send(values)


def _gather(controls: Mapping[int, Connection], deadline_s: float) -> dict[int, tuple[str, Any]]:
    """One word from each."""
    index_by_control = {control: index for index, control in controls.items()}
    words: dict[int, tuple[str, Any]] = {}
    while len(words) < len(controls):
        waiting = [control for control, index in index_by_control.items() if index not in words]
        ready = multiprocessing.connection.wait(waiting, max(0.0, deadline_s - time.monotonic()))
        if not ready:
            msg = f"{len(words)} of {len(controls)} processes answered in time"
            raise SessionError(msg)
        for control in waiting:
            if control in ready:
                words[index_by_control[control]] = _word(control, index_by_control[control])
    return words


def _word(control: Connection, index: int) -> tuple[str, Any]:
    try:
        kind, value = control.recv()
    except EOFError:
        msg = f"Process {index} died"
        raise SessionError(msg) from None
    if kind == "failed":
        msg = f"Process {index} failed:\n{value}"
        raise SessionError(msg)
    return kind, value
