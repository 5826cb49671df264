"""`python -m bench filters`: each figure beside its goal, each answer checked against numpy or Python.

Data is fresh: arrays are larger than what a branch predictor learns, and there are several of each.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import echo_core as echo
from bench.filters.loops import compiled_ns, judged_ns
from bench.private_cache import private_cache
from bench.report import Row, best_of
from bench.workload import Particle, particle
from echo_core.codegen.expressions.emit import emit, emit_table
from echo_core.codegen.expressions.lowering import lower
from echo_core.codegen.expressions.program import Program
from echo_core.codegen.expressions.tables import Fused, Index, Table
from echo_core.codegen.machine import engine

TEXT = "kind == 3 and temp > limit and x*x + y*y + z*z < 1e12"
FORMAT = echo.format_of(Particle)
IN_CACHE, IN_MEMORY = 4096, 1_000_000
ARRAYS = 8


def measure(*, quick: bool) -> list[Row]:
    """The figures, with a cache of compiled code that is thrown away."""
    with private_cache():
        parts = (_objects, _records, _batches, _many, _compiling)
        return [row for part in parts for row in part(3 if quick else 15)]


def rows_of(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Particles, a sixth of each kind."""
    random = np.random.default_rng(seed)
    made = np.zeros(count, FORMAT.dtype)
    made["id"] = random.integers(0, 4000, count)
    made["kind"] = random.integers(0, 6, count)
    made["temp"] = random.uniform(200, 400, count)
    for name in "xyz":
        made[name] = random.normal(0, 3e5, count)
    return made


def _by_numpy(rows: np.ndarray[Any, Any], limit: float) -> np.ndarray[Any, Any]:
    near = rows["x"] * rows["x"] + rows["y"] * rows["y"] + rows["z"] * rows["z"] < 1e12
    chosen: np.ndarray[Any, Any] = (rows["kind"] == 3) & (rows["temp"] > limit) & near
    return chosen


# ---------------------------------------------------------------------------


def _objects(repeats: int) -> Iterator[Row]:
    group = "An object that is rejected, ns beyond an empty call"
    hot = echo.where(Particle, "temp > limit", tier="compiled", limit=1e4)
    event = particle()
    plain: Callable[[Any], bool] = lambda e: e.temp > 1e4  # noqa: E731
    assert hot(event) is plain(event) is False
    number = 20_000

    def beyond(call: Callable[[Any], object], empty: Callable[[Any], object]) -> float:
        events = [event] * number
        taken, nothing = (best_of(repeats, partial(_each, it, events)) for it in (call, empty))
        return 1e9 * (taken - nothing) / number

    yield Row("`@echo.event`", beyond(hot.passes, callable), 5, "ns", group=group)
    slotted: Any = dataclasses.make_dataclass("Slotted", [("id", int), ("temp", echo.Float32)], slots=True)
    cold = echo.where(slotted, "temp > limit", tier="compiled", limit=1e4)
    event = slotted(1, 300.0)
    yield Row("a dataclass with slots", beyond(cold.passes, callable), 5, "ns", group=group)
    assert cold.statistics().encoded == cold.statistics().passed == 0
    yield Row("a lambda over that dataclass", beyond(plain, callable), None, "ns", group=group)


def _each(call: Callable[[Any], object], events: list[Any]) -> None:
    for event in events:
        call(event)


def _records(repeats: int) -> Iterator[Row]:
    group = "A native record, asked by C code, ns"
    rows = rows_of(IN_CACHE)
    wanted = int(_by_numpy(rows, 300.0).sum())
    for what, text, goal, slow in (
        ("one comparison", "temp > limit", 2, None),
        ("three conditions, ten operations", TEXT, None, None),
        ("one comparison, interpreted", "temp > limit", 15, "interpreted"),
        ("three conditions, interpreted", TEXT, None, "interpreted"),
    ):
        predicate = echo.where(Particle, text, tier="interpreted" if slow else "compiled", limit=300.0)
        ns, passed = judged_ns(predicate.judge, rows, repeats=repeats)
        assert passed == (wanted if text is TEXT else int((rows["temp"] > 300).sum()))
        yield Row(what, ns, goal, "ns", group=group)
    function, snapshot = _compiled("temp > limit", 300.0)
    ns, _ = compiled_ns([function.addresses["judge"]], [snapshot], rows, repeats=repeats)
    yield Row("one comparison, the compiled code alone", ns, 2, "ns", group=group)


def _compiled(text: str, limit: float) -> tuple[Any, bytes]:
    derivation = echo.where(Particle, text, tier="interpreted", limit=limit).derivation
    program = lower([(derivation.tree, derivation.conditions)], FORMAT)
    return _loaded(program), program.snapshot(derivation.values)


def _loaded(program: Program) -> Any:
    return engine.load(engine.compile_ir(emit(program), engine.native_target()), ["judge"])


def _batches(repeats: int) -> Iterator[Row]:
    group = "Records filtered and survivors copied, ns a record, and numpy's time over that"
    for where, count in (("in cache", IN_CACHE), ("in memory", IN_MEMORY)):
        arrays = [rows_of(count, seed) for seed in range(ARRAYS if count == IN_CACHE else 1)]
        target = np.empty_like(arrays[0])
        for share in (0.01, 0.25, 0.5, 1.0):
            limit = 400.0 - 200.0 * share
            hot = echo.where(Particle, "temp > limit", tier="compiled", limit=limit)
            source, copies = [it.view(np.uint8) for it in arrays], target.view(np.uint8)
            for rows in arrays:
                assert np.array_equal(hot.filter(rows), rows[rows["temp"] > limit])
            ours = best_of(repeats, lambda: [hot.judge.filter_into(it, copies) for it in source])  # noqa: B023
            theirs = best_of(repeats, lambda: [it[it["temp"] > limit] for it in arrays])  # noqa: B023
            total = count * len(arrays)
            goal = 4 if count == IN_MEMORY else 2 if share == 1.0 else 1.5
            what = f"{where}, {share:.0%} pass"
            yield Row(what, 1e9 * ours / total, goal, "ns", group=group)
            yield Row(
                f"{what}, numpy", theirs / ours, 5 if share < 1.0 else None, "x", at_least=True, group=group
            )


def _many(repeats: int) -> Iterator[Row]:
    group = "One record and many derivations, ns beyond an empty call"
    particles = rows_of(1)
    particles["temp"] = 210.0
    record = particles.tobytes()
    derivation = echo.where(Particle, "temp > a and id != b", tier="interpreted", a=300.0, b=5).derivation
    table, limits = Table(derivation, FORMAT, "compiled"), np.random.default_rng(1).uniform(200, 400, 1000)
    for row, limit in enumerate(limits):
        table.put(row, [float(limit), 5])
    room = bytearray(4 * 4096)  # numbers of rows
    (temp,) = np.frombuffer(record, FORMAT.dtype)["temp"]
    assert table.rows(record).tolist() == np.flatnonzero(temp > limits).tolist()
    yield Row(
        "1,000 rows of one shape, ids of 5 %",
        _beyond_empty(table.native.rows, record, room, repeats=repeats),
        100,
        "ns",
        group=group,
    )
    index = Index(echo.where(Particle, "id == a", tier="interpreted", a=0).derivation, FORMAT, "compiled")
    for row in range(4000):
        index.put(row, [row])
    (number,) = np.frombuffer(record, FORMAT.dtype)["id"].tolist()
    assert index.rows(record).tolist() == [number]
    yield Row(
        "4,000 rows of equality",
        _beyond_empty(index.native.rows, record, room, repeats=repeats),
        50,
        "ns",
        group=group,
    )
    texts = Index(echo.where(Particle, "tag == a", tier="interpreted", a="").derivation, FORMAT, "compiled")
    for row in range(4000):
        texts.put(row, [f"particle {row}"])
    particles["tag"] = b"particle 1234"
    tagged = particles.tobytes()
    assert texts.rows(tagged).tolist() == [1234]
    yield Row(
        "4,000 rows of equal texts",
        _beyond_empty(texts.native.rows, tagged, room, repeats=repeats),
        50,
        "ns",
        group=group,
    )
    yield from _fused(repeats)


def _beyond_empty(
    rows: Callable[[bytes, bytearray], int], record: bytes, room: bytearray, *, repeats: int
) -> float:
    """What C code finds the rows in, as it is called from Python, beyond a function that does nothing."""
    taken, empty = (
        best_of(repeats, it, calls=5000)
        for it in (lambda: rows(record, room), lambda: isinstance(record, bytes))
    )
    return 1e9 * (taken - empty)


def _fused(repeats: int) -> Iterator[Row]:
    """Sixteen that share what they compare."""
    rows = rows_of(IN_CACHE)
    texts = [f"x*x + y*y + z*z < {(i + 1) * 1e10} and temp > {200 + 10 * i}" for i in range(16)]
    made = [echo.where(Particle, text, tier="interpreted").derivation for text in texts]
    programs = [lower([(it.tree, it.conditions)], FORMAT) for it in made]
    loaded = [_loaded(program) for program in programs]
    snapshots = [program.snapshot(it.values) for program, it in zip(programs, made, strict=True)]
    separate, found = compiled_ns([it.addresses["judge"] for it in loaded], snapshots, rows, repeats=repeats)
    together = Fused(made, FORMAT, "interpreted").program
    fused = _loaded(together)
    snapshot = together.snapshot([value for it in made for value in it.values])
    ns, found_together = compiled_ns([fused.addresses["judge"]], [snapshot], rows, repeats=repeats)
    assert found == found_together
    group = "Sixteen predicates that share a part, ns, and fused over separate"
    yield Row("separate", separate, None, "ns", group=group)
    yield Row("fused", ns, None, "ns", group=group)
    yield Row("fused over separate", ns / separate, 0.25, "x", group=group)


# ---------------------------------------------------------------------------


def _compiling(repeats: int) -> Iterator[Row]:
    group = "Compiling, ms"
    _loaded(_program(3, 0))  # what the first compilation of a process costs besides
    for nodes, goal in ((20, 5), (250, 10)):
        taken = [
            _milliseconds(partial(_loaded, program))
            for program in [_program(nodes, run) for run in range(1, repeats + 1)]
        ]
        yield Row(f"{nodes} nodes", statistics.median(taken), goal, "ms", group=group)
    derivation = echo.where(Particle, "temp > a and id != b", tier="interpreted", a=300.0, b=5).derivation
    program = lower([(derivation.tree, derivation.conditions)], FORMAT)
    taken = [
        _milliseconds(
            lambda: engine.load(engine.compile_ir(emit_table(program), engine.native_target()), ["table"])
        )
        for _ in range(repeats)
    ]
    yield Row("a table", statistics.median(taken), 15, "ms", group=group)
    echo.where(Particle, TEXT, tier="compiled", limit=1.0)
    known = echo.where(Particle, TEXT, tier="interpreted", limit=1.0)
    taken = [_milliseconds(known.compile) for _ in range(repeats)]
    assert known.is_compiled
    yield Row("20 nodes from the disk cache", statistics.median(taken), 0.1, "ms", group=group)
    taken = [
        _milliseconds(lambda: echo.where(Particle, TEXT, tier="interpreted", limit=1.0))
        for _ in range(repeats)
    ]
    yield Row("text to a predicate that is interpreted", statistics.median(taken), None, "ms", group=group)


def _program(nodes: int, run: int) -> Program:
    """A tree of about so many nodes, another one in each run."""
    terms = [f"(temp + {run}.{i} > x)" for i in range(max(1, min(30, nodes // 8)))]
    text = " and ".join(f"({' or '.join(terms[i : i + 6])})" for i in range(0, len(terms), 6))
    sums = max(0, (nodes - 5 * len(terms)) // 3)
    if sums:
        wide = [f"(y + {run}.{i}5)" for i in range(sums)]
        while len(wide) > 1:
            wide = [
                " * ".join(wide[i : i + 2]) if i % 4 else f"({' - '.join(wide[i : i + 2])})"
                for i in range(0, len(wide), 2)
            ]
            wide = [f"({it})" for it in wide]
        text += f" and {wide[0]} > 0"
    derivation = echo.where(Particle, text, tier="interpreted").derivation
    return lower([(derivation.tree, derivation.conditions)], FORMAT)


def _milliseconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)
