"""Steps as LLVM IR: comparisons, logic and loops, and which writer each step has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from echo_core.codegen.emit.ir import vector_type
from echo_core.codegen.expressions.emit_arithmetic import Arithmetic
from echo_core.codegen.expressions.emit_values import Value
from echo_core.codegen.expressions.program import NO_STEP, Step


@dataclass(slots=True)
class Steps(Arithmetic):
    """Writes steps into a function."""

    def run(self, numbers: Iterable[int]) -> None:
        done = -1
        for number in numbers:
            if number > done:
                step = self.program.steps[number]
                if step.op == "FOR":
                    self._loop(number, step)
                    done = step.b
                else:
                    self.values[number] = self._written(step)

    def _written(self, step: Step) -> Value:
        op = step.op
        if op.startswith("LOAD"):
            return self._load(step)
        writer = _WRITERS.get(op)
        if writer is not None:
            return writer(self, step)
        base, _, kind = op.rpartition("_")
        if base in ("EQ", "LT", "LE"):
            return self._compare(base, kind, step)
        return self._arithmetic(base, kind, step)

    # -----------------------------------------------------------------------
    # Comparisons and logic

    def _compare(self, relation: str, kind: str, step: Step) -> Value:
        if kind == "T":
            return self._compare_bytes(relation, step)
        if kind in ("IF", "FI", "UF", "FU"):
            return self._compare_mixed(relation, kind, step)
        if kind in ("IU", "UI"):
            return self._compare_signs(relation, kind, step)
        lanes = self._lanes(step.a, step.b)
        type_ = "double" if kind == "F" else "i64"
        a, b = self.get(step.a, type_, lanes), self.get(step.b, type_, lanes)
        if kind == "F":
            predicate = {"EQ": "oeq", "LT": "olt", "LE": "ole"}[relation]
            return self._value("i1", f"fcmp {predicate} {vector_type(type_, lanes)} {a}, {b}", lanes)
        sign = "" if relation == "EQ" else "s" if kind == "I" else "u"
        predicate = f"icmp {sign}{relation.lower()}"
        return self._value("i1", f"{predicate} {vector_type(type_, lanes)} {a}, {b}", lanes)

    def _compare_signs(self, relation: str, kind: str, step: Step) -> Value:
        """A signed integer with an unsigned one: below 0 it is less than all."""
        lanes = self._lanes(step.a, step.b)
        a, b = self.get(step.a, "i64", lanes), self.get(step.b, "i64", lanes)
        type_, zero = vector_type("i64", lanes), "zeroinitializer" if lanes else "0"
        predicate = "eq" if relation == "EQ" else f"u{relation.lower()}"
        compared = self.function.value(f"icmp {predicate} {type_} {a}, {b}")
        is_below = relation != "EQ" and kind == "IU"
        sign = self.function.value(
            f"icmp {'slt' if is_below else 'sge'} {type_} {a if kind == 'IU' else b}, {zero}"
        )
        return self._value(
            "i1", f"{'or' if is_below else 'and'} {vector_type('i1', lanes)} {sign}, {compared}", lanes
        )

    def _compare_mixed(self, relation: str, kind: str, step: Step) -> Value:
        self._scalar(step.a, step.b)
        integer, number = (step.a, step.b) if kind[1] == "F" else (step.b, step.a)
        name = "echo_compare_int" if "I" in kind else "echo_compare_uint"
        call = f"call i32 @{name}(i64 {self.bits(integer)}, double {self.get(number, 'double')})"
        order = self.function.value(call)
        if relation == "EQ":
            return self._value("i1", f"icmp eq i32 {order}, 0")
        if relation == "LT":
            return self._value("i1", f"icmp eq i32 {order}, {-1 if kind[1] == 'F' else 1}")
        if kind[1] == "F":
            return self._value("i1", f"icmp sle i32 {order}, 0")
        return self._value("i1", f"icmp ult i32 {order}, 2")

    def _compare_bytes(self, relation: str, step: Step) -> Value:
        order = self.function.value(f"call i32 @echo_compare_bytes({self._two_texts(step)})")
        predicate = {"EQ": "eq", "LT": "slt", "LE": "sle"}[relation]
        return self._value("i1", f"icmp {predicate} i32 {order}, 0")

    def _two_texts(self, step: Step) -> str:
        a, b = self.values[step.a], self.values[step.b]
        return f"ptr {a.name}, i64 {a.count}, ptr {b.name}, i64 {b.count}"

    def write_within(self, step: Step) -> Value:
        found = self.function.value(f"call i32 @echo_{step.op.lower()}({self._two_texts(step)})")
        return self._value("i1", f"icmp ne i32 {found}, 0")

    def write_not(self, step: Step) -> Value:
        lanes = self._lanes(step.a)
        ones = "splat (i1 true)" if lanes else "true"
        return self._value("i1", f"xor {vector_type('i1', lanes)} {self.get(step.a, 'i1')}, {ones}", lanes)

    def write_logic(self, step: Step) -> Value:
        lanes = self._lanes(step.a, step.b)
        a, b = self.get(step.a, "i1", lanes), self.get(step.b, "i1", lanes)
        return self._value("i1", f"{step.op.lower()} {vector_type('i1', lanes)} {a}, {b}", lanes)

    def write_choose(self, step: Step) -> Value:
        first, second = self.values[step.b], self.values[step.c]
        if first.count or second.count:
            return self._choose_text(step)
        lanes = self._lanes(step.a, step.b, step.c)
        types = {first.type, second.type}
        type_ = "double" if "double" in types else "i64" if "i64" in types else "i1"
        a, b = (self.get(number, type_, lanes) for number in (step.b, step.c))
        condition, full = self.get(step.a, "i1", lanes), vector_type(type_, lanes)
        kind = vector_type("i1", lanes)
        return self._value(type_, f"select {kind} {condition}, {full} {a}, {full} {b}", lanes)

    def _choose_text(self, step: Step) -> Value:
        self._scalar(step.a)
        condition, a, b = self.get(step.a, "i1"), self.values[step.b], self.values[step.c]
        pointer = self.function.value(f"select i1 {condition}, ptr {a.name}, ptr {b.name}")
        return Value(
            "ptr", pointer, self.function.value(f"select i1 {condition}, i64 {a.count}, i64 {b.count}")
        )

    # -----------------------------------------------------------------------
    # Loops

    def _loop(self, number: int, step: Step) -> None:
        """Each element in turn. Whether there was one is carried too, as the extremes of none are errors."""
        f, region = self.function, self.values[step.a]
        reduction = self.program.steps[step.b]
        start = "1" if reduction.op == "ALL" else "0"
        with f.loop(region.count, [start, "0"]) as loop:
            at = f.at(region.name, f.multiply(loop.index, step.imm))
            self.values[number] = Value("ptr", at)
            self.run(range(number + 1, step.b))
            total, had = loop.carried
            is_taken = self.get(reduction.c, "i1") if reduction.c != NO_STEP else "true"
            taken = self._reduced(reduction, total, had, is_taken)
            loop.carried = [
                f.value(f"select i1 {is_taken}, i64 {taken}, i64 {total}"),
                f.value(f"select i1 {is_taken}, i64 1, i64 {had}"),
            ]
        result, had = loop.carried
        if reduction.op.startswith(("MIN", "MAX")):
            self._demand(f.value(f"icmp ne i64 {had}, 0"))
        self.values[step.b] = Value("i64", result)

    def _reduced(self, reduction: Step, total: str, had: str, is_taken: str) -> str:
        """The total with one more element, as 64 bits."""
        f = self.function
        name, _, kind = reduction.op.partition("_")
        if not kind:
            bit = f.value(f"zext i1 {self.get(reduction.b, 'i1')} to i64")
            return f.value(f"{'or' if name == 'ANY' else 'and'} i64 {total}, {bit}")
        if kind == "F":
            return self._float_reduced(name, self.get(reduction.b, "double"), total, had)
        it = self.bits(reduction.b)
        if name == "SUM":
            return self._summed(kind, it, total, is_taken)
        relation = f"{'s' if kind == 'I' else 'u'}{'lt' if name == 'MIN' else 'gt'}"
        return self._better(f.value(f"icmp {relation} i64 {it}, {total}"), it, total, had)

    def _summed(self, kind: str, it: str, total: str, is_taken: str) -> str:
        added = self.function.value(f"select i1 {is_taken}, i64 {it}, i64 0")
        return self._checked("add", kind, total, added, 0).name

    def _float_reduced(self, name: str, it: str, total: str, had: str) -> str:
        f = self.function
        before = f.value(f"bitcast i64 {total} to double")
        if name == "SUM":
            return f.value(f"bitcast double {f.value(f'fadd double {before}, {it}')} to i64")
        is_better = f.value(f"fcmp {'olt' if name == 'MIN' else 'ogt'} double {it}, {before}")
        return self._better(is_better, f.value(f"bitcast double {it} to i64"), total, had)

    def _better(self, is_better: str, it: str, total: str, had: str) -> str:
        f = self.function
        is_first = f.value(f"icmp eq i64 {had}, 0")
        return f.value(f"select i1 {f.value(f'or i1 {is_better}, {is_first}')}, i64 {it}, i64 {total}")


_WRITERS: dict[str, Callable[[Steps, Step], Value]] = {
    "CONST": Steps.write_constant,
    "PARAM": Steps.write_parameter,
    "TEXT_PARAM": Steps.write_text_parameter,
    "TEXT_CONST": Steps.write_text_constant,
    "STATE": Steps.write_state,
    "STATE_COUNT": Steps.write_state,
    "CHARS": Steps.write_chars,
    "FIXED": Steps.write_chars,
    "TEXT": Steps.write_text,
    "REGION": Steps.write_region,
    "ARRAY": Steps.write_array,
    "SLICE": Steps.write_slice,
    "INDEX": Steps.write_index,
    "LENGTH": Steps.write_length,
    "CHARACTERS": Steps.write_characters,
    "DIGEST": Steps.write_digest,
    "STARTS": Steps.write_within,
    "ENDS": Steps.write_within,
    "CONTAINS": Steps.write_within,
    "NOT": Steps.write_not,
    "AND": Steps.write_logic,
    "OR": Steps.write_logic,
    "CHOOSE": Steps.write_choose,
    "IS_NAN": Steps.write_question,
    "IS_INF": Steps.write_question,
    "IS_FINITE": Steps.write_question,
    "F_TO_I": Steps.write_cast,
    "U_TO_I": Steps.write_cast,
    "I_TO_F": Steps.write_cast,
    "U_TO_F": Steps.write_cast,
}
