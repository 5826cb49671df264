"""Replaying: what sinks of a derived channel get that come after events which their source has kept.

Nothing is kept of what is derived. For each sink that comes later, what the source itself keeps at that
moment is judged anew, as if the channel had been derived before the oldest of it, with the parameters of
now: so a sink gets what one of the base would get, as far as it passes. The branch by which events come goes
on as it is, and what passes there meanwhile is noted, so that nothing is missing between.

It has numbers all the same, which end where those of the next event begin. So the first event of such a
source has a number as high as there may be events before it, and all are judged from when the channel is
derived on, also while nobody takes them: else their numbers would depend on who is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from echo_core._c import links

if TYPE_CHECKING:
    from echo_core.streams.branches import Branching
    from echo_core.streams.origins import Origin

Earlier = list[tuple[bytes, int]]
"""Records, and when they were submitted, or 0: the oldest first."""


class Replay:
    """Of one derived source: what a `CatchingUp` asks for what is kept."""

    __slots__ = ("_outlet", "_root", "_stages", "first_number")

    def __init__(self, branching: Branching, outlet: links.Outlet) -> None:
        """`outlet`: where the derived events leave, whose first number is above 0."""
        before = branching.base.replay
        self._outlet = outlet
        self.first_number = outlet.sequence  # of all that is derived
        self._root: Origin = branching.base if before is None else before._root
        self._stages: tuple[Branching, ...] = (*(() if before is None else before._stages), branching)

    @property
    def is_new(self) -> bool:
        """Whether nothing was submitted yet: nothing is kept."""
        return self._root.outlet.sequence == 0

    def earlier(self) -> tuple[Earlier, int]:
        """What is kept, and passes all stages, and the number of the event behind it.

        What has passed since then is there for who follows the outlet.
        """
        kept, following = self._outlet.kept_at(self._root.outlet)
        earlier: Earlier = [(record, submitted_ns) for _, record, submitted_ns in kept]
        for stage in self._stages:
            earlier = stage.judge_anew(earlier)
        return earlier, following

    def begin(self, stream: links.OutgoingStream, first: int) -> tuple[int, int]:
        """As `Outlet.begin`."""
        self.follow(True)
        try:
            return self._outlet.begin(stream, first, *self.earlier())
        finally:
            self.follow(False)

    def kept_since(
        self, number: int, is_following: bool = False, /
    ) -> tuple[list[tuple[int, bytes, int]], int]:
        """As `Outlet.kept_since`: first what was kept, and then what has passed meanwhile."""
        if is_following:
            return self._outlet.kept_since(number, is_following)
        earlier, following = self.earlier()
        first = following - len(earlier)
        return [(first + i, *each) for i, each in enumerate(earlier)], following

    def follow(self, more: bool, /) -> None:
        """One sink more, or less, takes what passes meanwhile."""
        self._outlet.follow(more)

    def hold(self, change: int, /) -> None:
        """As `Outlet.hold`, of whoever submits."""
        self._root.outlet.hold(change)
