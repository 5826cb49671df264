"""Tracking: a source begins to ask who has its events. Opens the books itself."""

from __future__ import annotations

from echo_core.errors import ClosedError, unexpected
from echo_core.roster.bookkeeping import books
from echo_core.roster.memberships import Membership
from echo_core.streams.origins import Origin
from echo_core.streams.receipts import Receipts


def receipts_of(membership: Membership, origin: Origin) -> Receipts:
    """Of all sinks that take the source's events now, and of those to come."""
    with books.changing():
        if origin.is_closed:
            raise unexpected(ClosedError, f"an open source of `{origin.format.name}`", "one that is closed")
        if origin.receipts is not None:
            return origin.receipts
        receipts = origin.begin_receipts(books.changing)
        for peer in membership.peers:
            stream = peer.stream_of(membership.id.uid, origin)
            if stream is not None:
                stream.track()
        return receipts
