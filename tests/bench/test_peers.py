"""Every codec that we are measured beside gives every value back, and one that does not is found out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from bench.available import LEFT_OUT
from bench.codec.messages import message_codecs
from bench.codec.our_messages import MessageCodec, message
from bench.codec.ours import ours
from bench.codec.peer import Peer
from bench.codec.peers import peers
from bench.workload import particle

PARTICLES = [particle(i) for i in range(12)]


def cases(installed: list[Any]) -> list[Any]:
    """Those that are installed; the others are skipped, and say why."""
    absent = [(name, pytest.mark.skip(reason=reason)) for name, reason in LEFT_OUT.items()]
    return [
        *(pytest.param(it, id=it.name) for it in installed),
        *(pytest.param(None, id=name, marks=skip) for name, skip in absent),
    ]


@pytest.mark.parametrize("peer", cases([*ours(), *peers()]))
def test_particles_come_back(peer: Peer) -> None:
    """Alone and in a list, and of the types that they had."""
    peer.check(PARTICLES)


@pytest.mark.parametrize("codec", cases(message_codecs()))
def test_messages_come_back(codec: MessageCodec) -> None:
    """Numbers as an array of doubles, whatever the codec makes of them on the way."""
    codec.check(message())


@pytest.mark.parametrize("field", ["id", "vx", "active", "tag"])
def test_a_codec_that_loses_a_value_is_found_out(field: str) -> None:
    """In a list as well as alone."""
    peer = peers()[0]

    def lossy(it: Any) -> Any:
        setattr(it, field, type(getattr(it, field))())
        return it

    with pytest.raises(AssertionError):
        _changed(peer, lossy).check(PARTICLES)


def test_a_codec_that_changes_a_type_is_found_out() -> None:
    """1 is True to ==, and not to a program that reads it."""
    peer = peers()[0]

    def untyped(it: Any) -> Any:
        it.active = int(it.active)
        return it

    with pytest.raises(AssertionError):
        _changed(peer, untyped).check(PARTICLES)


def _changed(peer: Peer, change: Callable[[Any], Any]) -> Peer:
    encode, decode = peer.many

    def decode_and_change(data: Any) -> list[Any]:
        return [change(it) for it in decode(data)]

    return dataclasses.replace(peer, many=(encode, decode_and_change))
