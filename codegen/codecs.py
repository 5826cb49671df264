"""Encoders and decoders of one event class: what components call.

The generic codec (`generic.py`) handles every declaration and every value. Before it stands C code that walks
a tree of values, and before that, for classes with slots and records of one size, code compiled for the class
(`compiled.py`). What one does not handle goes on to the next; so every error has one wording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, overload

from echo_core.codegen.conversion import Tier
from echo_core.codegen.events.compiled import Ways, functions_of
from echo_core.codegen.plain.generic import Data, GenericCodec
from echo_core.errors import FormatError
from echo_core.formats.abi import Abi
from echo_core.formats.compare import Report
from echo_core.formats.declare import format_of
from echo_core.formats.format import Format

T = TypeVar("T")


class Codec(Generic[T]):
    """The four functions of one class and one sender; built-in ones but for a few classes.

    `encode` and `encode_many` go from events to records of `format`, `decode` and `decode_many` from records
    of `sender` to events.
    """

    def __init__(
        self,
        cls: type[T],
        format_: Format,
        sender: Format,
        *,
        lossy: bool,
        tier: Tier,
        ways: Ways = Ways.BOTH,
    ) -> None:
        self.generic = GenericCodec(cls, format_, sender, lossy=lossy)
        functions = functions_of(self.generic, tier, ways)
        self.encode: Callable[[T], bytes] = functions.encode
        self.encode_many: Callable[[Iterable[T]], bytes] = functions.encode_many
        self.decode: Callable[[Data], T] = functions.decode
        self.decode_many: Callable[[Data], list[T]] = functions.decode_many

    @property
    def format(self) -> Format:
        return self.generic.format

    @property
    def sender(self) -> Format:
        return self.generic.sender

    @property
    def report(self) -> Report:
        """What becomes of the sender's fields."""
        return self.generic.report

    def __repr__(self) -> str:
        return f"Codec({self.generic.cls.__qualname__}, {self.format!r}, sender={self.sender!r})"


@overload
def codec(
    cls: type[T],
    *,
    sender: Format | None = None,
    abi: str | Abi = "native",
    lossy: bool = False,
    tier: Tier = "auto",
) -> Codec[T]: ...


@overload
def codec(
    cls: None, *, sender: Format, abi: str | Abi = "native", lossy: bool = False, tier: Tier = "auto"
) -> Codec[Any]: ...


def codec(
    cls: type[Any] | None,
    *,
    sender: Format | None = None,
    abi: str | Abi = "native",
    lossy: bool = False,
    tier: Tier = "auto",
) -> Codec[Any]:
    """The codec of a class, or of a class made for the sender's format.

    Events are encoded as the machine named by `abi` lays them out. `sender` is the format of what is decoded;
    without it that is the same. `lossy` consents to conversions that may lose: a value that does not fit is
    then a ConversionError. `tier` "auto" does without compiled code until it is ready, "compiled" waits for
    what code there can be (CompileError: there is only the generic codec), "interpreted" takes that codec.
    IncompatibleError says why no path leads from the sender.
    """
    cls = _class_for(cls, sender)
    format_ = format_of(cls, abi=abi)
    return Codec(cls, format_, sender or format_, lossy=lossy, tier=tier)


def _class_for(cls: type[Any] | None, sender: Format | None) -> type[Any]:
    if cls is not None:
        return cls
    if sender is None:
        msg = "Expected a class or a sender's format, got neither"
        raise FormatError(msg)
    return sender.record_class()


def encoder(cls: type[T], *, abi: str | Abi = "native", tier: Tier = "auto") -> Callable[[T], bytes]:
    """A function from events of `cls` to bytes, in the layout of this machine or of the one named."""
    format_ = format_of(cls, abi=abi)
    return Codec(cls, format_, format_, lossy=False, tier=tier, ways=Ways.ENCODE).encode


@overload
def decoder(
    cls: type[T], *, sender: Format | None = None, lossy: bool = False, tier: Tier = "auto"
) -> Callable[[Data], T]: ...


@overload
def decoder(
    cls: None, *, sender: Format, lossy: bool = False, tier: Tier = "auto"
) -> Callable[[Data], Any]: ...


def decoder(
    cls: type[Any] | None,
    *,
    sender: Format | None = None,
    lossy: bool = False,
    tier: Tier = "auto",
) -> Callable[[Data], Any]:
    """A function from a sender's bytes to events of `cls`, or of a class made for the sender's format.

    The options are those of `codec`.
    """
    cls = _class_for(cls, sender)
    format_ = format_of(cls)
    return Codec(cls, format_, sender or format_, lossy=lossy, tier=tier, ways=Ways.DECODE).decode
