/* Catches signals that ask training to end or to save. */
#ifndef MLT_SIGNALS_H
#define MLT_SIGNALS_H

#include <signal.h>

extern volatile sig_atomic_t signals_stop; /* the number of the signal, or 0 */
extern volatile sig_atomic_t signals_save; /* nonzero: save because of SIGUSR1 and continue */

/*
 * Catch SIGTERM, SIGHUP, SIGINT and SIGUSR1. Signals that the caller ignores, as nohup(1) does
 * SIGHUP, stay ignored. Only a second SIGINT, which a person types, kills: timeout(1) and srun(1)
 * send SIGTERM to the process and its group, so it comes twice. SIGXFSZ is ignored, so that a
 * checkpoint above the limit of file sizes is a failed write.
 *
 *   usr1_continues   SIGUSR1 sets signals_save instead of signals_stop
 */
void signals_catch(int usr1_continues);

/* "SIGTERM", "SIGHUP", "SIGINT", "SIGUSR1". */
const char *signals_name(int sig);

#endif
