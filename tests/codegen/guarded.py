"""Mutated messages for compiled code, in memory whose neighbouring pages nobody may touch.

The loops are C, compiled when a test first needs them: a million messages take a second or two. A message
stands once so that it ends where a guard page begins, and once so that it begins where one ends; so does the
target. Code that reads or writes one byte outside kills the process.
"""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.codegen.machine_code import Code

C_CODE = r"""
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SOURCE_BYTES = 64 * 1024, TARGET_BYTES = 1024 * 1024 };

struct code {
    int32_t (*verify)(const uint8_t *, uint64_t); /* NULL: records of fixed size, which are not verified */
    uint64_t (*measure)(const uint8_t *);
    int32_t (*convert)(const uint8_t *, uint8_t *);
    int32_t (*many)(const uint8_t *, uint8_t *, uint64_t);
    uint64_t source_size, target_size; /* of a record of fixed size */
};

struct counts {
    uint64_t messages;  /* that were tried */
    uint64_t accepted;  /* of them, by verify */
    uint64_t converted; /* of those accepted; the others have a value that does not fit */
    uint64_t outgrown;  /* accepted, and larger than the target here when converted */
    uint64_t disputed;  /* accepted or converted in one place and not in the other: always 0 */
};

/* Memory between two pages that cannot be touched. Never freed. */
static uint8_t *guarded(uint64_t size)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint8_t *all = mmap(NULL, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (all == MAP_FAILED || mprotect(all + page, size, PROT_READ | PROT_WRITE) != 0)
        _exit(3);
    return all + page;
}

static uint8_t *source, *target;

static void prepare(void)
{
    if (source == NULL) {
        source = guarded(SOURCE_BYTES);
        target = guarded(TARGET_BYTES);
    }
}

/* 0: refused, 1: accepted but no value, 2: converted, 3: too large for the target. */
static int converted(const struct code *code, const uint8_t *at, uint64_t size, int at_end)
{
    uint64_t count = 0, made;

    if (code->verify == NULL) {
        if (size % code->source_size)
            return 0;
        count = size / code->source_size;
        made = count * code->target_size;
    } else {
        if (code->verify(at, size) != 0)
            return 0;
        made = code->measure(at);
        if (made == UINT64_MAX)
            return 1;
    }
    if (made > TARGET_BYTES)
        return 3;
    uint8_t *to = at_end ? target + TARGET_BYTES - made : target;
    return (code->verify == NULL ? code->many(at, to, count) : code->convert(at, to)) == 0 ? 2 : 1;
}

static void try_message(const struct code *code, const uint8_t *message, uint64_t size, struct counts *counts)
{
    uint8_t *end = source + SOURCE_BYTES - size;
    int first, second;

    if (size > SOURCE_BYTES)
        return;
    memcpy(end, message, size);
    first = converted(code, end, size, 1);
    memcpy(source, message, size);
    second = converted(code, source, size, 0);
    counts->messages++;
    counts->accepted += first != 0;
    counts->converted += first == 2;
    counts->outgrown += first == 3;
    counts->disputed += first != second;
}

/* What may be off by one, or overflow. */
static uint64_t edge(unsigned i, uint64_t size, uint64_t there)
{
    static const uint8_t shifts[] = {3, 7, 8, 15, 16, 24, 31, 32, 40, 48, 60, 61, 62, 63};
    const uint64_t near[] = {0, 1, 2, size - 1, size, size + 1, there - 1, there + 1, ~there, UINT64_MAX};

    if (i < sizeof near / sizeof *near)
        return near[i];
    i -= sizeof near / sizeof *near;
    return ((uint64_t)1 << shifts[i / 3 % sizeof shifts]) + i % 3 - 1;
}
enum { EDGES = 10 + 3 * 14 };

static uint64_t get(const uint8_t *at, unsigned width, int is_big)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < width; i++)
        number |= (uint64_t)at[is_big ? width - 1 - i : i] << 8 * i;
    return number;
}

static void put(uint8_t *at, unsigned width, int is_big, uint64_t number)
{
    for (unsigned i = 0; i < width; i++)
        at[is_big ? width - 1 - i : i] = (uint8_t)(number >> 8 * i);
}

/* Every truncation, every value of every byte, every edge in every word wherever it may stand. */
void hammer_everywhere(const struct code *code, const uint8_t *given, uint64_t size, struct counts *counts)
{
    static uint8_t message[SOURCE_BYTES];

    prepare();
    memcpy(message, given, size);
    for (uint64_t length = 0; length <= size; length++)
        try_message(code, message, length, counts);
    for (uint64_t more = 1; more < 9; more++) {
        memset(message + size, 0, more);
        try_message(code, message, size + more, counts);
    }
    for (uint64_t at = 0; at < size; at++) {
        for (unsigned flip = 1; flip < 256; flip++) {
            message[at] = given[at] ^ (uint8_t)flip;
            try_message(code, message, size, counts);
        }
        message[at] = given[at];
    }
    for (unsigned width = 2; width <= 8; width *= 2)
        for (uint64_t at = 0; at + width <= size; at++)
            for (int is_big = 0; is_big < 2; is_big++) {
                uint64_t there = get(given + at, width, is_big);
                for (unsigned i = 0; i < EDGES; i++) {
                    put(message + at, width, is_big, edge(i, size, there));
                    try_message(code, message, size, counts);
                }
                memcpy(message + at, given + at, width);
            }
}

static uint64_t dice;

static uint64_t roll(uint64_t below)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return dice % below;
}

static uint64_t mutate(uint8_t *message, uint64_t size)
{
    unsigned width = 1u << roll(4);

    if (size < 8)
        width = 1;
    if (size == 0)
        return 0;
    uint64_t at = roll(size - width + 1), from = roll(size - width + 1);
    int is_big = (int)roll(2);
    switch (roll(8)) {
    case 0:
        return roll(4) ? size : roll(size);
    case 1:
        memset(message + size, (int)roll(2), 8);
        return roll(4) ? size : size + 1 + roll(8);
    case 2:
        memmove(message + at, message + from, width); /* one slot for another */
        return size;
    case 3:
    case 4:
        put(message + at, width, is_big, edge((unsigned)roll(EDGES), size, get(message + at, width, is_big)));
        return size;
    case 5:
        put(message + at, width, is_big, get(message + at, width, is_big) + roll(17) - 8);
        return size;
    case 6:
        message[at] ^= (uint8_t)(1u << roll(8));
        return size;
    default:
        message[at] = (uint8_t)roll(256);
        return size;
    }
}

/* One to four random changes, so many times. */
void hammer_randomly(const struct code *code, const uint8_t *given, uint64_t size, uint64_t times,
                     uint64_t seed, struct counts *counts)
{
    static uint8_t message[SOURCE_BYTES];

    prepare();
    dice = seed * 2 + 1;
    for (uint64_t i = 0; i < times; i++) {
        uint64_t length = size;
        memcpy(message, given, size);
        for (uint64_t changes = 1 + roll(4); changes > 0; changes--)
            length = mutate(message, length);
        try_message(code, message, length, counts);
    }
}

/* Reads one byte beyond the source, to see that a guard guards. */
int read_outside(int at_end)
{
    prepare();
    return *(volatile uint8_t *)(at_end ? source + SOURCE_BYTES : source - 1);
}
"""


class Counts(ctypes.Structure):
    """What became of the messages; the meaning of each is told in the C above."""

    _fields_ = tuple(
        (name, ctypes.c_uint64) for name in ("messages", "accepted", "converted", "outgrown", "disputed")
    )
    messages: int
    accepted: int
    converted: int
    outgrown: int
    disputed: int


class _Functions(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in ("verify", "measure", "convert", "many")) + tuple(
        (name, ctypes.c_uint64) for name in ("source_size", "target_size")
    )


@dataclass(frozen=True)
class Hammer:
    """The loops on one piece of code."""

    code: Code

    def everywhere(self, message: bytes, counts: Counts) -> None:
        """Every truncation, every value of every byte, and every edge in every word."""
        library().hammer_everywhere(self._functions(), message, len(message), ctypes.byref(counts))

    def randomly(self, message: bytes, times: int, seed: int, counts: Counts) -> None:
        """A few changes at a time, so many times."""
        library().hammer_randomly(self._functions(), message, len(message), times, seed, ctypes.byref(counts))

    def _functions(self) -> object:
        addresses, plan = self.code.loaded.addresses, self.code.plan
        names = ("verify", "measure", "convert", "convert_many")
        return ctypes.byref(_Functions(*map(addresses.get, names), plan.sender.size, plan.receiver.size))


@functools.cache
def library() -> ctypes.CDLL:
    """The loops, compiled."""
    with tempfile.TemporaryDirectory() as folder:
        source, shared = Path(folder) / "hammer.c", Path(folder) / "hammer.so"
        source.write_text(C_CODE)
        flags = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")
        subprocess.run(["gcc", *flags, "-o", str(shared), str(source)], check=True)
        loaded = ctypes.CDLL(str(shared))
    message = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64)
    loaded.hammer_everywhere.argtypes = (*message, ctypes.c_void_p)
    loaded.hammer_randomly.argtypes = (*message, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p)
    loaded.hammer_everywhere.restype = loaded.hammer_randomly.restype = None
    return loaded
