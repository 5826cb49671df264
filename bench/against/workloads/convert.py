"""Conversions from foreign layouts as calls from Python, into room that is there."""

from __future__ import annotations

import functools
from typing import Any

import echo_core as echo
from bench.against.workloads import Case, repeated
from bench.convert import native_form
from bench.convert.calls import ARRAY_KIB, ARRAYS, array_calls, one_record_calls, record_calls, view_calls
from bench.convert.senders import odd, senders, senders_with_and_without
from bench.timing import Call
from bench.workload import Odd

_COUNTS = (10, 1000, 100_000)


def cases() -> dict[str, Case]:
    """Records of fixed size and others, arrays of numbers, and what needs no conversion."""
    found = {"one record": repeated.case(lambda: one_record_calls()["ours"])}
    formats = {name: sender for name, (sender, *_) in senders().items()}
    extra = {f"{name}, extra field": pair[1] for name, pair in senders_with_and_without().items()}
    for name, sender in (formats | extra).items():
        for count in _COUNTS if name in formats else (1000,):
            found[f"{name}: {count} records"] = repeated.case(
                functools.partial(_records, sender, count), count
            )
    for count in (8, 800):
        found[f"variable parts: {count} numbers"] = repeated.case(functools.partial(_odd, count))
    for cls, dtype in ARRAYS:
        for kib in ARRAY_KIB:
            found[f"swapped {dtype}[]: {kib} KiB"] = repeated.case(functools.partial(_array, cls, dtype, kib))
    found["same layout: a view of 1000 records"] = repeated.case(lambda: view_calls()["1000"])
    for name in native_form.our_ways():
        found[f"native form, {name}: 1 MiB"] = repeated.case(functools.partial(_native, name))
    return found


def _records(sender: echo.Format, count: int) -> Call:
    return record_calls(sender, count)["ours"]


def _odd(count: int) -> Call:
    event = odd(count)
    data, expected = echo.encoder(Odd, abi="s390x")(event), echo.encoder(Odd)(event)
    convert = echo.converter(echo.format_of(Odd, abi="s390x"), echo.format_of(Odd), tier="compiled")
    assert convert(data) == expected
    return convert, data


def _array(cls: type[Any], dtype: str, kib: int) -> Call:
    return array_calls(cls, dtype, kib)["ours"]


def _native(name: str) -> Call:
    call, _, large = native_form.our_ways()[name]
    return call, large
