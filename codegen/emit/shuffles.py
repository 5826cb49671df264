"""Records of fixed size as vectors: where each byte of the target comes from, and how to bring it there.

Reordering, byte swapping, dropping, padding and zero extension are one thing to a vector unit: a shuffle of
bytes. Sign extension is a shuffle that puts a number at the top of its lane, and one shift. What is neither
(a float that changes its size, a value that is checked) is left over, for the emitter to do by itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from echo_core.codegen.emit.ir import Function, mask, vector
from echo_core.codegen.plans.plan import Cast, Each, Fill, Move, Operation, steps
from echo_core.formats.types import Kind

# For larger records the code of a map is larger than that of loops.
MAX_MAPPED_BYTES = 4096

# How many loads may feed one vector; with more, single values are cheaper.
MAX_WINDOWS = 4


# Elements of a static array are mapped one by one up to this many operations.
MAX_UNROLLED = 512


@dataclass(frozen=True, slots=True)
class Sign:
    """A signed number to widen: it is put at the top of its `wide` bytes and shifted down."""

    target: int
    narrow: int
    wide: int


@dataclass(frozen=True, slots=True)
class ByteMap:
    """For each byte of the target the byte of the source that it is, a constant, or None for zero.

    `rest` are the operations that bytes cannot express; they are done after the bytes.
    """

    source_size: int
    sources: tuple[int | bytes | None, ...]
    signs: tuple[Sign, ...]
    rest: tuple[Operation, ...]

    @property
    def is_worthwhile(self) -> bool:
        """Whether vectors save more than they cost: they need room, and most of the record."""
        mapped = sum(1 for source in self.sources if source is not None)
        return self.source_size >= 8 and len(self.sources) >= 8 and 2 * mapped >= len(self.sources)


def byte_map(
    operations: tuple[Operation, ...],
    source_size: int,
    target_size: int,
    *,
    is_swapped: bool,
    is_little: bool,
) -> ByteMap | None:
    """The map of a record of fixed size; None for one that is too large.

    `is_swapped` says that the two sides differ in byte order, `is_little` that the target has its low bytes
    first, as this machine then has; numbers grow in vectors only there.
    """
    if target_size > MAX_MAPPED_BYTES:
        return None
    sources: list[int | bytes | None] = [None] * target_size
    signs: list[Sign] = []
    rest: list[Operation] = []
    for operation, body in steps(_unrolled(operations)):
        match operation:
            case Move():
                for i in range(operation.size):
                    mirrored = i - i % operation.unit + operation.unit - 1 - i % operation.unit
                    sources[operation.target + i] = operation.source + mirrored
            case Fill():
                for i, byte in enumerate(operation.data):
                    sources[operation.target + i] = bytes([byte])
            case Cast() if is_little and _grows(operation):
                _grow(operation, sources, signs, is_swapped=is_swapped)
            case _:
                rest += [operation, *body]
    return ByteMap(source_size, tuple(sources), tuple(signs), tuple(rest))


def _grows(cast: Cast) -> bool:
    whole = (Kind.INT, Kind.UINT)
    is_larger = cast.receiver.size > cast.sender.size and not cast.is_checked
    return is_larger and cast.sender.kind in whole and cast.receiver.kind in whole


def _grow(cast: Cast, sources: list[int | bytes | None], signs: list[Sign], *, is_swapped: bool) -> None:
    narrow, wide = cast.sender.size, cast.receiver.size
    is_signed = cast.sender.kind is Kind.INT
    for i in range(cast.count):
        source, target = cast.source + i * narrow, cast.target + i * wide
        for k in range(narrow):
            byte = source + (narrow - 1 - k if is_swapped else k)
            sources[target + k + (wide - narrow if is_signed else 0)] = byte
        if is_signed:
            signs.append(Sign(target, narrow, wide))


def _unrolled(operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
    """The same with small static arrays of bytes and numbers written out."""
    result: list[Operation] = []
    for operation, body in steps(operations):
        simple = all(isinstance(inner, Move | Fill | Cast) for inner in body)
        if isinstance(operation, Each) and simple and operation.count * len(body) <= MAX_UNROLLED:
            for i in range(operation.count):
                source = operation.source + i * operation.source_stride
                target = operation.target + i * operation.target_stride
                result += [_moved(inner, source, target) for inner in body]
        else:
            result += [operation, *body]
    return tuple(result)


def _moved(operation: Operation, source: int, target: int) -> Operation:
    match operation:
        case Move() | Cast():
            return replace(operation, source=operation.source + source, target=operation.target + target)
        case Fill():
            return replace(operation, target=operation.target + target)
        case _:
            raise AssertionError(operation)


# ---------------------------------------------------------------------------
# From a map to instructions


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of target bytes that one vector store writes."""

    start: int
    width: int


def chunks_of(size: int, vector_bytes: int) -> list[Chunk]:
    """Stores that cover a record: the widest that fit, the last one overlapping where it must."""
    chunks: list[Chunk] = []
    start, width = 0, vector_bytes
    while start < size:
        while width > 8 and start + width > size:
            width //= 2
        start = min(start, size - width)
        chunks.append(Chunk(start, width))
        start += width
    return chunks


def owned_by_one_chunk(sign: Sign, chunks: list[Chunk]) -> bool:
    """Whether the store that decides a number's bytes holds it whole, on a lane of its size."""
    owners = {
        max((c for c in chunks if c.start <= at < c.start + c.width), key=chunks.index)
        for at in range(sign.target, sign.target + sign.wide)
    }
    owner = owners.pop()
    return not owners and (sign.target - owner.start) % sign.wide == 0


class Shuffler:
    """Writes the instructions for one record of a map.

    Streamed, it is in vectors of `streamed_bytes`: the record is a number of these, and begins at one.
    """

    def __init__(
        self, function: Function, bytes_: ByteMap, vector_bytes: int, *, streamed_bytes: int = 0
    ) -> None:
        self._function = function
        self._map = bytes_
        self._streamed_bytes = streamed_bytes
        self._chunks = chunks_of(len(bytes_.sources), streamed_bytes or vector_bytes)
        self._load_bytes = 8
        while 2 * self._load_bytes <= min(vector_bytes, bytes_.source_size):
            self._load_bytes *= 2
        self._shared = self._windows_over(bytes_.sources)
        self._windows = {chunk: self._windows_of(chunk) for chunk in self._chunks}

    @property
    def fits(self) -> bool:
        """Whether every vector can be made of few loads, and every sign lies on a lane."""
        few = all(len(windows) <= MAX_WINDOWS for windows in self._windows.values())
        return few and all(owned_by_one_chunk(sign, self._chunks) for sign in self._map.signs)

    def write(self, source: str, target: str) -> None:
        """From the record at `source` to the one at `target`."""
        loaded: dict[int, str] = {}
        vectors = [self._shifted(self._gathered(chunk, source, loaded), chunk) for chunk in self._chunks]
        for chunk, value in zip(self._chunks, vectors, strict=True):
            place, type_ = self._function.at(target, chunk.start), f"<{chunk.width} x i8>"
            if self._streamed_bytes:
                self._function.stream(type_, value, place, chunk.width)
            else:
                self._function.store(type_, value, place)

    def _windows_of(self, chunk: Chunk) -> list[int]:
        """The loads for a chunk: shared ones, unless loads of its own would be fewer."""
        sources = self._sources(chunk)
        own = self._windows_over(sources)
        wanted = (s for s in sources if isinstance(s, int))
        shared = sorted({self._shared[bisect_right(self._shared, s - self._load_bytes)] for s in wanted})
        return shared if len(shared) <= len(own) else own

    def _windows_over(self, sources: tuple[int | bytes | None, ...]) -> list[int]:
        """Where to load from, so that all these bytes are loaded, and none beyond the record."""
        wanted = sorted(s for s in sources if isinstance(s, int))
        windows: list[int] = []
        for byte in wanted:
            if not windows or byte >= windows[-1] + self._load_bytes:
                windows.append(min(byte, self._map.source_size - self._load_bytes))
        return windows

    def _sources(self, chunk: Chunk) -> tuple[int | bytes | None, ...]:
        return self._map.sources[chunk.start : chunk.start + chunk.width]

    def _gathered(self, chunk: Chunk, source: str, loaded: dict[int, str]) -> str:
        """The chunk's bytes: from each two windows a vector, these into one, the constants last.

        One window and the constants are two vectors as well.
        """
        sources = self._sources(chunk)
        windows = self._windows[chunk]
        constants = vector([s[0] if isinstance(s, bytes) else 0 for s in sources])
        has_constants = not all(isinstance(s, int) for s in sources)
        if not windows:
            return constants
        if len(windows) == 1 and has_constants and chunk.width == self._load_bytes:
            return self._from_one(windows[0], sources, self._load(windows[0], source, loaded), constants)
        merged = ""
        for pair in (windows[i : i + 2] for i in range(0, len(windows), 2)):
            part = self._from_pair(pair, sources, source, loaded)
            inside = [
                isinstance(s, int) and any(w <= s < w + self._load_bytes for w in pair) for s in sources
            ]
            merged = part if not merged else self._blend(chunk.width, part, merged, inside)
        if not has_constants:
            return merged
        return self._blend(chunk.width, merged, constants, [isinstance(s, int) for s in sources])

    def _load(self, window: int, source: str, loaded: dict[int, str]) -> str:
        if window not in loaded:
            place = self._function.at(source, window)
            loaded[window] = self._function.load(f"<{self._load_bytes} x i8>", place)
        return loaded[window]

    def _from_one(
        self, window: int, sources: tuple[int | bytes | None, ...], first: str, constants: str
    ) -> str:
        size = self._load_bytes
        indices = [s - window if isinstance(s, int) else size + i for i, s in enumerate(sources)]
        return self._shuffle(size, first, constants, indices)

    def _from_pair(
        self, pair: list[int], sources: tuple[int | bytes | None, ...], source: str, loaded: dict[int, str]
    ) -> str:
        first, second = (self._load(window, source, loaded) for window in (pair[0], pair[-1]))
        return self._shuffle(self._load_bytes, first, second, [self._index(byte, pair) for byte in sources])

    def _index(self, byte: int | bytes | None, pair: list[int]) -> int | None:
        if isinstance(byte, int):
            for i, window in enumerate(pair):
                if window <= byte < window + self._load_bytes:
                    return i * self._load_bytes + byte - window
        return None

    def _blend(self, width: int, first: str, second: str, is_first: list[bool]) -> str:
        indices = [i if chosen else width + i for i, chosen in enumerate(is_first)]
        return self._shuffle(width, first, second, indices)

    def _shuffle(self, width: int, first: str, second: str, indices: Sequence[int | None]) -> str:
        type_ = f"<{width} x i8>"
        return self._function.value(f"shufflevector {type_} {first}, {type_} {second}, {mask([*indices])}")

    def _shifted(self, value: str, chunk: Chunk) -> str:
        """Shifts widened signed numbers down from the top of their lanes, which extends the sign."""
        for wide in (2, 4, 8):
            inside = [
                sign
                for sign in self._map.signs
                if sign.wide == wide
                and chunk.start <= sign.target
                and sign.target + wide <= chunk.start + chunk.width
                and (sign.target - chunk.start) % wide == 0
            ]
            if inside:
                value = self._shift_lanes(value, chunk, wide, inside)
        return value

    def _shift_lanes(self, value: str, chunk: Chunk, wide: int, signs: list[Sign]) -> str:
        shifts: list[int | str] = [0] * (chunk.width // wide)
        for sign in signs:
            shifts[(sign.target - chunk.start) // wide] = 8 * (wide - sign.narrow)
        bytes_, lanes = f"<{chunk.width} x i8>", f"<{len(shifts)} x i{8 * wide}>"
        function = self._function
        cast = function.value(f"bitcast {bytes_} {value} to {lanes}")
        shifted = function.value(f"ashr {lanes} {cast}, {vector(shifts, f'i{8 * wide}')}")
        return function.value(f"bitcast {lanes} {shifted} to {bytes_}")
