# pyproject.toml has no key for cffi modules, nor a stable one for extension modules; all else is there.
import runpy
from glob import glob

from setuptools import Extension, setup

FLAGS = runpy.run_path("native/cffi_build.py")

# Each is one C file, which becomes echo_core._NAME; what cffi builds stands in native/cffi_build.py.
MODULES = [
    Extension(
        f"echo_core._{name}",
        sources=[f"native/{name}.c"],
        depends=sorted(glob("native/*.h")),  # a header that is missing here would not cause a rebuild
        include_dirs=["native"],
        py_limited_api=True,
        extra_compile_args=FLAGS["COMPILE_ARGS"],
        extra_link_args=FLAGS["LINK_ARGS"],
    )
    for name in ("objects", "records", "routines")
]

setup(cffi_modules=["native/cffi_build.py:ffi"], ext_modules=MODULES)
