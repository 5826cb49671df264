"""What flows in the plant. All components import it; each could as well declare the fields that it uses."""

from __future__ import annotations

import echo_core as echo


@echo.event
class Frame:
    """What the instrument sees."""

    number: int
    exposure_s: echo.Float32
    pixels: echo.Array[echo.UInt16, 128, 128]


@echo.event
class Result:
    """What the processor makes of a frame."""

    frame: int
    mean: float
    peak: int


@echo.event
class Order:
    """From whoever is in charge, to all."""

    stop: bool
