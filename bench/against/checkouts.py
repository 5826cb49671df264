"""Commits as folders in which they run: exported, with their C modules built there."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "against"


class CheckoutError(Exception):
    """There is no such commit, or it could not be built."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A commit's files, and the name that a report gives it."""

    name: str
    folder: Path

    def environment(self, cache: Path, *, seed: int = 0) -> dict[str, str]:
        """For processes that import echo_core from here, and `bench` from the tree that compares.

        The folder `import` holds a link to echo_core alone, so that the commit's own `bench` is not found.
        This tree has no such folder, and needs none.
        """
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "PATH") if name in os.environ}
        return kept | {
            "ECHO_CACHE": str(cache),
            "PYTHONHASHSEED": str(seed),
            "PYTHONPATH": f"{self.folder / 'import'}:{ROOT}",
        }

    def check_imported(self, modules: list[str]) -> None:
        """Raises CheckoutError where a process has taken a module from elsewhere."""
        folder = os.path.realpath(self.folder)
        foreign = [path for path in modules if not path.startswith(f"{folder}/")]
        if foreign or not modules:
            msg = f"Expected echo_core of {self.name} in {folder}, got {foreign or 'no module at all'}"
            raise CheckoutError(msg)


def this_tree() -> Checkout:
    """In place, with the C modules as they are: for tests, which are run when these are built."""
    return Checkout("this tree", ROOT)


def working_tree() -> Checkout:
    """A copy of the files as they are now: they may be edited, or built again, while it runs."""
    return Checkout("working tree", built(working_tree_id()))


def working_tree_id() -> str:
    """What git would call them: those that are not committed yet included, but for ignored ones."""
    with tempfile.TemporaryDirectory() as folder:
        index = os.environ | {"GIT_INDEX_FILE": f"{folder}/index"}
        _git("read-tree", "HEAD", environment=index)
        _git("add", "--all", environment=index)
        return _git("write-tree", environment=index).decode().strip()


def of_revision(revision: str) -> Checkout:
    """A commit by whatever name git knows."""
    tree = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{tree}}").decode().strip()
    return Checkout(revision, built(tree))


def built(tree: str) -> Path:
    """The folder of a tree of files: exported and built once, and found again."""
    folder = KEPT / tree[:16]
    KEPT.mkdir(parents=True, exist_ok=True)
    with _locked(KEPT / "lock"):
        if not folder.exists():
            unfinished = folder.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            _export(tree, unfinished)
            _build(unfinished)
            unfinished.rename(folder)
    return folder


def files(tree: str, *paths: str) -> Mapping[str, bytes]:
    """The files of a tree or a revision under some paths, by name; links are left out."""
    there = [path for path in paths if _git("ls-tree", tree, "--", path)]
    with tarfile.open(fileobj=io.BytesIO(_git("archive", tree, "--", *there))) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        return {member.name: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]


def _export(tree: str, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(_git("archive", tree))) as archive:
        archive.extractall(folder, filter="tar")  # links lead to siblings, and the files are our own
    (folder / "import").mkdir()
    (folder / "import" / "echo_core").symlink_to("../echo_core")


def _build(folder: Path) -> None:
    command = [sys.executable, "-W", "ignore", "setup.py", "-q", "build_ext", "--inplace", "--force"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        msg = f"The C modules in {folder} could not be built:\n{done.stderr}"
        raise CheckoutError(msg)


def _git(*arguments: str, environment: Mapping[str, str] | None = None) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, env=environment, capture_output=True, check=False)
    if done.returncode:
        msg = f"git {' '.join(arguments)} failed: {done.stderr.decode().strip() or 'no such revision'}"
        raise CheckoutError(msg)
    return done.stdout


@contextlib.contextmanager
def _locked(path: Path) -> Generator[None]:
    """Two runs may want to build the same commit."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
