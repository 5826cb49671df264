#!/usr/bin/env bash
# Hostile bytes for the C code, found by clang's libFuzzer, as `make fuzz` runs it:
#
#   tests/fuzz/run.sh PYTHON SECONDS frames|intake|logs|ring|trees...
#
# Builds in a copy of the tree, build/fuzz. What was found to be of interest stays in build/fuzz-corpus, where
# the next run begins; an input that fails is written to build/fuzz-findings.
set -euo pipefail
cd "$(dirname "$0")/../.."

PYTHON=$1 FUZZ_SECONDS=$2
shift 2
CLANG=${CLANG:-$(compgen -c clang- | grep -x 'clang-[0-9]*' | sort -V | tail -1 || true)}
CLANG=${CLANG:-clang}
FLAGS=(
    -std=c11 -g -O1 -Wall -Wextra -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
    -Inative "-I$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include"))')"
)
ROOT=$PWD

copy_tree() {
    rm -rf build/fuzz
    mkdir -p build/fuzz build/fuzz-findings
    tar -c --exclude='./.*' --exclude=./build --exclude=__pycache__ --exclude='*.so' . | tar -x -C build/fuzz
}

# The interpreter's library, shared or not, and what it needs itself.
python_library() {
    "$PYTHON" - <<'CODE'
from sysconfig import get_config_var as value

folder = value("LIBDIR")
print(f"-L{folder} -Wl,-rpath,{folder} -lpython{value('LDVERSION')}", value("LIBS"), value("SYSLIBS"))
CODE
}

build() {
    case $1 in
    frames) "$CLANG" "${FLAGS[@]}" tests/fuzz/fuzz_frames.c -o fuzz_frames ;;
    logs)
        "$CLANG" "${FLAGS[@]}" tests/fuzz/fuzz_logs.c native/logs/{composing,crc32c,scanning}.c -o fuzz_logs
        ;;
    ring) "$CLANG" "${FLAGS[@]}" tests/fuzz/fuzz_ring.c native/core/wires/signals.c -o fuzz_ring ;;
    intake | trees)
        CC=$CLANG LDSHARED="$CLANG -shared" ECHO_SANITIZE=fuzzer \
            "$PYTHON" -W ignore setup.py -q build_ext --inplace --force
        # shellcheck disable=SC2046 # several words
        "$CLANG" "${FLAGS[@]}" -rdynamic tests/fuzz/embedded.c $(python_library) -o "fuzz_$1"
        ;;
    esac
}

# PYTHONMALLOC and leaks: as in tests/sanitize.sh.
fuzz() {
    local corpus=$ROOT/build/fuzz-corpus/$1
    mkdir -p "$corpus"
    if [[ -f $ROOT/tests/fuzz/fuzz_$1.py ]]; then # with the usual build, as no Python by itself loads this one
        PYTHONPATH=$ROOT "$PYTHON" "$ROOT/tests/fuzz/fuzz_$1.py" "$corpus"
    fi
    export ECHO_FUZZED=tests.fuzz.fuzz_$1 ECHO_PYTHON=$PYTHON PYTHONPATH=$PWD
    export PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0
    "./fuzz_$1" -max_total_time="$FUZZ_SECONDS" -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="$ROOT/build/fuzz-findings/$1-" "$corpus"
}

copy_tree
cd build/fuzz
for target in "$@"; do
    echo "--- fuzz: $target, $FUZZ_SECONDS s"
    build "$target"
    fuzz "$target"
done
echo "fuzz: nothing found in: $*"
