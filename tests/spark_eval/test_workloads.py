"""The classes and values of the comparison."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

import echo_core as echo
from echo_core.spark_eval.measure import workloads
from echo_core.spark_eval.measure.workloads import MORE, SENDERS, SHAPES, Particle, Sender, hints, instance

ALL = pytest.mark.parametrize("name", SHAPES)


def fields_of(cls: type[Any]) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]


@ALL
@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("positional", [False, True])
def test_every_class_is_found_by_its_name(name: str, sender: Sender, positional: bool) -> None:
    """An executor unpickles events by the names of their classes."""
    shape = SHAPES[name]
    for cls in (shape.cls, shape.event_class, shape.sender_class(sender, positional=positional)):
        assert getattr(workloads, cls.__name__) is cls
        assert pickle.loads(pickle.dumps(cls)) is cls


@ALL
def test_events_hold_the_values(name: str) -> None:
    """The same in the plain class and in the event class."""
    shape = SHAPES[name]
    values = shape.values()
    for cls in (shape.cls, shape.event_class):
        made = instance(cls, values)
        for field, value in values.items():
            if isinstance(value, (int, float, str)):
                assert getattr(made, field) == value


@ALL
def test_floats_of_32_bits_are_exact(name: str) -> None:
    """Codecs that send 32 bits give the same values as codecs that send 64."""
    shape = SHAPES[name]
    records = shape.values()["particles"] if shape.is_batch else [shape.values()]
    cls = Particle if shape.is_batch else shape.cls
    for field in (it for it, hint in hints(cls).items() if hint == echo.Float32):
        assert all(float(np.float32(record[field])) == record[field] for record in records)


@ALL
def test_extra_fields_are_spread_or_last(name: str) -> None:
    """Codecs that go by position may only get more at the end."""
    shape, more = SHAPES[name], {field for field, _ in MORE}
    own = fields_of(shape.cls)
    spread = fields_of(shape.sender_class("extra"))
    assert set(spread) == {*own, *more}
    assert spread[0] in more
    assert [it for it in spread if it not in more] == own
    assert fields_of(shape.sender_class("extra", positional=True))[: len(own)] == own


@ALL
def test_reordered_fields_are_the_same_fields(name: str) -> None:
    """In the opposite order."""
    shape = SHAPES[name]
    assert fields_of(shape.sender_class("reordered")) == fields_of(shape.cls)[::-1]


def test_records_inside_are_of_the_sender_too() -> None:
    """A sender that has more has more in every record."""
    batch = instance(SHAPES["batch-10"].sender_class("extra"), SHAPES["batch-10"].values())
    assert {type(it).__name__ for it in batch.particles} == {"ParticleExtra"}
    assert batch.particles[0].label == "more"


def test_a_particle_is_what_the_benchmarks_encode() -> None:
    """96 bytes of sixteen fields."""
    format_ = echo.format_of(Particle)
    assert format_.size_bytes == 96
    assert len(hints(Particle)) == 16
    assert len(hints(workloads.Wide)) == 200
