"""Events in a Spark job: a binary column becomes structs that SQL understands, and structs become events."""

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
    """In Spark, its members' names."""

    GOOD = 1
    SUSPECT = 2


@echo.event
class Reading:
    """What sensors send, some of them from big-endian machines."""

    sensor: echo.UInt16
    when: datetime
    quality: Quality
    volts: echo.Array[echo.Float32, ...]
    note: str | None = None


@echo.event
class Mean:
    """What the job makes of it."""

    sensor: echo.UInt16
    volts: float


def problem() -> str:
    """Why there is no Spark, or nothing."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed: pip install echo-core[spark]"
    return find_java().problem


def received(spark: Any) -> Any:
    """A column of events as a queue or a table would hold them."""
    encode = echo.encoder(Reading, abi="s390x")
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    readings = [
        Reading(i % 3, noon + timedelta(seconds=i), Quality(1 + i % 2), np.array([i, i + 1], "f4"))
        for i in range(12)
    ]
    return spark.createDataFrame([(bytearray(encode(it)),) for it in readings], "payload binary")


def main() -> None:
    """Decode, ask in SQL, encode."""
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
