# pyproject.toml has no key for cffi modules, nor a stable one for extension modules; all else is there.
import runpy
from glob import glob

from setuptools import Extension, setup

FLAGS = runpy.run_path("native/cffi_build.py")

# echo_core._c.NAME and the C files it is made of; what cffi builds stands in native/cffi_build.py.
SOURCES = {
    "code": ["native/code/blocks.c", "native/code/digests.c", "native/code/numbers.c", "native/code/text.c"],
    "links": [
        *(path for path in sorted(glob("native/core/**/*.c", recursive=True)) if "/core/api/" not in path),
        *sorted(glob("native/links/*.c")),
        *sorted(glob("native/streams/*.c")),
        "native/kept_bytes.c",
        "native/raw_codec.c",
    ],
    "events": [
        *sorted(glob("native/events/**/*.c", recursive=True)),
        "native/code/text.c",
        "native/kept_bytes.c",
        "native/raw_codec.c",
    ],
    "expressions": [
        *sorted(glob("native/expressions/*.c")),
        *(f"native/events/{name}.c" for name in ("chars", "layouts", "times")),
        "native/code/digests.c",
        "native/code/numbers.c",
        "native/code/text.c",
        "native/raw_codec.c",
    ],
    "locks": ["native/locks/locks.c"],
    "logs": [*sorted(glob("native/logs/*.c")), "native/core/forks.c"],
}

# What else causes a rebuild when it is edited.
CAUSES = ["setup.py", "native/cffi_build.py", *sorted(glob("native/**/*.h", recursive=True))]

MODULES = [
    Extension(
        f"echo_core._c.{name}",
        sources=sources,
        depends=CAUSES,
        include_dirs=["native"],
        py_limited_api=True,
        extra_compile_args=FLAGS["COMPILE_ARGS"],
        extra_link_args=FLAGS["LINK_ARGS"],
    )
    for name, sources in SOURCES.items()
]

setup(cffi_modules=["native/cffi_build.py:ffi"], ext_modules=MODULES)
