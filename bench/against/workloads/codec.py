"""Events of one class to bytes and back."""

from __future__ import annotations

import functools
from typing import Any

import echo_core as echo
from bench.against.workloads import Case, repeated
from bench.codec.our_messages import OURS, MessageCodec, message, our_messages
from bench.codec.ours import COUNT, OPERATIONS, check_bytes, ours, particles
from bench.codec.peer import Peer, Slots, values
from bench.timing import Call
from bench.workload import Particle, particle


def cases() -> dict[str, Case]:
    """Particles alone and in lists, a field that is read, and messages with variable parts."""
    found: dict[str, Case] = {}
    for name in ("dataclass", "@echo.event"):
        for operation in OPERATIONS:
            count = COUNT if operation.endswith(str(COUNT)) else 1
            call = functools.partial(_particle_call, name, operation)
            found[f"{name}: {operation}"] = repeated.case(call, count)
    found["@echo.event: read an attribute"] = repeated.case(_reading)
    for name in OURS:
        for operation in ("encode", "decode", "decode and read"):
            if name != OURS[2] or operation == "encode":
                call = functools.partial(_message_call, name, operation)
                found[f"variable parts, {name}: {operation}"] = repeated.case(call)
    return found


@functools.cache
def _checked_peers() -> dict[str, Peer]:
    events = particles()
    found = {peer.name: peer for peer in ours()}
    for peer in found.values():
        peer.check(events)
    check_bytes(events)
    return found


def _particle_call(name: str, operation: str) -> Call:
    task = _checked_peers()[name].tasks(particles())[operation]
    return task.call, task.argument


def _reading() -> Call:
    codec: Any = echo.codec(Particle, tier="compiled")
    event = codec.decode(codec.encode(Particle(*values(particle(7)))))
    assert event.x == Slots(*values(particle(7))).x

    def read() -> object:
        return event.x

    return (read,)


@functools.cache
def _checked_messages() -> dict[str, MessageCodec]:
    found = {codec.name: codec for codec in our_messages()}
    for codec in found.values():
        codec.check(message())
    return found


def _message_call(name: str, operation: str) -> Call:
    codec = _checked_messages()[name]
    event = codec.made(message())
    if operation == "encode":
        return codec.encode, event
    decode = codec.decode if operation == "decode" else codec.decode_and_read
    return decode, codec.encode(event)
