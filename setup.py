# pyproject.toml has no key for cffi modules, nor a stable one for extension modules; all else is there.
from glob import glob

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROUTINES = Extension(
    "echo_core._routines",
    sources=["native/routines.c"],
    depends=sorted(glob("native/*.h")),  # a header that is missing here would not cause a rebuild
    include_dirs=["native"],
    py_limited_api=True,
)


class BuildNative(build_ext):
    """Builds both modules with one set of flags: those in native/cffi_build.py, sanitizers included.

    That file takes every C file for echo_core._native; the ones of echo_core._routines are taken out.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        (native,) = (module for module in self.extensions if module.name == "echo_core._native")
        native.sources = [source for source in native.sources if source not in ROUTINES.sources]
        ROUTINES.extra_compile_args = native.extra_compile_args
        ROUTINES.extra_link_args = native.extra_link_args


setup(
    cffi_modules=["native/cffi_build.py:ffi"],
    ext_modules=[ROUTINES],
    cmdclass={"build_ext": BuildNative},
)
