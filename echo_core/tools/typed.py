"""Where types come from that a command compares: a class, C, metadata, a log, or a channel."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Generator
from typing import Any

import echo_core as echo
from echo_core.tools.endings import Ending, ToolError
from echo_core.tools.opening import opened
from echo_core.tools.parameters import channel_way
from echo_core.tools.surveys import survey

_CLASS = re.compile(r"(?P<place>[\w./-]+):(?P<name>[A-Za-z_][\w.]*)")
_MAX_FILE_BYTES = 1024 * 1024


def formats_of(text: str) -> list[echo.Format]:
    """The types that an argument names.

    FILE.py:Class or package.module:Class, FILE.h or FILE.h:struct, a FILE with metadata, a log, or a channel.
    """
    found = _CLASS.fullmatch(text)
    if found is not None and found["place"] not in ("name", "env"):
        return [_of_part(found["place"], found["name"])]
    if not text.startswith("@") and os.path.isfile(text):
        return [_of_file(text)]
    if os.path.isdir(text):
        return _of_log(text)
    return _of_channel(text)


def _of_part(place: str, name: str) -> echo.Format:
    if place.endswith(".h"):
        return echo.Format.from_c(_read(place).decode(errors="replace"), name=name)
    module = _module_of_file(place) if place.endswith(".py") else _module(place)
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            msg = f"Expected a class `{name}` in {place}, there is none"
            raise ToolError(msg, ending=Ending.USAGE)
        value = getattr(value, part)
    return value if isinstance(value, echo.Format) else echo.format_of(value)


def _module(name: str) -> Any:
    """From the folder of the caller too, as `python -m` has it."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    with _told(f"a module `{name}`"):
        return importlib.import_module(name)


def _module_of_file(path: str) -> Any:
    """Run as a module of its own, as it would be imported from its folder."""
    if not os.path.isfile(path):
        msg = f"Expected a file {path}, there is none"
        raise ToolError(msg, ending=Ending.USAGE)
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(f"echoctl_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where annotations are looked up
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    with _told(f"a module in {path}"):
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _told(expected: str) -> Generator[None]:
    """Whatever somebody else's code raises: `-v` shows where."""
    try:
        yield
    except Exception as error:
        msg = f"Expected {expected}, got {type(error).__name__}: {error}"
        raise ToolError(msg, ending=Ending.USAGE) from error


def _of_file(path: str) -> echo.Format:
    content = _read(path)
    if path.endswith(".h"):
        return echo.Format.from_c(content.decode(errors="replace"))
    return echo.Format.from_metadata(content)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        content = file.read(_MAX_FILE_BYTES + 1)
    if len(content) > _MAX_FILE_BYTES:
        msg = f"Expected a file of at most {_MAX_FILE_BYTES:,} bytes, {path} has more"
        raise ToolError(msg, ending=Ending.USAGE)
    return content


def _of_log(path: str) -> list[echo.Format]:
    with echo.open_log(path) as log:
        if not log.formats:
            msg = f"Expected a log with events, {path} has none"
            raise ToolError(msg)
        return list(log.formats)


def _of_channel(text: str) -> list[echo.Format]:
    with opened(channel_way(text)) as channel:
        found = survey(channel).formats(channel)
    if not found:
        msg = f"Expected a channel whose types are known, `{text}` was declared with none, and nobody sends"
        raise ToolError(msg)
    return found
