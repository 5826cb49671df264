"""Plans as LLVM IR. It knows operations and nothing of formats.

A module has up to four functions:

    i32 @verify(ptr record, i64 size)              0 where every slot may be followed
    i64 @measure(ptr record)                       the size of the converted record, or -1
    i32 @convert(ptr record, ptr target)           0, or 1 where a value did not fit
    i32 @convert_many(ptr source, ptr target, i64 count)    records of fixed size, one after another

A record is verified before it is measured, and measured before it is converted. A failure says no more than
that it happened: the caller executes the plan again in the interpreter, which finds the words.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from echo_core.codegen.casts import cast_values
from echo_core.codegen.emit_convert import Converter, convert, covers, measure
from echo_core.codegen.emit_records import Machine, Operations, move_bytes, zero
from echo_core.codegen.emit_verify import verify
from echo_core.codegen.ir import LIKELY, Function
from echo_core.codegen.plan import Cast, Move, Plan, walk
from echo_core.codegen.shuffles import Shuffler, byte_map
from echo_core.formats.types import Kind

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
"""


def emit(plan: Plan, verification: Plan, machine: Machine) -> str:
    """The module for a pair of formats."""
    module = Module(machine)
    if plan.is_fixed and not verification.operations:
        module.many(plan.operations, plan, plan.sender.size, plan.receiver.size, "@convert_many")
    else:
        module.functions += [
            verify(verification, module),
            measure(plan, module),
            convert(plan, module),
        ]
    return module.text()


def is_emittable(plan: Plan) -> bool:
    """Whether code can be made for a plan. Half precision needs library calls that a process may lack."""
    return not any(
        isinstance(operation, Cast) and 2 in _float_sizes(operation) for _, operation in walk(plan.operations)
    )


def _float_sizes(cast: Cast) -> list[int]:
    return [scalar.size for scalar in (cast.sender, cast.receiver) if scalar.kind is Kind.FLOAT]


@dataclass
class Module:
    """Functions in the making; loops over fixed elements become functions of their own."""

    machine: Machine
    functions: list[Function] = field(default_factory=list[Function])

    def text(self) -> str:
        return "\n\n".join([DECLARATIONS.strip(), *(f.text() for f in self.functions), LIKELY]) + "\n"

    def many(
        self, operations: Operations, plan: Plan, source_stride: int, target_stride: int, name: str = ""
    ) -> str:
        """A function that converts elements of fixed size one after another; its name."""
        name = name or f"@many{len(self.functions)}"
        function = Function(
            f"{'' if name == '@convert_many' else 'internal '}i32 {name}"
            "(ptr noalias %source, ptr noalias %target, i64 %count)",
            failure="i32 1",
        )
        self.functions.append(function)
        if not _many_as_one(function, operations, plan, self, source_stride, target_stride):
            with function.loop("%count", []) as loop:
                source = function.at("%source", function.multiply(loop.index, source_stride))
                target = function.at("%target", function.multiply(loop.index, target_stride))
                self._one(function, operations, plan, source, target, source_stride, target_stride)
        function.do("ret i32 0")
        return name

    def _one(
        self,
        function: Function,
        operations: Operations,
        plan: Plan,
        source: str,
        target: str,
        source_stride: int,
        target_stride: int,
    ) -> None:
        """One element: its bytes by vectors, the rest by values; or all by values, over zeros."""
        converter = Converter(function, plan, self)
        mapped = byte_map(
            operations,
            source_stride,
            target_stride,
            is_swapped=plan.sender.byte_order != plan.receiver.byte_order,
            is_little=plan.receiver.byte_order == self.machine.byte_order == "little",
        )
        if self.machine.vector_bytes and mapped is not None and mapped.is_worthwhile:
            shuffler = Shuffler(function, mapped, self.machine.vector_bytes)
            if shuffler.fits:
                shuffler.write(source, target)
                converter.run(mapped.rest, source, target)
                return
        if not covers(operations, target_stride):
            zero(function, target, str(target_stride))
        converter.run(operations, source, target)


def _many_as_one(
    function: Function,
    operations: Operations,
    plan: Plan,
    module: Module,
    source_stride: int,
    target_stride: int,
) -> bool:
    """Elements that are all bytes to move, or all numbers to cast, are one long run of them."""
    match operations:
        case (Move(0, 0, size, unit),) if size == source_stride == target_stride:
            move_bytes(
                function, "%source", "%target", function.multiply("%count", size), unit, module.machine
            )
            return True
        case (Cast(0, 0, n, sender, receiver) as cast,) if (
            n * sender.size == source_stride and n * receiver.size == target_stride
        ):
            count = function.multiply("%count", n)
            swaps = module.machine.swaps(plan.sender), module.machine.swaps(plan.receiver)
            cast_values(function, cast, "%source", "%target", count, swaps, module.machine.vector_bytes)
            return True
        case _:
            return False
