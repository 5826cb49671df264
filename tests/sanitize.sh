#!/usr/bin/env bash
# The C code under gcc's sanitizers, as `make sanitize` runs them:
#
#   tests/sanitize.sh PYTHON TEST_JOBS address|thread...
#
# Each kind has a copy of the tree under build/, with modules of its own, and the tests that fit it. Every
# process writes what it finds into a file, so a finding counts even where a test expects its process to die.
#
# Not looked for:
# - leaks but of memory that C code has asked for by itself: Python lets go of little at its end, and frames of
#   Python hide who asked for an object. tests/native count those by other means.
# - threads that have ended and were not waited for: writers of links end by themselves, and are waited for later.
# - races between processes, or between two mappings of one memory: a race is two accesses to one address.
#   tests/native/ring_threads.c therefore has both sides of a ring share one mapping.
# Not run:
# - under either: what tests no C code of links or records, machine code of LLVM (it is not instrumented).
# - address: tests that a bad access in machine code ends in SIGSEGV, which the sanitizer reports instead; how
#   long an import takes, which is another time here.
# - thread: codecs and records, whose code runs under the GIL and has no threads of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=$1 TEST_JOBS=$2
shift 2
ROOT=$PWD
SECONDS_AT_MOST=900

ADDRESS_TESTS=(
    tests/native tests/echo_core
    tests/codegen/test_{attacks,hostile,objects,records,walker_attacks}.py
    --deselect tests/codegen/test_hostile.py::test_byte_read_outside_the_guarded_memory_kills_the_process
    --deselect tests/echo_core/test_public.py::test_import_takes_little_time
)
THREAD_TESTS=(
    tests/native/test_{deliveries,detours,link*,outlets,outlet_rooms,outlet_streams,resting*,takeover}.py
    tests/native/test_{pools,pool_attacks,pool_readers,queues,queue_links,queue_model,rings,ring_attacks}.py
    tests/echo_core/{attacks/test_{hostile,replayed},values/test_backlog,roster/test_company,handles/test_{conformance,nodes},streams/test_losses}.py
)

copy_tree() {
    rm -rf "$1"
    mkdir -p "$1"
    tar -c --exclude='./.*' --exclude=./build --exclude=__pycache__ --exclude='*.so' . | tar -x -C "$1"
}

# The run-time that a module was linked with; -print-file-name may name a linker script.
runtime_of() {
    ldd "$1" | awk '$1 ~ /^lib[at]san/ { print $3 }'
}

# TSan finds its place taken on kernels that randomise addresses by more bits than it knows of.
run_unrandomised() {
    if setarch "$(uname -m)" -R true 2>/dev/null; then
        setarch "$(uname -m)" -R "$@"
    else
        "$@"
    fi
}

build_modules() {
    ECHO_SANITIZE=$1 "$PYTHON" -W ignore setup.py -q build_ext --inplace --force
}

# PYTHONMALLOC: Python's own allocator would use freed objects' memory again, unseen.
run_tests() {
    local runtime
    runtime=$(runtime_of echo_core/_c/links.abi3.so)
    run_unrandomised timeout "$SECONDS_AT_MOST" env \
        LD_PRELOAD="$runtime" PYTHONPATH="$PWD" PYTHONMALLOC=malloc \
        ASAN_OPTIONS="log_path=$PWD/reports/asan" LSAN_OPTIONS="exitcode=0" \
        UBSAN_OPTIONS="print_stacktrace=1:log_path=$PWD/reports/ubsan" \
        TSAN_OPTIONS="halt_on_error=1:report_thread_leaks=0:log_path=$PWD/reports/tsan" \
        "$PYTHON" -m pytest -q -n "$TEST_JOBS" -p no:benchmark -p no:cacheprovider "$@"
}

# A program of several threads: its name, and what else of native/ it is linked with.
run_threads() {
    gcc -std=c11 -g -O1 -Wall -Wextra -fsanitize=thread -pthread -Inative "tests/native/$1.c" "${@:2}" -o "$1"
    TSAN_OPTIONS="halt_on_error=1:log_path=$PWD/reports/tsan" \
        run_unrandomised timeout "$SECONDS_AT_MOST" "./$1"
}

# A process reports all that it has not let go of; what names no C code is not this project's.
forget_foreign_leaks() {
    local report
    for report in reports/asan.*; do
        if [[ -f $report ]] && grep -q LeakSanitizer "$report" && ! grep -q ' native/' "$report"; then
            rm "$report"
        fi
    done
}

# In the copy of a kind. Not 0: something was found, or a test failed.
run_kind() {
    local status=0
    mkdir reports
    build_modules "$1"
    case $1 in
    address) run_tests "${ADDRESS_TESTS[@]}" || status=$? ;;
    thread)
        run_tests "${THREAD_TESTS[@]}" || status=$?
        run_threads ring_threads native/core/wires/{memory,ring,signals}.c -Wl,--wrap=echo_memory_map || status=$?
        run_threads lock_threads native/core/{lock,clock}.c || status=$?
        ;;
    esac
    forget_foreign_leaks
    if [[ -n $(ls reports) ]]; then
        cat reports/*
        status=1
    fi
    return "$status"
}

main() {
    local kind failed=()
    for kind in "$@"; do
        echo "--- sanitize: $kind"
        copy_tree "build/sanitize-$kind"
        cd "$ROOT/build/sanitize-$kind"
        # Not `if (...)`: set -e does not hold in what is looked at.
        set +e
        (
            set -e
            run_kind "$kind"
        )
        local status=$?
        set -e
        cd "$ROOT"
        ((status == 0)) || failed+=("$kind")
    done
    if ((${#failed[@]} > 0)); then
        echo "sanitize: FAILED: ${failed[*]}" >&2
        exit 1
    fi
    echo "sanitize: nothing found by: $*"
    exit
}

main "$@" # read to here before it begins, so that an edit meanwhile changes nothing
