"""Runs a program in which all that is done on this machine is done in one session.

    python guide_runner.py PROGRAM

A JVM takes its time to start, and Spark to warm up. What is done on a cluster has a session of its own.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from echo_core import spark_eval
from echo_core.spark_eval.runtime.java import SMALL_JVM

CONF = {f"spark.{side}.extraJavaOptions": SMALL_JVM for side in ("driver", "executor")}


class Sessions:
    """Stands for `session`. A process can have one at a time: the kept one ends where another is wanted."""

    def __init__(self, kept: ExitStack) -> None:
        self._start = spark_eval.session
        self._kept = kept
        self._spark: dict[str, Any] = {}

    @contextmanager
    def session(self, master: str) -> Generator[Any]:
        if master in self._spark:
            yield self._spark[master]
            return
        self._kept.close()
        self._spark.clear()
        if master.startswith("local"):
            self._spark[master] = self._kept.enter_context(self._start(master, conf=CONF))
            yield self._spark[master]
        else:
            with self._start(master, conf=CONF) as spark:
                yield spark


def main(program: str) -> None:
    with ExitStack() as kept:
        kept.enter_context(patch.object(spark_eval, "session", Sessions(kept).session))
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1])
