"""Groups of commands whose modules are imported when they are called: their help needs a table alone."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, cast

import click


class LazyGroup(click.Group):
    """Finds each command as `command` in a module of its own name."""

    modules: ClassVar[str] = ""
    summaries: ClassVar[Mapping[str, str]] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.summaries:
            return None
        module: Any = importlib.import_module(f"{self.modules}.{cmd_name}")
        return cast("click.Command", module.command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table, so that no command is imported."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries.items()))
