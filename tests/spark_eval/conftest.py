"""What the tests of spark_eval share: one local session for the whole run, for a JVM takes its time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from echo_core.spark_eval.runtime.java import SMALL_JVM, find_java
from echo_core.spark_eval.runtime.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session", name="java_is_here")
def fixture_java_is_here() -> None:
    """Skips where no Java can be had."""
    java = find_java()
    if java.problem:
        pytest.skip(f"no Java: {java.problem}")


@pytest.fixture(scope="session")
def spark(java_is_here: None) -> Iterator[SparkSession]:
    """The session: two cores of this machine. Tests that use it are in xdist's group "spark"."""
    conf = {"spark.driver.extraJavaOptions": SMALL_JVM}  # tests are over before Java has optimised anything
    with session("local[2]", app="echo tests", conf=conf) as running:
        yield running
