"""`python -m bench.transport.processes.worker SOCKET INDEX`: a process of a session, with one task."""

from __future__ import annotations

import contextlib
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from bench.transport.processes.placement import Placement


@dataclass(frozen=True, slots=True)
class Task:
    """A function that can be imported, what it is called with besides a Station, and where it runs."""

    call: Callable[..., Any]
    arguments: dict[str, Any]
    placement: Placement = Placement.ANYWHERE


class Station:
    """What a task knows of its session."""

    def __init__(self, index: int, control: Connection) -> None:
        self.index = index
        self._control = control

    def exchange(self, value: Any = None) -> list[Any]:
        """Waits until every process is here; what they brought, by number."""
        self._control.send(("here", value))
        values: list[Any] = self._control.recv()
        return values


def main(path: str, index: int) -> int:
    """Says who it is, does its task, and says what came out."""
    with socket.socket(socket.AF_UNIX) as connected:
        connected.connect(path)
        control = Connection(connected.detach())
    with control:
        control.send(index)
        task: Task = control.recv()
        task.placement.pin(index)
        try:
            control.send(("done", task.call(Station(index, control), **task.arguments)))
        except Exception:  # noqa: BLE001 - whatever it is, the session must hear of it
            with contextlib.suppress(BrokenPipeError):  # unless it is over: then another one has said why
                control.send(("failed", traceback.format_exc()))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
