/*
 * Ends work in an orderly way on SIGINT, SIGTERM and SIGHUP; a second signal kills.
 */
#ifndef MLR_CLI_STOP_H
#define MLR_CLI_STOP_H

/* The signal received, else 0; working threads read it atomically. */
extern int cli_stop_signal;

/* Catch the signals from now on. Those that the caller ignores (nohup, a script's background job)
 * stay ignored. */
void cli_stop_catch(void);

#endif
