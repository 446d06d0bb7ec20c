#include "spank/options.h"

#include "base/config_value.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

/* Values that options gave, in this process. Slurm passes those of srun on to slurmstepd. */
static char *given[SPANK_SETTINGS];
static char *shifter[3];
static int is_lost; /* a value could not be kept */

/* A row of --help. */
static const struct row {
	const char *name, *arg, *usage;
	enum spank_setting which;
	const char *fixed; /* the value of an option without an argument */
	int is_list;       /* several add up, separated by ',' */
} rows[] = {
	{ "container-image", "[REGISTRY#]IMAGE[:TAG]|PATH", "run in this image", SPANK_IMAGE, NULL,
		0 },
	{ "container-mounts", "SRC[:DST[:FLAGS]][,...]", "mount files and directories of the node",
		SPANK_MOUNTS, NULL, 1 },
	{ "container-workdir", "DIR", "start in this directory of the container", SPANK_WORKDIR,
		NULL, 0 },
	{ "container-name", "NAME[:auto|create|exec|no_exec]",
		"keep what is written in a container of this name", SPANK_NAME, NULL, 0 },
	{ "container-mount-home", NULL, "mount the home directory", SPANK_MOUNT_HOME, "1", 0 },
	{ "no-container-mount-home", NULL, "do not mount the home directory", SPANK_MOUNT_HOME, "0",
		0 },
	{ "container-remap-root", NULL, "be root inside, with the user's rights", SPANK_REMAP_ROOT,
		"1", 0 },
	{ "no-container-remap-root", NULL, "be the user inside", SPANK_REMAP_ROOT, "0", 0 },
	{ "container-entrypoint", NULL, "run the image's entrypoint", SPANK_ENTRYPOINT, "1", 0 },
	{ "no-container-entrypoint", NULL, "do not run the image's entrypoint", SPANK_ENTRYPOINT,
		"0", 0 },
	{ "container-entrypoint-log", NULL, "accepted: an entrypoint's output is the task's",
		SPANK_ENTRYPOINT_LOG, "1", 0 },
	{ "container-writable", NULL, "the container's root can be written to (default)",
		SPANK_WRITABLE, "1", 0 },
	{ "container-readonly", NULL, "the container's root is read-only", SPANK_WRITABLE, "0", 0 },
	{ "container-env", "NAME[,NAME...]", "variables of the job that win over the image's",
		SPANK_ENV, NULL, 1 },
	{ "container-unshare", "net,ipc,uts", "namespaces of the container's own", SPANK_UNSHARE,
		NULL, 1 },
	{ "container-gpu", "auto|all|none|LIST", "which GPUs, as mlrun exec --gpu", SPANK_GPU, NULL,
		0 },
	{ "container-save", "PATH", "write the container's root to this squashfs file at the end",
		SPANK_SAVE, NULL, 0 },
	{ "container-stage", "DIR",
		"copy the image to this directory of every node, and run it there", SPANK_STAGE,
		NULL, 0 },
	{ "container-mpi", "auto|none|host", "which MPI, as mlrun exec --mpi", SPANK_MPI, NULL, 0 },
};

static const char *const shifter_names[][2] = {
	{ "image", "shifter.image" },
	{ "volume", "shifter.volume" },
	{ "module", "shifter.module" },
};

/* --- plugstack.conf -------------------------------------------------------------------- */

static const char *after(const char *text, const char *key)
{
	size_t n = strlen(key);

	return strncmp(text, key, n) == 0 ? text + n : NULL;
}

static int read_argument(const char *arg, struct spank_site *ret)
{
	static const char *const pyxis[] = { "runtime_path=", "importer=", "use_enroot_load=",
		"use_squashfuse=", "completed_exec=" };
	const char *value;

	if ((value = after(arg, "mlrun=")) && *value == '/')
		ret->mlrun = value;
	else if ((value = after(arg, "execute_entrypoint=")))
		ret->runs_entrypoint = strcmp(value, "1") == 0;
	else if ((value = after(arg, "sbatch_support=")))
		ret->no_sbatch = strcmp(value, "0") == 0;
	else if ((value = after(arg, "container_scope=")) &&
		(strcmp(value, "job") == 0 || strcmp(value, "global") == 0))
		ret->job_scope = strcmp(value, "job") == 0;
	else if (strcmp(arg, "shifter") == 0 || strcmp(arg, "shifter.long_options") == 0)
		ret->has_shifter = arg[7] ? 2 : 1;
	else {
		for (size_t i = 0; i < N(pyxis); i++)
			if (after(arg, pyxis[i]))
				return 0;
		slurm_error("mlrun: plugstack.conf: '%s' is not an argument of this plugin", arg);
		return -1;
	}
	return 0;
}

int spank_site_read(int argc, char **argv, struct spank_site *ret)
{
	int r = 0;

	*ret = (struct spank_site){ .mlrun = BINDIR "/mlrun" };
	for (int i = 0; i < argc; i++)
		r |= read_argument(argv[i], ret);
	return r;
}

/* --- options ---------------------------------------------------------------------------- */

/* Memory may be short in slurmstepd, which must not end for it. */
static int keep(char **value, const char *text, int add)
{
	char *both = NULL;

	if (add && *value)
		both = asprintf(&both, "%s,%s", *value, text) < 0 ? NULL : both;
	else
		both = strdup(text);
	if (!both)
		return -1;
	set_ptr(value, both);
	return 0;
}

static int take(int val, const char *arg, int remote)
{
	const struct row *row = &rows[val];
	const char *text = row->fixed ? row->fixed : arg;

	if (!text || !*text) {
		slurm_error("mlrun: --%s: the value is empty", row->name);
		is_lost = 1;
		return -1;
	}
	if (keep(&given[row->which], text, row->is_list) == 0)
		return 0;
	is_lost = 1;
	return -1;
}

static int take_shifter(int val, const char *arg, int remote)
{
	return arg && *arg ? keep(&shifter[val], arg, val == 1) : -1;
}

static int add(spank_t sp, const char *name, const char *arg, const char *usage, int val,
	spank_opt_cb_f take_it)
{
	struct spank_option o = { (char *)name, (char *)arg, (char *)usage, arg != NULL, val,
		take_it };

	return spank_option_register(sp, &o) == ESPANK_SUCCESS ? 0 : -1;
}

int spank_options_register(spank_t sp, const struct spank_site *site)
{
	int r = 0;

	for (size_t i = 0; i < N(rows); i++)
		r |= add(sp, rows[i].name, rows[i].arg, rows[i].usage, (int)i, take);
	for (int i = 0; site->has_shifter && i < (int)N(shifter_names); i++)
		r |= add(sp, shifter_names[i][site->has_shifter - 1], "TEXT",
			"as in Shifter, for shifter(1) in the job", i, take_shifter);
	return r;
}

/* "CONTAINER_MOUNT_HOME": the variables of a setting are named like its first option. */
static void variable_of(enum spank_setting which, char *out, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < N(rows); i++)
		if (rows[i].which == which) {
			const char *name = rows[i].name;

			for (; *name && n + 1 < size; name++)
				out[n++] = *name == '-' ? '_' : (char)(*name - ('a' - 'A'));
			break;
		}
	out[n] = '\0';
}

static const char *twin(
	const char *prefix, enum spank_setting which, const char *(*variable)(const char *name))
{
	char name[64], whole[80];
	const char *value;

	variable_of(which, name, sizeof(name));
	snprintf(whole, sizeof(whole), "%s_%s", prefix, name);
	value = variable(whole);
	return value && *value ? value : NULL;
}

/* Switches of the environment are words; one that is none stays, for command_make() to refuse. */
static const char *as_switch(const char *value, int turned)
{
	int truth = config_truth(value);

	return truth < 0 ? value : truth != turned ? "1" : "0";
}

/* --- passing on ---------------------------------------------------------------------- */

static const char *const passes[] = {
	[SPANK_OF_JOB] = "SLURM_SPANK_MLRUN_JOB",
	[SPANK_OF_STEP] = "SLURM_SPANK_MLRUN_STEP",
};

static void passed_name(enum spank_pass pass, enum spank_setting which, char *out, size_t size)
{
	char name[64];

	variable_of(which, name, sizeof(name));
	snprintf(out, size, "%s_%s", passes[pass], name);
}

int spank_pass_on(enum spank_pass pass, const char *const *settings)
{
	char name[96];
	int r = setenv(passes[pass], "1", 1);

	for (int i = 0; i < SPANK_SETTINGS; i++) {
		passed_name(pass, i, name, sizeof(name));
		r |= settings[i] ? setenv(name, settings[i], 1) : unsetenv(name);
	}
	return r ? -1 : 0;
}

void spank_forget(void)
{
	static const char *const slurms[] = { "SLURM_SPANK__SLURM_SPANK_OPTION_mlrun_",
		"_SLURM_SPANK_OPTION_mlrun_" };
	char name[128];

	for (int pass = 0; pass < (int)N(passes); pass++) {
		unsetenv(passes[pass]);
		for (int i = 0; i < SPANK_SETTINGS; i++) {
			passed_name(pass, i, name, sizeof(name));
			unsetenv(name);
		}
	}
	for (size_t p = 0; p < N(slurms); p++)
		for (size_t i = 0; i < N(rows); i++) {
			snprintf(name, sizeof(name), "%s%s", slurms[p], rows[i].name);
			for (char *s = name; *s; s++)
				if (*s == '-')
					*s = '_';
			unsetenv(name);
		}
}

int spank_passed(enum spank_pass pass, const char **settings, const char *(*variable)(const char *))
{
	char name[96];

	if (!variable(passes[pass]))
		return 0;
	for (int i = 0; i < SPANK_SETTINGS; i++) {
		passed_name(pass, i, name, sizeof(name));
		settings[i] = variable(name);
	}
	return 1;
}

/* --- settings ------------------------------------------------------------------------ */

const char *spank_option(enum spank_setting which)
{
	return given[which];
}

int spank_option_is_lost(void)
{
	return is_lost;
}

/* A variable of the user's. */
static const char *of_user(enum spank_setting which, const char *(*variable)(const char *name))
{
	int is_switch = which >= SPANK_MOUNT_HOME && which <= SPANK_WRITABLE;
	const char *value = twin("MLRUN", which, variable);

	if (!value)
		value = twin("PYXIS", which, variable);
	if (!value && which == SPANK_WRITABLE) {
		value = variable("PYXIS_CONTAINER_READONLY");
		if (value && *value)
			return as_switch(value, 1);
		value = NULL;
	}
	return value && is_switch ? as_switch(value, 0) : value;
}

void spank_settings(const char **settings, const char *(*variable)(const char *name))
{
	const char *jobs[SPANK_SETTINGS] = { 0 };

	spank_passed(SPANK_OF_JOB, jobs, variable);
	for (int i = 0; i < SPANK_SETTINGS; i++)
		settings[i] = given[i] ? given[i] : jobs[i] ? jobs[i] : of_user(i, variable);
}

const char *spank_shifter_option(int which)
{
	return shifter[which];
}
