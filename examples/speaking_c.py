"""Reads a C struct declaration, and its layout on several machines."""

from __future__ import annotations

import echo_core as echo

HEADER = """
    typedef struct {
        char unit;
        long ticks;
        double volts[2];
        short channel;
        char *label;
        int n;
        float *samples __counted_by(n);
    } Sample;
"""


@echo.event
class Sample:
    """The fields that this component uses, with types of its own."""

    channel: int
    label: str
    samples: echo.Array[float, ...]
    note: str | None = None


def main() -> None:
    """The same declaration has another layout on each machine, and converts to the same class."""
    for abi in ("native", "i386", "sparc"):
        theirs = echo.Format.from_c(HEADER, abi=abi)
        print(f"{abi}: {theirs.size_bytes} bytes, `volts` at {theirs.fields[2].offset}")
    print(echo.compare(theirs, echo.format_of(Sample)))
    print(echo.format_of(Sample).to_c())


if __name__ == "__main__":
    main()
