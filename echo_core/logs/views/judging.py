"""Conditions of a view, judged on the records of a log as they lie there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from echo_core.codegen.expressions.predicates import Predicate, where
from echo_core.formats.format import Format
from echo_core.logs.blocks import Block
from echo_core.logs.ranges import Range
from echo_core.logs.views.decoders import Array_
from echo_core.logs.views.selections import Condition, Rows


class Judging:
    """All conditions of a view for one stream, whose earlier events they may look at.

    ExpressionError where a condition does not fit the class, or the format where classes are made;
    IncompatibleError where the format has not what it needs.
    """

    def __init__(self, conditions: tuple[Condition, ...], cls: type[Any] | None, sender: Format) -> None:
        self._predicates = [_predicate(condition, cls, sender) for condition in conditions]
        self._sender = sender

    def may_pass(self, ranges: Mapping[int, Range]) -> bool:
        """Whether all conditions may hold for some record with fields between these values."""
        for predicate in self._predicates:
            if not predicate.may_pass(ranges):
                return False
            if predicate.remembers:  # so it has to see all that come
                return True
        return True

    def rows(self, block: Block, rows: Rows) -> Rows:
        """Those of the rows for which all conditions hold."""
        for predicate in self._predicates:
            rows = self._passing(predicate, block, rows)
        return rows

    def _passing(self, predicate: Predicate, block: Block, rows: Rows) -> Rows:
        each = _each(rows)
        if self._sender.is_fixed and isinstance(rows, slice):
            size = self._sender.size_bytes
            records = np.frombuffer(block.records[rows.start * size : rows.stop * size], np.uint8)
            found = np.empty(len(each), np.uint32)
            return each[found[: predicate.judge.indices_in(records, found)]]
        passes, record = predicate.passes_record, block.record
        return np.array([row for row in _numbers(each) if passes(bytes(record(row)))], np.intp)

    def failures(self) -> str:
        """What failed at run time, and where; empty where nothing has. Such events have not passed."""
        return "; ".join(
            f"{predicate.statistics().failed} events of `{self._sender.name}`: {predicate.failure}"
            for predicate in self._predicates
            if predicate.failure
        )


def _each(rows: Rows) -> Array_:
    if isinstance(rows, slice):
        return np.arange(int(rows.start), int(rows.stop))
    return rows


def _numbers(rows: Array_) -> list[int]:
    numbers: list[int] = rows.tolist()
    return numbers


def _predicate(condition: Condition, cls: type[Any] | None, sender: Format) -> Predicate:
    expression, parameters = condition.expression, dict[str, Any](condition.parameters)
    if cls is None:
        return where(sender, expression, **parameters)
    return where(cls, expression, **parameters).on(sender)
