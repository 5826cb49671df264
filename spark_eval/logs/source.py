"""The data source `echo`: Spark finds it by the package `pyspark_echo`.

Spark imports this module wherever it looks for data sources, so it imports little: the parts that work are
imported where they begin to.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from echo_core.spark_eval.logs.options import options_of, write_options_of

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceWriter
    from pyspark.sql.types import StructType


def _part(module: str) -> Any:
    return importlib.import_module(f"echo_core.spark_eval.logs.{module}")


class EventLog(DataSource):
    """`spark.read.format("echo").load("run.echolog")`, the same with `readStream`, and `df.write`."""

    @classmethod
    def name(cls) -> str:
        """What it is called in `format(...)`."""
        return "echo"

    def schema(self) -> StructType | str:
        """The columns that the options ask for."""
        options = options_of(self.options)
        if options.view != "events":
            text: str = _part("tables").SCHEMAS[options.view]
            return text
        plans = _part("plan")
        plan = plans.plan_of(options)
        struct: StructType = plans.struct_of(plan.receiver, plan.names)
        return struct

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads it once."""
        options = options_of(self.options)
        made: DataSourceReader
        if options.view != "events":
            made = _part("tables").TableReader(options.path, options.view, schema)
        else:
            kind = "PushingReader" if options.pushdown else "BatchReader"
            made = getattr(_part("reading"), kind)(self._plan(schema), schema)
        return made

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """What follows it."""
        made: DataSourceStreamReader = _part("following").StreamReader(self._plan(schema), schema)
        return made

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """What makes one."""
        options = write_options_of(self.options)
        made: Any = _part("writing").LogTaskWriter(options, schema, overwrite)
        made.begin()
        writer: DataSourceWriter = made
        return writer

    def _plan(self, schema: StructType) -> Any:
        plans = _part("plan")
        plan = plans.plan_of(options_of(self.options))
        plans.demand_columns(plan.receiver, schema)
        return plan
