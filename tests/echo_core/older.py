"""Processes that do not know of derived channels, as older versions did not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import echo_core as echo
from echo_core.roster.neighbours import Neighbours
from echo_core.transports.handshake.words import Feature, Identity
from tests.echo_core.conftest import MakeNode

OLDER = """
from types import SimpleNamespace
from echo_core.roster import neighbours
from echo_core.transports.handshake.words import Feature
neighbours.Feature = SimpleNamespace(SHARED_MEMORY=Feature.SHARED_MEMORY, DERIVED_CHANNELS=0)
"""
"""At the beginning of a script, says that of its process."""


@pytest.fixture
def make_older(make_node: MakeNode) -> Iterator[MakeNode]:
    """Makes nodes that say so of themselves, over any transport but in process."""
    older: set[bytes] = set()
    given: property = vars(Neighbours)["identity"]

    def identity(self: Neighbours) -> Identity:
        own = given.__get__(self)
        assert isinstance(own, Identity)
        is_older = own.node_id in older
        return replace(own, features=own.features & ~Feature.DERIVED_CHANNELS) if is_older else own

    def make(**options: object) -> echo.Node:
        node = make_node(**options)
        older.add(node._neighbours.identity.node_id)  # pyright: ignore[reportPrivateUsage]
        return node

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Neighbours, "identity", property(identity))
        yield make
