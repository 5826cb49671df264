"""Builds `echo_core._c.native` from the C files beside this one (cffi, API mode).

setup.py names `ffi`; setuptools runs this file with the checkout as its working directory and wants
paths relative to it. A header missing from `depends` would not cause a rebuild when it is edited.
"""

import os
from glob import glob
from pathlib import Path

from cffi import FFI

# ECHO_SANITIZE names what to look for. The modules then load only into a process that has the sanitizer's
# run-time already, as tests/sanitize.sh sees to.
SANITIZERS = {
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "fuzzer": ["-fsanitize=fuzzer-no-link,address,undefined", "-fno-sanitize-recover=all"],  # clang's
    "thread": ["-fsanitize=thread"],
}
SANITIZER = SANITIZERS[os.environ["ECHO_SANITIZE"]] if "ECHO_SANITIZE" in os.environ else []

# The plain extension modules of setup.py are built with the same. A module exports only its PyInit function.
# Aligned, since otherwise the time of a function depends on what stands before it: 6 ns of 110 for an encode.
COMPILE_ARGS = [
    "-std=c11",
    "-Wall",
    "-Wextra",
    "-fvisibility=hidden",
    "-falign-functions=32",
    "-falign-loops=32",
]
LINK_ARGS = SANITIZER
if SANITIZER:
    COMPILE_ARGS += ["-g", "-O1", "-fno-omit-frame-pointer", *SANITIZER]

ffi = FFI()
ffi.cdef(Path("native/core/api/api.h").read_text(encoding="utf-8"))
ffi.set_source(
    "echo_core._c.native",
    '#include <stdint.h>\n#include "core/api/api.h"\n',
    sources=[*sorted(glob("native/core/api/*.c")), "native/core/clock.c"],
    depends=["native/cffi_build.py", *sorted(glob("native/**/*.h", recursive=True))],
    include_dirs=["native"],
    extra_compile_args=COMPILE_ARGS,
    extra_link_args=LINK_ARGS,
)
