"""Homes: what all channels and links of one node share."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from echo_core._c import links
from echo_core.codegen.plain.counting import MostObjects
from echo_core.errors import LinkError
from echo_core.roster.bookkeeping import books
from echo_core.roster.places import Limits, Place
from echo_core.streams.allowances import KnownNodes
from echo_core.streams.receptions import Receptions
from echo_core.transports.repeats import Repeats
from echo_core.transports.wires import sockets
from echo_core.transports.wires.connecting import POOL_BLOCK_BYTES, POOL_BYTES

if TYPE_CHECKING:
    from echo_core.roster.memberships import Membership


def no_door() -> None:
    """There is nobody yet who could look."""


@dataclass(slots=True, eq=False)
class Home:
    """Of one node."""

    name: str
    place: Place
    limits: Limits
    on_failure: Callable[[Any, BaseException], object] | None
    id: bytes = field(default_factory=partial(secrets.token_bytes, 16))
    host_id: bytes = field(default_factory=sockets.host_id)
    addresses: tuple[str, ...] = ()  # where others can link to it, once it listens
    wake: Callable[[], object] = no_door  # has the node look whom it has to be linked to, once it has a door
    is_closed: bool = False
    receptions: Receptions = field(init=False)
    memberships: dict[bytes, Membership] = field(default_factory=dict[bytes, "Membership"])  # by channel
    derived_beyond: Repeats = field(default_factory=Repeats)  # derivations that peers told, and had no room
    known_nodes: KnownNodes = field(default_factory=KnownNodes)  # what they have used of this one's processor
    _pool: links.Pool | None = None

    def __post_init__(self) -> None:
        self.receptions = Receptions(MostObjects(self.limits.event_objects, "Limits.event_objects"))

    @property
    def joins_in_process(self) -> bool:
        return "process" in self.place.transports

    def pool(self) -> links.Pool | None:
        """Memory that other processes read in place; made when first asked for. Opens the books itself.

        LinkError: there is none, or no descriptor for it.
        """
        with books.changing():
            if self._pool is None and self.place.shares_memory and not self.is_closed:
                try:
                    self._pool = links.Pool(
                        block_bytes=POOL_BLOCK_BYTES, blocks=POOL_BYTES // POOL_BLOCK_BYTES
                    )
                except OSError as error:
                    msg = f"Expected memory for node `{self.name}` to share: {error.strerror}"
                    raise LinkError(msg) from error
            return self._pool

    def close_pool(self) -> None:
        """Its memory goes with whoever else refers to it. Opens the books itself."""
        with books.changing():
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
