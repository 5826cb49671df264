"""Where the processes of a measurement run."""

from __future__ import annotations

import enum
import os


class Placement(enum.Enum):
    """One core shows the path alone; two cores are for those who spin; anywhere is as the scheduler likes."""

    ONE_CORE = "one core"
    TWO_CORES = "a core each"
    ANYWHERE = "two cores"

    def core(self, index: int) -> int | None:
        """The core of the process of this number, if it has one."""
        first, *others = sorted(os.sched_getaffinity(0))
        if self is Placement.ANYWHERE:
            return None
        return first if self is Placement.ONE_CORE or index == 0 or not others else others[0]

    def pin(self, index: int) -> None:
        """Moves the calling process there, with the threads that it will start."""
        core = self.core(index)
        if core is not None:
            os.sched_setaffinity(0, {core})
