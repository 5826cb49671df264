"""Who else is on a channel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Member:
    """Another node on a channel, by its own words: `Channel.members`.

    `name` and `node_id` are `Node.name` and `Node.id` there, `addresses` where it listens, as far as they
    mean anything on this host. `holds_channel`: newcomers find the channel there. `has_sinks` is also true
    of who requests something of sources, or watches all of them. `is_linked`: it is linked to this node, or
    in this process.
    """

    name: str
    node_id: bytes
    addresses: tuple[str, ...]
    holds_channel: bool
    has_sources: bool
    has_sinks: bool
    is_linked: bool
