# What the compiled module offers, for type checkers. The truth is native/locks/locks.c.

from collections.abc import Callable
from typing import Protocol, final

class Lockable(Protocol):
    def acquire(self) -> object: ...
    def release(self) -> object: ...

@final
class Held:
    """Holds a lock within one `with`; no interrupt leaves it locked, as it may in `with lock` itself."""

    def __new__(cls, lock: Lockable, /) -> Held: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *exception: object) -> None: ...

@final
class Changing:
    """Holds a lock within `with changing():`; these nest. No interrupt leaves it locked, or anybody asleep.

    When the outermost ends, all that is in `asleep` is taken out and called, and then `ended` is.
    """

    def __new__(
        cls, lock: Lockable, asleep: set[Callable[[], None]], ended: Callable[[], None], /
    ) -> Changing: ...
    def __call__(self) -> Held: ...
