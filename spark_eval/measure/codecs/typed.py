"""msgspec: by field name into the dataclass itself, and its fastest, arrays into structs of its own."""

from __future__ import annotations

import importlib
import types
import typing
from dataclasses import dataclass
from typing import Any

import numpy as np

from echo_core.spark_eval.measure.codecs.codec import (
    POSITIONAL,
    Costs,
    Function,
    MeasuredCodec,
    Target,
)
from echo_core.spark_eval.measure.codecs.handwritten import batch_of_columns, column_maker, compiled
from echo_core.spark_eval.measure.codecs.members import NUMBERS, members
from echo_core.spark_eval.measure.workloads import EventShape, Particle, Sender, hints


def _msgspec() -> Any:
    return importlib.import_module("msgspec")


def _bytes_of(it: Any) -> Any:
    return it.tobytes()


def _numbers_of(cls: type[Any], data: Any) -> Any:
    return np.frombuffer(data, NUMBERS)


_known: dict[type[Any], Any] = {}


def _struct(cls: type[Any]) -> Any:
    """A struct with the fields of a dataclass, read and written as an array."""
    if cls not in _known:
        fields = [(name, _struct_hint(hint)) for name, hint in hints(cls).items()]
        _known[cls] = _msgspec().defstruct(cls.__name__, fields, array_like=True, gc=False)
    return _known[cls]


def _struct_hint(hint: Any) -> Any:
    if typing.get_origin(hint) is list:
        (item,) = typing.get_args(hint)
        return types.GenericAlias(list, (_struct_hint(item),))
    return _struct(hint) if hasattr(hint, "__dataclass_fields__") else hint


def _struct_maker(cls: type[Any]) -> Function:
    """From an instance of a dataclass to the struct."""
    parts: list[str] = []
    names: dict[str, Any] = {"cls": _struct(cls)}
    for name, kind in members(cls).items():
        if kind.holds_records:
            names[f"make_{name}"] = _struct_maker(kind.element.record)
            parts.append(f"list(map(make_{name}, it.{name}))")
        else:
            parts.append(f"it.{name}")
    return compiled(f"cls({', '.join(parts)})", {**names, "list": list, "map": map})


@dataclass(frozen=True, slots=True)
class Msgspec(MeasuredCodec):
    """Typed decoders of either class."""

    is_struct: bool

    @property
    def is_positional(self) -> bool:
        return self.is_struct

    def load(self) -> None:
        _msgspec()

    def source(self, shape: EventShape, sender: Sender, target: Target) -> Any:
        given: Any = MeasuredCodec.source(self, shape, sender, target)
        is_event = self.is_struct and not (target == "columns" and sender == "same")
        return _struct_maker(given.__class__)(given) if is_event else given

    def encoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        encode: Function = _msgspec().msgpack.Encoder(enc_hook=_bytes_of).encode
        if target != "columns" or sender != "same":
            return encode
        message = batch_of_columns(Particle, "row" if self.is_struct else "map")
        return lambda columns: encode(message(columns))

    def decoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        cls = _struct(shape.cls) if self.is_struct else shape.cls
        decode: Function = _msgspec().msgpack.Decoder(cls, dec_hook=_numbers_of).decode
        if target == "objects":
            return decode
        columns = column_maker(Particle, "x.{}")
        return lambda data: columns(decode(data).particles)


TYPED: tuple[Msgspec, ...] = (
    Msgspec("msgspec", is_struct=False),
    Msgspec("msgspec struct", is_struct=True, senders=POSITIONAL),
)
