"""What is installed, and what an import costs: the promises of pyproject.toml and of the links.

The rooms live in folders at the root of the repository and are installed inside echo_core alone;
these tests notice when one of them appears under a second name.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("codegen", "formats", "spark_eval", "transports")

IMPORT_EVERYTHING = """
import importlib, json, pkgutil, sys
import echo_core

for module in pkgutil.walk_packages(echo_core.__path__, "echo_core."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:  # of an extra that is not installed
            if (error.name or "echo_core").startswith("echo_core"):
                raise
print(json.dumps({name: getattr(module, "__file__", None) for name, module in sys.modules.items()}))
"""

IMPORT_FRONT_DOOR = """
import json, sys
import echo_core

print(json.dumps(sorted(sys.modules)))
"""


def output_of(*command: str | Path, cwd: Path) -> str:
    """What the command printed; its complaints reach pytest's report when it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command, cwd=cwd, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def python_prints(code: str, *, cwd: Path) -> str:
    """What a fresh interpreter prints; in a foreign cwd it sees only what is installed."""
    return output_of(sys.executable, "-W", "error", "-c", code, cwd=cwd)


def is_ours(file: Path) -> bool:
    """Whether a file belongs to the checkout, not to a virtual environment inside it."""
    return file.is_relative_to(ROOT) and not file.is_relative_to(Path(sys.prefix).resolve())


def python_files_of(room: str) -> list[Path]:
    """The modules of a room, as the checkout has them."""
    return sorted((ROOT / room).rglob("*.py"))


def git_prints(*arguments: str) -> str:
    """What git says of the checkout; skips the test where there is none, as in an sdist."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")
    return output_of("git", "-c", f"safe.directory={ROOT}", *arguments, cwd=ROOT)


@pytest.fixture(name="wheel_names", scope="module")
def fixture_wheel_names(tmp_path_factory: pytest.TempPathFactory) -> list[PurePosixPath]:
    """The files in a wheel built from a copy: a build in the checkout would pick up old ones."""
    source = tmp_path_factory.mktemp("checkout") / "echo"
    unwanted = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "*.so", "__pycache__")
    shutil.copytree(ROOT, source, symlinks=True, ignore=unwanted)
    built = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "-q")
    output_of(*pip, "--no-deps", "--no-build-isolation", "-w", built, source, cwd=built)
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return [PurePosixPath(name) for name in archive.namelist()]


@pytest.mark.slow
@pytest.mark.once
def test_wheel_installs_one_top_level_name_and_one_for_spark(wheel_names: list[PurePosixPath]) -> None:
    """A top-level `formats` would be shadowed by any user's own formats.py."""
    names = {path.parts[0] for path in wheel_names}
    assert {name for name in names if not name.endswith(".dist-info")} == {"echo_core", "pyspark_echo"}


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("room", ROOMS)
def test_wheel_holds_every_module_of_a_room(wheel_names: list[PurePosixPath], room: str) -> None:
    """A link that setuptools did not follow would leave the room out, without a word."""
    packed = {str(path) for path in wheel_names if path.parts[:2] == ("echo_core", room)}
    here = {f"echo_core/{path.relative_to(ROOT).as_posix()}" for path in python_files_of(room)}
    assert packed == {name for name in here if "/discovery/" not in name}  # those have a name of their own


@pytest.mark.slow
@pytest.mark.once
def test_wheel_says_that_it_is_typed(wheel_names: list[PurePosixPath]) -> None:
    """Without py.typed type checkers ignore every annotation; echo_core itself reads its .pyi, too."""
    typed = {"echo_core/py.typed", "echo_core/__init__.pyi", "echo_core/_c/native.pyi"}
    assert typed <= {str(path) for path in wheel_names}


@pytest.mark.slow
@pytest.mark.once
def test_wheel_holds_native_modules_for_all_pythons(wheel_names: list[PurePosixPath]) -> None:
    """The compiled modules keep to the stable ABI, so that one wheel serves 3.11 and later."""
    modules = [path.name for path in wheel_names if path.suffix == ".so"]
    assert "native.abi3.so" in modules
    assert all(name.endswith(".abi3.so") for name in modules)


@pytest.mark.parametrize("room", ROOMS)
def test_room_is_reached_through_a_relative_link(room: str) -> None:
    """An absolute link works only on the machine that made it."""
    assert (ROOT / "echo_core" / room).readlink() == Path("..", room)


def test_no_module_is_loaded_under_two_names(tmp_path: Path) -> None:
    """A file imported as formats.x and as echo_core.formats.x would give two copies of a class."""
    names_by_file: dict[Path, list[str]] = {}
    for module, file in json.loads(python_prints(IMPORT_EVERYTHING, cwd=tmp_path)).items():
        if file is not None and is_ours(Path(file).resolve()):
            names_by_file.setdefault(Path(file).resolve(), []).append(module)
    names = sorted(names_by_file.values())
    assert ["echo_core"] in names
    assert [aliases for aliases in names if len(aliases) > 1] == []
    assert {name.partition(".")[0] for (name,) in names} == {"echo_core"}


@pytest.mark.parametrize("heavy", ["construct", "llvmlite", "pandas", "pyspark"])
def test_import_of_echo_core_leaves_a_heavy_package_alone(heavy: str, tmp_path: Path) -> None:
    """What only some programs need is imported when it is first needed."""
    assert heavy not in json.loads(python_prints(IMPORT_FRONT_DOOR, cwd=tmp_path))


@pytest.mark.parametrize(
    ("target", "groups"),
    [
        ("demo", set[str]()),
        ("test", {"test"}),
        ("bench", {"bench"}),
        ("wheel", {"wheel"}),
        ("ruff", {"lint"}),
    ],
)
def test_make_installs_what_the_target_needs_and_no_more(
    target: str, groups: set[str], tmp_path: Path
) -> None:
    """In an environment that is to be made; a demo that installs Spark is a minute away."""
    environment = {
        name: value for name, value in os.environ.items() if "MAKE" not in name and name != "MFLAGS"
    }
    planned = subprocess.run(
        ["make", "--dry-run", target, f"VENV={tmp_path}/new"],
        cwd=ROOT,
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    assert planned.count("--editable .") == 1
    assert set(re.findall(r"installing what (\w+) needs", planned)) == groups


def test_nothing_that_git_ignores_is_tracked() -> None:
    """Builds and caches stay out of the repository, also when somebody adds them by force."""
    assert git_prints("ls-files", "-ci", "--exclude-per-directory=.gitignore") == ""
