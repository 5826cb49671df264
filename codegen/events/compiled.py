"""Native code before the generic codec of one class: walking a tree of values, and compiled for the class.

Each direction of a codec becomes a built-in function. It walks at once; compiled code is made in the
background, kept on disk and put in front. What neither handles goes to the generic codec.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from echo_core._c import events
from echo_core.codegen.conversion import Conversion, Tier, check_tier, have_done
from echo_core.codegen.events import record_types
from echo_core.codegen.events.class_code import code_of, shape_of, use_inner_codes
from echo_core.codegen.events.value_trees import tree_of
from echo_core.codegen.machine.budgets import Payers
from echo_core.codegen.plain.counting import may_exceed, objects_of
from echo_core.codegen.plain.generic import Data, GenericCodec
from echo_core.errors import CompileError, IncompatibleError


class Functions(NamedTuple):
    """What a codec is made of."""

    encode: Callable[[Any], bytes]
    encode_many: Callable[[Iterable[Any]], bytes]
    decode: Callable[[Data], Any]
    decode_many: Callable[[Data], list[Any]]


class Ways(enum.Flag):
    """Which directions a codec is wanted for."""

    ENCODE = enum.auto()
    DECODE = enum.auto()
    BOTH = ENCODE | DECODE


def functions_of(
    generic: GenericCodec[Any], tier: Tier, ways: Ways, payers: Payers | None = None
) -> Functions:
    """Built-in functions in front of a generic codec's own, in the directions that can have any.

    The tier "compiled" waits for them; CompileError says why there are none at all.
    """
    check_tier(tier)
    functions = Functions(generic.encode, generic.encode_many, generic.decode, generic.decode_many)
    if tier == "interpreted":
        return functions
    make = _NativeEvents if record_types.is_native(generic.cls) else _PlainEvents
    made = make(generic, tier, payers)
    refusals: list[CompileError] = []
    for way, build in ((Ways.ENCODE, made.encoding), (Ways.DECODE, made.decoding)):
        if way in ways:
            try:
                functions = functions._replace(**build())
            except CompileError as refusal:
                refusals.append(refusal)
    if tier == "compiled" and len(refusals) == (2 if ways is Ways.BOTH else 1):
        raise refusals[0]
    return functions


def _no_code(generic: GenericCodec[Any], reason: str) -> CompileError:
    msg = f"Expected a class and formats that code can be compiled for, got `{generic.cls.__qualname__}`"
    return CompileError(msg, hint=reason)


def _conversion(generic: GenericCodec[Any], *, keeps: bool = False) -> Conversion:
    """What verifies a sender's records and makes them ours."""
    try:
        return Conversion(
            generic.sender, generic.receiver, lossy=generic.lossy, keeps=keeps, report=generic.report
        )
    except IncompatibleError as error:  # a default that only the class can make
        raise _no_code(generic, str(error)) from None


def _walker(generic: GenericCodec[Any], conversion: Conversion | None = None) -> events.Walker:
    tree = tree_of(generic.receiver.record)
    if tree is None:
        raise _no_code(
            generic, "it has an enumeration with members of equal numbers, or too much that counts"
        )
    convert = None if conversion is None else conversion.call
    return events.Walker(tree, convert, generic.encode, generic.decode, _allowance(generic, tree))


def _allowance(generic: GenericCodec[Any], tree: events.Value) -> events.Allowance | None:
    record, most = generic.receiver.record, generic.most
    if most is None or not may_exceed(record, most):
        return None
    return events.Allowance(tree, most.count, partial(most.refuse, record.name))


def _demand_own_layout(generic: GenericCodec[Any]) -> None:
    if generic.format != generic.receiver:
        raise _no_code(generic, "events are encoded in C into this machine's own layout only")


@dataclass(frozen=True, slots=True)
class _PlainEvents:
    """Events whose fields are attributes: walked, unless there is code, for slots and records of one size."""

    generic: GenericCodec[Any]
    tier: Tier
    payers: Payers | None  # for what is compiled

    def encoding(self) -> dict[str, Any]:
        generic = self.generic
        _demand_own_layout(generic)
        walker = _walker(generic)
        if not generic.format.is_fixed:
            have_done(partial(use_inner_codes, walker.value), self.tier, self.payers)
            return {"encode": walker.encode}
        codec = events.ClassCodec(walker.encode, generic.format.size_bytes, generic.format.size_bytes)
        if shape_of(generic.receiver.record) is not None:
            have_done(partial(_install_encode, codec, generic.cls), self.tier, self.payers)
        return {"encode": codec.encode, "encode_many": codec.encode_many}

    def decoding(self) -> dict[str, Any]:
        generic = self.generic
        conversion = None if generic.report.is_same else _conversion(generic)
        walker = _walker(generic, conversion)
        is_fixed = generic.receiver.is_fixed and generic.sender.is_fixed
        found = shape_of(generic.receiver.record)
        is_few = generic.most is None or objects_of(generic.receiver.record) <= generic.most.count
        has_code = is_fixed and is_few and found is not None and not found[1].has_after
        if conversion is not None and not has_code:
            conversion.begin(self.tier)
        if not is_fixed:
            have_done(partial(use_inner_codes, walker.value), self.tier, self.payers)
            return {"decode": walker.decode}
        codec = events.ClassCodec(walker.decode, generic.receiver.size_bytes, generic.sender.size_bytes)
        if has_code:
            have_done(partial(_install_decode, codec, generic.cls, conversion), self.tier, self.payers)
        return {"decode": codec.decode, "decode_many": codec.decode_many}


@dataclass(frozen=True, slots=True)
class _NativeEvents:
    """Events that hold their record: they need no code of their own, only that of the conversion."""

    generic: GenericCodec[Any]
    tier: Tier
    payers: Payers | None  # for what is compiled

    def encoding(self) -> dict[str, Any]:
        generic = self.generic
        _demand_own_layout(generic)
        tree = tree_of(generic.receiver.record)
        encode = generic.encode if tree is None else _walker(generic).encode
        encoder = record_types.encoder_of(generic.cls, encode, generic.encode_many)
        made: dict[str, Any] = {"encode": encoder.encode}
        return {**made, "encode_many": encoder.encode_many} if generic.format.is_fixed else made

    def decoding(self) -> dict[str, Any]:
        generic = self.generic
        if not (generic.receiver.is_fixed and generic.sender.is_fixed):
            return {"decode": self._holding()}
        if may_exceed(generic.receiver.record, generic.most):
            return {}
        decoder = record_types.decoder_of(generic.cls, generic.decode, generic.decode_many)
        if generic.report.is_same:
            decoder.install_copy()
        else:
            have_done(partial(_install_conversion, decoder, _conversion(generic)), self.tier, self.payers)
        return {"decode": decoder.decode, "decode_many": decoder.decode_many}

    def _holding(self) -> Callable[[Data], Any]:
        """What has variable parts is verified at once, and converted unless it is ours, and read later."""
        conversion = _conversion(self.generic, keeps=self.generic.report.is_same)
        conversion.begin(self.tier)
        decoder = record_types.own_decoder(self.generic.cls)
        if may_exceed(self.generic.receiver.record, self.generic.most):
            decoder.install_converted(*self._counted(conversion))
        else:
            decoder.install_converted(conversion.call)
        return decoder.decode

    def _counted(self, conversion: Conversion) -> tuple[Callable[[Data], Any], events.Allowance | None]:
        """Counts what all fields would become when they are read."""
        generic = self.generic
        tree = tree_of(generic.receiver.record)
        if tree is not None:
            return conversion.call, _allowance(generic, tree)

        def convert(data: Data) -> bytes:
            record: bytes = conversion.call(data)
            generic.demand_few(record, generic.receiver.layout)
            return record

        return convert, None


def _install_conversion(decoder: events.Decoder, conversion: Conversion) -> None:
    loaded = conversion.loaded()
    decoder.install_fixed(loaded.addresses["convert_many"], conversion.sender.size_bytes, loaded)


def _install_encode(codec: events.ClassCodec, cls: type[Any]) -> None:
    codec.install(code_of(cls), True, False, 0, None)


def _install_decode(codec: events.ClassCodec, cls: type[Any], conversion: Conversion | None) -> None:
    code, loaded = code_of(cls), conversion and conversion.compile()
    convert = loaded.addresses["convert_many"] if loaded else 0
    codec.install(code, False, True, convert, loaded)
