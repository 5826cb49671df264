# pyproject.toml has no key for cffi modules; all else is there.
from setuptools import setup

setup(cffi_modules=["native/cffi_build.py:ffi"])
