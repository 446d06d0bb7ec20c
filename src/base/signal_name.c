#include "base/signal_name.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int whole_number(const char *text, int first)
{
	char *end;
	long n = strtol(text, &end, 10);

	return end == text || *end || n < 1 - first || n > SIGRTMAX - first ? -1 : (int)n + first;
}

int signal_number(const char *word)
{
	if (strncasecmp(word, "SIG", 3) == 0)
		word += 3;
	if (strcasecmp(word, "RTMIN") == 0)
		return SIGRTMIN;
	if (strncasecmp(word, "RTMIN+", 6) == 0)
		return whole_number(word + 6, SIGRTMIN);
	for (int sig = 1; sig < NSIG; sig++) {
		const char *name = sigabbrev_np(sig);

		if (name && strcasecmp(name, word) == 0)
			return sig;
	}
	return whole_number(word, 0);
}
