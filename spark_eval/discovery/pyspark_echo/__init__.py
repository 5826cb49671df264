"""What Spark finds event logs by: it looks for packages called pyspark_... and takes their `DefaultSource`.

Spark imports this package when it first looks for any data source, also in programs that read no log.
"""

from echo_core.spark_eval.logs.source import EventLog as DefaultSource

__all__ = ["DefaultSource"]
