"""A conversation with another process: the commands of a link's protocol, and its frames in their order.

It does not refer to the `Peer` that has it: shared memory has to be freed without the garbage collector.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from echo_core._c import links
from echo_core.codegen.expressions.wire import Derivation, from_bytes
from echo_core.codegen.machine.budgets import Budget
from echo_core.errors import ClosedError, EchoError, LinkError, WireError, unexpected
from echo_core.formats.format import Format
from echo_core.streams.allowances import Allowances
from echo_core.transports.limits import LONGEST_REST_S, MAX_LINK_KEPT_BYTES, MAX_LINK_PARAMETER_BYTES
from echo_core.transports.protocol.link import LinkProtocol
from echo_core.transports.protocol.link_state import ChannelOnLink
from echo_core.transports.threads import log

if TYPE_CHECKING:
    from echo_core.streams.incoming import IncomingStream


class Keeping(Protocol):
    """Who keeps events of another process. `links.IncomingStream` has the words."""

    @property
    def kept_bytes(self) -> int: ...
    def forget_kept(self) -> None: ...


class PartedError(LinkError):
    """A link has ended as one of the two wanted it: it closes, or has left the last channel of the link."""


class Conversation:
    """Called with the books open, which keeps the frames in the protocol's order."""

    def __init__(
        self,
        name: str,
        protocol: LinkProtocol,
        link: links.Link,
        max_payload: int,
        window: tuple[int, int],
        allowances: Allowances,
        node_id: bytes,
    ) -> None:
        self.name = name  # of the other process
        self.node_id = node_id
        self.protocol = protocol
        self.link = link
        self.max_payload = max_payload  # bytes that the other process takes in one frame
        self.window = window  # events and bytes of one of its streams that may be under way to here
        self.is_over = False
        self.is_lost = False  # it is over, and nobody had wanted to end it
        self.farewell = ""  # why one of the two wants to end it, or why it has ended
        self.unanswered: set[int] = set()  # flushes that somebody waits for
        self.reports: set[Callable[[], None]] = set()  # tell the other process what sinks here have dropped
        self.confirmations: set[Callable[[], bool]] = set()  # and what they have finished with; if all of it
        self.keeping: set[Keeping] = set()  # streams here that keep events for sinks to come
        self.closing: set[IncomingStream] = set()  # of closed sources, events of which are in queues here
        self.parameter_bytes = 0  # of what its sources have said that they can be asked for
        self._has_forgotten = False
        self._confirmed_at = 0  # how many frames had come when all that had come by them was confirmed
        self.compiling = Budget(allowances.compiling)  # for what is compiled for its formats
        self.hearing = allowances.hearing  # for what it says
        self._allowances = allowances
        self._parts = threading.Event()  # one of the two wants to end it
        self.offered: links.IncomingStream | None = None  # what was said last, if that was a SOURCE
        self._derivation: tuple[bytes, Derivation] | None = None  # the last one
        self._formats: dict[bytes, Format] = {}  # by metadata; the protocol bounds how many there can be

    def command(self, command: Callable[[], None], *, behind: links.OutgoingStream | None = None) -> None:
        """A command that comes too late, as the other side has left or said goodbye, has no effect."""
        try:
            command()
        except ClosedError:
            return
        self.send(behind=behind)

    def send(self, *, behind: links.OutgoingStream | None = None) -> None:
        """The frames that the protocol has made: at once, or behind what is queued for a stream."""
        send = self.link.send if behind is None else behind.send
        for kind, payload in self.protocol.take_frames():
            try:
                send(kind, payload)
            except (ClosedError, LinkError):  # the thread that reads will find out why
                return

    def report_drops(self) -> None:
        """Tells the other process what sinks here have dropped since this was last told."""
        for report in self.reports:
            report()

    def confirm(self) -> None:
        """Tells the other process what sinks here have finished with by now."""
        for stream in tuple(self.closing):
            stream.release_if_done()
        received = self.link.received_frames
        if received == self._confirmed_at:
            return
        are_done = [confirm() for confirm in self.confirmations]  # each of them
        if all(are_done):
            self._confirmed_at = received

    def end_closing(self, channel: ChannelOnLink) -> None:
        """The channel is left, or the link over: of closed sources on it nothing more is confirmed."""
        for stream in tuple(self.closing):
            if stream.told.channel is channel:
                stream.end()

    def keep_parameter(self, size_bytes: int) -> None:
        """One more of those that its sources have; WireError: they are too many."""
        self.parameter_bytes += size_bytes
        if self.parameter_bytes > MAX_LINK_PARAMETER_BYTES:
            expected = f"parameters of sources of at most {MAX_LINK_PARAMETER_BYTES} bytes on a link"
            raise unexpected(WireError, expected, self.parameter_bytes)

    def bound_kept(self) -> None:
        """Of streams that keep more than a peer may have kept here, those that keep most forget it."""
        excess = sum(stream.kept_bytes for stream in self.keeping) - MAX_LINK_KEPT_BYTES
        if excess <= 0:
            return
        if not self._has_forgotten:
            self._has_forgotten = True
            said = "link to %s: its sources keep more than %d MiB here: sinks that come later may not get all"
            log.warning(said, self.name, MAX_LINK_KEPT_BYTES >> 20)
        for stream in sorted(self.keeping, key=lambda stream: stream.kept_bytes, reverse=True):
            if excess <= 0:
                return
            excess -= stream.kept_bytes
            stream.forget_kept()

    def rest(self) -> None:
        """Waits while the other process has used more than its allowance. Not with the books open."""
        wait_s = self.hearing.wait_s()
        if wait_s == 0.0 or self._parts.is_set():
            return
        if not self._allowances.has_rested:
            self._allowances.has_rested = True
            said = "link to %s: what it says of channels and formats takes much processor time"
            log.warning(f"{said}, and is heard more slowly from now on", self.name)
        self._parts.wait(min(wait_s, LONGEST_REST_S))

    def format_of(self, metadata: bytes) -> Format:
        """One object for all channels and sources."""
        if metadata not in self._formats:
            self._formats[metadata] = Format.from_metadata(metadata)
        return self._formats[metadata]

    def derivation_of(self, data: bytes) -> Derivation:
        """As the other process has written it: typed, and bounded. WireError: it is none."""
        if self._derivation is None or self._derivation[0] != data:
            derivation = from_bytes(data)
            if not derivation.conditions and (derivation.every > 1 or derivation.min_interval_ns):
                raise unexpected(WireError, "a condition beside rates", "none")
            self._derivation = data, derivation
        return self._derivation[1]

    def part(self, reason: str) -> None:
        """One of the two wants to end it; whatever happens to the link from now on is not reported."""
        self.farewell = self.farewell or reason
        self._parts.set()

    def end(self, error: EchoError | None) -> EchoError | None:
        """The link is over. Returns the error where it is to be reported."""
        self.is_over = True
        self.offered = None  # it refers to this
        self.compiling.end()
        self.is_lost = not self.farewell
        self.part(str(error or "") or "it has gone without a farewell")
        return error if self.is_lost else None

    def lost(self) -> LinkError:
        """For whoever still waits for an answer."""
        reason = self.farewell or "no reason given"
        error = LinkError if self.is_lost else PartedError
        return error(f"Expected {self.name} to answer, its link has ended: {reason}")
