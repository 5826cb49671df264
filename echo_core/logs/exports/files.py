"""Which form a file has, by its suffix; a file is there as a whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echo_core.errors import FormatError, unexpected
from echo_core.logs.exports.tables import write_arrow, write_parquet
from echo_core.logs.exports.texts import write_csv, write_json_lines
from echo_core.logs.exports.viewing import write_mcap
from echo_core.logs.views.copying import copy_view

if TYPE_CHECKING:
    from echo_core.logs.views.views import View

LOG_SUFFIX = ".echolog"
_WRITERS: dict[str, Callable[..., int]] = {
    ".arrow": write_arrow,
    ".csv": write_csv,
    ".jsonl": write_json_lines,
    ".mcap": write_mcap,
    ".parquet": write_parquet,
}


def export(view: View[Any], path: str | os.PathLike[str], *, info: bool) -> int:
    """Writes a view to a file; how many events."""
    target = Path(path)
    if target.suffix == LOG_SUFFIX:
        return copy_view(view, target)
    write = _WRITERS.get(target.suffix)
    if write is None:
        raise unexpected(FormatError, f"a suffix of {', '.join([*_WRITERS, LOG_SUFFIX])}", f"`{target.name}`")
    if not target.parent.is_dir():
        raise unexpected(FormatError, "a folder for the file", "none", path=str(target.parent))
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        count = write(view, unfinished, info=info)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return count
