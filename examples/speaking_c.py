"""A struct of a C program, here and on the machine that it runs on."""

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
    """What this component makes of it."""

    channel: int
    label: str
    samples: echo.Array[float, ...]
    note: str | None = None


def main() -> None:
    """The same text is another layout on another machine, and reaches the same class."""
    for abi in ("native", "i386", "sparc"):
        theirs = echo.Format.from_c(HEADER, abi=abi)
        print(f"{abi}: {theirs.size_bytes} bytes, `volts` at {theirs.fields[2].offset}")
    print(echo.compare(theirs, echo.format_of(Sample)))
    print(echo.format_of(Sample).to_c())


if __name__ == "__main__":
    main()
