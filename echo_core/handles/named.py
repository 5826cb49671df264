"""Channels by name, as who looks for them finds them."""

from __future__ import annotations

from dataclasses import dataclass, field

from echo_core.roster import seats
from echo_core.roster.names import listed


@dataclass(frozen=True, slots=True)
class NamedChannel:
    """A channel that is there now, and that processes of this user on this host find by its name.

    `identity` opens it, without holding it: `echo.open_channel(found.identity)`. It is a secret. `process_id`
    is that of the process which holds it: None where nobody does any more and other members let newcomers in,
    or where that process cannot be seen from here.
    """

    name: str
    identity: str = field(repr=False)
    process_id: int | None


def channels() -> list[NamedChannel]:
    """The channels by name that this user has on this host now, in the order of their names.

    Nobody on them notices.

    Raises:
        ChannelError: where names are kept is not this user's alone, or of another network namespace.

    >>> with echo.channel("points"):
    ...     [found.name for found in echo.channels() if found.name == "points"]
    ['points']
    """
    found = sorted(listed(), key=lambda each: each[0])
    taken = seats.taken()
    processes = seats.processes_at([taken[id_.seat] for _, id_ in found if id_.seat in taken])
    return [NamedChannel(name, str(id_), processes.get(taken.get(id_.seat, 0))) for name, id_ in found]
