"""Our two kinds of classes as codecs like the others: a dataclass with slots, and an `@echo.event` record.

It needs nothing but the public names of `echo_core`, so it also measures other commits.
"""

from __future__ import annotations

from typing import Any

import echo_core as echo
from bench.codec.peer import Peer, Slots, values
from bench.workload import Particle, particle

COUNT = 1000
ENCODE, ENCODE_LIST, DECODE, DECODE_LIST = OPERATIONS = (
    "encode",
    f"encode {COUNT}",
    "decode",
    f"decode {COUNT}",
)


def particles() -> list[Particle]:
    """What everyone encodes."""
    return [particle(i) for i in range(COUNT)]


def ours() -> list[Peer]:
    """Our two kinds of classes as codecs like the others."""
    return [_codec("dataclass", Slots), _codec("@echo.event", Particle)]


def _codec(name: str, cls: type[Any]) -> Peer:
    codec = echo.codec(cls, tier="compiled")

    def made(it: Particle) -> Any:
        return cls(*values(it))

    return Peer(name, made, (codec.encode, codec.decode), (codec.encode_many, codec.decode_many))


def check_bytes(events: list[Particle]) -> None:
    """Compiled code writes what the interpreter writes, padding included."""
    for cls in (Slots, Particle):
        given = [cls(*values(it)) for it in events]
        expected = b"".join(map(echo.encoder(cls, tier="interpreted"), given))
        assert echo.codec(cls, tier="compiled").encode_many(given) == expected
