"""Shapes: what is derived from one source and differs in its parameters alone is judged together.

A few branches stand in their outlet one by one. Of many a fan does (native/streams/fans.c), which asks a
table of their parameters once for each event, however many rows that has.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress

from echo_core._c import links
from echo_core.codegen.conversion import have_done
from echo_core.codegen.expressions.predicates import Judging
from echo_core.codegen.expressions.tables import Index, Table, has_rows, is_index
from echo_core.codegen.machine.budgets import Payers
from echo_core.errors import ClosedError

MANY = 4  # branches of one shape; for fewer no table is compiled


def shape_of(judging: Judging | None) -> Hashable | None:
    """What is the same for all whose parameters can be rows of one table; None: they cannot."""
    if judging is None or not has_rows(judging.derived.derivation, judging.program):
        return None
    program = judging.program
    return program.text(), tuple(program.slots), tuple(program.roots), bytes(program.pool)


class Shape:
    """The branches of one shape at one outlet. Called with the books open."""

    __slots__ = ("_branches", "_fan", "_is_compiling", "_outlet", "_payers", "_table", "judging")

    def __init__(self, outlet: links.Outlet, judging: Judging) -> None:
        """`judging`: by which one of them is judged."""
        self.judging = judging
        self._outlet = outlet
        self._branches: list[links.Branch] = []
        self._fan: links.Fan | None = None
        self._table: Table | Index | None = None
        self._payers = Payers()  # for the table
        self._is_compiling = False

    def add(self, branch: links.Branch, payers: Payers | None) -> None:
        """From the source's next event on. `payers`: whoever wants it; None: who does not pay."""
        self._branches.append(branch)
        if not self._payers.add_all(payers):
            self._payers, self._is_compiling = Payers(), False  # nobody was left who wanted the table
            self._payers.add_all(payers)
        if self._fan is not None:
            self._fan.put(branch)
        elif len(self._branches) < MANY:
            self._outlet.branches = (*self._outlet.branches, branch)
        else:
            self._spread()
        self._compile()

    def _spread(self) -> None:
        """All of them into a fan, which stands in their place."""
        derivation = self.judging.derived.derivation
        kind = Index if is_index(derivation) else Table
        self._table = kind(derivation, self.judging.format, "interpreted")
        self._fan = links.Fan(
            self.judging.judge, self._table.native, takes_objects=self.judging.takes_objects
        )
        for branch in self._branches:
            self._fan.put(branch)
        others = [each for each in self._outlet.branches if each not in self._branches]
        self._outlet.branches = (*others, self._fan)

    def _compile(self) -> None:
        """In the background; until then, or where it cannot be, each branch is asked."""
        if self._table is not None and not self._is_compiling:
            self._is_compiling = have_done(self._table.compile, "auto", self._payers)

    def remove(self, branch: links.Branch) -> None:
        """No event comes to it any more."""
        self._branches.remove(branch)
        follower: links.Follower = branch
        if self._fan is not None:
            self._fan.remove(branch)
            follower = self._fan
        if self._fan is None or not self._branches:
            with suppress(ClosedError):  # then the outlet has let go of all
                self._outlet.branches = tuple(it for it in self._outlet.branches if it is not follower)

    @property
    def is_empty(self) -> bool:
        """Whether there is none left."""
        return not self._branches
