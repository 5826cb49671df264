"""What a source keeps of its events for sinks that come later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from echo_core.errors import ChannelError, unexpected


@dataclass(frozen=True, slots=True)
class Keep:
    """The last events of a source, or with `per` the last of each value of a field.

    `per` names a field of the source's type: a number, a bool, an enum, a time, a UUID, text or bytes of a
    fixed size; `"a.b"` is the field b of the record a. `max_keys` values are kept at most: where another one
    comes, the one that was longest without an event is forgotten.

    >>> echo.Keep(last=2, per="sensor")
    Keep(last=2, per='sensor', max_keys=1024)
    """

    last: int = 1
    per: str | None = None
    max_keys: int = 1024

    def __post_init__(self) -> None:
        for name, value in (("last", self.last), ("max_keys", self.max_keys)):
            if type(cast("object", value)) is not int or value < 1:
                raise unexpected(ChannelError, f"1 or more as {name}", f"{value!r}")
        if self.per is not None and (not isinstance(cast("object", self.per), str) or not self.per):
            raise unexpected(ChannelError, "the name of a field as per", f"{self.per!r}")

    @property
    def events(self) -> int:
        """How many there are at most."""
        return self.last if self.per is None else self.last * self.max_keys
