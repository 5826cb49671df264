"""What all handles have in common: `with` closes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """The base of handles."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Each handle has its own, whose arguments all have defaults."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
