#include "spank/task.h"

#include "base/cleanup.h"
#include "spank/command.h"
#include "spank/submit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAILED 125 /* mlrun's own status */
/* SLURM_BATCH_SCRIPT and SLURM_EXTERN_CONT of slurm.h, which has no other use here. */
#define BATCH_STEP  0xfffffffb
#define EXTERN_STEP 0xfffffffc

/* The task's environment, for variable(). */
static char **task_env;

static const char *variable(const char *name)
{
	size_t n = strlen(name);

	for (char **s = task_env; s && *s; s++)
		if (strncmp(*s, name, n) == 0 && (*s)[n] == '=')
			return *s + n + 1;
	return NULL;
}

/* Variables of the user's are for steps: the batch script that sets them stays outside. */
static const char *slurms_variable(const char *name)
{
	return strncmp(name, "SLURM_", 6) == 0 ? variable(name) : NULL;
}

static void fail(const char *text) __attribute__((noreturn));

/* This is the task's own process, between fork(2) and execve(2). */
static void fail(const char *text)
{
	char host[256] = "";

	(void)gethostname(host, sizeof(host) - 1);
	fprintf(stderr, "mlrun: node '%s': %s; the task does not run\n", host, text);
	fflush(stderr);
	_exit(FAILED);
}

static void become(spank_t sp, const struct spank_site *site, const char *const *settings,
	uint32_t step) __attribute__((noreturn));

static void become(
	spank_t sp, const struct spank_site *site, const char *const *settings, uint32_t step)
{
	auto_strv struct strv argv = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	struct command_task task = { .pin = variable(SPANK_PIN_VARIABLE) };
	const char *nodes = variable("SLURM_STEP_NUM_NODES");
	char text[1200];
	char **command = NULL;
	uint32_t job = 0;

	if (spank_get_item(sp, S_JOB_ARGV, &task.argc, &command) != ESPANK_SUCCESS ||
		spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS || task.argc < 1)
		fail("Slurm does not say which command to run");
	task.argv = command;
	task.job = job;
	if (!variable("MLRUN_STORE"))
		task.store = variable(SPANK_STORE_VARIABLE);
	if (nodes && strcmp(nodes, "1") != 0)
		task.node = variable("SLURMD_NODENAME");
	if (step == BATCH_STEP)
		task.script = command[0];
	if (command_make(settings, site, &task, &argv, &err) < 0)
		fail(err.text);
	execve(site->mlrun, strv_argv(&argv), task_env);
	snprintf(text, sizeof(text), "cannot start '%s': %s", site->mlrun, strerror(errno));
	fail(text);
}

int spank_task(spank_t sp, const struct spank_site *site, int failed)
{
	const char *settings[SPANK_SETTINGS];
	uint32_t step = 0;

	if (spank_get_item(sp, S_JOB_ENV, &task_env) != ESPANK_SUCCESS ||
		spank_get_item(sp, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
		fail("Slurm does not give the task's environment");
	if (step == EXTERN_STEP || (step == BATCH_STEP && site->no_sbatch))
		return 0;
	for (int i = 0; i < SPANK_SETTINGS; i++)
		settings[i] = spank_setting(i, step == BATCH_STEP ? slurms_variable : variable);
	if (!settings[SPANK_IMAGE] && !settings[SPANK_NAME])
		return 0;
	if (failed)
		fail("the arguments of the plugin in plugstack.conf are wrong");
	become(sp, site, settings, step);
}
