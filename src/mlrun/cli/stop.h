/*
 * Being stopped: SIGINT, SIGTERM and SIGHUP end what runs in an orderly way, a second one kills as
 * it always does.
 */
#ifndef MLR_CLI_STOP_H
#define MLR_CLI_STOP_H

/* The signal that asked for an end, else 0; read atomically by those who work. */
extern int cli_stop_signal;

/* From here on. What the caller ignores (nohup, a background job of a script) stays ignored. */
void cli_stop_catch(void);

#endif
