"""Which types belong on a channel that was declared with some, and which sources concern a sink."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from echo_core.codegen.machine.budgets import Budget
from echo_core.errors import IncompatibleError, unexpected
from echo_core.formats.comparing.compare import Report, compare
from echo_core.formats.comparing.matching import is_called_alike
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format
from echo_core.formats.kept import Kept
from echo_core.formats.token import Token
from echo_core.streams.receptions import Receptions, Wanted

_MOST_NAMED = 4  # sources that a message names; a peer may offer any number


def made_ready(
    receptions: Receptions, declared: Sequence[Format], wanted: Wanted, sender: Format, budget: Budget | None
) -> object:
    """What takes long where a source and a sink meet. It is found then by who asks, while the caller has it.

    So it need not be made with the books open: of a format of 1000 fields it takes 0.1 s.
    """
    if not wanted.knows(sender):
        return None
    made: object = None
    with contextlib.suppress(Exception):  # of arrays of what varies in size, say: who connects the two tells
        made = receptions.of(wanted, sender, budget)
    if isinstance(made, Report):
        concern_each_other(declared, sender, wanted)
    return made


def concern_each_other(declared: Sequence[Format], sender: Format, wanted: Wanted) -> bool:
    """Whether a sink that cannot take a source's events ought to.

    Yes where both are called alike. Where shape decides, not if each fits another of several types.
    """
    if not wanted.knows(sender):
        return False
    if len(declared) < 2 or wanted.cls is None or wanted.knows_by_name(sender):
        return True
    receiver = format_of(wanted.cls)
    return any(
        _converts(sender, type_) and _converts(type_, receiver, lossy=wanted.is_lossy) for type_ in declared
    )


@dataclass(frozen=True, slots=True, weakref_slot=True)
class _Answer:
    is_yes: bool


_answers: Kept[tuple[Token, Token, bool], _Answer] = Kept(4096)  # a peer may offer the same again and again


def _converts(sender: Format, receiver: Format, *, lossy: bool = False) -> bool:
    """Whether one format can become another; they are compared once."""
    key = sender.token, receiver.token, lossy
    known = _answers.get(key)
    if known is None:
        known = _answers.put(key, _Answer(compare(sender, receiver, lossy=lossy).is_accepted), 1)
    return known.is_yes


def demand_source_type(channel: str, declared: Sequence[Format], sender: Format) -> None:
    """IncompatibleError for a source of a type that the channel was not declared with.

    What converts in either direction belongs there: the version of who has created the channel decides
    nothing, so receivers may be upgraded first.
    """
    known = _called_alike(channel, declared, sender)
    if known and not any(_convert(sender, type_) or _convert(type_, sender) for type_ in known):
        raise _unfit(channel, declared, [compare(sender, type_) for type_ in known])


def demand_sink_type(channel: str, declared: Sequence[Format], wanted: Wanted) -> None:
    """Likewise for what a sink wants."""
    assert wanted.cls is not None
    receiver = format_of(wanted.cls)
    known = declared if wanted.by_shape else _called_alike(channel, declared, receiver, is_sink=True)
    strict = wanted.is_strict
    reports = [compare(type_, receiver, lossy=wanted.is_lossy, strict=strict) for type_ in known]
    fits = any(report.is_accepted for report in reports)
    if known and not fits and not any(_convert(receiver, type_, strict=strict) for type_ in known):
        raise _unfit(channel, declared, reports)


def _convert(sender: Format, receiver: Format, *, strict: bool = False) -> bool:
    return compare(sender, receiver, strict=strict).is_accepted


def _called_alike(
    channel: str, declared: Sequence[Format], given: Format, *, is_sink: bool = False
) -> Sequence[Format]:
    """Those of the declared types that are called as a given one is."""
    known = [type_ for type_ in declared if is_called_alike(type_.record, given.record)]
    if declared and not known:
        shape = ', or ask for its shape alone by `match="shape"`' if is_sink else ""
        raise unexpected(
            IncompatibleError,
            f"a type of channel `{channel}`: {_names(declared)}",
            f"`{given.name}`",
            hint=f"keep the name of what was renamed: `@echo.event(aliases=({declared[0].name!r},))`{shape}",
        )
    return known


def _unfit(channel: str, declared: Sequence[Format], reports: Sequence[Report]) -> IncompatibleError:
    nearest = min(reports, key=lambda report: len(report.refused))
    msg = f"Expected a type that fits channel `{channel}` of {_names(declared)}"
    return IncompatibleError(msg, path=nearest.refused[0].path, hint=str(nearest))  # lines, so last


def _names(formats: Iterable[Format]) -> str:
    return ", ".join(f"`{format_.name}`" for format_ in formats)


def in_words(wanted: Wanted, offered: Iterable[tuple[str, str, Format]]) -> str:
    """What there is on the channel that a sink does not know, for who waits for a source in vain.

    `offered` has peer, source and format of each source that there is.
    """
    strangers = [each for each in offered if not wanted.knows(each[2])]
    if wanted.cls is None or not strangers:
        return ""
    shown = [f"`{format_.name}` by `{name}` of {peer}" for peer, name, format_ in strangers[:_MOST_NAMED]]
    more = f" and {len(strangers) - _MOST_NAMED} more" if len(strangers) > _MOST_NAMED else ""
    ours = format_of(wanted.cls)
    return f" (not called {_names([ours])}: {', '.join(shown)}{more})"
