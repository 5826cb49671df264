"""Sees to it that all components are there, and starts who is missing: `python -m examples.plant.supervisor`.

It watches the channel "plant-health": a component is there as long as its source is. Components do not depend
on the supervisor: they go on without one, and the next one finds them.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from pathlib import Path

import echo_core as echo
from examples.plant.component import Component
from examples.plant.events import Health, Order

ROOT = Path(__file__).parents[2]
ROLES = ("instrument", "processor", "dashboard", "recorder")
START_S = 20.0  # a component that was started has so long to say that it is there
STOP_S = 20.0  # all of them have so long to end
SETTLE_S = 3.0  # the first look: those that are there already need time to be found, where all is busy too


class Supervisor:
    """Which components are there, and which were started."""

    def __init__(self) -> None:
        self.health = echo.channel("plant-health", Health)
        self.orders = echo.channel("plant-orders", Order).source()
        self.changed = threading.Event()
        self._present: set[tuple[str, str]] = set()  # process and role
        self._started: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
        self.health.watch(self._notice)

    def _notice(self, notice: echo.Notice) -> None:
        match notice:
            case echo.SourceOpened(peer, role, _):
                self._present.add((peer, role))
                logging.info("%s is there", role)
            case echo.SourceClosed(peer, role, _):
                self._present.discard((peer, role))
                logging.info("%s has gone", role)
            case _:
                return
        self.changed.set()

    @property
    def missing(self) -> list[str]:
        present = {role for _, role in list(self._present)}
        return [role for role in ROLES if role not in present]

    def start_missing(self) -> None:
        for role in self.missing:
            process, since = self._started.get(role, (None, 0.0))
            if process is not None and process.poll() is None:
                if time.monotonic() - since < START_S:
                    continue  # it is about to come
                process.kill()  # it hangs
                process.wait()
            self.start(role)

    def start(self, role: str) -> None:
        """In a session of its own: what ends the supervisor ends nobody else."""
        logging.info("starts the %s", role)
        command = [sys.executable, "-m", f"examples.plant.{role}"]
        started = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
        self._started[role] = started, time.monotonic()

    def reap(self) -> None:
        """Those that have ended are no longer this process's to wait for."""
        for process, _ in self._started.values():
            process.poll()

    def stop_all(self) -> None:
        """Tells all to stop, again and again, as some may come only now, and waits until they have gone."""
        limit = time.monotonic() + STOP_S
        while len(self.missing) < len(ROLES) and time.monotonic() < limit:
            self.orders.submit(Order(stop=True))
            self.changed.wait(0.25)
            self.changed.clear()
        self.reap()
        logging.info("all have ended" if len(self.missing) == len(ROLES) else "not all have ended")


def main() -> None:
    with Component("supervisor") as component:
        supervisor = Supervisor()
        component.stop.wait(SETTLE_S)
        while not component.stop.is_set():
            supervisor.start_missing()
            component.events += 1
            component.stop.wait(0.25)
        supervisor.stop_all()


if __name__ == "__main__":
    main()
