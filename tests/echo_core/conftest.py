"""Nodes for tests, which are closed whatever happens; and the rule of who opens the books."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import echo_core as echo
from echo_core.roster import derivations, matching, presence, receipt, requests, vouching
from echo_core.roster.announcements import Announcements
from echo_core.roster.bookkeeping import books
from echo_core.roster.memberships import Membership
from echo_core.roster.peers import Peer

TRANSPORTS = ("process", "shm", "unix", "tcp")

MakeNode = Callable[..., echo.Node]


# What is called with the books open, as the modules say.
_WITH_BOOKS_OPEN: dict[Any, str] = {
    Announcements: "add remove tell tell_joined tell_left tell_drops_of",
    Membership: "add_incoming add_origin add_peer add_relayed add_target end_relayed learn note_start present"
    " remove_incoming remove_peer streams_of take_relayed tick",
    Peer: "add end forget has_answered join leave make_way offer release_if_unused released say_goodbye"
    " stream_of tell_derived tell_filtered tell_judged tell_member tell_of_source tick",
    derivations: "adjust branch derive end_branches forget_branch hear_of hear_values let_go tell_all"
    " tell_judged tell_who_is_missing tick",
    matching: "connect feed",
    presence: "converse gather hear_of invitation stand",
    receipt: "add catch_up_later end_relayed let_go part take_part tell_losses",
    requests: "ask_here declare forget hear_parameter hear_request known_sources let_go renew request"
    " tell_all tick unanswered withdraw",
    vouching: "admit forget_stranger forget_underivable hear_underivable hold_back note_stranger"
    " note_strangers"
    " note_underivable refuse tell_underivable_to",
}
_misplaced: list[str] = []  # calls that came with the books closed


def _demanding(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def demanding(*args: Any, **options: Any) -> Any:
        if not books._lock._is_owned():  # type: ignore[attr-defined] # pyright: ignore
            _misplaced.append(f"{function.__qualname__}:\n{''.join(traceback.format_stack(limit=6))}")
        return function(*args, **options)

    return demanding


@pytest.fixture(autouse=True, scope="session")
def books_that_are_looked_after() -> Iterator[None]:
    """In this process; the actors of tests go without."""
    with pytest.MonkeyPatch.context() as patched:
        for owner, names in _WITH_BOOKS_OPEN.items():
            for name in names.split():
                patched.setattr(owner, name, _demanding(getattr(owner, name)))
        yield


@pytest.fixture(autouse=True)
def no_call_with_the_books_closed() -> Iterator[None]:
    """Which another thread could come between; this one may hide the failure."""
    _misplaced.clear()
    yield
    assert not _misplaced, _misplaced[0]


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
