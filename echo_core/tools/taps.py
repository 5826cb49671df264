"""Events of a channel for a tool: of any type, by reflection; what comes too fast is dropped, and counted.

With a condition or a selection the sources do the work: each type's events come by a derived channel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import echo_core as echo
from echo_core.tools import logs
from echo_core.tools.surveys import Surveyor

_Handler = Callable[[Any, echo.EventInfo], object]

_WAITING = echo.Backlog(events=20_000, size_bytes=64 * 1024 * 1024, when_full="drop_oldest")


class Tap:
    """Sinks that feed one function, each by a thread of its own."""

    def __init__(
        self,
        channel: echo.Channel[Any],
        handle: _Handler,
        *,
        where: str | None = None,
        select: Mapping[str, str] | None = None,
        wake: Callable[[], object] = lambda: None,
    ) -> None:
        """`wake`: called by another thread when `attend` has something to do."""
        self._channel, self._handle = channel, handle
        self._where, self._select = where, dict(select) if select else None
        self._sinks: list[echo.Sink[Any]] = []
        self._known: set[object] = set()  # types that are tapped, or cannot be
        self._problem: echo.EchoError | None = None
        self._surveyor: Surveyor | None = None
        if where is None and select is None:
            self._add(channel)
            return
        for format_ in channel.types:
            self._derive(format_)
        self._surveyor = Surveyor(channel, wake)
        self.attend()

    def attend(self) -> None:
        """Taps the types that have come since; raises what is wrong with an expression that fits none."""
        if self._surveyor is None:
            return
        for source in self._surveyor.now().sources:
            self._derive(source.format)
        if self._problem is not None and not self._sinks:
            raise self._problem

    def _derive(self, format_: echo.Format) -> None:
        """Its versions are those of one type: the sources of all of them that have the fields are asked."""
        key = format_.name if format_.record.is_named else format_.token
        if key in self._known:
            return
        self._known.add(key)
        try:
            derived = self._channel.derive(
                format_, where=self._where, select=self._select, name=format_.name if self._select else ""
            )
        except (echo.ExpressionError, echo.IncompatibleError) as error:
            self._problem = self._problem or error
            if self._sinks:
                logs.note(f"events of `{format_.name}` are left out: {error}")
            return
        self._add(derived)

    def _add(self, channel: echo.Channel[Any]) -> None:
        self._sinks.append(channel.sink(None, self._handle, own_thread=True, backlog=_WAITING))

    @property
    def missed(self) -> tuple[int, int]:
        """Events that came too fast for this process, and those that sources dropped."""
        counts = [sink.statistics() for sink in self._sinks]
        return sum(each.dropped for each in counts), sum(each.lost for each in counts)

    def close(self) -> None:
        """No event comes from now on."""
        if self._surveyor is not None:
            self._surveyor.close()
        for sink in self._sinks:
            sink.close()
