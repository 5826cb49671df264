/* Which of the threads that stand by does so now: turns.c. GIL for all. */
#pragma once

/* Until it is the calling thread's turn to stand by: 1. 0: it is not needed. Releases the GIL. */
int echo_turns_take(void);

/* The calling thread, whose turn it is, does something else from here on. */
void echo_turns_pass(void);

/* The same, but only for a moment: it comes back (echo_turns_take) before anything is handed over to handlers, or else
 * passes its turn then. Where no other thread could take it, it passes it at once. */
void echo_turns_lend(void);

/* Whether a thread has its turn and is away for a moment. */
int echo_turns_are_lent(void);

/* Who is away for a moment stays away: another thread takes its place. Nothing, where nobody is. */
void echo_turns_call_in(void);

/* The same, where that has taken long. */
void echo_turns_call_in_late(void);

/* There is no link to stand by for. */
void echo_turns_end(void);

/* In a child that has inherited no thread. */
void echo_turns_forget(void);

/* Whether nobody stands by, nor has been given the turn to. */
int echo_turns_are_free(void);
