/* Counts forks; forks.h has the rules. */
#include "core/forks.h"

#include <pthread.h>

unsigned echo_forks;

static void count_fork(void)
{
    echo_forks++;
}

static void watch(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

void echo_forks_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch);
}
