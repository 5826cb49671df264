"""Child processes that answer questions: how the runner speaks to both commits, and they to their other ends.

Nothing here imports echo_core: which one a child imports is a matter of its environment.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, Self

_LIMIT_S = 200.0  # against a wait for ever
_FAREWELL_S = 20.0


class ChildError(Exception):
    """A child died, or did not answer in time."""


class QuestionError(ChildError):
    """It could not do what it was asked to; it is there for the next question."""


class Child:
    """A process that runs `python -m MODULE`, which calls `serve`. It ends when its parent does."""

    def __init__(
        self, module: str, environment: Mapping[str, str] | None = None, *, launcher: Sequence[str] = ()
    ) -> None:
        here, there = socket.socketpair()
        with there:
            # -P: else the working directory would come before what PYTHONPATH names.
            command = [*launcher, sys.executable, "-P", "-m", module, str(there.fileno())]
            self._process = subprocess.Popen(command, env=environment, pass_fds=[there.fileno()])
        self._connection = Connection(here.detach())
        self._name = module

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, question: str, *arguments: Any) -> None:
        """Asks, and leaves the answer for later: who meets the child must not wait for it."""
        self._connection.send((question, arguments))

    def answer(self, limit_s: float = _LIMIT_S) -> Any:
        """Raises QuestionError with the child's traceback where it failed."""
        try:
            if not self._connection.poll(limit_s):
                msg = f"{self._name} did not answer within {limit_s:g} s"
                raise ChildError(msg)
            is_answered, value = self._connection.recv()
        except (EOFError, ConnectionError):
            msg = f"{self._name} died"
            raise ChildError(msg) from None
        if not is_answered:
            msg = f"{self._name} failed:\n{value}"
            raise QuestionError(msg)
        return value

    def ask(self, question: str, *arguments: Any) -> Any:
        self.begin(question, *arguments)
        return self.answer()

    def close(self) -> None:
        """The child reads the end of its connection, and leaves."""
        self._connection.close()
        try:
            self._process.wait(_FAREWELL_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve(answers: Mapping[str, Callable[..., Any]]) -> None:
    """Answers the parent's questions, each by the function of its name, until there are no more."""
    with Connection(int(sys.argv[1])) as connection:
        while True:
            try:
                question, arguments = connection.recv()
            except (EOFError, ConnectionError):
                return
            try:
                answer = True, answers[question](*arguments)
            except Exception:  # noqa: BLE001 - whatever it is, the parent must hear of it
                answer = False, traceback.format_exc()
            connection.send(answer)


def modules_of(package: str) -> list[str]:
    """The real paths of all modules of a package that this process has imported, compiled ones included."""
    ours = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == package]
    return sorted({os.path.realpath(module.__file__) for module in ours if module.__file__})
