"""LLVM IR as text: what is folded, how control flow carries values, and that LLVM takes it as it is."""

from __future__ import annotations

import ctypes

import pytest

from echo_core.codegen.emit.ir import LIKELY, Function, mask, vector
from echo_core.codegen.machine.engine import compile_ir, load, native_target


def function() -> Function:
    """One to write into."""
    return Function("i64 @f(i64 %n)", failure="i64 -1")


def called(written: Function, n: int) -> int:
    """What LLVM makes of it."""
    text = "\n\n".join([written.text(), LIKELY])
    loaded = load(compile_ir(text, native_target()), ["f"])
    return int(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.addresses["f"])(n))


@pytest.mark.parametrize(
    ("a", "b", "sum_", "product"),
    [
        ("%n", 0, "%n", None),
        ("0", "%n", "%n", None),
        ("2", 3, "5", "6"),
        ("%n", 1, None, "%n"),
        ("7", "1", "8", "7"),
    ],
)
def test_arithmetic_on_what_is_known_is_done_at_once(
    a: str, b: str | int, sum_: str | None, product: str | None
) -> None:
    """No instruction is written for it; None is one that has to be."""
    if sum_ is not None:
        written = function()
        assert written.add(a, b) == sum_
        assert written.lines == []
    if product is not None:
        written = function()
        assert written.multiply(a, b) == product
        assert written.lines == []


def test_arithmetic_on_values_is_an_instruction() -> None:
    """Each with a name of its own."""
    written = function()
    written.add("%n", 4)
    written.multiply("%v1", "%n")
    written.round_up("%v2", 8)
    assert written.lines == [
        "  %v1 = add i64 %n, 4",
        "  %v2 = mul i64 %v1, %n",
        "  %v3 = add i64 %v2, 7",
        "  %v4 = and i64 %v3, -8",
    ]


@pytest.mark.parametrize(("alignment", "expected"), [(1, 13), (2, 14), (4, 16), (8, 16), (16, 16)])
def test_rounding_up_reaches_the_next_multiple(alignment: int, expected: int) -> None:
    """As `round_up` does in Python."""
    written = function()
    written.do(f"ret i64 {written.round_up('%n', alignment)}")
    assert called(written, 13) == expected


def test_address_at_offset_0_is_the_pointer_itself() -> None:
    """Elsewhere it is counted in bytes."""
    written = function()
    assert written.at("%p", 0) == "%p"
    assert written.at("%p", "0") == "%p"
    written.at("%p", 12)
    assert written.lines == ["  %v1 = getelementptr i8, ptr %p, i64 12"]


def test_memory_is_read_and_written_at_any_alignment() -> None:
    """A record may lie anywhere."""
    written = function()
    written.store("i32", written.load("i32", "%p"), "%q")
    assert written.lines == ["  %v1 = load i32, ptr %p, align 1", "  store i32 %v1, ptr %q, align 1"]


def test_function_that_cannot_fail_has_no_block_for_it() -> None:
    """LLVM would refuse a block without predecessors less than a reader would."""
    written = function()
    written.do("ret i64 %n")
    assert "fail" not in written.text()


def test_failure_leaves_for_one_block_that_is_unlikely() -> None:
    """However many checks there are."""
    written = function()
    for limit in (10, 20):
        written.fail_unless(written.value(f"icmp ne i64 %n, {limit}"))
    written.do("ret i64 %n")
    text = written.text()
    assert text.count("label %fail, !prof !0") == 2
    assert text.endswith("fail:\n  ret i64 -1\n}")
    assert [called(written, n) for n in (9, 10, 20)] == [9, -1, -1]


@pytest.mark.parametrize(("step", "expected"), [(1, 0 + 1 + 2 + 3 + 4 + 5 + 6), (3, 0 + 3 + 6)])
def test_loop_carries_what_its_body_changes(step: int, expected: int) -> None:
    """The index goes by steps below the count; afterwards the carried value has a name."""
    written = function()
    with written.loop("%n", ["0"], step=step) as loop:
        loop.carried = [written.add(loop.carried[0], loop.index)]
    written.do(f"ret i64 {loop.carried[0]}")
    assert "phi i64 [ 0, %entry ]" in written.text()
    assert called(written, 7) == expected
    assert called(written, 0) == 0


def test_loop_in_a_loop_is_entered_from_where_the_code_has_come() -> None:
    """The blocks that a phi names are the last ones, not the first."""
    written = function()
    with written.loop("%n", ["0"]) as outer:
        with written.loop(outer.index, [outer.carried[0]]) as inner:
            inner.carried = [written.add(inner.carried[0], 1)]
        written.fail_unless(written.value(f"icmp ult i64 {inner.carried[0]}, 100"))
        outer.carried = [inner.carried[0]]
    written.do(f"ret i64 {outer.carried[0]}")
    assert [called(written, n) for n in (0, 1, 5, 14, 15)] == [0, 0, 10, 91, -1]


def test_branch_keeps_what_it_does_not_change() -> None:
    """A phi is written only for what comes out differently."""
    written = function()
    condition = written.value("icmp ugt i64 %n, 10")
    with written.when(condition, ["%n", "5"]) as branch:
        branch.carried = [written.add("%n", 1), "5"]
    assert branch.carried[1] == "5"
    assert written.text().count("phi") == 1
    written.do(f"ret i64 {branch.carried[0]}")
    assert [called(written, n) for n in (10, 11)] == [10, 12]


def test_vector_and_mask_are_constants() -> None:
    """None is an element that does not matter."""
    assert vector([1, 2]) == "<i8 1, i8 2>"
    assert vector([0, 48], "i64") == "<i64 0, i64 48>"
    assert mask([3, None, 0]) == "<3 x i32> <i32 3, i32 poison, i32 0>"
