"""Who takes part in a cell: those that were asked for, or those that the cell names, if they are there."""

from __future__ import annotations

from collections.abc import Sequence

from bench.transport.endpoint import Peer
from bench.transport.outcome import Options
from bench.transport.peers import available


def chosen(usual: Sequence[str], options: Options, *, without: Sequence[str] = ()) -> list[Peer]:
    """`without`: transports that cannot do it."""
    peers, _ = available()
    if options.peers is None:
        return [peers[name] for name in usual if name in peers]
    others = [it for it in peers.values() if not it.is_ours and it.transport not in without]
    return [it for it in others if it.is_meant_by(options.peers)]


def ours(names: Sequence[str]) -> list[Peer]:
    peers, _ = available()
    return [peers[name] for name in names]


def check(options: Options) -> None:
    """Every name that was asked for means someone who is there. Raises ValueError."""
    peers, missing = available()
    for name in options.peers or ():
        if not any(it.is_meant_by([name]) for it in peers.values()):
            there = ", ".join(sorted({it.transport for it in peers.values() if not it.is_ours}))
            reasons = "".join(f"; {module}: {reason}" for module, reason in missing.items())
            msg = f"Expected a peer of {there}, got {name!r}{reasons}"
            raise ValueError(msg)
