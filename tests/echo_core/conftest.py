"""Nodes for tests, which are closed whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import echo_core as echo

TRANSPORTS = ("process", "shm", "unix", "tcp")

MakeNode = Callable[..., echo.Node]


@pytest.fixture
def make_node() -> Iterator[MakeNode]:
    """Makes nodes; closes them at the end, without waiting for what is queued."""
    made: list[echo.Node] = []

    def make(**options: Any) -> echo.Node:
        made.append(echo.Node(**options))
        return made[-1]

    yield make
    for node in made:
        node.close(0.0)


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def pair(make_node: MakeNode, transport: str) -> tuple[echo.Node, echo.Node]:
    """Two nodes that reach each other by one transport only."""
    return make_node(transports=[transport]), make_node(transports=[transport])
