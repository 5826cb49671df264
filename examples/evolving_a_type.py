"""A class changes while others still use its older versions."""

from __future__ import annotations

import echo_core as echo


@echo.event
class Reading1:
    """As it was first sent."""

    sensor: echo.Int32
    temp: echo.Float32


@echo.event
class Reading2:
    """One field renamed and widened, one added, one more in the middle."""

    sensor: echo.Int32
    site: str = "unknown"
    temperature: float = echo.field(default=0.0, unit="degC", aliases=("temp",))
    valid: bool = True


def main() -> None:
    """Each version reads the other's events; what becomes of each field is told beforehand."""
    old, new = echo.format_of(Reading1), echo.format_of(Reading2)
    print(echo.compare(old, new))
    sent = echo.encoder(Reading1)(Reading1(7, 21.5))
    print(echo.decoder(Reading2, sender=old)(sent))

    print()
    print(echo.compare(new, old))
    try:
        echo.decoder(Reading1, sender=new)
    except echo.IncompatibleError as error:
        print(error)
    sent = echo.encoder(Reading2)(Reading2(7, "roof", 21.5))
    print(echo.decoder(Reading1, sender=new, lossy=True)(sent))


if __name__ == "__main__":
    main()
