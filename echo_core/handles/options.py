"""The arguments of handles that say how: what they may be, and the errors for all else."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Literal, TypeVar, cast, get_args

from echo_core.errors import ChannelError, unexpected
from echo_core.transports.limits import MAX_KEPT_EVENTS, MAX_NAME_BYTES
from echo_core.values.keep import Keep

U = TypeVar("U")
Match = Literal["name", "shape"]


def keep_of(keep: int | Keep) -> Keep | None:
    """What a source keeps; None: nothing. ChannelError for more events than may be kept."""
    if isinstance(keep, bool) or not isinstance(cast("object", keep), int | Keep):
        raise unexpected(ChannelError, "a number of events or a `Keep`", f"{keep!r}")
    if keep == 0:
        return None
    events = keep.events if isinstance(keep, Keep) else keep
    if not 0 <= events <= MAX_KEPT_EVENTS:
        raise unexpected(ChannelError, f"to keep 0 to {MAX_KEPT_EVENTS} events", f"{events!r}")
    if isinstance(keep, Keep) and keep.per is not None:
        demand_name(keep.per)
    return keep if isinstance(keep, Keep) else Keep(keep)


def demand_flag(option_name: str, value: bool) -> None:
    """ChannelError for what is neither True nor False."""
    if not isinstance(cast("object", value), bool):
        raise unexpected(ChannelError, f"True or False as {option_name}", f"{value!r}")


def demand_name(name: str) -> None:
    """ChannelError for a name that other processes would not take."""
    if not isinstance(cast("object", name), str):
        raise unexpected(ChannelError, "a name", f"{name!r}")
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError as error:
        raise unexpected(ChannelError, "a name that can be written in UTF-8", f"{name!r}") from error
    if size_bytes > MAX_NAME_BYTES:
        raise unexpected(ChannelError, f"a name of at most {MAX_NAME_BYTES} bytes", size_bytes)


def is_by_shape(match: Match) -> bool:
    """Whether types are matched by shape; ChannelError for what says neither."""
    if match not in get_args(Match):
        raise unexpected(ChannelError, f"one of {', '.join(get_args(Match))} as match", f"{match!r}")
    return match == "shape"


def option(cls: type[U], given: U | None) -> U:
    """What was given, or the default; ChannelError for anything else."""
    if given is None:
        return cls()
    if not isinstance(cast("object", given), cls):
        raise unexpected(ChannelError, f"`{cls.__name__}`", f"{given!r}")
    return given


def demand_handler(handler: Callable[..., object] | None, *, hint: str = "") -> None:
    """ChannelError for what cannot be called, or would only make a coroutine that nobody awaits."""
    if handler is None:
        return
    if not callable(cast("object", handler)):
        raise unexpected(ChannelError, "a handler that can be called", f"{handler!r}")
    if any(map(_is_asynchronous, (handler, type(handler).__call__))):
        raise unexpected(
            ChannelError,
            "a handler that has done its work when it returns",
            f"the asynchronous {handler!r}",
            hint=hint,
        )


def _is_asynchronous(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
