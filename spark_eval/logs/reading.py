"""Reads a log as a batch: blocks that may hold what is asked for, packed into few tasks."""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

import echo_core as echo
from echo_core.spark_eval.logs.packing import Extent, Place, packed, parts_of
from echo_core.spark_eval.logs.plan import Plan
from echo_core.spark_eval.logs.pushing import pushed

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType


class Part(InputPartition):
    """What lies behind one place of a log, up to another."""

    def __init__(self, begin: Place, end: Place) -> None:
        super().__init__((begin, end))
        self.begin = begin
        self.end = end


class BatchReader(DataSourceReader):
    """Pickled to the tasks, so it holds no log."""

    def __init__(self, plan: Plan, schema: StructType) -> None:
        self.plan = plan
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        """A part for each task."""
        with self.plan.opened() as log:
            return parts_between(self.plan, log, None, None)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Arrow record batches."""
        return rows_of(self.plan, self.schema, partition)


class PushingReader(BatchReader):
    """The same, and filters go to the log. Spark refuses it where `filterPushdown` is not enabled."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        """Those that Spark has to judge."""
        found, left = pushed(filters, self.plan.receiver)
        self.plan = dataclasses.replace(self.plan, pushed=found)
        return left


def extents(view: Any) -> Iterator[Extent]:
    """The blocks of a view, by their headers alone."""
    for block in view.blocks():
        begin, end = block.before, block.end
        yield Extent((begin.segment, begin.offset), (end.segment, end.offset), block.bytes, block.events)


def parts_between(plan: Plan, log: Any, begin: Place | None, end: Place | None) -> list[InputPartition]:
    """A part for each task, of what lies between two places; there are as many cores as the driver has."""
    blocks = list(extents(within(plan.view(log), begin, end)))
    total = sum(block.bytes for block in blocks)
    parts = parts_of(total, plan.options.partition_bytes, os.cpu_count() or 1)
    return [Part(*part) for part in packed(blocks, parts)]


def within(view: Any, begin: Place | None, end: Place | None) -> Any:
    """The part of a view between two places, each None for no bound."""
    return view.within(*(None if place is None else echo.Position(*place) for place in (begin, end)))


def rows_of(plan: Plan, schema: StructType, partition: InputPartition) -> Iterator[Any]:
    """What a task gives: the log is open while it does. Where there are no parts Spark asks for none."""
    rows = importlib.import_module("echo_core.spark_eval.logs.rows")
    if isinstance(partition, Part):
        with plan.opened() as log:
            view = within(plan.view(log), partition.begin, partition.end)
            maker = rows.RowMaker(plan.event_class, schema)
            yield from rows.gathered(map(maker.rows, view.batches()), plan.options.batch_bytes)
        _demand_kept(plan, partition.begin)


def _demand_kept(plan: Plan, begin: Place) -> None:
    """LogError where retention has removed the first block meanwhile: others may have gone unread."""
    with plan.opened() as log:
        next(within(plan.view(log), begin, begin).blocks(), None)
