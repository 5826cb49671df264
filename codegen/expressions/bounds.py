"""Whether any of many records can pass, by the least and the greatest value that their fields have.

A program's steps are followed with ranges in the place of values. What a step says of all records is "true of
each", "false of each", or nothing. An event for which a step fails does not pass, so what is said of all has
to be right of the others alone. The interpreter is the oracle.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from echo_core.codegen.expressions.program import NO_STEP, Program, Step, word_of
from echo_core.codegen.expressions.sorts import Sort, Value

Ends = tuple[int, int] | tuple[float, float]
"""The least and the greatest of a field's values; both NaN where nothing is known."""


class _Known(NamedTuple):
    """Between which values a step's is, for every record. Compared as Python does it, which is exact."""

    least: float
    greatest: float


class _Word(NamedTuple):
    """A value that is the same for every record: 64 bits, which each step reads as its own operand."""

    word: int


_Found = _Known | _Word | bool | None  # None: nothing is known


def may_pass(program: Program, values: Sequence[Value], ranges: Mapping[int, Ends]) -> bool:
    """Whether some record may pass of which `ranges` are true, by the offsets of fields.

    What a program remembers depends on every record that it judges, so it may be in need of any.
    """
    if program.states or program.updates or not program.roots:
        return True
    found: list[_Found] = []
    for step in program.steps:
        found.append(_found(step, found, program, values, ranges))
    return all(_said(found[step]) is not False for step, sort in program.roots if sort is Sort.BOOL)


def _found(
    step: Step, found: list[_Found], program: Program, values: Sequence[Value], ranges: Mapping[int, Ends]
) -> _Found:
    name, _, kinds = step.op.partition("_")
    if name == "LOAD":
        return _loaded(step, ranges)
    if name in ("EQ", "LT", "LE") and kinds != "T":
        return _compared(name, kinds, found[step.a], found[step.b])
    match step.op:
        case "CONST":
            return _Word(step.imm)
        case "PARAM":
            slot = program.slots[step.imm]
            return _Word(word_of(slot.sort, values[slot.number], slot.enumeration))
        case "I_TO_F" | "U_TO_F":
            return _as_float(found[step.a], step.op[0])
        case "NOT":
            said = _said(found[step.a])
            return None if said is None else not said
        case "AND":
            return _all(_said(found[step.a]), _said(found[step.b]))
        case "OR":
            return _any(_said(found[step.a]), _said(found[step.b]))
        case _:
            return None


def _loaded(step: Step, ranges: Mapping[int, Ends]) -> _Found:
    """Of a field of the record itself: those of parts of it that lie elsewhere have no range."""
    ends = ranges.get(step.imm) if step.a == NO_STEP else None
    return None if ends is None or ends[0] != ends[0] else _Known(*ends)


def _said(found: _Found) -> bool | None:
    """What a bool is for every record."""
    match found:
        case bool():
            return found
        case _Word(word=word):
            return bool(word)
        case _Known(least=least, greatest=greatest):
            return bool(least) if bool(least) == bool(greatest) else None
        case None:
            return None


def _all(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return True if a and b else None


def _any(a: bool | None, b: bool | None) -> bool | None:
    if a or b:
        return True
    return False if a is False and b is False else None


def _as_float(found: _Found, kind: str) -> _Found:
    """Rounding keeps the order."""
    known = _as_known(found, kind)
    return None if known is None else _Known(float(known.least), float(known.greatest))


def _as_known(found: _Found, kind: str) -> _Known | None:
    match found:
        case _Known():
            return found
        case _Word(word=word):
            value = struct.unpack(_READ[kind], struct.pack("<q", word))[0]
            return _Known(value, value)
        case _:
            return None


_READ = {"I": "<q", "U": "<Q", "F": "<d"}


def _compared(relation: str, kinds: str, first: _Found, second: _Found) -> bool | None:
    if relation == "EQ":
        return _equal(kinds, first, second)
    a, b = _as_known(first, kinds[0]), _as_known(second, kinds[-1])
    if a is None or b is None:
        return None
    if relation == "LT":
        is_always, is_never = a.greatest < b.least, a.least >= b.greatest
    else:
        is_always, is_never = a.greatest <= b.least, a.least > b.greatest
    return True if is_always else False if is_never else None


def _equal(kinds: str, first: _Found, second: _Found) -> bool | None:
    if kinds == "I" and (_is_unsigned(first) or _is_unsigned(second)):  # EQ_I is of all words
        kinds = "U"
    a, b = _as_known(first, kinds[0]), _as_known(second, kinds[-1])
    if a is None or b is None:
        return None
    if a.greatest < b.least or b.greatest < a.least:
        return False
    return True if a.least == a.greatest == b.least == b.greatest else None


def _is_unsigned(found: _Found) -> bool:
    """Whether it has values that no signed number has. Otherwise it is the same how a word is read."""
    return isinstance(found, _Known) and found.greatest >= 2**63
