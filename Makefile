# Needs Python 3.11 or newer (with its C headers), gcc and make; every target sets itself up in VENV.
#
#   make test PYTEST_ARGS="-k padding -x"
#   make test PYTHON=python3.12 VENV=.venv-3.12

VENV        ?= .venv
PYTHON      ?=
TEST_JOBS   ?= 2
PYTEST_ARGS ?=
export ECHO_EXAMPLES ?= 1# how many times as many random examples
BENCH       ?= formats
TRANSPORT   ?= shm
SANITIZERS  ?= address thread
FUZZ        ?= frames ring intake
FUZZ_SECONDS ?= 60

BIN       := $(VENV)/bin
INSTALLED := $(VENV)/.installed
NATIVE    := $(patsubst %,echo_core/_c/%.abi3.so,native code links objects records routines)
READY     := $(INSTALLED) $(NATIVE)

# pytest-benchmark warns that it cannot measure beside xdist, and warnings are errors.
# Tests of one group stay in one process: Spark has one session for all.
PYTEST := $(BIN)/python -m pytest -n $(TEST_JOBS) --dist loadgroup --benchmark-disable

PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test check coverage lint ruff mypy pyright import-linter sanitize fuzz bench clean

help:
	@echo "make setup     virtual environment in $(VENV), echo_core installed from this checkout"
	@echo "make demo      five processes on a channel, in ten seconds; TRANSPORT=shm, unix or tcp"
	@echo "make test      the tests;               PYTEST_ARGS=... goes to pytest"
	@echo "make check     what CI runs: lint and coverage"
	@echo "make coverage  the tests under branch coverage; formats/ must reach $(FORMATS_COVERAGE) %"
	@echo "make lint      ruff, mypy, pyright, import-linter"
	@echo "make sanitize  tests of C code with gcc's sanitizers;  SANITIZERS=\"$(SANITIZERS)\" names them"
	@echo "make fuzz      hostile bytes for C code (clang);  FUZZ=\"$(FUZZ)\" FUZZ_SECONDS=$(FUZZ_SECONDS) each"
	@echo "make bench     benchmarks;              BENCH=$(BENCH) names the suite"
	@echo "make clean     remove what these targets made"

setup: $(READY)
	@echo "ready: $$($(BIN)/python --version) in $(VENV)"

demo: $(READY)
	@$(BIN)/python -m examples.demo --transport $(TRANSPORT)

test: $(READY)
	@$(PYTEST) $(PYTEST_ARGS)

check: lint coverage

FORMATS_COVERAGE := 98
coverage: $(READY)
	@$(PYTEST) --cov --cov-report= $(PYTEST_ARGS)
	@echo "--- branch coverage"
	@$(BIN)/coverage report
	@echo "--- branch coverage of formats/"
	@$(BIN)/coverage report --include='formats/*' --fail-under=$(FORMATS_COVERAGE)

lint: ruff mypy pyright import-linter

ruff: $(READY)
	@echo "--- ruff"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

mypy: $(READY)
	@echo "--- mypy"
	@$(BIN)/mypy

pyright: $(READY)
	@echo "--- pyright"
	@$(BIN)/pyright --pythonpath $(BIN)/python

import-linter: $(READY)
	@echo "--- import-linter"
	@$(BIN)/lint-imports --no-logo

sanitize: $(READY)
	@tests/sanitize.sh "$(abspath $(BIN))/python" $(TEST_JOBS) $(SANITIZERS)

fuzz: $(READY)
	@tests/fuzz/run.sh "$(abspath $(BIN))/python" $(FUZZ_SECONDS) $(FUZZ)

bench: $(READY)
	@$(BIN)/python -m bench $(BENCH)

clean:
	@rm -rf .venv .venv-* build dist *.egg-info echo_core/_c/*.so
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	@rm -rf .coverage .coverage.* htmlcov
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A name on PATH is not yet a Python: a pyenv shim may exist and fail, so each candidate is run.
SUITABLE := import sys, sysconfig, os, venv, ensurepip; \
    headers = os.path.join(sysconfig.get_path('include'), 'Python.h'); \
    sys.exit(sys.version_info < (3, 11) or not os.path.exists(headers))
CANDIDATES := $(or $(PYTHON),python3.13 python3.12 python3.11 python3)

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

# In two steps: a pip of before 2025 knows no --group.
$(INSTALLED): pyproject.toml setup.py | $(BIN)/python
	@echo "installing into $(VENV)"
	@$(PIP) install -qq --upgrade pip 'setuptools>=77'
	@$(PIP) install -qq --group dev --editable .
	@touch $@

# Importing never compiles: an edited C file is built here. Each module serves all Pythons (abi3). One
# command builds all, which is what &: says (GNU make 4.3).
$(NATIVE) &: setup.py $(wildcard native/* native/*/* native/*/*/*) | $(INSTALLED)
	@echo "building $(NATIVE)"
	@$(BIN)/python -W ignore setup.py -q build_ext --inplace --force
	@touch $(NATIVE)
