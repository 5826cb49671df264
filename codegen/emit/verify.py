"""The function that verifies a record: `i32 @verify(ptr record, i64 size)`, 0 where slots may be followed."""

from __future__ import annotations

from echo_core.codegen.emit.ir import Function, pieces
from echo_core.codegen.emit.moves import Module, Operations, SourceReader
from echo_core.codegen.plans.plan import Each, Offset, Plan, Run, Slot, Text, When, steps
from echo_core.codegen.plans.verification import MAX_EXTENT
from echo_core.formats.types import Kind, Scalar

# Longer texts are checked by a call, which is no slower for them and keeps the code small.
MAX_SCANNED_CHARS = 64

_HIGH_BITS = 0x8080808080808080


def verify(plan: Plan, module: Module) -> Function:
    function = Function("i32 @verify(ptr %record, i64 %size)", failure="i32 1")
    verifier = _Verifier(function, plan.sender, module, str(plan.sender.size))
    function.fail_unless(function.value(f"icmp uge i64 %size, {plan.sender.size}"))
    verifier.run(plan.operations, "%record")
    function.fail_unless(function.value(f"icmp eq i64 %size, {verifier.end}"))
    function.do("ret i32 0")
    return function


class _Verifier(SourceReader):
    """Passes every variable part of the sender's record."""

    def run(self, operations: Operations, base: str) -> None:
        for operation, body in steps(operations):
            match operation:
                case Text(source_size=None):
                    self._pass_text(operation, base)
                case Text():
                    self._pass_chars(operation, base)
                case Run():
                    self._pass_run(operation, body, base)
                case When():
                    self._pass_when(operation, body, base)
                case Each():
                    self._elements(
                        body,
                        self.function.at(base, operation.source),
                        str(operation.count),
                        operation.source_stride,
                    )
                case _:
                    raise AssertionError(operation)

    def _begin(self, slot: str, alignment: int) -> str:
        """The start of the part that a slot refers to, which is the only place where it may be."""
        expected = self.function.round_up(self.end, alignment)
        start = self.word(slot)
        self._demand("eq", start, expected)
        self._demand("ule", start, "%size")
        return start

    def _demand(self, relation: str, a: str, b: str) -> None:
        self.function.fail_unless(self.function.value(f"icmp {relation} i64 {a}, {b}"))

    def _pass_text(self, text: Text, base: str) -> None:
        start = self._begin(self.function.at(base, text.source), 1)
        left = self.function.value(f"sub i64 %size, {start}")
        pointer = self.function.at("%record", start)
        size = self.function.value(f"call i64 @echo_text_size(ptr {pointer}, i64 {left})")
        self.function.fail_unless(self.function.value(f"icmp sge i64 {size}, 0"))
        self.end = self.function.add(self.function.add(start, size), 1)

    def _pass_chars(self, text: Text, base: str) -> None:
        """Checks UTF-8; chars that are all ASCII, also behind a NUL, need no call."""
        start, size = self.function.at(base, text.source), text.source_size
        assert size is not None
        beyond = "true" if size > MAX_SCANNED_CHARS else self._is_beyond_ascii(start, size)
        with self.function.when(beyond, []):
            is_utf8 = self.function.value(f"call i32 @echo_is_utf8(ptr {start}, i64 {size})")
            self.function.fail_unless(self.function.value(f"icmp ne i32 {is_utf8}, 0"))

    def _is_beyond_ascii(self, start: str, size: int) -> str:
        """Whether one of the bytes is not ASCII, a word at a time."""
        words = [
            self._as_i64(
                Scalar(Kind.UINT, width), self.function.load(f"i{8 * width}", self.function.at(start, at))
            )
            for at, width in pieces(size)
        ]
        high = self.function.value(f"and i64 {self.union(words)}, {_HIGH_BITS}")
        return self.function.value(f"icmp ne i64 {high}, 0")

    def _pass_run(self, run: Run, body: Operations, base: str) -> None:
        slot = run.source
        assert isinstance(slot, Slot)
        lengths = self.lengths(slot, base)
        if len(lengths) > 1:
            self._bound(lengths)
        count = self.product(lengths)
        start = self._begin(self.function.at(base, slot.offset), slot.alignment)
        left = self.function.value(f"sub i64 %size, {start}")
        most = self.function.value(f"udiv i64 {left}, {run.source_stride}")
        self._demand("ule", count, most)
        self.end = self.function.add(start, self.function.multiply(count, run.source_stride))
        if body:
            self._elements(body, self.function.at("%record", start), count, run.source_stride)

    def _bound(self, lengths: list[str]) -> None:
        """Checks that the product of the lengths that are not 0 is within the bound and does not overflow."""
        extent = "1"
        for length in lengths:
            is_none = self.function.value(f"icmp eq i64 {length}, 0")
            factor = self.function.value(f"select i1 {is_none}, i64 1, i64 {length}")
            pair = self.function.value(
                f"call {{i64, i1}} @llvm.umul.with.overflow.i64(i64 {extent}, i64 {factor})"
            )
            extent = self.function.value(f"extractvalue {{i64, i1}} {pair}, 0")
            over = self.function.value(f"extractvalue {{i64, i1}} {pair}, 1")
            self.function.fail_unless(self.function.value(f"xor i1 {over}, true"))
            self._demand("ule", extent, str(MAX_EXTENT))

    def _elements(self, body: Operations, start: str, count: str, stride: int) -> None:
        with self.each(body, count) as index:
            self.run(body, self.function.at(start, self.function.multiply(index, stride)))

    def _pass_when(self, when: When, body: Operations, base: str) -> None:
        present = self.is_present(when.source, base)
        if isinstance(when.source, Offset) and when.source.lengths:
            lengths = self.union([self.length(n, base) for n in when.source.lengths])
            is_none = self.function.value(f"icmp eq i64 {lengths}, 0")
            self.function.fail_unless(self.function.value(f"or i1 {present}, {is_none}"))
        with self.where(present):
            self.run(body, base)
