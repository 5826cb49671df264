"""The interface of a codec in the comparison, and of a cell that is measured."""

from __future__ import annotations

import abc
import contextlib
import time
from collections.abc import Callable, Generator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from echo_core.spark_eval.measure.codecs.members import columns_of
from echo_core.spark_eval.measure.workloads import EventShape, Particle, Sender, instance

Operation = Literal["encode", "decode"]
Target = Literal["objects", "columns"]
Function = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """One thing to measure. The target of an encoder is its input."""

    codec: str
    operation: Operation
    shape: str
    sender: Sender
    target: Target


@dataclass(slots=True)
class Costs:
    """Costs of creating a function; `compile_ns` is the part for compiling machine code."""

    setup_ns: int = 0
    compile_ns: int = 0

    @contextlib.contextmanager
    def compiling(self) -> Generator[None]:
        begun = time.perf_counter_ns()
        try:
            yield
        finally:
            self.compile_ns += time.perf_counter_ns() - begun


@dataclass(frozen=True, slots=True)
class Work:
    """A prepared cell. `function(argument)` is timed; `check` raises if its result is wrong."""

    function: Function
    argument: Any
    records: int
    payload_bytes: int
    check: Callable[[object], None]
    setup_ns: int
    compile_ns: int

    def call(self) -> object:
        """Call the function once."""
        return self.function(self.argument)


NAMED: tuple[Sender, ...] = ("same", "extra", "reordered")
POSITIONAL: tuple[Sender, ...] = ("same", "extra")
BOTH_TARGETS: tuple[Target, ...] = ("objects", "columns")
BOTH_OPERATIONS: tuple[Operation, ...] = ("encode", "decode")


@dataclass(frozen=True, slots=True)
class MeasuredCodec(abc.ABC):
    """Creates encoders and decoders of one kind.

    A target "objects" is an instance of the receiver's class; "columns" is a dict with a numpy array for each
    field of a batch's particles, text as numpy's bytes.
    """

    name: str
    _: KW_ONLY
    senders: tuple[Sender, ...] = NAMED
    targets: tuple[Target, ...] = BOTH_TARGETS
    operations: tuple[Operation, ...] = BOTH_OPERATIONS
    for_batches_only: bool = False

    @property
    def is_positional(self) -> bool:
        """Fields are identified by position, so a sender can have additional fields at the end only."""
        return False

    def load(self) -> None:  # noqa: B027 - most need the standard library only
        """Import what is needed; not part of any cost."""

    def source(self, shape: EventShape, sender: Sender, target: Target) -> Any:
        """The input of the encoder: the sender's event, or the columns of a batch."""
        if target == "columns" and sender == "same":
            return columns_of(shape.values(), Particle)
        return instance(shape.sender_class(sender, positional=self.is_positional), shape.values())

    @abc.abstractmethod
    def encoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        """Create a function that encodes the sender's events; `costs` are the sender's."""

    @abc.abstractmethod
    def decoder(self, shape: EventShape, sender: Sender, target: Target, costs: Costs) -> Function:
        """Create a function that decodes the sender's bytes to the target."""
