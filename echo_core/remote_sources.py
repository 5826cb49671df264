"""The end of a source's stream in this process: which sinks its events go to."""

from __future__ import annotations

from typing import Any, Protocol

from echo_core._c import links
from echo_core.formats.compare import Report
from echo_core.formats.format import Format
from echo_core.sinks import Sink


class Origin(Protocol):
    """What the end of a stream needs of the process at its beginning, and of all that comes from there."""

    @property
    def peer(self) -> str: ...

    @property
    def link(self) -> links.Link: ...

    def attach(self, remote: RemoteSource) -> None: ...

    def forget(self, remote: RemoteSource) -> None: ...

    def report_unreachable(self, stream: int, text: str) -> None: ...

    def report_drops_of(self, remote: RemoteSource) -> None: ...


class Membership(Protocol):
    """The channel that a source is on, as this process has it."""

    def remove_remote(self, remote: RemoteSource) -> None: ...

    def fail(self, peer: str, source: str, error: Exception) -> None: ...

    def lose(self, peer: str, source: str, events: int) -> None: ...


class RemoteSource:
    """A source in another process. It sends from the first sink here to the last."""

    def __init__(
        self, origin: Origin, membership: Membership, stream: int, format_: Format, name: str
    ) -> None:
        self.membership = membership
        self.stream = stream
        self.format = format_
        self.name = name
        self.inlet = links.IncomingStream(record_size=format_.size_bytes if format_.is_fixed else 0)
        self._sinks: dict[Sink[Any], links.Delivery] = {}
        self._refusing: list[Sink[Any]] = []  # not why: reports are long, and a peer may offer many sources
        self._reported = 0  # events dropped at sinks, as the source has been told
        self._told = 0  # events lost, as components here have been told
        self._origin = origin
        self.peer = origin.peer  # the name of the other process
        self.link = origin.link
        self.link.bind(stream, self.inlet)

    @property
    def lost(self) -> int:
        return self.inlet.lost

    @property
    def sinks(self) -> tuple[Sink[Any], ...]:
        return tuple(self._sinks)

    def feed(self, sinks: list[Sink[Any]]) -> list[Report]:
        """Connects what can be connected; why others cannot take this source's events is returned."""
        refusals: list[Report] = []
        problems: list[str] = []
        fed = len(self._sinks)
        for sink in sinks:
            try:
                delivery = sink.accept(self)
            except Exception as error:  # noqa: BLE001 - arrays of what varies in size, say; others take it
                self.membership.fail(self.peer, self.name, error)
                self._refusing.append(sink)
                problems.append(str(error))
                continue
            refusal = sink.refusal_of(self)
            if delivery is not None:
                self._sinks[sink] = delivery
            elif refusal is not None:
                self._refusing.append(sink)
                refusals.append(refusal)
                problems.append(str(refusal))
        if len(self._sinks) > fed:
            self._tell()
        if problems and not self._sinks:
            self._origin.report_unreachable(self.stream, problems[0])
        return refusals

    def remove(self, sink: Sink[Any]) -> None:
        """The sink is closed, also while a batch is handed to it."""
        delivery = self._sinks.get(sink)
        if delivery is not None:
            delivery.close()
        self._origin.report_drops_of(self)
        self._sinks.pop(sink, None)
        if delivery is not None:
            self._reported -= delivery.dropped
            sink.release(self)
        if delivery is not None or self._takes_its_reason_along(sink):
            self._tell()  # else a sink that is gone would still keep the source from waiting for another
            self._refuse_again()

    def _takes_its_reason_along(self, sink: Sink[Any]) -> bool:
        """Whether the source has been told why a sink refuses it, and no other has the same reason."""
        if sink not in self._refusing:
            return False
        self._refusing.remove(sink)
        return not self._sinks and all(other.wanted != sink.wanted for other in self._refusing)

    def _refuse_again(self) -> None:
        """Where nobody is left who takes its events, it has forgotten what it was told of who stays."""
        if not self._sinks:
            refusing, self._refusing = self._refusing, []
            self.feed([sink for sink in refusing if not sink.is_leaving])

    def newly_dropped(self) -> int:
        """How many of its events sinks here have dropped since this was last asked."""
        dropped = sum(delivery.dropped for delivery in self._sinks.values())
        newly, self._reported = dropped - self._reported, dropped
        return newly

    def tell_losses(self) -> None:
        """Tells components here what the source has dropped since this was last told."""
        lost = self.inlet.lost
        newly, self._told = lost - self._told, lost
        if newly:
            self.membership.lose(self.peer, self.name, newly)

    def end(self) -> None:
        """The source is closed, or its process gone."""
        for sink in self._sinks:
            sink.release(self)
        self._sinks.clear()
        self._refusing.clear()
        self.inlet.deliveries = ()
        self._origin.forget(self)

    def _tell(self) -> None:
        self.inlet.deliveries = tuple(self._sinks.values())
        self._origin.attach(self)
