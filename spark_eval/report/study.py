"""The cells and ratios of one run, with queries for the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from echo_core.spark_eval.report import palette
from echo_core.spark_eval.report.summaries import CellSummary, Key, Ratio, ratios, summarise

REFERENCES = {"objects": "echo dataclass", "columns": "echo columns"}
OPERATIONS = ("encode", "decode")
TARGETS = ("objects", "columns")
SAME = "same"

_OURS = ("echo dataclass", "echo event", "echo event, read", "echo columns", "echo array")
_SHAPES = ("single", "batch-1", "batch-10", "batch-100", "batch-1000", "odd", "wide", "story")
_SENDERS = (SAME, "big-endian", "reordered", "extra")


def _rank(known: tuple[str, ...], name: str) -> tuple[int, str]:
    return (known.index(name) if name in known else len(known), name)


def codec_order(codec: str) -> tuple[int, int, str]:
    """Ours first, then the rivals family by family."""
    families = ("echo", *palette.FAMILIES)
    return (_rank(families, codec.split()[0])[0], *_rank(_OURS, codec))


def ordered(names: Iterable[str]) -> list[str]:
    """Shapes, senders or targets in the order of the report, each once."""
    return sorted(set(names), key=lambda name: _rank((*_SHAPES, *_SENDERS, *TARGETS), name))


@dataclass(frozen=True, slots=True)
class Study:
    cells: Mapping[Key, CellSummary]
    ratios: tuple[Ratio, ...]
    environment: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, samples: Any, environment: Mapping[str, Any]) -> Study:
        cells = summarise(samples)
        return cls(cells, tuple(ratios(cells)), environment)

    def codecs(self, **wanted: str) -> list[str]:
        return sorted({key.codec for key in self.keys(**wanted)}, key=codec_order)

    def keys(self, **wanted: str) -> list[Key]:
        return [key for key in self.cells if _fits(key, wanted)]

    def shapes(self, **wanted: str) -> list[str]:
        return ordered(key.shape for key in self.keys(**wanted))

    def senders(self) -> list[str]:
        return ordered(key.sender for key in self.cells)

    def targets(self) -> list[str]:
        return [target for target in TARGETS if self.keys(target=target)]

    def reference(self, target: str) -> str:
        """The codec of ours with which rivals are compared in the headline and the plots."""
        ours = [codec for codec in self.codecs(target=target) if palette.family(codec) == "echo"]
        wanted = REFERENCES[target]
        return wanted if wanted in ours or not ours else ours[0]

    def against_reference(self, operation: str, target: str, sender: str = SAME) -> list[Ratio]:
        wanted = {"codec": self.reference(target), "operation": operation, "target": target, "sender": sender}
        found = [ratio for ratio in self.ratios if _fits(ratio.ours, wanted)]
        return sorted(found, key=lambda r: (codec_order(r.rival.codec), ordered_place(r.rival.shape)))


def ordered_place(shape: str) -> tuple[int, str]:
    return _rank(_SHAPES, shape)


def _fits(key: Key, wanted: Mapping[str, str]) -> bool:
    return all(getattr(key, name) == value for name, value in wanted.items())
