#include "cli/signals.h"

#include "base/cleanup.h"

volatile sig_atomic_t signals_stop, signals_save;

static void on_stop(int sig)
{
	signals_stop = sig;
}

static void on_save(int sig)
{
	signals_save = sig;
}

/*
 * Give signal handlers a stack of their own. Code that oneDNN generates sometimes points the stack
 * register into the heap. The kernel would write a signal's frame there (3.5 kB with AVX-512's
 * registers); one interrupted run in ten ended with "corrupted size vs. prev_size".
 */
static char signal_stack[1 << 16];

void signals_catch(int usr1_continues)
{
	const struct {
		int sig, flags;
		void (*handler)(int sig);
	} caught[] = { { SIGTERM, 0, on_stop }, { SIGHUP, 0, on_stop },
		{ SIGINT, (int)SA_RESETHAND, on_stop },
		{ SIGUSR1, 0, usr1_continues ? on_save : on_stop } };
	stack_t stack = { .ss_sp = signal_stack, .ss_size = sizeof(signal_stack) };
	struct sigaction was, sa = { 0 };

	sigaltstack(&stack, NULL);
	sigemptyset(&sa.sa_mask);
	for (size_t i = 0; i < ARRAY_LEN(caught); i++) {
		sa.sa_handler = caught[i].handler;
		sa.sa_flags = SA_RESTART | SA_ONSTACK | caught[i].flags;
		if (sigaction(caught[i].sig, NULL, &was) == 0 && was.sa_handler != SIG_IGN)
			sigaction(caught[i].sig, &sa, NULL);
	}
	signal(SIGXFSZ, SIG_IGN);
}

const char *signals_name(int sig)
{
	return sig == SIGTERM    ? "SIGTERM"
		: sig == SIGHUP  ? "SIGHUP"
		: sig == SIGUSR1 ? "SIGUSR1"
				 : "SIGINT";
}
