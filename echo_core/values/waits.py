"""What calls wait for that wait for others, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple

DEFAULT_WAIT_S = 10.0  # one default for all of them; where they take None, that means no limit


class Wait(NamedTuple):
    """A condition, and the words for it where it is not met in time."""

    is_met: Callable[[], bool]
    what: Callable[[], str]


# What a call waits for, one after the other: what stands between two waits is done when the first is met.
# So one function serves the thread that blocks and the task that awaits.
Waits = Generator[Wait]
