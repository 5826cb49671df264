"""What this process found out about its machine, and what its codecs have done so far."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from echo_core._c import native
from echo_core.codegen import cpython
from echo_core.codegen.machine import background, cache, engine


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """`event_code` says why code is not compiled for event classes, and is empty where it is.

    `clock` is what links measure time by. `cache_folder` is where compiled code is kept; empty where it is
    not.
    """

    target: str
    vector_bytes: int
    event_code: str
    clock: str
    cache_folder: str
    engine: dict[str, Any]
    cache: dict[str, Any]
    background: dict[str, Any]

    def __str__(self) -> str:
        lines = [
            f"target      {self.target}, shuffles of {self.vector_bytes} bytes",
            f"event code  {self.event_code or 'compiled'}",
            f"clock       {self.clock}",
            f"code in     {self.cache_folder or 'no folder'}",
        ]
        for name, counts in (("engine", self.engine), ("cache", self.cache), ("background", self.background)):
            lines.append(f"{name:<12}" + ", ".join(f"{count} {what}" for what, count in counts.items()))
        return "\n".join(lines)


def diagnostics() -> Diagnostics:
    """The state of the compiler, its cache on disk, and the thread that compiles; for bug reports.

    >>> report = echo.diagnostics()
    >>> report.event_code  # why no code is compiled for event classes; empty where it is
    ''
    >>> print(report)  # doctest: +ELLIPSIS
    target      ...
    """
    target, folder = engine.native_target(), cache.default_cache().folder
    return Diagnostics(
        target=f"{target.triple} {target.cpu}",
        vector_bytes=target.vector_bytes,
        event_code=cpython.problem(),
        clock=_clock(),
        cache_folder=str(folder or ""),
        engine=asdict(engine.statistics()),
        cache=asdict(cache.default_cache().statistics()),
        background=asdict(background.statistics()),
    )


def _clock() -> str:
    clock = native.ffi.new("struct echo_clock *")
    native.lib.echo_native_clock(clock)
    source = "the processor's counter" if clock.is_counter else "the system's clock"
    return f"{source}, {clock.ticks_per_second:,} ticks a second"
