"""The memory layout of CPython objects that compiled code reads, checked at run time.

Compiled code for events reads floats, ints and ASCII strings out of their objects, and instances' slots out
of the instances. Each fact here is tried on real objects when this module is first used. Where one does not
hold, or on an interpreter that is not known to be safe (free-threaded, or not CPython), nothing is compiled
for events and the generic codec does all of it; `problem()` says why.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
import sysconfig
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

POINTER = ctypes.sizeof(ctypes.c_void_p)

TYPE_OFFSET = 8
FLOAT_OFFSET = 16
LIST_ITEMS_OFFSET = 24
TEXT_LENGTH_OFFSET = 16
TEXT_STATE_OFFSET = 32
TEXT_IS_COMPACT_ASCII = 0x60  # both bits of the state
REFERENCE_COUNT_OFFSET = 0

# An int's digits have 30 bits, of which compiled code reads one. Since 3.12 a tag stands before it: its low
# two bits are the sign (0 positive, 1 zero, 2 negative), and it is below 16 where there is one digit at most.
# Before, there was a signed number of digits.
INT_TAG_OFFSET = 16
INT_DIGIT_OFFSET = 24
HAS_INT_TAG = sys.version_info >= (3, 12)

TEXT_DATA_OFFSET = 40 if sys.version_info >= (3, 12) else 48

# Since 3.12 True, False, None and small ints live for ever, and their references are not counted.
HAS_IMMORTALS = sys.version_info >= (3, 12)


def unknown() -> str:
    """Why nothing is known of objects in this interpreter; empty where it is CPython with its global lock."""
    if platform.python_implementation() != "CPython":
        return f"{platform.python_implementation()} is not CPython"
    return "this build of Python is free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""


@functools.cache
def problem() -> str:
    """Why events are not compiled in this interpreter; empty where they are."""
    if POINTER != 8 or sys.byteorder != "little":
        return "this machine is not a little-endian one of 64 bits"
    return unknown() or _first_that_fails()


def _first_that_fails() -> str:
    samples: tuple[object, ...] = (1.5, 7, "a", [0], None)
    checks = {
        "types": all(_word(it, TYPE_OFFSET) == id(type(it)) for it in samples),
        "floats": all(_double(it, FLOAT_OFFSET) == it for it in (0.0, 1.5, -2.25e300)),
        "ints": all(_int(it) == it for it in (0, 1, -1, 255, 2**29, 2**30 - 1, 1 - 2**30)),
        "large ints": all(_int(it) is None for it in (2**30, -(2**30), 2**64, -(2**90))),
        "text": all(_text(it) == it for it in ("", "a", "x" * 15, "y" * 16, "z" * 100)),
        "other text": all(_text(it) is None for it in ("é", "\u20ac", "\U0001f600", "a\u0100")),
        "lists": _items(list(samples)) == [id(it) for it in samples],
    }
    failed = [name for name, holds in checks.items() if not holds]
    return f"{failed[0]} do not lie where they were expected" if failed else ""


def _word(it: object, offset: int) -> int:
    return ctypes.c_uint64.from_address(id(it) + offset).value


def _double(it: object, offset: int) -> float:
    return ctypes.c_double.from_address(id(it) + offset).value


def _int(it: int) -> int | None:
    """An int as compiled code reads it; None where compiled code would call CPython."""
    tag = ctypes.c_int64.from_address(id(it) + INT_TAG_OFFSET).value
    digit = ctypes.c_uint32.from_address(id(it) + INT_DIGIT_OFFSET).value
    if HAS_INT_TAG:
        return digit * (1 - (tag & 3)) if 0 <= tag < 16 else None
    return digit * tag if -1 <= tag <= 1 else None


def _text(it: str) -> str | None:
    """ASCII text as compiled code reads it; None where compiled code would call CPython."""
    state = ctypes.c_uint32.from_address(id(it) + TEXT_STATE_OFFSET).value
    if state & TEXT_IS_COMPACT_ASCII != TEXT_IS_COMPACT_ASCII:
        return None
    length = _word(it, TEXT_LENGTH_OFFSET)
    return ctypes.string_at(id(it) + TEXT_DATA_OFFSET, min(length, 1000)).decode("ascii", "replace")


def _items(it: list[Any]) -> list[int]:
    """The items of a list as compiled code finds them; none where that could be no address at all."""
    address = _word(it, LIST_ITEMS_OFFSET)
    if address % POINTER or not 2**16 < address < 2**56:
        return []
    return [ctypes.c_uint64.from_address(address + POINTER * i).value for i in range(len(it))]


def slot_offsets(cls: type[Any], names: Sequence[str]) -> dict[str, int] | None:
    """The offset of each attribute in an instance; None unless each has a slot of its own.

    An instance is made without `__init__`, a mark is put into each slot, and the marks are looked for.
    """
    return plain_slot_offsets(cls, names) if _has_plain_slots(cls, names) else None


def plain_slot_offsets(cls: type[Any], names: Sequence[str]) -> dict[str, int] | None:
    """The same for a class whose attributes are known to be slots, however it guards them."""
    instance = object.__new__(cls)
    words = (ctypes.c_uint64 * (cls.__basicsize__ // POINTER)).from_address(id(instance))
    marks = {name: object() for name in names}
    for name, mark in marks.items():
        object.__setattr__(instance, name, mark)
    held = words[2:]  # behind the object's head
    counts, places = Counter(held), {word: POINTER * (2 + i) for i, word in enumerate(held)}
    if any(counts[id(mark)] != 1 for mark in marks.values()):
        return None
    return {name: places[id(mark)] for name, mark in marks.items()}


def _has_plain_slots(cls: type[Any], names: Sequence[str]) -> bool:
    """Whether attributes are C members and nothing that runs when they are read or written."""
    member: Any = cast("Any", type(vars(_Slotted)["it"]))
    own = "__getattribute__", "__getattr__", "__setattr__", "__new__"
    is_frozen = cls.__dataclass_params__.frozen if hasattr(cls, "__dataclass_params__") else False
    touched = [
        name
        for name in own
        if getattr(cls, name, None) is not getattr(object, name, None)
        and not (is_frozen and name == "__setattr__")
    ]
    slots: list[Any] = [getattr(cls, name, None) for name in names]
    return not touched and all(
        isinstance(slot, member) and slot.__objclass__ in cls.__mro__ for slot in slots
    )


@dataclass(slots=True)
class _Slotted:
    it: object
