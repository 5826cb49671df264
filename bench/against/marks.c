// Has callgrind write down what it has counted since the last time, under a name. Without callgrind it does
// nothing.
#include <valgrind/callgrind.h>

void bench_mark(const char *name)
{
    CALLGRIND_DUMP_STATS_AT(name);
}
