"""LLVM IR that takes records apart: many records of one size to a contiguous column for each field.

    void @columns(ptr records, ptr columns, i64 count, i64 is_streamed)   columns: an array of their addresses

Eight records are taken at a time. Sixty-four bytes of each are eight lanes; turned round, they are the same
lane of eight records, which is what stands side by side in a column. A narrower field is a part of its lane.
What does not lie in a lane (text, arrays) is copied record by record, and so are the last few records.

Beside so many streams of stores the CPU does not see that the records are one stream of loads, so these are
asked for ahead of time: 4.8 ns a record of 96 bytes instead of 6.3, in memory, where a memcpy takes 4.1. What
is streamed, columns of whole lanes, is written past the caches, where lines need not be read before they are
written: 4.1 ns. Such columns must begin at a line.
"""

from __future__ import annotations

from dataclasses import dataclass

from echo_core.codegen.emit.ir import LIKELY, STREAMED, Function, mask, pieces, splat

LANE = 8
ROWS = 8
WINDOW = LANE * ROWS


@dataclass(frozen=True, slots=True)
class Column:
    """A run of bytes of each record."""

    offset: int
    size: int

    @property
    def is_in_lane(self) -> bool:
        """Whether it is a number within eight bytes that begin at a multiple of eight."""
        return self.offset % LANE + self.size <= LANE and self.size in (1, 2, 4, 8)

    @property
    def is_lane(self) -> bool:
        """Whether eight records fill a line of it."""
        return self.is_in_lane and self.size == LANE


DECLARATIONS = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
"""

LINE = 64

# How far ahead of the loads records are prefetched. Half and twice as much were within 2 %.
AHEAD = 4096

# Longer fields are copied by a call.
MAX_UNROLLED_BYTES = 64


def lead_of(columns: tuple[Column, ...], places: list[int]) -> int | None:
    """After how many records all columns of whole lanes are at a line, so that the rest may be streamed."""
    beside = {place % LINE for place, column in zip(places, columns, strict=True) if column.is_lane}
    if len(beside) != 1 or (at := beside.pop()) % LANE:
        return None
    return -at % LINE // LANE


def emit(columns: tuple[Column, ...], stride: int, *, by_vectors: bool) -> str:
    """The module for records of `stride` bytes."""
    writer = _ColumnWriter(columns, stride)
    for index, is_eight in writer.in_steps("%count", ROWS if by_vectors and stride >= WINDOW else 0):
        if is_eight:
            writer.eight(index)
        else:
            writer.one(index, list(columns))
    with writer.when(writer.is_streamed, []):
        writer.do("fence seq_cst")  # streamed stores are unordered until then
    writer.do("ret void")
    return "\n\n".join([DECLARATIONS.strip(), writer.text(), LIKELY, STREAMED]) + "\n"


class _ColumnWriter(Function):
    """Takes records apart, one or eight at a time."""

    def __init__(self, columns: tuple[Column, ...], stride: int) -> None:
        super().__init__("void @columns(ptr noalias %records, ptr %columns, i64 %count, i64 %is_streamed)")
        self.is_streamed = self.value("icmp ne i64 %is_streamed, 0")
        self._is_plain = self.value("icmp eq i64 %is_streamed, 0")
        self._columns = columns
        self._stride = stride
        self._addresses = {
            column: self.value(f"load ptr, ptr {self.at('%columns', 8 * i)}, align 8")
            for i, column in enumerate(columns)
        }

    def one(self, index: str, columns: list[Column]) -> None:
        """Some columns of one record."""
        record = self._record(index)
        for column in columns:
            target = self._place(column, index)
            self._copy(column, self.at(record, column.offset), target)

    def _record(self, index: str) -> str:
        return self.at("%records", self.multiply(index, self._stride))

    def _place(self, column: Column, index: str) -> str:
        offset = self.multiply(index, column.size)
        return self.at(self._addresses[column], offset)

    def _copy(self, column: Column, source: str, target: str) -> None:
        """The widest integers that fit, or a call."""
        if column.size > MAX_UNROLLED_BYTES:
            arguments = f"ptr {target}, ptr {source}, i64 {column.size}, i1 false"
            self.do(f"call void @llvm.memcpy.p0.p0.i64({arguments})")
            return
        for at, width in pieces(column.size, widest=16):
            type_ = f"<{width} x i8>" if width > 8 else f"i{8 * width}"
            value = self.load(type_, self.at(source, at))
            self.store(type_, value, self.at(target, at))

    def eight(self, first: str) -> None:
        """All columns of eight records, from the one numbered `first`."""
        self._ask_ahead(self._record(first))
        waiting = [column for column in self._columns if column.is_in_lane]
        for start in _windows(waiting, self._stride):
            inside = [c for c in waiting if start <= c.offset and c.offset + c.size <= start + WINDOW]
            waiting = [c for c in waiting if c not in inside]
            lanes = self._turned(first, start)
            lane_of = {column: lanes[(column.offset - start) // LANE] for column in inside}
            for column in inside:
                if not column.is_lane:
                    self._store_part(column, lane_of[column], first)
            self._store_lanes([column for column in inside if column.is_lane], lane_of, first)
        # What no window reaches is in the last few bytes of a record whose size is no multiple of a lane.
        others = [column for column in self._columns if not column.is_in_lane] + waiting
        for row in range(ROWS) if others else ():
            self.one(self.add(first, row), others)

    def _ask_ahead(self, record: str) -> None:
        """Prefetches; an address beyond the last record does no harm."""
        for at in range(0, ROWS * self._stride, LINE):
            place = self.at(record, AHEAD + at)
            self.do(f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 3, i32 1)")

    def _turned(self, first: str, start: int) -> list[str]:
        """Lane by lane what eight records hold in a window: three rounds of exchanges between rows."""
        record = self._record(first)
        type_ = f"<{ROWS} x i64>"
        rows = [self.load(type_, self.at(record, row * self._stride + start)) for row in range(ROWS)]
        for distance in (1, 2, 4):
            low, high = _exchange(distance)
            exchanged = list(rows)
            for row in range(ROWS):
                if row & distance:
                    continue
                pair = f"{type_} {rows[row]}, {type_} {rows[row + distance]}"
                exchanged[row] = self.value(f"shufflevector {pair}, {mask(low)}")
                exchanged[row + distance] = self.value(f"shufflevector {pair}, {mask(high)}")
            rows = exchanged
        return rows

    def _store_lanes(self, columns: list[Column], lane_of: dict[Column, str], first: str) -> None:
        """Columns of whole lanes, in one of two ways."""
        type_ = f"<{ROWS} x i64>"
        with self.when(self._is_plain, []):
            for column in columns:
                self.store(type_, lane_of[column], self._place(column, first))
        with self.when(self.is_streamed, []):
            for column in columns:
                self.stream(type_, lane_of[column], self._place(column, first), LINE)

    def _store_part(self, column: Column, lane: str, first: str) -> None:
        bits = 8 * column.size
        type_ = f"<{ROWS} x i{bits}>"
        shift = 8 * (column.offset % LANE)
        if shift:
            lane = self.value(f"lshr <{ROWS} x i64> {lane}, {splat(shift, 'i64', ROWS)}")
        lane = self.value(f"trunc <{ROWS} x i64> {lane} to {type_}")
        self.store(type_, lane, self._place(column, first))


def _windows(columns: list[Column], stride: int) -> list[int]:
    """Where to begin, at multiples of a lane, so that every column is seen whole and no load leaves a row."""
    last = (stride - WINDOW) // LANE * LANE
    starts: list[int] = []
    for column in sorted(columns, key=lambda column: column.offset):
        lane = column.offset // LANE * LANE
        if not starts or lane >= starts[-1] + WINDOW:
            starts.append(min(lane, last))
    return starts


def _exchange(distance: int) -> tuple[list[int | None], list[int | None]]:
    """The masks that exchange blocks of `distance` lanes between two rows that are so far apart."""
    low: list[int | None] = [i if not i & distance else ROWS + i - distance for i in range(ROWS)]
    high: list[int | None] = [i + distance if not i & distance else ROWS + i for i in range(ROWS)]
    return low, high
