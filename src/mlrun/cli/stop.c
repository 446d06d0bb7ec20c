#include "cli/stop.h"

#include "base/base.h"

/* Time to remove half a tree; a process waiting for another one's layer must not wait longer. */
#define CLEANUP_SECONDS 10

int cli_stop_signal;

static void give_up(int sig)
{
	_exit(128 + __atomic_load_n(&cli_stop_signal, __ATOMIC_RELAXED));
}

static void ask_to_stop(int sig)
{
	__atomic_store_n(&cli_stop_signal, sig, __ATOMIC_RELAXED);
	alarm(CLEANUP_SECONDS);
}

void cli_stop_catch(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction a = { .sa_handler = ask_to_stop, .sa_flags = SA_RESTART | SA_RESETHAND };
	struct sigaction last = { .sa_handler = give_up }, was;

	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (sigaction(ends[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
			sigaction(ends[i], &a, NULL);
	sigaction(SIGALRM, &last, NULL);
}
