#include "spank/task.h"

#include "spank/command.h"
#include "spank/stage.h"
#include "spank/submit.h"

#include <sys/resource.h>

#define FAILED 125 /* mlrun's own status */
/* SLURM_BATCH_SCRIPT and SLURM_EXTERN_CONT of slurm.h, which has no other use here. */
#define BATCH_STEP  0xfffffffb
#define EXTERN_STEP 0xfffffffc
/* salloc's shell on a node, where LaunchParameters has use_interactive_step: it calls srun. */
#define INTERACTIVE_STEP 0xfffffffa

/* The task's environment, for variable(). */
static char **task_env;

static const char *variable(const char *name)
{
	return strv_env_get(task_env, name);
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
	char text[1200];
	auto_free char *staged = NULL;
	auto_strv struct strv own = STRV_INIT;
	char **command = NULL;
	uint32_t job = 0, rank = 0;

	if (spank_get_item(sp, S_JOB_ARGV, &task.argc, &command) != ESPANK_SUCCESS ||
		spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS || task.argc < 1)
		fail("Slurm does not say which command to run");
	task.argv = command;
	task.job = job;
	if (step != BATCH_STEP) {
		task.prolog = variable(SPANK_PROLOG_VARIABLE);
		/* Slurm puts the configuration into the place of an argument. */
		if (variable(SPANK_MULTI_VARIABLE) && task.argc > 1 &&
			spank_get_item(sp, S_TASK_GLOBAL_ID, &rank) == ESPANK_SUCCESS) {
			/* Slurm has read it before: what is none is an argument of the command's.
			 */
			int is_one = command_of_rank(command[1], rank, &own, &err) == 0;

			for (int i = 2; is_one && i < task.argc; i++)
				strv_add(&own, command[i]);
			task.argv = is_one ? own.v : command;
			task.argc = is_one ? (int)own.n : task.argc;
		}
	}
	if (!variable("MLRUN_STORE"))
		task.store = variable(SPANK_STORE_VARIABLE);
	task.node = variable("SLURMD_NODENAME");
	if (step == BATCH_STEP)
		task.script = command[0];
	if (settings[SPANK_STAGE] && step != BATCH_STEP &&
		stage_find(sp, settings[SPANK_STAGE], variable(SPANK_STAGE_VARIABLE), &staged,
			&err) < 0)
		fail(err.text);
	task.staged = staged;
	if (command_make(settings, site, &task, &argv, &err) < 0)
		fail(err.text);
	execve(site->mlrun, strv_argv(&argv), task_env);
	snprintf(text, sizeof(text), "cannot start '%s': %s", site->mlrun, strerror(errno));
	fail(text);
}

/* Slurm's limits of the job, which it sets after this hook: SLURM_RLIMIT_NOFILE=1024 and so on, the
 * soft limits of whoever submitted the job (srun(1), --propagate). */
static void set_limits(void)
{
	static const struct {
		const char *name;
		int resource;
	} rows[] = { { "CPU", RLIMIT_CPU }, { "FSIZE", RLIMIT_FSIZE }, { "DATA", RLIMIT_DATA },
		{ "STACK", RLIMIT_STACK }, { "CORE", RLIMIT_CORE }, { "RSS", RLIMIT_RSS },
		{ "NPROC", RLIMIT_NPROC }, { "NOFILE", RLIMIT_NOFILE },
		{ "MEMLOCK", RLIMIT_MEMLOCK }, { "AS", RLIMIT_AS } };
	char name[32];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *text;
		struct rlimit limit;

		snprintf(name, sizeof(name), "SLURM_RLIMIT_%s", rows[i].name);
		text = variable(name);
		/* As in Slurm, 'U' before a number is for a limit that the user asked for. */
		if (!text || getrlimit(rows[i].resource, &limit) < 0)
			continue;
		limit.rlim_cur = strtoull(*text == 'U' ? text + 1 : text, NULL, 10);
		if (limit.rlim_cur > limit.rlim_max)
			limit.rlim_cur = limit.rlim_max;
		setrlimit(rows[i].resource, &limit);
	}
}

/* Variables that Slurm would take away after this hook. */
static void drop_limits(void)
{
	char **to = task_env;

	for (char **s = task_env; *s; s++)
		if (strncmp(*s, "SLURM_RLIMIT_", 13) != 0)
			*to++ = *s;
	*to = NULL;
}

int spank_task(spank_t sp, const struct spank_site *site, int failed)
{
	const char *settings[SPANK_SETTINGS] = { 0 };
	uint32_t step = 0;

	if (spank_get_item(sp, S_JOB_ENV, &task_env) != ESPANK_SUCCESS ||
		spank_get_item(sp, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
		fail("Slurm does not give the task's environment");
	if (step == EXTERN_STEP || step == INTERACTIVE_STEP ||
		(step == BATCH_STEP && site->no_sbatch))
		return 0;
	if (spank_option_is_lost())
		fail("an option of the container could not be read");
	if (!spank_passed(step == BATCH_STEP ? SPANK_OF_JOB : SPANK_OF_STEP, settings, variable))
		for (int i = 0; i < SPANK_SETTINGS; i++)
			settings[i] = spank_option(i);
	if (!settings[SPANK_IMAGE] && !settings[SPANK_NAME])
		return 0;
	if (failed)
		fail("the arguments of the plugin in plugstack.conf are wrong");
	set_limits();
	drop_limits();
	become(sp, site, settings, step);
}
