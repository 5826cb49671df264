"""What is measured of either commit, by the public names of its echo_core alone.

These modules and those of `bench` that they import are this tree's, whichever commit they measure: both do
the same work. A suite is a function that returns, for each row's name, what prepares it, checks its outputs
and gives a function that measures it for so many seconds: how long one event takes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

Measure = Callable[[float], float]
Case = Callable[[], AbstractContextManager[Measure]]
