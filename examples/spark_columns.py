"""Events in a Spark job: decodes a binary column to structs for SQL, and encodes structs to events."""

from __future__ import annotations

import enum
import importlib.util
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

import echo_core as echo
from echo_core.spark_eval import decode_column, encode_column, session
from echo_core.spark_eval.runtime.java import find_java


class Quality(enum.Enum):
    """In Spark a string: the member's name."""

    GOOD = 1
    SUSPECT = 2


@echo.event
class Reading:
    """Sent by sensors, some of them on big-endian machines."""

    sensor: echo.UInt16
    when: datetime
    quality: Quality
    volts: echo.Array[echo.Float32, ...]
    note: str | None = None


@echo.event
class Mean:
    """The result of the job."""

    sensor: echo.UInt16
    volts: float


def problem() -> str:
    """Why Spark cannot run, or an empty text."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed: pip install echo-core[spark]"
    return find_java().problem


def received(spark: Any) -> Any:
    """A binary column of events, such as one from a message queue or a table."""
    encode = echo.encoder(Reading, abi="s390x")
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    readings = [
        Reading(i % 3, noon + timedelta(seconds=i), Quality(1 + i % 2), np.array([i, i + 1], "f4"))
        for i in range(12)
    ]
    return spark.createDataFrame([(bytearray(encode(it)),) for it in readings], "payload binary")


def main() -> None:
    """Decode, query by SQL, encode."""
    if problem():
        print("skipped:", problem())
        return
    with session("local[2]") as spark:
        frame = received(spark)
        sender = echo.format_of(Reading, abi="s390x")
        events = decode_column(frame, "payload", Reading, sender=sender)
        print(events.schema["event"].dataType.simpleString())

        events.select("event.*").createOrReplaceTempView("readings")
        means = spark.sql("""
            select sensor, avg(volt) volts from (select sensor, explode(volts) volt from readings
            where quality = 'GOOD') group by sensor order by sensor
        """)
        decode = echo.decoder(Mean)
        for row in encode_column(means, Mean).collect():
            print(decode(bytes(row.event)))


if __name__ == "__main__":
    main()
