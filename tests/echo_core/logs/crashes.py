"""Crash states: what a disk may hold after a machine has stopped, from what was done to it.

Durable is what a sync of its file followed; a name is when a sync of the folder did. Of what was written
since, any units of 512 bytes may be there, the others as they were before, or zeros or garbage where the file
has grown.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from tests.echo_core.logs.disks import Create, Operation, Receipt, Remove, Sync, SyncFolder, Write

UNIT = 512


@dataclass
class Model:
    """The disk after some operations."""

    durable: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """What files have at least; those that are here have a durable name."""
    pending: dict[str, list[Write]] = field(default_factory=dict[str, list[Write]])
    """Behind what is durable of each, in order."""
    unnamed: set[str] = field(default_factory=set[str])
    """Files whose names may be lost."""
    receipts: dict[str, int] = field(default_factory=dict[str, int])
    """Up to where each file was promised."""

    def do(self, operation: Operation) -> None:
        match operation:
            case Create(name):
                self.durable[name] = b""
                self.pending[name] = []
                self.unnamed.add(name)
            case Write(name):
                self.pending[name].append(operation)
            case Sync(name):
                self.durable[name] = applied(self.durable[name], self.pending[name])
                self.pending[name] = []
            case SyncFolder():
                self.unnamed.clear()
            case Remove(name):
                for each in (self.durable, self.pending, self.receipts):
                    each.pop(name, None)
            case Receipt(name, end):
                self.receipts[name] = end


def applied(before: bytes, writes: list[Write]) -> bytes:
    """What a file is when all of them are done."""
    data = bytearray(before)
    for write in writes:
        data.extend(bytes(max(0, write.offset - len(data))))
        data[write.offset : write.offset + len(write.data)] = write.data
    return bytes(data)


@dataclass(frozen=True)
class Crash:
    """One file of a disk that has stopped, the others being as the model has them."""

    model: Model
    name: str
    data: bytes | None
    """None: it is not there."""


def crashes(done: list[Operation], chance: random.Random, *, each: int, units: int) -> Iterator[Crash]:
    """After each operation; of a write, at each so many bytes, and with any of so many of its units."""
    model = Model()
    for operation in done:
        if isinstance(operation, Write):
            yield from stopped_processes(model, operation, each)
        model.do(operation)
        if isinstance(operation, Create | Write | Receipt):
            yield from lost_power(model, operation.name, chance, units)


def stopped_processes(model: Model, write: Write, each: int) -> Iterator[Crash]:
    """The system goes on: what was written is there, and some of this."""
    before = applied(model.durable[write.name], model.pending[write.name])
    for size in range(0, len(write.data), each):
        part = Write(write.name, write.offset, write.data[:size])
        yield Crash(model, write.name, applied(before, [part]))


def lost_power(model: Model, name: str, chance: random.Random, most: int) -> Iterator[Crash]:
    """What is durable, and any of the rest."""
    if name in model.unnamed:
        yield Crash(model, name, None)
    before = model.durable[name]
    after = applied(before, model.pending[name])
    units = changed_units(before, after)
    for _ in range(4 if units else 1):
        filled = chance.choice((b"\0", b"\xff", b"EBLK"))
        size = chance.choice(
            (len(before), len(after), chance.randint(min(len(before), len(after)), len(after)))
        )
        grown = (before + filled * (len(after) // len(filled) + 1))[: len(after)]
        some = units if len(units) <= most else sorted(chance.sample(units, most))
        fixed = [unit for unit in units if unit not in some and chance.random() < 0.5]
        for choice in product((False, True), repeat=len(some)):
            state = bytearray(grown)
            for unit in [*fixed, *(unit for unit, is_there in zip(some, choice, strict=True) if is_there)]:
                state[unit : unit + UNIT] = after[unit : unit + UNIT]
            yield Crash(model, name, bytes(state[: max(size, len(before))]))


def changed_units(before: bytes, after: bytes) -> list[int]:
    """Where they begin."""
    return [at for at in range(0, len(after), UNIT) if before[at : at + UNIT] != after[at : at + UNIT]]
