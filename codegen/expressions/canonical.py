"""One form for equal trees: over the fields that are read and no others, numbered in the order of use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from echo_core.codegen.expressions.operations import NONE, OPERANDS, Op
from echo_core.codegen.expressions.tree import Tree
from echo_core.formats.abi import abi_named
from echo_core.formats.layout import place
from echo_core.formats.types import (
    Blob,
    Enumeration,
    Field,
    Nullable,
    Record,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
    required,
)

VIEW_ABI = abi_named("x86_64")  # a view names fields; how it would lie is the same wherever it was made

Path = tuple[str, ...]
_EACH = "[]"  # of a path: the elements of an array


@dataclass(frozen=True, slots=True)
class Canonical:
    """A tree over its view, and where the nodes and parameters of the other tree went."""

    tree: Tree
    roots: tuple[int, ...]
    parameters: tuple[int, ...]  # the old number of each
    numbers: dict[int, int]  # new numbers of nodes by old ones


def canonical(tree: Tree, roots: tuple[int, ...]) -> Canonical:
    """The tree of what the roots need."""
    writer = _Writer(tree, Tree(view_of(tree, roots)))
    kept = tuple(writer.write(root) for root in roots)
    return Canonical(writer.written, kept, tuple(writer.parameters), writer.numbers)


class _Writer:
    """Writes what is needed, operands first, into a new tree."""

    def __init__(self, tree: Tree, written: Tree) -> None:
        self.tree = tree
        self.written = written
        self.numbers: dict[int, int] = {}
        self.parameters: list[int] = []
        self._loops: dict[int, int] = {}

    def write(self, number: int) -> int:
        if number not in self.numbers:
            node = self.tree.nodes[number]
            operands = [
                self.write(operand) if kind in "no" and operand != NONE else operand
                for kind, operand in zip(OPERANDS[node.op], (node.a, node.b, node.c), strict=True)
            ]
            self.numbers[number] = self.written.add(node.op, *self._renumbered(number, operands))
        return self.numbers[number]

    def _renumbered(self, number: int, operands: list[int]) -> list[int]:
        node = self.tree.nodes[number]
        match node.op:
            case Op.FIELD:
                operands[1] = self._field(number)
            case Op.CONSTANT:
                operands[0] = self.written.constant(self.tree.constants[node.a])
            case Op.IN:
                operands[1] = self.written.constant(self.tree.constants[node.b])
            case Op.PARAMETER:
                operands[0] = self._parameter(node.a)
            case Op.ELEMENT:
                if node.b not in self._loops:
                    self._loops[node.b] = self.written.loop()
                operands[1] = self._loops[node.b]
            case _:
                pass
        return operands

    def _field(self, number: int) -> int:
        node = self.tree.nodes[number]
        name = _record_of(self.tree, node.a).fields[node.b].name
        place = self.numbers[node.a] if node.a != NONE else NONE
        names = [field.name for field in _record_of(self.written, place).fields]
        return names.index(name)

    def _parameter(self, old: int) -> int:
        if old not in self.parameters:
            self.parameters.append(old)
            self.written.parameter(self.tree.parameters[old])
        return self.parameters.index(old)


def _record_of(tree: Tree, place: int) -> Record:
    type_ = tree.record if place == NONE else required(tree.nodes[place].type or tree.record)
    assert isinstance(type_, Record)
    return type_


# ---------------------------------------------------------------------------
# The view: the record with the fields that are read


def view_of(tree: Tree, roots: tuple[int, ...]) -> Record:
    """The record, at every depth with the fields alone that the roots need."""
    paths: dict[int, Path] = {}
    reached = _reached(tree, roots)
    for number, node in enumerate(tree.nodes):
        if node.is_place and number in reached:
            outer = paths[node.a] if node.a != NONE else ()
            if node.op is Op.FIELD:
                paths[number] = (*outer, _record_of(tree, node.a).fields[node.b].name)
            elif node.op is Op.SLICE:
                paths[number] = outer
            else:
                paths[number] = (*outer, _EACH)
    read = set(paths.values())
    for root in roots:  # what is taken over as it is, with all that is in it
        type_ = tree.nodes[root].type
        if tree.nodes[root].is_place and type_ is not None:
            read.update(_within(type_, paths[root]))
    return _pruned(tree.record, (), frozenset(read))


def _reached(tree: Tree, roots: Iterable[int]) -> set[int]:
    reached: set[int] = set()
    left = list(roots)
    while left:
        number = left.pop()
        if number not in reached:
            reached.add(number)
            left.extend(tree.inside(number))
    return reached


def _within(type_: Type, path: Path) -> Iterator[Path]:
    """The paths of all fields inside a value."""
    match type_:
        case Nullable(element):
            yield from _within(element, path)
        case StaticArray(element, shape):
            yield from _within(element, (*path, *[_EACH] * len(shape)))
        case Sequence(element):
            yield from _within(element, (*path, _EACH))
        case Record(fields=fields):
            for field in fields:
                yield (*path, field.name)
                yield from _within(field.type, (*path, field.name))
        case _:
            pass


def _pruned(record: Record, path: Path, paths: frozenset[Path]) -> Record:
    read = {field.name for field in record.fields if (*path, field.name) in paths}
    for field in record.fields:
        type_ = required(field.type)
        if field.name in read and isinstance(type_, Sequence):
            read.update(dimension for dimension in type_.shape if isinstance(dimension, str))
    members = [
        Field(
            field.name,
            _pruned_type(field.type, (*path, field.name), paths),
            default=field.default,
            aliases=field.aliases,
            unit=field.unit,
        )
        for field in record.fields
        if field.name in read
    ]
    made = place(record.name, members, VIEW_ABI)
    return replace(made, aliases=record.aliases, is_named=record.is_named)


def _pruned_type(type_: Type, path: Path, paths: frozenset[Path]) -> Type:
    size = VIEW_ABI.pointer_size
    match type_:
        case Scalar() | Enumeration():
            return type_ if isinstance(type_, Scalar) else Enumeration(type_.name, type_.size, type_.members)
        case Text():
            return Text(size)
        case Blob():
            return Blob(size)
        case Record():
            return _pruned(type_, path, paths)
        case Nullable(element):
            return Nullable(_pruned_type(element, path, paths))
        case StaticArray(element, shape):
            return StaticArray(_pruned_type(element, (*path, *[_EACH] * len(shape)), paths), shape)
        case Sequence(element, shape):
            return Sequence(_pruned_type(element, (*path, _EACH), paths), shape, size)
