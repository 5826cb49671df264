# pyproject.toml has no key for cffi modules, nor a stable one for extension modules; all else is there.
import runpy
from glob import glob

from setuptools import Extension, setup

FLAGS = runpy.run_path("native/cffi_build.py")

# echo_core._NAME and the C files it is made of; what cffi builds stands in native/cffi_build.py.
SOURCES = {
    "code": sorted(glob("native/code*.c")),
    "links": [*sorted(glob("native/link*.c")), "native/raw_codec.c"],
    "objects": sorted(glob("native/object*.c")),
    "records": [*sorted(glob("native/record*.c")), "native/raw_codec.c"],
    "routines": sorted(glob("native/routine*.c")),
}

MODULES = [
    Extension(
        f"echo_core._{name}",
        sources=sources,
        depends=sorted(glob("native/*.h")),  # a header that is missing here would not cause a rebuild
        include_dirs=["native"],
        py_limited_api=True,
        extra_compile_args=FLAGS["COMPILE_ARGS"],
        extra_link_args=FLAGS["LINK_ARGS"],
    )
    for name, sources in SOURCES.items()
]

setup(cffi_modules=["native/cffi_build.py:ffi"], ext_modules=MODULES)
