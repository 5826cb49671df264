"""What all components of the plant have in common: they say that they are there, and end when told to.

Channels are found by name, so components start, stop and start again in any order. The name of a component's
source on the channel "health" says which one it is: as long as that source is open, the component is there.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Self

import echo_core as echo
from examples.plant.events import Health, Order

BEAT_S = 0.5


class Component:
    """One process of the plant."""

    def __init__(self, role: str) -> None:
        logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {role}: %(message)s")
        self.role = role
        self.events = 0  # that it has sent or handled
        self.stop = threading.Event()
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, self._end)
        self._health = echo.channel("plant-health", Health).source(name=role, keep=1)
        echo.channel("plant-orders", Order).sink(Order, self._obey)
        self._beats = threading.Thread(target=self._beat, name="beats", daemon=True)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.stop.set()

    def _obey(self, order: Order) -> None:
        if order.stop:
            self.stop.set()

    def _beat(self) -> None:
        while True:
            self._health.submit(Health(self.role, os.getpid(), self.events))
            if self.stop.wait(BEAT_S):
                return

    def __enter__(self) -> Self:
        self._beats.start()
        logging.info("process %d begins", os.getpid())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Sends what is queued, and says what could not be sent."""
        self.stop.set()
        self._beats.join()
        node = echo.default_node()
        try:
            node.drain(timeout_s=2.0)
        except (echo.TimedOutError, echo.LinkError) as error:
            logging.warning("not all was sent: %s", error)
        node.close()
        logging.info("ends after %d events", self.events)
