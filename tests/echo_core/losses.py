"""Links that are lost, for tests of what happens meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import pytest

import echo_core as echo
from echo_core.roster.meetings import Meetings
from tests.echo_core.census import LIMIT_S, peers_of


@contextlib.contextmanager
def links_lost(*nodes: echo.Node) -> Generator[None]:
    """Those of these nodes, both ends of them, which know so by now. They come back once this is over.

    By themselves they are back within 40 ms, in which a busy machine may not come to look.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Meetings, "begin", _link_to_nobody)
        lost = [peer for node in nodes for peer in peers_of(node)]
        for peer in lost:
            peer.link.shut()
        assert all(peer.is_over.wait(LIMIT_S) for peer in lost)
        yield


def _link_to_nobody(_: Meetings) -> None:
    """In the place of what begins attempts."""
