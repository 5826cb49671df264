"""What `.option(name, value)` says of a log: texts, checked and turned into values. Pure data.

Spark hands over names in lower case, and every value as text.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import echo_core as echo

Time = dt.datetime | int

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class OptionError(echo.EchoError):
    """An option that is not known, or a value that it does not take: the caller's fault."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to read of a log, and how. docs/spark.md has a line for each."""

    path: str
    channel: str | None = None
    event: str | None = None
    format: str | None = None
    since: Time | None = None
    until: Time | None = None
    columns: tuple[str, ...] | None = None
    view: str = "events"
    partition_bytes: int = 128 << 20
    batch_bytes: int = 4 << 20
    damage: str = "fail"
    max_rows: int | None = None
    start: str = "earliest"
    verify: bool = True
    pushdown: bool = False

    @property
    def on_damage(self) -> Any:
        """The word that `echo.open_log` has for it."""
        return {"fail": "raise", "skip": "report"}[self.damage]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where to write events to, and what to call them."""

    path: str
    channel: str = "spark"
    source: str = "spark"
    event: str | None = None
    name: str = "Row"


def _one_of(*words: str) -> Callable[[str, str], str]:
    def read(name: str, text: str) -> str:
        if text not in words:
            raise _unexpected(name, " or ".join(words), text)
        return text

    return read


def _flag(name: str, text: str) -> bool:
    return _one_of("true", "false")(name, text.lower()) == "true"


def _text(name: str, text: str) -> str:
    if not text:
        raise _unexpected(name, "a text", text)
    return text


def _names(name: str, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise _unexpected(name, "names, such as `id,x,_time`", text)
    return names


def _bytes(name: str, text: str) -> int:
    found = re.fullmatch(r"(\d+)([kmg]?)b?", text.strip().lower())
    size = int(found[1]) * _UNITS[found[2]] if found else 0
    if not size:
        raise _unexpected(name, "a number of bytes, such as 64m", text)
    return size


def _count(name: str, text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise _unexpected(name, "a number of rows", text)
    return int(text)


def _time(name: str, text: str) -> Time:
    """Nanoseconds since the epoch, or a date and time with its zone."""
    if re.fullmatch(r"-?\d{5,}", text):
        return int(text)
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        time = dt.datetime.min
    if time.tzinfo is None:
        raise _unexpected(name, "a time such as 2026-01-31T12:00:00Z, or ns since the epoch", text)
    return time


def _event(name: str, text: str) -> str:
    if not re.fullmatch(r"[\w.]+:[\w.]+", text):
        raise _unexpected(name, "module:Class", text)
    return text


_Reader = Callable[[str, str], Any]

_READERS: dict[str, _Reader] = {
    "path": _text,
    "channel": _text,
    "event": _event,
    "format": _text,
    "since": _time,
    "until": _time,
    "columns": _names,
    "view": _one_of("events", "streams", "gaps", "damage"),
    "partitionBytes": _bytes,
    "batchBytes": _bytes,
    "damage": _one_of("fail", "skip"),
    "maxRows": _count,
    "start": _one_of("earliest", "latest"),
    "verify": _flag,
    "pushdown": _flag,
}
_WRITERS: dict[str, _Reader] = {
    "path": _text,
    "channel": _text,
    "source": _text,
    "event": _event,
    "name": _text,
}
_FIELDS = {"partitionBytes": "partition_bytes", "batchBytes": "batch_bytes", "maxRows": "max_rows"}


def options_of(given: Mapping[str, str]) -> Options:
    """What a reader was given."""
    found = _read(given, _READERS)
    return Options(**{_FIELDS.get(name, name): value for name, value in found.items()})


def write_options_of(given: Mapping[str, str]) -> WriteOptions:
    """What a writer was given."""
    return WriteOptions(**_read(given, _WRITERS))


def _read(given: Mapping[str, str], readers: Mapping[str, _Reader]) -> dict[str, Any]:
    reader_by_key = {name.lower(): (name, read) for name, read in readers.items()}
    found: dict[str, Any] = {}
    for key, text in given.items():
        if key.lower() not in reader_by_key:
            msg = f"Expected options out of {', '.join(sorted(readers))}, got `{key}`"
            raise OptionError(msg)
        name, read = reader_by_key[key.lower()]
        found[name] = read(name, text)
    if "path" not in found:
        msg = "Expected the path of a log, got none"
        raise OptionError(msg, hint='`.load("run.echolog")`, or `.option("path", ...)`')
    return found


def _unexpected(name: str, expected: str, got: str) -> OptionError:
    return OptionError(f"Expected {expected}, got {got!r}", path=name)
