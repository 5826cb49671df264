"""How many objects a record would become, by walking its layout before any is made.

A value is one object: each field of each record, each element of each list, an array of numbers as a whole.
An optional one counts as what it would hold. The walk ends above the limit, so it costs no more than the
events that are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import NoReturn

import numpy as np

from echo_core.errors import LimitError, unexpected
from echo_core.formats.abi import ByteOrder
from echo_core.formats.layout import Layout
from echo_core.formats.leaves import is_numeric, unpack
from echo_core.formats.record_class import sequence_container
from echo_core.formats.types import (
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Type,
)


@dataclass(frozen=True, slots=True)
class MostObjects:
    """How many objects one event may become, and the name by which who sets it knows this."""

    count: int
    name: str

    def refuse(self, event: str, count: int) -> NoReturn:
        """LimitError for an event that would become `count` objects, or more."""
        raise unexpected(
            LimitError,
            f"an event of at most {self.count} objects (`{self.name}`)",
            f"one of {count} or more",
            path=event,
            hint="numbers come as one object in an array",
        )

    def demand(self, data: bytes, layout: Layout) -> None:
        """LimitError for a record that would become too many objects."""
        count = count_objects(data, layout, self.count)
        if count > self.count:
            self.refuse(layout.record.name, count)


def objects_of(type_: Type) -> int:
    """How many objects a value is, the elements of its sequences apart."""
    match type_:
        case Nullable():
            return objects_of(type_.element)
        case StaticArray() if not _is_array(type_):
            return 1 + prod(type_.shape) * objects_of(type_.element)
        case Record():
            return 1 + sum(objects_of(field.type) for field in type_.fields)
        case _:
            return 1


def _is_array(type_: StaticArray | Sequence) -> bool:
    """Whether its elements are no objects. Those of an array of records are: the plain codec makes each."""
    return is_numeric(type_.element) and sequence_container(type_) is np.ndarray


def may_exceed(record: Record, most: MostObjects | None) -> bool:
    """Whether there are records that would become more objects."""
    return most is not None and (has_lists(record) or objects_of(record) > most.count)


def has_lists(type_: Type) -> bool:
    """Whether a value may be more objects than `objects_of` says."""
    match type_:
        case Sequence():
            return not _is_array(type_)
        case Record():
            return any(has_lists(field.type) for field in type_.fields)
        case StaticArray() | Nullable():
            return has_lists(type_.element)
        case _:
            return False


def count_objects(data: bytes, layout: Layout, most: int) -> int:
    """How many objects a record would become; or more than `most`, when counting ends.

    A record that is not as it should be has fewer, since it is not followed to its end.
    """
    census = _Census(data, layout, most)
    if len(data) >= layout.record.size and has_lists(layout.record):
        census.add_record(layout.record, 0)
    return census.count


_NO_COUNTS = Record("", 1, 1, ())  # no field counts what elements of a list hold


class _Census:
    """`count` is how many objects there are so far."""

    def __init__(self, data: bytes, layout: Layout, most: int) -> None:
        self.count = objects_of(layout.record)
        self._data = data
        self._byte_order: ByteOrder = layout.byte_order
        self._pointer_size = layout.pointer_size
        self._most = most

    def add_record(self, record: Record, at: int) -> None:
        """What the lists in a record hold."""
        for field in record.fields:
            if has_lists(field.type):
                self._add(field.type, at + field.offset, record, at)

    def _add(self, type_: Type, at: int, record: Record, base: int) -> None:
        """`record` is the one that may count the elements, and begins at `base`."""
        match type_:
            case Nullable():
                flag = self._word(at) if type_.by_reference else self._data[at + type_.element.size]
                if flag:
                    self._add(type_.element, at, record, base)
            case StaticArray():
                self._add_each(type_.element, at, prod(type_.shape))
            case Sequence():
                self._add_sequence(type_, at, record, base)
            case Record():
                self.add_record(type_, at)
            case _:
                raise AssertionError(type_)

    def _add_sequence(self, type_: Sequence, at: int, record: Record, base: int) -> None:
        start, count = self._word(at), prod(self._lengths(type_, at, record, base))
        if count < 0 or count * type_.element.size > len(self._data) - start:
            return  # who reads it says what is wrong
        self.count += count * objects_of(type_.element)
        if has_lists(type_.element):
            self._add_each(type_.element, start, count)

    def _lengths(self, type_: Sequence, at: int, record: Record, base: int) -> Iterator[int]:
        for known in type_.shape:
            if known is None:
                at += self._pointer_size
                yield self._word(at)
            else:
                yield known if isinstance(known, int) else self._counted(record, known, base)

    def _counted(self, record: Record, name: str, base: int) -> int:
        field = next(field for field in record.fields if field.name == name)
        assert isinstance(field.type, Scalar)
        at = base + field.offset
        return int(unpack(field.type, self._data[at : at + field.type.size], self._byte_order, name))

    def _add_each(self, element: Type, at: int, count: int) -> None:
        for i in range(count):
            if self.count > self._most:
                return
            self._add(element, at + i * element.size, _NO_COUNTS, at)

    def _word(self, at: int) -> int:
        return int.from_bytes(self._data[at : at + self._pointer_size], self._byte_order)
