"""Keys of cached code name this CPU and this compiler, and finding that out takes no compiler."""

from __future__ import annotations

import importlib.machinery
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from echo_core._c import code
from echo_core.codegen.machine import store

ROOT = Path(__file__).resolve().parents[2]

KNOWN_CPU = pytest.mark.skipif(not code.cpu(), reason="a CPU that only LLVM knows")


@pytest.fixture(autouse=True)
def fixture_afresh() -> Iterator[None]:
    """Nothing is remembered from before, nor afterwards."""
    store.identity_of_machine.cache_clear()
    yield
    store.identity_of_machine.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, folder: Path | None) -> None:
    """Has llvmlite be found in this folder from now on, or nowhere."""

    def find_spec(name: str) -> importlib.machinery.ModuleSpec | None:
        if folder is None:
            return None
        return importlib.machinery.ModuleSpec(name, None, origin=str(folder / "__init__.py"))

    monkeypatch.setattr("importlib.util.find_spec", find_spec)


IDENTITY = """
import sys
from echo_core.codegen.machine import store
print(store.identity_of_machine(), 'llvmlite' in sys.modules)
"""


@KNOWN_CPU
def test_identity_is_the_same_in_every_process_and_takes_no_llvm() -> None:
    """Or nothing would ever be found again."""
    done = subprocess.run(
        [sys.executable, "-c", IDENTITY], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == f"{store.identity_of_machine()} False"


@KNOWN_CPU
def test_cpu_is_the_same_on_every_core() -> None:
    """A process may move between two looks."""
    cores = os.sched_getaffinity(0)
    try:
        seen = set[bytes]()
        for core in cores:
            os.sched_setaffinity(0, {core})
            seen.add(code.cpu())
    finally:
        os.sched_setaffinity(0, cores)
    assert len(seen) == 1


@KNOWN_CPU
def test_other_compiler_is_another_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its version counts, and how large LLVM is, wherever it is installed."""
    seen = [store.identity_of_machine()]
    for version, size in ((b"1", 100), (b"2", 100), (b"2", 101)):
        (tmp_path / "binding").mkdir(exist_ok=True)
        (tmp_path / "binding" / "libllvmlite.so").write_bytes(bytes(size))
        (tmp_path / "_version.py").write_bytes(version)
        install(monkeypatch, tmp_path)
        store.identity_of_machine.cache_clear()
        seen.append(store.identity_of_machine())
    assert len(set(seen)) == 4


def test_other_cpu_is_another_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code for one may not run on the other."""
    before = store.identity_of_machine()
    monkeypatch.setattr(code, "cpu", lambda: b"another one")
    store.identity_of_machine.cache_clear()
    assert store.identity_of_machine() != before


def test_unknown_cpu_is_told_by_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows all machines, and costs its import."""
    monkeypatch.setattr(code, "cpu", lambda: b"")
    identity = store.identity_of_machine()
    assert "LLVM " in str(identity[-1])
    assert len(identity) == 4


@pytest.mark.parametrize("missing", ["_version.py", "binding/libllvmlite.so", "all of it"])
def test_compiler_that_is_not_laid_out_as_known_tells_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str
) -> None:
    """Where the files are not found that tell one version from another."""
    (tmp_path / "binding").mkdir()
    for name in ("_version.py", "binding/libllvmlite.so"):
        (tmp_path / name).write_bytes(b"1")
    if missing != "all of it":
        (tmp_path / missing).unlink()
    install(monkeypatch, None if missing == "all of it" else tmp_path)
    assert "LLVM " in str(store.identity_of_machine()[-1])
