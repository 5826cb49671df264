"""The other platform that README names: this machine cannot run its code, but compiles it."""

from __future__ import annotations

import functools
import subprocess
import sysconfig
from pathlib import Path

import pytest

from echo_core.formats.abi import ABI_BY_NAME
from tests.formats.test_compilers import compiler_for, run

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "native"
FILES = sorted(NATIVE.rglob("*.c"))


@functools.cache
def compiler_with_headers() -> tuple[str, ...]:
    """Debian's package of the compiler only recommends that of the C library."""
    compiler = compiler_for(ABI_BY_NAME["aarch64"])
    asked = [*compiler, "-E", "-include", "stdio.h", "-x", "c", "/dev/null"]
    if subprocess.run(asked, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60).returncode:
        pytest.skip(f"{compiler[0]} has no C library (Debian: libc6-dev-arm64-cross)")
    return compiler


@pytest.mark.compilers
@pytest.mark.once
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_c_compiles_for_aarch64_without_a_warning(file: Path) -> None:
    """With the headers of this machine's Python, which are those of any 64-bit little-endian one."""
    compiler = compiler_with_headers()
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{NATIVE}"]
    run([*compiler, *flags, "-I" + sysconfig.get_path("include"), str(file)])
