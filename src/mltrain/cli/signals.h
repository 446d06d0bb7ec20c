/*
 * Signals that ask training to end in an orderly way.
 */
#ifndef MLT_SIGNALS_H
#define MLT_SIGNALS_H

#include <signal.h>

extern volatile sig_atomic_t signals_stop; /* the number of the one that came, or 0 */
extern volatile sig_atomic_t signals_save; /* not 0: SIGUSR1 came, and training is to go on */

/*
 * Catch SIGTERM, SIGHUP, SIGINT and SIGUSR1. What the caller ignores, as nohup(1) does SIGHUP,
 * stays ignored. SIGTERM may come more than once for one wish (timeout(1) and srun(1) signal the
 * process and its group), so only a second SIGINT, which a person typed, kills. SIGXFSZ is ignored,
 * so that a checkpoint beyond the limit of file sizes is a failed write, not a death.
 *
 *   usr1_continues   SIGUSR1 sets signals_save in place of signals_stop
 */
void signals_catch(int usr1_continues);

/* "SIGTERM", "SIGHUP", "SIGINT", "SIGUSR1". */
const char *signals_name(int sig);

#endif
