"""Stages: what a stream does to its events between the source and the link."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """One step, as data. A stream has a tuple of them, in order, which is replaced as a whole.

    Submitting threads read that tuple without a lock, and a stream without stages pays nothing for them.
    """


Stages = tuple[Stage, ...]
