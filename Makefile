# Needs Python 3.11 or newer (with its C headers), gcc and make; every target sets itself up in VENV, with what it
# needs and no more: the package, and groups of dependencies from pyproject.toml.
#
#   make test PYTEST_ARGS="-k padding -x"
#   make test PYTHON=python3.12 VENV=.venv-3.12

VENV        ?= .venv
PYTHON      ?=
TEST_JOBS   ?= 2
PYTEST_ARGS ?=
RERUNS      ?= 0
export ECHO_EXAMPLES ?= 1# how many times as many random examples
BENCH       ?= formats
TRANSPORT   ?= shm
SANITIZERS  ?= address thread
FUZZ        ?= frames ring intake trees logs
FUZZ_SECONDS ?= 60

BIN    := $(VENV)/bin
NATIVE := $(patsubst %,echo_core/_c/%.abi3.so,native code events expressions links locks logs)

# The package, and the groups that are named: $(call needs,test lint). VENV/.has-X says that X is installed.
needs = $(NATIVE) $(1:%=$(VENV)/.has-%)
ALL   := test lint spark bench

# Without pytest-benchmark, which warns that it cannot measure beside xdist, and warnings are errors.
# Tests of one group stay in one process: Spark has one session for all.
PYTEST := $(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadgroup -p no:benchmark -rfER --reruns $(RERUNS)
QUICK  := not slow and not spark and not compilers

PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL: # one pip at a time in an environment
.PHONY: help setup demo test check coverage lint ruff mypy pyright import-linter clang-format sanitize fuzz bench wheel clean

help:
	@echo "make setup     everything that the other targets install in $(VENV), at once"
	@echo "make demo      five processes on a channel, in ten seconds; TRANSPORT=shm, unix or tcp"
	@echo "make test      the quick tests, in five minutes;  PYTEST_ARGS=... goes to pytest"
	@echo "make check     lint, and all tests under branch coverage"
	@echo "make coverage  all tests under branch coverage; formats/ must reach $(FORMATS_COVERAGE) %"
	@echo "make lint      ruff, mypy, pyright, import-linter, clang-format"
	@echo "make sanitize  tests of C code with gcc's sanitizers;  SANITIZERS=\"$(SANITIZERS)\" names them"
	@echo "make fuzz      hostile bytes for C code (clang);  FUZZ=\"$(FUZZ)\" FUZZ_SECONDS=$(FUZZ_SECONDS) each"
	@echo "make bench     benchmarks;              BENCH=$(BENCH) names the suite"
	@echo "make wheel     a manylinux wheel in dist/, tested in an empty environment of each Python"
	@echo "make clean     remove what these targets made"

setup: $(call needs,$(ALL))
	@echo "ready: $$($(BIN)/python --version) in $(VENV)"

demo: $(needs)
	@$(BIN)/python -m examples.demo --transport $(TRANSPORT)

# A later -m replaces this one: PYTEST_ARGS="-m slow".
test: $(call needs,test)
	@$(PYTEST) -m "$(QUICK)" $(PYTEST_ARGS)

check: lint coverage

FORMATS_COVERAGE := 98
coverage: $(call needs,$(ALL))
	@$(PYTEST) --durations=20 --cov --cov-report= $(PYTEST_ARGS)
	@echo "--- branch coverage"
	@$(BIN)/coverage report
	@echo "--- branch coverage of formats/"
	@$(BIN)/coverage report --include='formats/*' --fail-under=$(FORMATS_COVERAGE)

lint: ruff mypy pyright import-linter clang-format

ruff: $(call needs,lint)
	@echo "--- ruff"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

# Both follow what tests and benchmarks import.
mypy: $(call needs,$(ALL))
	@echo "--- mypy"
	@$(BIN)/mypy

pyright: $(call needs,$(ALL))
	@echo "--- pyright"
	@$(BIN)/pyright --pythonpath $(BIN)/python

import-linter: $(call needs,lint)
	@echo "--- import-linter"
	@$(BIN)/lint-imports --no-logo

# All C is written as it writes it.
clang-format: $(call needs,lint)
	@echo "--- clang-format"
	@$(BIN)/clang-format --dry-run -Werror $(shell git ls-files "native/*.c" "native/*.h")

sanitize: $(call needs,test)
	@tests/sanitize.sh "$(abspath $(BIN))/python" $(TEST_JOBS) $(SANITIZERS)

fuzz: $(call needs,test)
	@tests/fuzz/run.sh "$(abspath $(BIN))/python" $(FUZZ_SECONDS) $(FUZZ)

bench: $(call needs,bench)
	@$(BIN)/python -m bench $(BENCH)

wheel: $(call needs,wheel)
	@.ci/wheel $(BIN)/python

clean:
	@rm -rf .venv .venv-* build dist *.egg-info echo_core/_c/*.so
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	@rm -rf .coverage .coverage.* htmlcov
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A name on PATH is not yet a Python: a pyenv shim may exist and fail, so each candidate is run.
SUITABLE := import sys, sysconfig, os, venv, ensurepip; \
    headers = os.path.join(sysconfig.get_path('include'), 'Python.h'); \
    sys.exit(sys.version_info < (3, 11) or not os.path.exists(headers))
CANDIDATES := $(or $(PYTHON),python3.13 python3.12 python3.11 python3.15 python3.14 python3)

$(BIN)/python:
	@for python in $(CANDIDATES); do \
	    if "$$python" -c "$(SUITABLE)" 2>/dev/null; then \
	        echo "making $(VENV) with $$("$$python" --version)"; \
	        exec "$$python" -m venv "$(VENV)"; \
	    fi; \
	done; \
	echo "expected Python 3.11 or newer with venv and its C headers, tried: $(CANDIDATES);" \
	     "name one with PYTHON=/path/to/python" >&2; \
	exit 1

# What setup.py needs is in the environment, for it runs again whenever a C file changes.
$(VENV)/.has-package: pyproject.toml setup.py | $(BIN)/python
	@echo "installing echo_core into $(VENV)"
	@$(PIP) install -qq 'setuptools>=77' 'cffi>=1.17'
	@$(PIP) install -qq --no-build-isolation --editable .
	@touch $@

# A pip of before 2025 knows no --group.
$(VENV)/.has-pip: | $(BIN)/python
	@$(PIP) install -qq --upgrade pip
	@touch $@

$(VENV)/.has-%: pyproject.toml | $(VENV)/.has-pip $(VENV)/.has-package
	@echo "installing what $* needs into $(VENV)"
	@$(PIP) install -qq --group $*
	@touch $@

# A peer that cannot be had for this Python is left out, and said.
$(VENV)/.has-bench: pyproject.toml bench/install.py | $(VENV)/.has-pip $(VENV)/.has-package
	@echo "installing what bench needs into $(VENV)"
	@$(BIN)/python bench/install.py
	@touch $@

# Importing never compiles: an edited C file is built here, unless installing has just done so. Each module serves
# all Pythons (abi3). One command builds all, which is what &: says (GNU make 4.3).
$(NATIVE) &: setup.py $(wildcard native/* native/*/* native/*/*/*) | $(VENV)/.has-package
	@$(BIN)/python -W ignore setup.py -q build_ext --inplace
	@touch --no-create $(NATIVE)
