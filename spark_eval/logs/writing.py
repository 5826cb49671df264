"""Writes the rows of a DataFrame as a log: each task segments of its own, which the driver makes one log of.

Until the end all is in a folder beside the log's, `NAME.<uuid>.tmp`. What failed and speculative tasks leave
there never becomes part of the log, and goes with the folder. The driver alone makes that, so an attempt that
is still at work then fails, and does not bring it back. One process at a time writes to a log.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

import echo_core as echo
from echo_core.spark_eval.logs.options import OptionError, WriteOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Written(WriterCommitMessage):
    """What a task has done: the log of its rows, below the folder of the job."""

    def __init__(self, name: str, rows: int) -> None:
        self.name = name
        self.rows = rows


class LogTaskWriter(DataSourceArrowWriter):
    """Made in the driver, and pickled to the tasks. `overwrite`: the log that is there is replaced."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        self._options = options
        self._overwrite = overwrite
        self._job = uuid.uuid4().bytes
        self._metadata = _format(options, schema).metadata

    @property
    def _path(self) -> Path:
        return Path(self._options.path)

    @property
    def _staging(self) -> Path:
        return self._path.with_name(f"{self._path.name}.{self._job.hex()}.tmp")

    def begin(self) -> None:
        """In the driver, before there are tasks."""
        self._staging.mkdir(mode=0o700, parents=True)

    def write(self, iterator: Iterator[Any]) -> Written:
        """In a task: a log of its own. Attempts of one task do not share anything."""
        name, rows = uuid.uuid4().hex, 0
        options = self._options
        (self._staging / name).mkdir(mode=0o700)
        with echo.create_log(self._staging / name) as log:
            stream: echo.NewStream[Any] = log.stream(
                echo.Format.from_metadata(self._metadata),
                channel=options.channel,
                source=options.source,
                source_id=self._job,
            )
            append = _appender(stream)
            for batch in iterator:
                append(batch)
                rows += batch.num_rows
        return Written(name, rows)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """In the driver: the tasks' segments become the log's, in the order of the partitions.

        A new log takes its place in one step; to an old one segments are added one by one.
        """
        parts = [self._staging / it.name for it in messages if isinstance(it, Written)]
        if self._overwrite:
            made = self._staging / "made"
            echo.adopt_logs(made, parts)
            echo.replace_log(self._path, made)
        else:
            echo.adopt_logs(self._path, parts)
        self._remove_staging()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """In the driver: nothing of it stays."""
        self._remove_staging()

    def _remove_staging(self) -> None:
        """Renamed at first: an attempt that is still at work finds none of its files, and makes no more."""
        doomed = self._staging.with_suffix(".gone.tmp")
        with contextlib.suppress(FileNotFoundError):  # a commit failed at last
            os.rename(self._staging, doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def _format(options: WriteOptions, schema: StructType) -> echo.Format:
    """Of the class that is named, or of the rows."""
    if options.event is None:
        made = importlib.import_module("echo_core.spark_eval.logs.declaring")
        found: echo.Format = made.format_of_rows(schema, options.name)
        return found
    plans = importlib.import_module("echo_core.spark_eval.logs.plan")
    format_ = echo.format_of(plans.imported(options.event))
    fields, columns = [field.name for field in format_.fields], schema.fieldNames()
    if sorted(fields) != sorted(columns):
        msg = f"Expected the columns {', '.join(fields)}, got {', '.join(columns)}"
        raise OptionError(msg, path=format_.name, hint="`select` those that are fields")
    return format_


def _appender(stream: echo.NewStream[Any]) -> Callable[[Any], None]:
    """Appends the rows of a record batch: an array of records, or the bytes of each where they vary."""
    writing = importlib.import_module("echo_core.spark_eval.columns.writing")
    encode = None if stream.format.is_fixed else writing.encoder_of(stream.format, "native")

    def append(batch: Any) -> None:
        structs = batch.to_struct_array()
        if encode is None:
            stream.append_array(writing.records_of(stream.format, structs))
        else:
            stream.append_records(encode(structs).to_pylist())

    return append
