"""What a node declares of a channel, and the formats of a link by their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from echo_core.errors import LinkError, WireError
from echo_core.formats.faults import unexpected
from echo_core.transports import limits
from echo_core.transports.handshake.proofs import check_key
from echo_core.transports.protocol import messages


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a node knows of a channel: its key, and for the peer its name and the metadata of its types."""

    key: bytes
    name: str = ""
    types: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        """Refuses what could not be told to a peer."""
        check_key(self.key)
        messages.encode(messages.Declared(0, self.name, tuple(range(len(self.types)))))
        for metadata in self.types:
            messages.encode(messages.Format(0, metadata))


class FormatTable:
    """Metadata by number, of one direction; it only grows, and says when it is full."""

    def __init__(self, error: type[LinkError | WireError]) -> None:
        self._error = error  # whose fault it is when there are too many
        self._metadata: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._metadata)

    def number_of(self, metadata: bytes) -> int | None:
        return self._numbers.get(metadata)

    def metadata_of(self, number: int) -> bytes:
        if number >= len(self._metadata):
            raise unexpected(self._error, f"the number of a format, below {len(self._metadata)}", number)
        return self._metadata[number]

    def has_room_for(self, metadata: Iterable[bytes]) -> bool:
        """Whether all of them could be added; those that are there already need no room."""
        added = set(metadata) - self._numbers.keys()
        are_few = len(self) + len(added) <= limits.MAX_FORMATS
        return are_few and self._bytes + sum(map(len, added)) <= limits.MAX_LINK_METADATA_BYTES

    def add(self, metadata: bytes) -> int:
        if len(self._metadata) >= limits.MAX_FORMATS:
            msg = f"A link carries at most {limits.MAX_FORMATS} formats of one side"
            raise self._error(msg)
        if len(metadata) > limits.MAX_LINK_METADATA_BYTES - self._bytes:
            msg = f"A link carries at most {limits.MAX_LINK_METADATA_BYTES} bytes of one side's metadata"
            raise self._error(msg)
        self._bytes += len(metadata)
        self._metadata.append(metadata)
        return self._numbers.setdefault(metadata, len(self._metadata) - 1)
