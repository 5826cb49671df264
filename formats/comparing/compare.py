"""How a sender's record maps to a receiver's: field by field, at every depth.

Which fields are compared with which, `matching.py` says. A receiver's field that the sender lacks takes its
default; a sender's field that the receiver lacks is ignored. Records that have fields, but none in common,
are refused. Here nobody asks what the outermost records are called.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace

from echo_core.errors import IncompatibleError, unexpected
from echo_core.formats import tables
from echo_core.formats.comparing.leaf_conversions import Loss, judge
from echo_core.formats.comparing.lookalikes import Lookalikes
from echo_core.formats.comparing.matching import counted_by, counters, have_common_field, match
from echo_core.formats.format import Format
from echo_core.formats.layout import Layout
from echo_core.formats.leaves import Leaf
from echo_core.formats.types import (
    Blob,
    Enumeration,
    Field,
    Nullable,
    Record,
    Reference,
    Scalar,
    Sequence,
    StaticArray,
    Text,
    Type,
    has_parts,
    innermost,
)


class Verdict(enum.Enum):
    """What becomes of a field. If several verdicts apply, the last of them in this order is reported."""

    SAME = "same"
    IGNORED = "ignored"  # only the sender has it
    DEFAULTED = "defaulted"  # only the receiver has it
    MOVED = "moved"  # the same bytes in another place
    SWAPPED = "swapped"  # the other byte order
    WIDENED = "widened"  # another type, which holds every value of the sender's
    RENAMED = "renamed"  # known by a former name
    NARROWED = "narrowed"  # a type that may not hold a value: checked at run time, by consent
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Entry:
    """The verdict on one field.

    `path` is the receiver's field, such as `New.id`, or the sender's where the receiver ignores it. `sender`
    and `receiver` are the types, empty where one side lacks the field. `reason` says why, for people.
    `lookalike` is, for a field that the sender lacks, one of the sender's that is ignored and has a similar
    name: perhaps one of the two is misspelled.
    """

    path: str
    verdict: Verdict
    sender: str
    receiver: str
    reason: str
    lookalike: str = ""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Report:
    """The result of `compare`: an `Entry` for each field, at every depth.

    `entries` stand in the receiver's order, those that it ignores last. `is_same` is true where the receiver
    can use the sender's bytes as they are. `str` gives a table, a notebook shows one.
    """

    sender: str
    receiver: str
    entries: tuple[Entry, ...]
    is_same: bool  # the receiver can use the sender's bytes as they are

    @property
    def refused(self) -> tuple[Entry, ...]:
        """The entries that make the conversion impossible."""
        return tuple(entry for entry in self.entries if entry.verdict is Verdict.REFUSED)

    @property
    def lookalikes(self) -> tuple[Entry, ...]:
        """The entries of fields that the sender may have under another spelling: see `Entry.lookalike`."""
        return tuple(entry for entry in self.entries if entry.lookalike)

    @property
    def is_accepted(self) -> bool:
        """Whether every field of the receiver can be filled."""
        return not self.refused

    def raise_if_refused(self) -> None:
        """Raises IncompatibleError with every refusal and its reason."""
        if self.refused:
            faults = "; ".join(f"`{entry.path}`: {entry.reason}" for entry in self.refused)
            raise unexpected(
                IncompatibleError,
                f"a sender of `{self.receiver}`",
                f"`{self.sender}` with {faults}",
                path=self.refused[0].path,
            )

    def __str__(self) -> str:
        return "\n".join([self._title(), *tables.as_lines(_HEADER, list(self._rows()))])

    def _repr_html_(self) -> str:
        return tables.as_html(_HEADER, list(self._rows()), caption=self._title())

    def _title(self) -> str:
        return f"{self.sender} -> {self.receiver}: {'accepted' if self.is_accepted else 'refused'}"

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for entry in self.entries:
            yield entry.path, entry.verdict.value, entry.sender, entry.receiver, entry.reason


_HEADER = ("field", "verdict", "sender", "receiver", "reason")


def compare(sender: Format, receiver: Format, *, lossy: bool = False, strict: bool = False) -> Report:
    """What becomes of each field of a sender's records where a receiver takes them. It raises nothing.

    Arguments:
        sender: the format of the records.
        receiver: the format that they are converted to.
        lossy: whether to consent to conversions that may lose, such as int64 to int32. Each value is then
            checked, and one that does not fit is a ConversionError when it is converted.
        strict: whether to refuse that a field takes its default where the sender has one of a similar name.

    >>> @echo.event
    ... class Old:
    ...     id: echo.Int32
    >>> @echo.event
    ... class New:
    ...     id: int
    ...     note: str = "none"
    >>> print(echo.compare(echo.format_of(Old), echo.format_of(New)))
    Old -> New: accepted
    field     verdict    sender  receiver  reason
    New.id    widened    int32   int64     `int32` to `int64`
    New.note  defaulted          str       the sender has no such field
    """
    report = compare_part(sender, receiver, lossy=lossy, strict=strict)
    if have_common_field(sender.record, receiver.record):
        return report
    apart = Entry(receiver.name, Verdict.REFUSED, sender.name, receiver.name, _NOTHING_IN_COMMON)
    return replace(report, entries=(apart, *report.entries), is_same=False)


def compare_part(sender: Format, receiver: Format, *, lossy: bool = False, strict: bool = False) -> Report:
    """Likewise where the receiver is a part of the fields of its type, such as those that somebody reads.

    The sender may have none of them, as an earlier version of the same type has.
    """
    comparison = _Comparison(sender.layout, receiver.layout, lossy, strict)
    entries = tuple(comparison.records(sender.record, receiver.record, receiver.name))
    is_same = (
        sender.size_bytes == receiver.size_bytes
        and all(entry.verdict is Verdict.SAME for entry in entries)
        and _walk(sender.record) == _walk(receiver.record)
    )
    return Report(sender.name, receiver.name, entries, is_same)


def _walk(type_: Type) -> tuple[object, ...]:
    """The order and alignment of slots, which also decide where variable parts are."""
    match type_:
        case Record():
            return tuple((f.name, _walk(f.type)) for f in type_.fields if has_parts(f.type))
        case Sequence():
            return (type_.element.alignment, _walk(type_.element))
        case StaticArray() | Nullable():
            return _walk(type_.element)
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class _Finding:
    """The verdict on a pair of types, apart from where the fields are."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()


_SAME = _Finding(Verdict.SAME)
_NOTHING_IN_COMMON = "no field of one is a field of the other"
_ORDER = list(Verdict)


def _strongest(findings: list[_Finding]) -> _Finding:
    verdict = max((finding.verdict for finding in findings), key=_ORDER.index)
    reasons = dict.fromkeys(reason for finding in findings for reason in finding.reasons)
    return _Finding(verdict, tuple(reasons))


@dataclass(frozen=True, slots=True)
class _Comparison:
    sender: Layout
    receiver: Layout
    lossy: bool
    strict: bool

    def records(self, sender: Record, receiver: Record, path: str) -> Iterator[Entry]:
        matched = match(sender, receiver)
        used = {field.name for field in matched.values()}
        ignored = {field.name: field for field in sender.fields if field.name not in used}
        counts = counted_by(receiver)
        spellings: Lookalikes | None = None  # of many names they take long, and mostly nobody asks
        for field in receiver.fields:
            where = f"{path}.{field.name}"
            if field.name in matched:
                yield from self._fields(matched[field.name], field, where)
                continue
            entry = _missing(field, where, counts.get(field.name), _held_by_others(field, matched, receiver))
            if field.name not in counts:
                spellings = spellings or Lookalikes(ignored)
                entry = self._doubted(entry, field, ignored, spellings)
            yield entry
        for field in ignored.values():
            reason = "the receiver has no such field"
            yield Entry(f"{path}.{field.name}", Verdict.IGNORED, str(field.type), "", reason)

    def _doubted(self, entry: Entry, field: Field, ignored: dict[str, Field], spellings: Lookalikes) -> Entry:
        """The entry of a missing field; it says so where an ignored one may be the same, misspelled."""
        for name in spellings.of(field.name):
            if self._types(ignored[name].type, field.type).verdict is not Verdict.REFUSED:
                verdict = Verdict.REFUSED if self.strict else entry.verdict
                reason = f"{entry.reason}; it has `{name}`, which is ignored"
                return replace(entry, verdict=verdict, reason=reason, lookalike=name)
        return entry

    def _fields(self, sender: Field, receiver: Field, path: str) -> Iterator[Entry]:
        have_units = sender.unit and receiver.unit
        differences = (
            (sender.offset != receiver.offset, Verdict.MOVED, f"from {sender.offset} to {receiver.offset}"),
            (sender.name != receiver.name, Verdict.RENAMED, f"`{sender.name}` at the sender"),
            (
                have_units and sender.unit != receiver.unit,
                Verdict.SAME,
                f"in `{sender.unit}`, not `{receiver.unit}`",
            ),
        )
        findings = [_Finding(verdict, (reason,)) for differs, verdict, reason in differences if differs]
        finding = _strongest([self._types(sender.type, receiver.type), *findings])
        yield Entry(path, finding.verdict, str(sender.type), str(receiver.type), "; ".join(finding.reasons))
        inner_sender, inner_receiver = innermost(sender.type)[0], innermost(receiver.type)[0]
        if isinstance(inner_sender, Record) and isinstance(inner_receiver, Record):
            yield from self.records(inner_sender, inner_receiver, path)

    def _types(self, sender: Type, receiver: Type) -> _Finding:
        match sender, receiver:
            case Nullable(), Nullable():
                finding = self._types(sender.element, receiver.element)
                return finding if finding != _SAME else self._strides(sender, receiver, "optionals")
            case _, Nullable():
                widened = _Finding(Verdict.WIDENED, ("always present at the sender",))
                return _strongest([widened, self._types(sender, receiver.element)])
            case Nullable(), _:
                narrowed = self._consent("None has no place here")
                return _strongest([narrowed, self._types(sender.element, receiver)])
            case (StaticArray() | Sequence(), StaticArray() | Sequence()):
                return _strongest(
                    [self._shapes(sender, receiver), self._types(sender.element, receiver.element)]
                )
            case Record(), Record() if not have_common_field(sender, receiver):
                return _Finding(Verdict.REFUSED, (_NOTHING_IN_COMMON,))
            case Record(), Record():
                return self._strides(sender, receiver, "records")  # its fields have entries of their own
            case (
                Scalar() | Enumeration() | Text() | Blob(),
                Scalar() | Enumeration() | Text() | Blob(),
            ) if (loss := judge(sender, receiver)) is not Loss.REFUSED:
                return self._leaves(sender, receiver, loss)
            case _:
                return _Finding(Verdict.REFUSED, (f"`{sender}` is not `{receiver}`",))

    def _strides(self, sender: Type, receiver: Type, what: str) -> _Finding:
        """Equal fields may still be padded differently if the alignment differs."""
        if sender.size == receiver.size:
            return _SAME
        return _Finding(Verdict.MOVED, (f"{what} of {sender.size} bytes, not {receiver.size}",))

    def _shapes(self, sender: StaticArray | Sequence, receiver: StaticArray | Sequence) -> _Finding:
        if len(sender.shape) != len(receiver.shape):
            reason = f"{len(sender.shape)} dimensions are not {len(receiver.shape)}"
            return _Finding(Verdict.REFUSED, (reason,))
        findings = [self._references(sender, receiver)]
        for n, m in zip(sender.shape, receiver.shape, strict=True):
            if isinstance(n, int) and isinstance(m, int) and n != m:
                return _Finding(Verdict.REFUSED, (f"{n} elements are not {m}",))
            if isinstance(m, int) and not isinstance(n, int):
                findings.append(self._consent(f"the length may not be {m}"))
            elif n != m:
                findings.append(_Finding(Verdict.WIDENED, (f"the length `{n or '...'}` is `{m or '...'}`",)))
        return _strongest(findings)

    def _references(self, sender: Type, receiver: Type) -> _Finding:
        """The differences between two slots: pointer size and byte order."""
        if not isinstance(sender, Reference) or not isinstance(receiver, Reference):
            return _SAME
        if sender.pointer_size == receiver.pointer_size:
            return self._orders()
        reason = f"offsets of {sender.pointer_size} bytes, not {receiver.pointer_size}"
        return _strongest([_Finding(Verdict.MOVED, (reason,)), self._orders()])

    def _orders(self) -> _Finding:
        if self.sender.byte_order == self.receiver.byte_order:
            return _SAME
        return _Finding(Verdict.SWAPPED, (f"{self.sender.byte_order}-endian",))

    def _leaves(self, sender: Leaf, receiver: Leaf, loss: Loss) -> _Finding:
        findings = [self._references(sender, receiver)]
        if _has_byte_order(sender) and _has_byte_order(receiver):
            findings.append(self._orders())
        if loss is Loss.LOSSY:
            findings.append(self._consent(_what_does_not_fit(sender, receiver)))
        elif not _same_values(sender, receiver):
            are_enums = isinstance(sender, Enumeration) and isinstance(receiver, Enumeration)
            reason = "other numbers for the same names" if are_enums else f"`{sender}` to `{receiver}`"
            findings.append(_Finding(Verdict.WIDENED, (reason,)))
        return _strongest(findings)

    def _consent(self, reason: str) -> _Finding:
        """The verdict on a conversion that may lose."""
        if self.lossy:
            return _Finding(Verdict.NARROWED, (f"{reason}: checked for every value",))
        return _Finding(Verdict.REFUSED, (f"{reason}: consent with `lossy=True`",))


def _has_byte_order(leaf: Leaf) -> bool:
    return isinstance(leaf, Scalar | Enumeration) and leaf.alignment > 1


def _same_values(sender: Leaf, receiver: Leaf) -> bool:
    """Whether the same bits mean the same value; slots are compared separately."""
    if isinstance(sender, Enumeration) and isinstance(receiver, Enumeration):
        return sender.size == receiver.size and set(sender.members) <= set(receiver.members)
    if isinstance(sender, Scalar):
        return sender == receiver
    return type(sender) is type(receiver)


def _what_does_not_fit(sender: Leaf, receiver: Leaf) -> str:
    if not (isinstance(sender, Enumeration) and isinstance(receiver, Enumeration)):
        return f"`{receiver}` does not hold every `{sender}`"
    known = {name for name, _ in receiver.members}
    lacking = [f"`{name}`" for name, _ in sender.members if name not in known]
    more = f" and {len(lacking) - _MOST_MEMBERS} more" if len(lacking) > _MOST_MEMBERS else ""
    return f"`{receiver}` has no {', '.join(lacking[:_MOST_MEMBERS])}{more}"


_MOST_MEMBERS = 8  # that a reason names


def _held_by_others(field: Field, matched: dict[str, Field], receiver: Record) -> str:
    """The field that counts a missing sequence, if the sender's record already decides its value."""
    decided = set(matched)
    decided.update(*(counters(other.type) for other in receiver.fields if other.name in matched))
    return next((name for name in counters(field.type) if name in decided), "")


def _missing(field: Field, path: str, counts: str | None, held: str) -> Entry:
    verdict, reason = Verdict.DEFAULTED, "the sender has no such field"
    if counts is not None:
        reason = f"counts `{counts}`"
    elif field.default is None:
        verdict, reason = Verdict.REFUSED, f"{reason}, and it has no default"
    elif held:
        verdict, reason = Verdict.REFUSED, f"{reason}, but decides its length by `{held}`"
    return Entry(path, verdict, "", str(field.type), reason)
