"""Recording: what flows on channels goes into one log, whatever its type, as it lies.

Each source is one stream of the log, known again by its id: over other links, and where the log is opened
again. What is missing between its numbers is a gap with a cause; what comes a second time is passed over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from echo_core._c import links
from echo_core._c.logs import Lookback, LookbackStream
from echo_core.dispatch.handlers import Handler
from echo_core.errors import ChannelError, EchoError, TimedOutError, unexpected
from echo_core.logs.committing import Committer
from echo_core.logs.declarations import StreamWriter
from echo_core.logs.described import Level, StreamKey
from echo_core.logs.known import Known
from echo_core.logs.writing import LogWriter
from echo_core.roster.bookkeeping import books
from echo_core.roster.memberships import Membership
from echo_core.streams.taking import Cause, Held, TakingTarget
from echo_core.streams.targets import Feed
from echo_core.transports.repeats import Repeats
from echo_core.transports.threads import is_failure, log
from echo_core.values.statistics import Place, RecorderStatistics

_MAX_IDLE = 4096  # sources that are known again; a peer may offer any number
_ROOM_S = 1.0  # after which who waits for room looks whether it is still wanted
_HAND_ON_BYTES = 1024 * 1024  # of room, before more of what was kept is handed on


_WORDS = {
    Cause.DROPPED: "they were dropped on the way",
    Cause.LINK: "the link was lost",
    Cause.ABSENT: "nobody was there to record them",
}


class SourceIntake:
    """What takes one source's records, over all its links: a `streams.taking.Intake`."""

    __slots__ = ("_note", "_way", "is_fed", "next_number", "resumes_after", "stream")

    def __init__(
        self,
        stream: StreamWriter,
        way: StreamWriter | LookbackStream,
        next_number: int | None,
        note: Callable[[StreamWriter, int, Cause], None],
    ) -> None:
        """`way`: by which records get to the stream."""
        self.stream = stream
        self._way = way
        self._note = note
        self.next_number = next_number
        self.resumes_after = Cause.ABSENT
        self.is_fed = False

    @property
    def taker(self) -> links.Taker:
        return self._way

    def gap(self, first: int, last: int, cause: Cause) -> None:
        """Events that never came."""
        self._way.gap(first, last, str(cause))
        if cause is not Cause.SUPERSEDED:
            self._note(self.stream, last + 1 - first, cause)


class RecordingHandler(Handler):
    """What becomes of what the log raises: a disk that fails, say."""

    __slots__ = ()

    def __init__(self, membership: Membership) -> None:
        super().__init__(None, channel=lambda: membership.shown, expected="a record", on_failure=None)

    def failed(self, target: object, error: BaseException) -> bool:
        """Reports what the log has raised; not what is the calling thread's."""
        if not is_failure(error):
            return False
        said = "what comes on channel `%s` is not recorded: %s: %s"
        self._failing.say(logging.ERROR, said, self._channel(), type(error).__name__, error)
        self._tell(target, error)
        return True


class Recording:
    """Of one log. Opens the books itself, but where targets call it."""

    def __init__(
        self,
        writer: LogWriter,
        known: Known,
        *,
        holds_up: bool,
        lookback: Lookback | None,
    ) -> None:
        """`known`: where sources were when the log was closed before. `holds_up`: has sources wait for room.

        `lookback`: what is recorded goes there first.
        """
        self._writer = writer
        self._known = dict(known)
        self._holds_up = holds_up
        self._lookback = lookback
        self._intakes: dict[tuple[bytes, bytes], SourceIntake] = {}
        self._parting: list[StreamWriter] = []  # their sources are gone, but they are looked back at
        self._saying = Repeats()
        self._missing = 0  # events that never came
        self._targets: list[tuple[Membership, TakingTarget]] = []
        self._ending = threading.Lock()  # taken by who ends it
        self.is_ending = False  # by whoever closes all targets, and then this
        self.is_closed = False
        is_synced = writer.level is Level.SYNCED
        self._committer = Committer(self._held, writer.sync, writer.path.name) if is_synced else None

    # -----------------------------------------------------------------------
    # Channels

    def put_on(self, membership: Membership) -> TakingTarget:
        """From now on all that comes on a channel is taken. Called with the books open."""
        handler = RecordingHandler(membership)
        target = TakingTarget(
            partial(self._begin, membership),
            partial(self._end, membership),
            handler,
            membership.home.receptions,
            on_held=None if self._committer is None else self._committer.wake,
            await_room=self._await_room if self._holds_up else None,
            on_end=self._note_end,
            on_fork=self._writer.abandon,
        )
        self._targets.append((membership, target))
        membership.add_target(target)
        return target

    @property
    def targets(self) -> list[tuple[Membership, TakingTarget]]:
        """What takes from each channel."""
        return list(self._targets)

    def _await_room(self, size_bytes: int) -> bool:
        """Whether it is worth while to look again: not where the disk has failed."""
        return self._writer.wait_room(size_bytes, _ROOM_S) or self._writer.statistics().failure is None

    def _held(self) -> list[Held]:
        with books.changing():
            return [held for _, target in self._targets for held in target.held()]

    # -----------------------------------------------------------------------
    # Sources: called by targets, with the books open

    def _begin(self, membership: Membership, feed: Feed) -> SourceIntake:
        key = membership.id.uid, feed.source_id
        intake = self._intakes.get(key)
        activity = "joined" if intake is None else "back"
        if intake is None:
            self._make_room()
            stream = self._writer.stream(_key_of(membership, feed), feed.format)
            way = stream if self._lookback is None else self._lookback.stream(stream)
            number = self._known.pop(key, None)
            intake = self._intakes[key] = SourceIntake(stream, way, number, self._note_missing)
        intake.is_fed = True
        self._writer.member(*key, activity, feed.describe.source)
        return intake

    def _make_room(self) -> None:
        """Of those that may come back only so many are remembered."""
        idle = [key for key, intake in self._intakes.items() if not intake.is_fed]
        for key in idle[: max(0, len(idle) + 1 - _MAX_IDLE)]:
            self._let_go(self._intakes.pop(key).stream)

    def _end(self, membership: Membership, feed: Feed) -> None:
        key = membership.id.uid, feed.source_id
        self._intakes[key].is_fed = False
        if feed.has_closed:
            self._let_go(self._intakes.pop(key).stream)
        self._writer.member(*key, "left" if feed.has_closed else "lost", feed.describe.source)

    def _let_go(self, stream: StreamWriter) -> None:
        if self._lookback is not None and self._lookback.is_waiting:
            self._parting.append(stream)
        else:
            self._writer.close_stream(stream)

    def _note_missing(self, stream: StreamWriter, events: int, cause: Cause) -> None:
        self._missing += events
        words = self._writer.path, events, stream.key.source_name, _WORDS[cause]
        level = logging.INFO if cause is Cause.ABSENT else logging.WARNING  # who begins anew knows
        self._saying.say(level, "log `%s`: %d events of source `%s` are missing: %s", *words)

    # -----------------------------------------------------------------------
    # What components call

    def trigger(self, timeout_s: float) -> None:
        """What was kept of the last seconds is written, and all that comes."""
        lookback = self._lookback
        if lookback is None:
            expected = "a recorder that keeps the last seconds, made with `before_s`"
            raise unexpected(ChannelError, expected, "one that records all")
        limit = time.monotonic() + timeout_s
        lookback.trigger()
        while not lookback.hand_on():
            if not self._writer.wait_room(_HAND_ON_BYTES, max(0.0, limit - time.monotonic())):
                failure = self._writer.statistics().failure
                expected = f"room in `{self._writer.path}` for what was kept within {timeout_s} s"
                raise unexpected(TimedOutError, expected, failure or "none")
        with books.changing():
            parting, self._parting = self._parting, []
        for stream in parting:
            self._writer.close_stream(stream)

    def sync(self, timeout_s: float) -> None:
        """All that was taken by now is on the disk."""
        self._writer.sync(timeout_s)

    def statistics(self) -> RecorderStatistics:
        counted, lookback = self._writer.statistics(), self._lookback
        return RecorderStatistics(
            events=counted.events,
            size_bytes=counted.bytes,
            streams=sum(target.feeds for _, target in self._targets),
            missing=self._missing,
            dropped=counted.lost,
            staged_bytes=counted.staged_bytes,
            written_events=counted.written_events,
            written_bytes=counted.written_bytes,
            written=Place(counted.position.segment, counted.position.offset),
            synced=Place(counted.synced.segment, counted.synced.offset),
            kept_events=0 if lookback is None else lookback.events,
            is_waiting=lookback is not None and lookback.is_waiting,
            is_full=counted.is_full,
            failure=counted.failure,
        )

    # -----------------------------------------------------------------------
    # Its end

    def _note_end(self) -> None:
        """Nothing more comes from one of the channels. Who closes that one hears of the disk by the log."""
        if self.is_ending or not all(target.is_closed for _, target in self._targets):
            return
        try:
            self.close()
        except EchoError as error:
            log.error("log `%s`: not all that came is written: %s", self._writer.path, error)

    def close(self, timeout_s: float = 30.0) -> None:
        """Writes all that was taken; the targets are closed. A second time it does what was interrupted."""
        with self._ending:
            if self._committer is not None:
                self._committer.close(timeout_s)
            self._saying.settle(at_end=True)
            self.is_closed = True
            self._writer.close(timeout_s)


def _key_of(membership: Membership, feed: Feed) -> StreamKey:
    """A source has another id each time that it is made, so that is its epoch, too."""
    return StreamKey(
        channel=membership.id.uid,
        channel_name=membership.shown,
        node=feed.peer or membership.home.name,
        source=feed.source_id,
        source_name=feed.describe.source,
        epoch=int.from_bytes(feed.source_id[:8], "little"),
    )
