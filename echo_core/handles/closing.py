"""What all handles have in common: `with` closes them."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """The base of handles."""

    __slots__ = ()

    def close(self) -> None:
        """Each handle has its own, whose arguments all have defaults."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
