"""Plans as LLVM IR. This package knows operations and no formats.

A module has up to four functions:

    i32 @verify(ptr record, i64 size)              0 where every slot may be followed
    i64 @measure(ptr record)                       the size of the converted record, or -1
    i32 @convert(ptr record, ptr target)           0, or 1 where a value did not fit
    i32 @convert_many(ptr source, ptr target, i64 count)    records of fixed size, one after another

A record is verified before it is measured, and measured before it is converted. A failure says no more than
that it happened: the caller executes the plan again in the interpreter, which finds the words.
"""

from __future__ import annotations

from echo_core.codegen.emit.casts import cast_values
from echo_core.codegen.emit.convert import Converter, convert, covers, measure
from echo_core.codegen.emit.ir import LIKELY, STREAMED, Function
from echo_core.codegen.emit.moves import Machine, Many, Module, Operations, move_bytes, zero
from echo_core.codegen.emit.shuffles import ByteMap, Shuffler, byte_map
from echo_core.codegen.emit.verify import verify
from echo_core.codegen.plans.plan import Cast, Move, Plan

DECLARATIONS = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare {i64, i1} @llvm.umul.with.overflow.i64(i64, i64)
declare i16 @llvm.bswap.i16(i16)
declare i32 @llvm.bswap.i32(i32)
declare i64 @llvm.bswap.i64(i64)
declare float @llvm.fabs.f32(float)
declare double @llvm.fabs.f64(double)
declare ptr @memchr(ptr, i32, i64)
declare i64 @strlen(ptr)
declare i32 @echo_is_utf8(ptr, i64)
declare i64 @echo_text_size(ptr, i64)
"""

# Narrower vectors are not streamed by every CPU.
MIN_STREAMED_BYTES = 16


def emit(plan: Plan, verification: Plan, machine: Machine, *, is_many: bool = True) -> str:
    """The module for a pair of formats. `is_many`: records of fixed size come one after another."""
    module = Module(machine)
    if is_many and plan.is_fixed and verification.is_fixed:
        whole = Many("@convert_many", plan.operations, plan, plan.sender.size, plan.receiver.size)
        functions = [_many(whole, module)]
    else:
        functions = [verify(verification, module), measure(plan, module), convert(plan, module)]
    functions += [_many(called, module) for called in module.called]  # the list may grow meanwhile
    return "\n\n".join([DECLARATIONS.strip(), *(f.text() for f in functions), LIKELY]) + "\n"


def emit_streamed(plan: Plan, machine: Machine) -> str | None:
    """The module for batches larger than the caches, which are written past them.

        void @stream_many(ptr source, ptr target, i64 count)    the target at a cache line

    A line need not be read then before it is written: 3.2 ns for a record of 96 bytes instead of 4.0, where a
    memcpy takes 4.1. None where there is more to do than to shuffle bytes, or where a vector would be in two
    records.
    """
    size = plan.receiver.size
    width = min(size & -size, machine.vector_bytes)
    mapped = _map_of(plan.operations, plan, machine, plan.sender.size, size)
    if width < MIN_STREAMED_BYTES or mapped is None or mapped.rest or not mapped.is_worthwhile:
        return None
    function = Function("void @stream_many(ptr noalias %source, ptr noalias %target, i64 %count)")
    shuffler = Shuffler(function, mapped, machine.vector_bytes, streamed_bytes=width)
    if not shuffler.fits:
        return None
    with function.loop("%count", []) as loop:
        source = function.at("%source", function.multiply(loop.index, plan.sender.size))
        shuffler.write(source, function.at("%target", function.multiply(loop.index, size)))
    function.do("fence seq_cst")
    function.do("ret void")
    return "\n\n".join([function.text(), STREAMED]) + "\n"


def _map_of(
    operations: Operations, plan: Plan, machine: Machine, source_stride: int, target_stride: int
) -> ByteMap | None:
    return byte_map(
        operations,
        source_stride,
        target_stride,
        is_swapped=plan.sender.byte_order != plan.receiver.byte_order,
        is_little=plan.receiver.byte_order == machine.byte_order == "little",
    )


def _many(many: Many, module: Module) -> Function:
    linkage = "" if many.name == "@convert_many" else "internal "
    function = Function(
        f"{linkage}i32 {many.name}(ptr noalias %source, ptr noalias %target, i64 %count)", failure="i32 1"
    )
    if not _many_as_one(function, many, module.machine):
        with function.loop("%count", []) as loop:
            source = function.at("%source", function.multiply(loop.index, many.source_stride))
            target = function.at("%target", function.multiply(loop.index, many.target_stride))
            _one(function, many, module, source, target)
    function.do("ret i32 0")
    return function


def _one(function: Function, many: Many, module: Module, source: str, target: str) -> None:
    """One element: its bytes by vectors, the rest by values; or all by values, over zeros."""
    converter = Converter(function, many.plan, module)
    machine = module.machine
    mapped = _map_of(many.operations, many.plan, machine, many.source_stride, many.target_stride)
    if machine.vector_bytes and mapped is not None and mapped.is_worthwhile:
        shuffler = Shuffler(function, mapped, machine.vector_bytes)
        if shuffler.fits:
            shuffler.write(source, target)
            converter.run(mapped.rest, source, target)
            return
    if not covers(many.operations, many.target_stride):
        zero(function, target, str(many.target_stride))
    converter.run(many.operations, source, target)


def _many_as_one(function: Function, many: Many, machine: Machine) -> bool:
    """Elements that are all bytes to move, or all numbers to cast, are one long run of them."""
    match many.operations:
        case (Move(0, 0, size, unit),) if size == many.source_stride == many.target_stride:
            move_bytes(function, "%source", "%target", function.multiply("%count", size), unit, machine)
            return True
        case (Cast(0, 0, n, sender, receiver) as cast,) if (
            n * sender.size == many.source_stride and n * receiver.size == many.target_stride
        ):
            count = function.multiply("%count", n)
            swaps = machine.swaps(many.plan.sender), machine.swaps(many.plan.receiver)
            cast_values(function, cast, "%source", "%target", count, swaps, machine.vector_bytes)
            return True
        case _:
            return False
