"""Sees to it that all components are there: `python -m examples.plant.supervisor`.

Its watchdog starts those that nobody has started, and starts those again that end or hang. Components do not
depend on the supervisor: they go on without one, and the next one finds them.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

import echo_core as echo
from examples.plant.component import Component
from examples.plant.events import Order

ROOT = Path(__file__).parents[2]
ROLES = ("instrument", "processor", "dashboard", "recorder")
STOP_S = 20.0  # all of them have so long to end


def tell(now: echo.ComponentState) -> None:
    """The watchdog's log says more."""
    if now.state == "running":
        logging.info("%s is there", now.component)
    elif now.state == "starting":
        logging.info("starts the %s", now.component)


def stop_all(component: Component) -> None:
    """Tells all to stop, again and again, as some may come only now, and waits until they have gone."""
    orders = component.orders.source()
    limit = time.monotonic() + STOP_S
    while component.orders.members() and time.monotonic() < limit:
        orders.submit(Order(stop=True))
        time.sleep(0.1)
    logging.info("not all have ended" if component.orders.members() else "all have ended")


def main() -> None:
    with Component("supervisor") as component:
        watchdog = echo.Watchdog(on_change=tell)
        for role in ROLES:
            watchdog.watch(role, [sys.executable, "-m", f"examples.plant.{role}"], cwd=ROOT)
        component.stop.wait()
        watchdog.close(leave=True)  # or it would start them again
        stop_all(component)


if __name__ == "__main__":
    main()
