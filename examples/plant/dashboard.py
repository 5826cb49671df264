"""Shows a result now and then, with asyncio. It may be slow: nobody waits for it."""

from __future__ import annotations

import asyncio

import echo_core as echo
from examples.plant.component import Component
from examples.plant.events import Result


async def show(component: Component, results: echo.Sink[Result]) -> None:
    """Looks up when nothing comes, to see whether it is to stop."""
    while not component.stop.is_set():
        try:
            result = await results.get_async(timeout_s=0.5)
        except echo.TimedOutError:
            continue
        component.events += 1
        if component.events % 50 == 1:
            print(f"dashboard: frame {result.frame}, mean {result.mean:.1f}, peak {result.peak}", flush=True)
        await asyncio.sleep(0)  # draws


def main() -> None:
    with Component("dashboard") as component:
        latest = echo.Backlog(events=10, when_full="drop_oldest")
        results = echo.channel("plant-results", Result).sink(Result, backlog=latest)
        asyncio.run(show(component, results))


if __name__ == "__main__":
    main()
