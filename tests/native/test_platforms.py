"""The other platform that README names: this machine cannot run its code, but compiles it."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from echo_core.formats.abi import ABI_BY_NAME
from tests.formats.test_compilers import compiler_for, run

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "native"
FILES = sorted(NATIVE.rglob("*.c"))


@pytest.mark.compilers
@pytest.mark.once
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_c_compiles_for_aarch64_without_a_warning(file: Path) -> None:
    """With the headers of this machine's Python, which are those of any 64-bit little-endian one."""
    compiler = compiler_for(ABI_BY_NAME["aarch64"])
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{NATIVE}"]
    run([*compiler, *flags, "-I" + sysconfig.get_path("include"), str(file)])
