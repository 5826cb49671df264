"""The transports under test, ours among them; whatever is not installed is left out, with the reason."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Mapping

from bench.transport.endpoint import Peer

_MODULES = ("channels", "sockets", "zeromq", "iceoryx", "cyclone", "zenoh_peer", "mpi")


@functools.cache
def available() -> tuple[Mapping[str, Peer], Mapping[str, str]]:
    """Peers by name, and why the modules of others cannot be had."""
    peers: dict[str, Peer] = {}
    missing: dict[str, str] = {}
    for module in _MODULES:
        try:
            found = importlib.import_module(f"{__name__}.{module}").PEERS
        except ImportError as error:
            missing[module] = str(error)
        else:
            peers |= {peer.name: peer for peer in found}
    if importlib.util.find_spec("msgspec") is None:
        missing["the form msgspec"] = "it is not installed"
        peers = {name: peer for name, peer in peers.items() if peer.form != "msgspec"}
    return peers, missing
