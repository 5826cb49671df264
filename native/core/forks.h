/* Forks of this process, and the two rules about them.
 *
 * fork() copies memory, but only the thread that calls it. In the child, a mutex may be held by a thread that is gone,
 * the writer threads of outboxes are gone, and sockets and shared memory are still the parent's. So:
 *
 * 1. An object that has a lock, a thread or a share in another process's memory notes echo_forks when it is made. In
 *    a child it is *inherited* (has_forked_since): none of its locks is taken, nothing is said to the peer, and
 *    nothing is freed that the parent shares. That is asked once, where Python code enters the object;
 *    links/entries.h says what an entry answers.
 * 2. A call that runs handlers may find, when one of them returns, that it goes on in a child. It notes echo_forks
 *    when it begins, and asks before each next step: what is left of its work is the parent's.
 */
#pragma once

/* How often this process was forked from another, since echo_forks_watch. Hidden, so that reading it is one
 * instruction. */
extern unsigned echo_forks __attribute__((visibility("hidden")));

/* Counts from now on. May be called more than once; takes no lock that a fork could leave behind. */
void echo_forks_watch(void);

/* Whether this process is a child of the one where `forks` was noted. */
static inline int has_forked_since(unsigned forks)
{
    return forks != echo_forks;
}
