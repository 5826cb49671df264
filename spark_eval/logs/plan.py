"""Which events a reader takes of a log, as what: found out in the driver, and sent to the tasks.

The tasks need no class: it is made of its metadata, unless the option `event` names one.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Any

import echo_core as echo
from echo_core.spark_eval.columns.schema import is_nullable, spark_type
from echo_core.spark_eval.logs import extras
from echo_core.spark_eval.logs.options import OptionError, Options
from echo_core.spark_eval.logs.pushing import Pushed

Place = tuple[int, int]
_ALL_FIELDS = "*"


@dataclass(frozen=True)
class Plan:
    """`names`: the columns, each a field or one of the extras. `log_id`: a log in its place is another."""

    options: Options
    metadata: bytes
    log_id: str
    names: tuple[str, ...] = ()
    pushed: Pushed = field(default_factory=Pushed)

    @property
    def event_class(self) -> type[Any]:
        """What events become. It is not pickled, as it may have been made here."""
        return _class_of(self.options.event, self.metadata)

    @property
    def receiver(self) -> echo.Format:
        """The format of that."""
        return echo.format_of(self.event_class)

    def opened(self) -> Any:
        """The log, as a context manager; LogError where it was replaced since this was planned."""
        options = self.options
        log = echo.open_log(options.path, on_damage=options.on_damage, verify=options.verify)
        found = log.id
        if found != self.log_id:
            log.close()
            msg = f"Expected the log {self.log_id}, got {found} in its place"
            raise echo.LogError(msg, path=options.path, hint="read it again")
        return log

    def view(self, log: Any) -> Any:
        """The events that are asked for, of the whole log."""
        options, pushed = self.options, self.pushed
        view = log[self.event_class]
        if options.channel is not None:
            view = view.channel(options.channel)
        if options.since is not None or options.until is not None:
            view = view.between(options.since, options.until)
        if pushed.since_ns is not None or pushed.until_ns is not None:
            view = view.between(pushed.since_ns, pushed.until_ns)
        if pushed.first is not None or pushed.stop is not None:
            view = view.sequences("", max(0, pushed.first or 0), pushed.stop)
        if pushed.condition:
            view = view.where(pushed.condition, **pushed.parameters)
        return view


@lru_cache(maxsize=64)
def _class_of(event: str | None, metadata: bytes) -> type[Any]:
    return imported(event) if event is not None else echo.Format.from_metadata(metadata).record_class()


def plan_of(options: Options) -> Plan:
    """What the options ask for; OptionError where the log does not say what that is."""
    with echo.open_log(options.path, on_damage="report") as log:
        receiver = _receiver(options, log)
        return Plan(options, receiver.metadata, log.id, _names(options, receiver))


def _receiver(options: Options, log: Any) -> echo.Format:
    if options.event is not None:
        return echo.format_of(imported(options.event))
    streams = [stream for stream in log.streams if _is_of_channel(stream.key, options.channel)]
    formats = {stream.format.token: stream.format for stream in streams}
    if options.format is not None:
        formats = {t: it for t, it in formats.items() if options.format in (it.name, str(t))}
    if len({format_.name for format_ in formats.values()}) != 1:
        raise _several(options, streams)
    found: echo.Format = list(formats.values())[-1]
    return found


def _is_of_channel(key: Any, channel: str | None) -> bool:
    return channel is None or channel in (key.channel_name, key.channel.hex())


def _several(options: Options, streams: Iterable[Any]) -> OptionError:
    events: dict[tuple[str, str, str], int] = {}
    for stream in streams:
        which = stream.format.name, str(stream.format.token), stream.key.channel_name
        events[which] = events.get(which, 0) + stream.events
    lines = [f"{count:,} of `{n}` ({t[:16]}) on `{c}`" for (n, t, c), count in sorted(events.items())]
    wanted = "events of one name" if options.format is None else f"events called `{options.format}`"
    return OptionError(
        f"Expected {wanted}, got {'; '.join(lines) or 'none'}",
        path=options.path,
        hint="say which by the option `event` (module:Class), `format` (a name) or `channel`",
    )


def imported(event: str) -> type[Any]:
    """The class that `module:Class` names."""
    module, _, path = event.partition(":")
    try:
        found: Any = reduce(getattr, path.split("."), importlib.import_module(module))
        echo.format_of(found)
    except (ImportError, AttributeError, echo.FormatError) as error:
        msg = f"Expected an event class that can be imported, got {event!r}: {error}"
        raise OptionError(msg, path="event") from None
    cls: type[Any] = found
    return cls


# ---------------------------------------------------------------------------
# Columns


def _names(options: Options, receiver: echo.Format) -> tuple[str, ...]:
    fields = [field.name for field in receiver.fields]
    if options.columns is None:
        return tuple(fields)
    names = [name for given in options.columns for name in (fields if given == _ALL_FIELDS else [given])]
    for name in names:
        if name not in fields and name not in extras.NAMES:
            msg = f"Expected columns out of {', '.join([*fields, *extras.NAMES])}, got `{name}`"
            raise OptionError(msg, path="columns")
    return tuple(dict.fromkeys(names))


def struct_of(receiver: echo.Format, names: Iterable[str]) -> Any:
    """The Spark schema of these columns."""
    types: Any = importlib.import_module("pyspark.sql.types")
    type_by_name = {field.name: field.type for field in receiver.fields}
    return types.StructType(
        [
            types.StructField(name, spark_type(type_by_name[name]), is_nullable(type_by_name[name]))
            if name in type_by_name
            else types.StructField(name, extras.extra(name).spark, False)
            for name in names
        ]
    )


def demand_columns(receiver: echo.Format, schema: Any) -> tuple[str, ...]:
    """The names in a schema that somebody gave; OptionError for a column that the log has not, or not so."""
    known = [field.name for field in receiver.fields]
    for name in schema.fieldNames():
        if name not in known and name not in extras.NAMES:
            msg = f"Expected columns out of {', '.join([*known, *extras.NAMES])}, got `{name}`"
            raise OptionError(msg, path="schema")
    ours = struct_of(receiver, schema.fieldNames())
    for given, own in zip(schema.fields, ours.fields, strict=True):
        if given.dataType.simpleString() != own.dataType.simpleString():
            msg = f"Expected {own.dataType.simpleString()}, got {given.dataType.simpleString()}"
            raise OptionError(msg, path=f"schema.{given.name}", hint="cast it in a select")
    return tuple(schema.fieldNames())
