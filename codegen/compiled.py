"""Compiled code for the codec of one class: made in the background, kept on disk, put in front.

Each direction of a codec becomes a built-in function that calls the generic one until code is installed, and
afterwards for whatever the code does not handle.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from echo_core import _objects, _records
from echo_core.codegen import background, cpython, engine, record_types
from echo_core.codegen.conversion import Conversion, Tier, check_tier
from echo_core.codegen.generic import Data, GenericCodec
from echo_core.codegen.object_code import emit
from echo_core.codegen.shapes import Context, shape_of
from echo_core.codegen.store import use_code
from echo_core.errors import CompileError
from echo_core.formats.declare import format_of


@dataclass(frozen=True, slots=True)
class ClassCode:
    """The code of a class and the objects that it refers to; one for all codecs of the class."""

    loaded: engine.Loaded
    context: Context


# The attribute in which a class keeps its code: a dictionary would keep the class, as its code refers to it.
_CODE = "__echo_code__"
_lock = threading.Lock()


def code_of(cls: type[Any]) -> ClassCode:
    """The code of a class, compiled or taken from the cache once; CompileError where there can be none."""
    with _lock:
        if _CODE not in vars(cls):  # a parent's is of no use
            type.__setattr__(cls, _CODE, _make_code(cls))
        code: ClassCode = vars(cls)[_CODE]
        return code


def _make_code(cls: type[Any]) -> ClassCode:
    found = shape_of(format_of(cls).record)
    if found is None:
        msg = f"Expected a class that code can be compiled for, got `{cls.__qualname__}`"
        reason = "its instances need slots of their own and records of one size"
        raise CompileError(msg, hint=cpython.problem() or reason)
    shape, context = found
    text = emit(shape)
    names = ["encode", "encode_many", "decode"]
    loaded = use_code("class", text, lambda: text, lambda code: engine.load(code, names))
    return ClassCode(loaded, context)


class Functions(NamedTuple):
    """What a codec is made of."""

    encode: Callable[[Any], bytes]
    encode_many: Callable[[Iterable[Any]], bytes]
    decode: Callable[[Data], Any]
    decode_many: Callable[[Data], list[Any]]


def functions_of(generic: GenericCodec[Any], tier: Tier) -> Functions:
    """Built-in functions in front of a generic codec's own, where its class can have any."""
    check_tier(tier)
    functions = Functions(generic.encode, generic.encode_many, generic.decode, generic.decode_many)
    if tier != "interpreted" and record_types.is_native(generic.cls):
        return _native_functions(generic, functions, tier)
    if tier == "interpreted" or shape_of(generic.receiver.record) is None:
        if tier == "compiled":
            code_of(generic.cls)  # says why there is no code
        return functions
    if generic.format == generic.receiver:
        encoding = _objects.Codec(generic.encode, generic.format.size_bytes, generic.format.size_bytes)
        _have_done(partial(_install_encode, encoding, generic.cls), tier)
        functions = functions._replace(encode=encoding.encode, encode_many=encoding.encode_many)
    if generic.sender.is_fixed:
        sizes = generic.receiver.size_bytes, generic.sender.size_bytes
        decoding = _objects.Codec(generic.decode, *sizes)
        _have_done(partial(_install_decode, decoding, generic), tier)
        functions = functions._replace(decode=decoding.decode, decode_many=decoding.decode_many)
    return functions


def _native_functions(generic: GenericCodec[Any], functions: Functions, tier: Tier) -> Functions:
    """Events that hold their record need no code of their own, only that of the conversion."""
    cls, sender = generic.cls, generic.sender
    if generic.format == generic.receiver:
        encoder = record_types.record_encoder(cls, generic.encode, generic.encode_many)
        functions = functions._replace(encode=encoder.call)
        if generic.format.is_fixed:
            functions = functions._replace(encode_many=encoder.call_many)
    if generic.receiver.is_fixed and sender.is_fixed:
        decoder = record_types.record_decoder(cls, sender.size_bytes, generic.decode)
        if generic.report.is_same:
            decoder.install_copy()
        else:
            _have_done(partial(_install_conversion, decoder, generic), tier)
        functions = functions._replace(decode=decoder.call, decode_many=decoder.call_many)
    return functions


def _install_conversion(decoder: _records.Decoder, generic: GenericCodec[Any]) -> None:
    loaded = Conversion(generic.sender, generic.receiver, lossy=generic.lossy).loaded()
    decoder.install_fixed(loaded.addresses["convert_many"], generic.sender.size_bytes, loaded)


def _have_done(job: Callable[[], None], tier: Tier) -> None:
    if tier == "compiled":
        job()
    else:
        background.submit(partial(_unless_refused, job))


def _unless_refused(job: Callable[[], None]) -> None:
    """What the compiler refuses stays with the generic codec."""
    with contextlib.suppress(CompileError):
        job()


def _install_encode(codec: _objects.Codec, cls: type[Any]) -> None:
    code = code_of(cls)
    addresses, context = code.loaded.addresses, code.context
    codec.install(
        addresses["encode"],
        addresses["encode_many"],
        0,
        0,
        context.objects,
        code.loaded,
        context.runs_python,
    )


def _install_decode(codec: _objects.Codec, generic: GenericCodec[Any]) -> None:
    code = code_of(generic.cls)
    addresses, context = code.loaded.addresses, code.context
    if context.runs_post_init:
        msg = f"Expected a class without `__post_init__`, got `{generic.cls.__qualname__}`"
        raise CompileError(msg)
    keep: tuple[object, ...] = (code.loaded,)
    convert = 0
    if not generic.report.is_same:
        conversion = Conversion(generic.sender, generic.receiver, lossy=generic.lossy)
        loaded = conversion.loaded()
        convert, keep = loaded.addresses["convert_many"], (code.loaded, loaded)
    codec.install(0, 0, addresses["decode"], convert, context.objects, keep, context.runs_python)
