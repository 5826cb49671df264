"""Whether a log is as it was written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from echo_core.formats.tables import as_lines
from echo_core.logs.described import Damage, Gap, StreamInfo
from echo_core.logs.reading import LogReader
from echo_core.logs.views.missing import Missing
from echo_core.transports.fields import shown


@dataclass(frozen=True, slots=True)
class Verification:
    """What reading all of a log has found. `str` gives a table.

    `events` and `record_bytes` are what could be read, every bit of which is as it was written. `damage` is
    what is not, and `missing` are the events that are not there, for that or another reason. `is_torn`: the
    end is unfinished, as a crash leaves it, which is no damage.
    """

    events: int
    record_bytes: int
    file_bytes: int
    damage: tuple[Damage, ...]
    missing: tuple[Gap, ...]
    streams: tuple[StreamInfo, ...]
    is_torn: bool

    @property
    def is_sound(self) -> bool:
        """Whether nothing of it is damaged."""
        return not self.damage

    def __str__(self) -> str:
        state = "sound" if self.is_sound else f"damaged in {len(self.damage)} places"
        torn = ", the end is unfinished" if self.is_torn else ""
        of_bytes = f"{self.record_bytes:,} bytes of records in {self.file_bytes:,} bytes"
        lines = [f"{state}: {self.events:,} events, {of_bytes}{torn}"]
        if self.damage:
            lines += as_lines(("segment", "bytes", "what"), list(map(_damage_row, self.damage)), right=1)
        if self.missing:
            source = {stream.number: stream.key.source_name for stream in self.streams}
            rows = [
                (shown(source[gap.stream]), f"{gap.first} to {gap.last}", shown(gap.cause))
                for gap in self.missing
            ]
            lines += as_lines(("source", "missing", "cause"), rows)
        return "\n".join(lines)


def _damage_row(damage: Damage) -> tuple[str, str, str]:
    return str(damage.segment), f"{damage.start} to {damage.end}", shown(damage.what)


def verify(reader: LogReader, file_bytes: int) -> Verification:
    """Reads all of it."""
    events = record_bytes = 0
    for block in reader.blocks():
        events += block.count
        record_bytes += block.records.nbytes
    damage: Iterable[Damage] = reader.damage
    return Verification(
        events,
        record_bytes,
        file_bytes,
        tuple(damage),
        tuple(Missing(reader.gaps, damage).all()),
        tuple(reader.streams),
        reader.is_torn,
    )
