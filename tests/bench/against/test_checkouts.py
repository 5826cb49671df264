"""Commits as folders, and what may run in them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bench.against import checkouts
from bench.against.checkouts import Checkout, CheckoutError
from bench.against.children import modules_of
from bench.against.command import main

NEEDS_GIT = pytest.mark.skipif(not (checkouts.ROOT / ".git").exists(), reason="this tree is not git's")


@NEEDS_GIT
def test_a_revision_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With a word from git, and a status of its own."""
    with pytest.raises(SystemExit) as exit_:
        main(["no-such-revision", "inprocess"])
    assert exit_.value.code == 2
    assert "no such revision" in capsys.readouterr().err


def test_too_few_rounds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Of three pairs, all are on one side once in four times by chance."""
    with pytest.raises(SystemExit):
        main(["HEAD", "inprocess", "--rounds", "3"])
    assert "at least 5 rounds" in capsys.readouterr().err


def test_an_echo_core_from_elsewhere_is_found_out() -> None:
    """Or nothing would be compared but this tree with itself."""
    mine = modules_of("bench")
    Checkout("this tree", checkouts.ROOT).check_imported(mine)
    with pytest.raises(CheckoutError, match="Expected echo_core of another"):
        Checkout("another", checkouts.ROOT / "tests").check_imported(mine)
    with pytest.raises(CheckoutError, match="no module at all"):
        Checkout("this tree", checkouts.ROOT).check_imported([])


def test_workloads_know_public_names_alone() -> None:
    """They also run with the echo_core of other commits, whose modules have other names."""
    seen: set[str] = set()
    waiting = [f"bench.against.workloads.{path.stem}" for path in _workloads()]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        imported = set(_imports(name))
        assert not {it for it in imported if it.startswith("echo_core.")}, name
        waiting += [it for it in imported if it.startswith("bench.")]
    assert "bench.transport.peers.channels" in seen


def _workloads() -> list[Path]:
    return sorted((checkouts.ROOT / "bench/against/workloads").glob("*.py"))


def _imports(name: str) -> list[str]:
    """Modules that a module imports anywhere; names of a package that are modules of it are among them."""
    path = checkouts.ROOT / name.replace(".", "/")
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not source.exists():  # a name of a package that is no module
        return []
    found: list[str] = []
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found
