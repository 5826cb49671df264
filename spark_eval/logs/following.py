"""Reads a log as a stream, while it is written to: exactly once, whichever process is killed.

An offset is the end of a verified block, and blocks never change. So a part between two offsets is the same
whenever it is read, also when the log has grown, or a batch is done again after a crash.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

import echo_core as echo
from echo_core.spark_eval.logs.offsets import Offset, OffsetError, offset_of, place_of
from echo_core.spark_eval.logs.packing import Place, reached
from echo_core.spark_eval.logs.plan import Plan
from echo_core.spark_eval.logs.reading import extents, parts_between, rows_of, within

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One for the driver, which keeps the log open, and a copy for each task, which does not use that."""

    def __init__(self, plan: Plan, schema: StructType) -> None:
        self.plan = plan
        self.schema = schema
        self._log: Any = None
        self._target: Place | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What tasks get: files stay where they are open."""
        return {**self.__dict__, "_log": None}

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Where the log begins, or ends."""
        log = self._refreshed()
        place = log.end if self.plan.options.start == "latest" else log.begin
        return self._offset((place.segment, place.offset))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What `maxRows` says."""
        most = self.plan.options.max_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """The end of the last block that is wanted, within the limit; `start` where there is none."""
        begin = self._place(start)
        if self._target is not None and begin >= self._target:
            return self._offset(begin)
        log = self._refreshed()
        blocks = extents(within(self.plan.view(log), begin, self._target))
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else 1 << 63
        place = log.settled(echo.Position(*reached(blocks, most, begin)))
        return self._offset((place.segment, place.offset))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What comes later is not of this query."""
        end = self._refreshed().end
        self._target = end.segment, end.offset

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        """The end of the log."""
        end = self._refreshed().end
        return self._offset((end.segment, end.offset))

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The same for the same places, whatever the log has become."""
        begin, stop = self._place(start), self._place(end)
        if begin == stop:
            return []
        log = self._refreshed()
        if stop > (log.end.segment, log.end.offset):
            msg = f"Expected a log that reaches to {stop}, got one that ends at {log.end}"
            raise OffsetError(msg, path=self.plan.options.path, hint="the log is not the checkpoint's")
        return parts_between(self.plan, log, begin, stop)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """In a task: Arrow record batches."""
        return rows_of(self.plan, self.schema, partition)

    def stop(self) -> None:
        """Gives the files back."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _offset(self, place: Place) -> Offset:
        return offset_of(self.plan.log_id, *place)

    def _place(self, offset: Offset) -> Place:
        return place_of(offset, self.plan.log_id)

    def _refreshed(self) -> Any:
        """The log with what was added since."""
        if self._log is None:
            self._log = self.plan.opened()
        else:
            self._log.refresh()
        return self._log
