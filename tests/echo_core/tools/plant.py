"""A component for tests of the command line: its events, and how it sends them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import echo_core as echo

PAUSE_S = 0.002


@echo.event
class Cell:
    """Nested."""

    x: float
    y: float


@echo.event
class Particle:
    """What flows."""

    id: int
    temperature: echo.Float32 = echo.field(default=0.0, unit="K")
    at: Cell = echo.field(default_factory=lambda: Cell(0.0, 0.0))
    note: str | None = None


@dataclass
class Plant:
    """Sends one event after the other, every third of them hot."""

    channel: echo.Channel[Any]
    source: echo.Source[Any]
    is_over: threading.Event = field(default_factory=threading.Event)

    def send(self) -> None:
        number = 0
        while not self.is_over.wait(PAUSE_S):
            heat = 301.5 if number % 3 == 0 else 299.5
            note = 'two\nlines, "\x1b[31m"' if number % 2 else None
            self.source.submit(Particle(number, heat, Cell(number / 2, -1.0), note))
            number += 1
