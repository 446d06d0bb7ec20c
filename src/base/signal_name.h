/* Names of signals. */
#ifndef MLR_BASE_SIGNAL_NAME_H
#define MLR_BASE_SIGNAL_NAME_H

/* The number of "9", "KILL", "SIGKILL", "kill" or "RTMIN+3"; -1 for anything else. */
int signal_number(const char *word);

#endif
