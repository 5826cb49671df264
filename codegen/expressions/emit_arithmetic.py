"""Arithmetic of steps as LLVM IR. What Python raises for, and what 64 bits cannot hold, fails."""

from __future__ import annotations

from dataclasses import dataclass

from echo_core.codegen.emit.ir import vector_type
from echo_core.codegen.expressions.emit_values import Value, Values
from echo_core.codegen.expressions.program import NO_STEP, Step

_MIN = -(2**63)
_TWO_63 = "0x43E0000000000000"
_LESS_TWO_63 = "0xC3E0000000000000"
_INFINITY = "0x7FF0000000000000"

_CHECKED = {"ADD": "add", "SUB": "sub", "MUL": "mul"}


@dataclass(slots=True)
class Arithmetic(Values):
    """Writes operations on numbers."""

    def _arithmetic(self, name: str, kind: str, step: Step) -> Value:
        numbers = [number for number in (step.a, step.b) if number != NO_STEP]
        lanes = self._lanes(*numbers)
        type_ = "double" if kind == "F" else "i64"
        operands = [self.get(number, type_, lanes) for number in numbers]
        full = vector_type(type_, lanes)
        if kind == "F":
            return self._float_arithmetic(name, full, operands, lanes, step)
        if name in _CHECKED:
            return self._checked(_CHECKED[name], kind, operands[0], operands[1], lanes)
        if name == "POW":
            return self._integer_power(kind, operands[0], step.imm, lanes)
        if name in ("AND", "OR", "XOR"):
            return self._value("i64", f"{name.lower()} {full} {operands[0]}, {operands[1]}", lanes)
        if name in ("NEG", "ABS", "NOT"):
            return self._integer_unary(name, operands[0], lanes)
        self._scalar(*numbers)  # divisions and shifts, which vectors do one by one
        if name in ("SHL", "SHR"):
            return self._shift(name, kind, *operands)
        return self._integer_division(name, kind, *operands)

    def _checked(self, name: str, kind: str, a: str, b: str, lanes: int) -> Value:
        full = vector_type("i64", lanes)
        suffix = f"v{lanes}i64" if lanes else "i64"
        pair_type = f"{{{full}, {vector_type('i1', lanes)}}}"
        intrinsic = f"@llvm.{'s' if kind == 'I' else 'u'}{name}.with.overflow.{suffix}"
        pair = self.function.value(f"call {pair_type} {intrinsic}({full} {a}, {full} {b})")
        over = self.function.value(f"extractvalue {pair_type} {pair}, 1")
        ones = "splat (i1 true)" if lanes else "true"
        self._demand(self.function.value(f"xor {vector_type('i1', lanes)} {over}, {ones}"), lanes)
        return self._value("i64", f"extractvalue {pair_type} {pair}, 0", lanes)

    def _integer_power(self, kind: str, base: str, exponent: int, lanes: int) -> Value:
        if exponent == 0:
            return Value("i64", "1")
        result = Value("i64", base, lanes=lanes)
        for _ in range(exponent - 1):
            result = self._checked("mul", kind, result.name, base, lanes)
        return result

    def _integer_unary(self, name: str, a: str, lanes: int) -> Value:
        full = vector_type("i64", lanes)
        if name == "NOT":
            return self._value("i64", f"xor {full} {a}, {'splat (i64 -1)' if lanes else '-1'}", lanes)
        least = f"splat (i64 {_MIN})" if lanes else str(_MIN)
        zero = "zeroinitializer" if lanes else "0"
        self._demand(self.function.value(f"icmp ne {full} {a}, {least}"), lanes)
        negative = self.function.value(f"sub {full} {zero}, {a}")
        if name == "NEG":
            return Value("i64", negative, lanes=lanes)
        is_below = self.function.value(f"icmp slt {full} {a}, {zero}")
        return self._value(
            "i64", f"select {vector_type('i1', lanes)} {is_below}, {full} {negative}, {full} {a}", lanes
        )

    def _shift(self, name: str, kind: str, a: str, by: str) -> Value:
        f, back = self.function, "ashr" if kind == "I" else "lshr"
        self._demand(f.value(f"icmp ult i64 {by}, 64"))
        if name == "SHR":
            return self._value("i64", f"{back} i64 {a}, {by}")
        shifted = f.value(f"shl i64 {a}, {by}")
        self._demand(f.value(f"icmp eq i64 {f.value(f'{back} i64 {shifted}, {by}')}, {a}"))
        return Value("i64", shifted)

    def _integer_division(self, name: str, kind: str, a: str, b: str) -> Value:
        f = self.function
        self._demand(f.value(f"icmp ne i64 {b}, 0"))
        if kind == "U":
            return self._value("i64", f"{'udiv' if name == 'FLOORDIV' else 'urem'} i64 {a}, {b}")
        is_minus_one = f.value(f"icmp eq i64 {b}, -1")
        if name == "MOD":
            b = f.value(f"select i1 {is_minus_one}, i64 1, i64 {b}")
        else:
            is_least = f.value(f"icmp eq i64 {a}, {_MIN}")
            both = f.value(f"and i1 {is_least}, {is_minus_one}")
            self._demand(f.value(f"xor i1 {both}, true"))
        rest = f.value(f"srem i64 {a}, {b}")
        differ = f.value(f"icmp slt i64 {f.value(f'xor i64 {rest}, {b}')}, 0")
        is_rest = f.value(f"icmp ne i64 {rest}, 0")
        is_low = f.value(f"and i1 {differ}, {is_rest}")
        if name == "MOD":
            raised = f.value(f"add i64 {rest}, {b}")
            return self._value("i64", f"select i1 {is_low}, i64 {raised}, i64 {rest}")
        quotient = f.value(f"sdiv i64 {a}, {b}")
        return self._value("i64", f"sub i64 {quotient}, {f.value(f'zext i1 {is_low} to i64')}")

    def _float_arithmetic(self, name: str, full: str, operands: list[str], lanes: int, step: Step) -> Value:
        f = self.function
        zero = "zeroinitializer" if lanes else "0.0"
        if name in ("ADD", "SUB", "MUL"):
            return self._value("double", f"f{name.lower()} {full} {operands[0]}, {operands[1]}", lanes)
        if name == "NEG":
            return self._value("double", f"fneg {full} {operands[0]}", lanes)
        suffix = f"v{lanes}f64" if lanes else "f64"
        if name == "ABS":
            return self._value("double", f"call {full} @llvm.fabs.{suffix}({full} {operands[0]})", lanes)
        if name == "SQRT":
            self._demand(f.value(f"fcmp uge {full} {operands[0]}, {zero}"), lanes)
            return self._value("double", f"call {full} @llvm.sqrt.{suffix}({full} {operands[0]})", lanes)
        if name in ("DIV", "FLOORDIV", "MOD"):
            self._demand(f.value(f"fcmp une {full} {operands[1]}, {zero}"), lanes)
        if name == "DIV":
            return self._value("double", f"fdiv {full} {operands[0]}, {operands[1]}", lanes)
        if lanes:
            self._scalar(step.a, *([step.b] if step.b != NO_STEP else []))
        if name == "POW":
            return self._float_power(operands[0], step.imm)
        if name in ("FLOOR", "CEIL"):
            rounded = f.value(f"call double @echo_{name.lower()}(double {operands[0]})")
            return self._to_int(rounded)
        called = "floor_divide" if name == "FLOORDIV" else "remainder"
        return self._value(
            "double", f"call double @echo_{called}(double {operands[0]}, double {operands[1]})"
        )

    def _float_power(self, base: str, exponent: int) -> Value:
        f = self.function
        result = f.value(f"call double @echo_power(double {base}, i64 {exponent})")
        is_finite = self._is_finite(result)
        was_infinite = f.value(f"xor i1 {self._is_finite(base)}, true")
        is_nan = f.value(f"fcmp uno double {result}, {result}")
        good = f.value(f"or i1 {is_finite}, {was_infinite}")
        self._demand(f.value(f"or i1 {good}, {is_nan}"))
        return Value("double", result)

    def _is_finite(self, number: str) -> str:
        size = self.function.value(f"call double @llvm.fabs.f64(double {number})")
        return self.function.value(f"fcmp olt double {size}, {_INFINITY}")

    def write_question(self, step: Step) -> Value:
        self._scalar(step.a)
        number = self.get(step.a, "double")
        if step.op == "IS_NAN":
            return self._value("i1", f"fcmp uno double {number}, {number}")
        if step.op == "IS_FINITE":
            return Value("i1", self._is_finite(number))
        size = self.function.value(f"call double @llvm.fabs.f64(double {number})")
        return self._value("i1", f"fcmp oeq double {size}, {_INFINITY}")

    def _to_int(self, number: str) -> Value:
        f = self.function
        is_above = f.value(f"fcmp oge double {number}, {_LESS_TWO_63}")
        is_below = f.value(f"fcmp olt double {number}, {_TWO_63}")
        self._demand(f.value(f"and i1 {is_above}, {is_below}"))
        return self._value("i64", f"fptosi double {number} to i64")

    def write_cast(self, step: Step) -> Value:
        lanes = self._lanes(step.a)
        if step.op == "F_TO_I":
            self._scalar(step.a)
            return self._to_int(self.get(step.a, "double"))
        number, full = self.get(step.a, "i64"), vector_type("i64", lanes)
        if step.op == "U_TO_I":
            zero = "zeroinitializer" if lanes else "0"
            self._demand(self.function.value(f"icmp sge {full} {number}, {zero}"), lanes)
            return Value("i64", number, lanes=lanes)
        cast = "sitofp" if step.op == "I_TO_F" else "uitofp"
        return self._value("double", f"{cast} {full} {number} to {vector_type('double', lanes)}", lanes)
