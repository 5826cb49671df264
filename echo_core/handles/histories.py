"""Histories: what a sink is given of a log before what comes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from os import PathLike
from typing import Any

from echo_core._c import links
from echo_core.errors import ChannelError, ClosedError, EchoError, unexpected
from echo_core.formats.comparing.compare import Report
from echo_core.formats.format import Format
from echo_core.handles.sinks import Sink
from echo_core.logs.described import StreamInfo
from echo_core.logs.reading import LogReader
from echo_core.logs.seam import Decode, Pair, Seam
from echo_core.logs.views.log import Log
from echo_core.roster.bookkeeping import books
from echo_core.roster.memberships import Membership
from echo_core.streams.targets import Target
from echo_core.transports.threads import log
from echo_core.values.backlog import nanoseconds


def following(
    sink: Sink[Any], log_: str | PathLike[str] | Log, *, since_s: float | None, timeout_s: float
) -> Iterator[Pair]:
    """Pairs of an event and where it is from: those of a log, and then those that come to the sink."""
    membership, target = sink._membership, sink._target  # pyright: ignore[reportPrivateUsage] - a part of it
    queue = sink._own_queue()  # pyright: ignore[reportPrivateUsage] - a part of it
    if target.wanted.is_array:
        raise unexpected(ChannelError, "a sink of events", "one of arrays")
    reader = LogReader(log_ if isinstance(log_, str | PathLike) else log_.path)
    seam = Seam(
        reader,
        membership.id.uid,
        partial(_decoder, membership, target),
        partial(_refused, target),
        _next_numbers(target, timeout_s),
        since_ns=None if since_s is None else int(since_s * 1_000_000_000),
        timeout_s=timeout_s,
    )
    return _until_closed(seam, queue)


def _until_closed(seam: Seam, queue: links.Queue) -> Iterator[Pair]:
    try:
        yield from seam.pairs(lambda timeout_s: queue.get_with_info(nanoseconds(timeout_s)))
    except ClosedError:
        return


def _next_numbers(target: Target, timeout_s: float) -> dict[bytes, int]:
    """Once sources elsewhere have said where they are."""

    def are_known() -> bool:
        return None not in target.next_numbers.values()

    books.wait_for(are_known, timeout_s, lambda: "sources to begin")
    with books.changing():
        return {source: number or 0 for source, number in target.next_numbers.items()}


def _decoder(membership: Membership, target: Target, stream: StreamInfo) -> Decode | None:
    found = target.reception(stream.format)
    if isinstance(found, Report):
        log.warning("channel `%s`: a sink cannot take what was recorded\n%s", membership.shown, found)
    if found is None or isinstance(found, Report):
        return None
    if found.report.lookalikes:
        key = stream.key
        with books.changing():
            tell = membership.announcements.tell_lookalike_fields
            tell(membership.name, key.node, key.source_name, found.report)
    return found.decode


def _refused(target: Target, format_: Format, error: EchoError) -> None:
    target.handler.refused(target, format_.name, error)
