"""Builds `echo_core._native` from the C files beside this one (cffi, API mode).

setup.py names `ffi`; setuptools runs this file with the checkout as its working directory and wants
paths relative to it. A header missing from `depends` would not cause a rebuild when it is edited.
"""

import os
from glob import glob
from pathlib import Path

from cffi import FFI

# Built with ECHO_SANITIZE=1, the module loads only into a process that has the sanitizer's run-time
# already: LD_PRELOAD="$(gcc -print-file-name=libasan.so)".
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
sanitize = os.environ.get("ECHO_SANITIZE") == "1"

ffi = FFI()
ffi.cdef(Path("native/api.h").read_text(encoding="utf-8"))
ffi.set_source(
    "echo_core._native",
    '#include <stdint.h>\n#include "api.h"\n',
    sources=sorted(glob("native/*.c")),
    depends=sorted(glob("native/*.h")),
    include_dirs=["native"],
    extra_compile_args=[
        "-std=c11",
        "-Wall",
        "-Wextra",
        *(["-g", "-O1", "-fno-omit-frame-pointer", *SANITIZERS] if sanitize else []),
    ],
    extra_link_args=SANITIZERS if sanitize else [],
)
