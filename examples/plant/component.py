"""What all components of the plant have in common: they say that they work, and end when told to.

Channels are found by name, so components start, stop and start again in any order. They answer the
watchdog of whichever supervisor there is.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Self

import echo_core as echo
from examples.plant.events import Order


class Component:
    """One process of the plant."""

    def __init__(self, role: str) -> None:
        logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {role}: %(message)s")
        self.role = role
        self.events = 0  # that it has sent or handled
        self.stop = threading.Event()
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, self._end)
        echo.answer_watchdog(role)
        self.orders = echo.channel("plant-orders", Order)
        self.orders.sink(Order, self._obey)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.stop.set()

    def _obey(self, order: Order) -> None:
        if order.stop:
            self.stop.set()

    def __enter__(self) -> Self:
        logging.info("process %d begins", os.getpid())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Sends what is queued, and says what could not be sent."""
        self.stop.set()
        node = echo.default_node()
        try:
            node.drain(timeout_s=2.0)
        except (echo.TimedOutError, echo.LinkError) as error:
            logging.warning("not all was sent: %s", error)
        node.close()
        logging.info("ends after %d events", self.events)
