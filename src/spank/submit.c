#include "spank/submit.h"

#include "base/spawn.h"
#include "spank/command.h"
#include "spank/stage.h"

static const char *variable(const char *name)
{
	return getenv(name);
}

/* Run `mlrun inspect --pin IMAGE`. Returns its one line, to free(), or NULL. */
static char *ask(const char *mlrun, const char *image, int is_quiet)
{
	char *const argv[] = { "mlrun", "inspect", "--pin", "--", (char *)image, NULL };
	struct spawn s = { mlrun, argv, .in = SPAWN_NOTHING };
	char line[1024];
	int out[2], r;
	size_t n = 0;
	ssize_t got = 0;
	pid_t child;

	if (pipe2(out, O_CLOEXEC) < 0)
		return NULL;
	s.out = out[1];
	s.err = is_quiet ? SPAWN_NOTHING : SPAWN_OURS;
	r = spawn_start(&s, &child);
	close(out[1]);
	while (r == 0 && n < sizeof(line) - 1 &&
		(got = read(out[0], line + n, sizeof(line) - 1 - n)) > 0)
		n += (size_t)got;
	close(out[0]);
	if (r < 0 || spawn_wait(child) != 0)
		return NULL;
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return line[0] ? xstrdup(line) : NULL;
}

/* Another job's pin is not this one's: it may be days old. */
static int is_pinned(const char *image, int is_srun)
{
	const char *pin = getenv(SPANK_PIN_VARIABLE);
	size_t n = strlen(image);

	return is_srun && pin && strncmp(pin, image, n) == 0 && pin[n] == ' ';
}

static void pin(const char *image, const struct spank_site *site, int is_srun)
{
	auto_free char *name = NULL, *value = NULL;

	if (is_pinned(image, is_srun) || strncmp(image, "rootfs:", 7) == 0 ||
		strncmp(image, "squashfs:", 9) == 0)
		return;
	unsetenv(SPANK_PIN_VARIABLE);
	name = ask(site->mlrun, image, is_srun);
	if (!name) {
		if (!is_srun)
			slurm_spank_log(
				"mlrun: what '%s' means cannot be found out from here; the job's "
				"nodes will",
				image);
		return;
	}
	value = xasprintf("%s %s", image, name);
	setenv(SPANK_PIN_VARIABLE, value, 1);
}

/* For shifter(1) in the job. */
static void pass_shifter(void)
{
	static const char *const names[] = { "SHIFTER_IMAGE", "SHIFTER_VOLUME", "SHIFTER_MODULE" };

	for (int i = 0; i < 3; i++)
		if (spank_shifter_option(i)) {
			auto_free char *spank = xasprintf("SLURM_SPANK_%s", names[i]);

			setenv(spank, spank_shifter_option(i), 1);
		}
}

/* sbatch calls this once for each component of a heterogeneous job; options of one reach all. */
static int check_components(const char *const *settings)
{
	static const char *first[SPANK_SETTINGS];
	static int calls;

	for (int i = 0; i < SPANK_SETTINGS; i++) {
		if (calls == 0)
			first[i] = settings[i] ? xstrdup(settings[i]) : NULL;
		else if (i != SPANK_MOUNTS && i != SPANK_ENV && i != SPANK_UNSHARE &&
			(!settings[i] != !first[i] || (first[i] && strcmp(settings[i], first[i]))))
			return -1;
	}
	calls++;
	return 0;
}

/* Does the word give this option, perhaps abbreviated as getopt_long(3) allows? */
static int is_option(const char *word, const char *name)
{
	size_t n = strcspn(word, "=");

	return n >= 6 && strncmp(word, name, n) == 0;
}

/* Read srun's own words: all but the n last ones, which are the command. */
static void read_words(int n, struct strv *ret)
{
	FILE *f = fopen("/proc/self/cmdline", "re");
	auto_free char *word = NULL;
	size_t size = 0;

	while (f && getdelim(&word, &size, '\0', f) > 0)
		strv_add(ret, word);
	if (f)
		fclose(f);
	for (; n > 0 && ret->n > 0; n--)
		free(take_ptr(&ret->v[--ret->n]));
}

/* Find a long option of srun's that Slurm does not give to plugins. Returns its value, borrowed, ""
 * for the last word; NULL if it is not there. */
static const char *sruns_option(const struct strv *words, const char *name)
{
	for (size_t i = 1; i < words->n; i++) {
		const char *equals = strchr(words->v[i], '=');

		if (is_option(words->v[i], name))
			return equals ? equals + 1 : i + 1 < words->n ? words->v[i + 1] : "";
	}
	return NULL;
}

static void set(const char *name, const char *value)
{
	if (value && *value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

/* Pass on the rest, which slurmstepd will not do for a task in a container. */
static void pass_rest(spank_t sp)
{
	auto_strv struct strv words = STRV_INIT;
	char **command;
	int n = 0;

	(void)spank_get_item(sp, S_JOB_ARGV, &n, &command);
	read_words(n, &words);

	const char *prolog = sruns_option(&words, "--task-prolog");
	const char *file = prolog ? prolog : getenv("SLURM_TASK_PROLOG");
	auto_free char *real = file && *file ? realpath(file, NULL) : NULL;

	set(SPANK_PROLOG_VARIABLE, real ? real : file);
	set(SPANK_MULTI_VARIABLE, sruns_option(&words, "--multi-prog") ? "1" : NULL);
}

static int check(const char *const *settings, const struct spank_site *site, struct mlr_error *err)
{
	const struct command_task task = { 0 };
	auto_strv struct strv argv = STRV_INIT;

	return command_make(settings, site, &task, &argv, err);
}

int spank_submit(const struct spank_site *site, int is_srun)
{
	const char *settings[SPANK_SETTINGS] = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *image = NULL;
	const char *store = getenv("MLRUN_STORE");
	int any = 0;

	pass_shifter();
	if (is_srun) { /* those of a step in whose task srun runs would remain */
		unsetenv(SPANK_PROLOG_VARIABLE);
		unsetenv(SPANK_MULTI_VARIABLE);
		spank_settings(settings, variable);
	}
	for (int i = 0; i < SPANK_SETTINGS; i++) {
		if (!is_srun)
			settings[i] = spank_option(i);
		any |= spank_option(i) != NULL;
	}
	if (!is_srun && check_components(settings) < 0) {
		slurm_error(
			"mlrun: the components of a heterogeneous job have different options of "
			"containers, and Slurm gives all of them to each: give them to srun");
		return -1;
	}
	if (any && !settings[SPANK_IMAGE] && !settings[SPANK_NAME])
		slurm_error("mlrun: options of containers are ignored without --container-image or "
			    "--container-name");
	if (settings[SPANK_IMAGE] || settings[SPANK_NAME]) {
		if (check(settings, site, &err) < 0) {
			slurm_error("mlrun: %s", err.text);
			return -1;
		}
	}
	if (spank_pass_on(is_srun ? SPANK_OF_STEP : SPANK_OF_JOB, settings) < 0)
		return -1;
	if (store && *store)
		setenv(SPANK_STORE_VARIABLE, store, 1);
	if (is_srun && settings[SPANK_STAGE]) {
		char word[RANDOM_HEX_SIZE];

		random_hex(word);
		setenv(SPANK_STAGE_VARIABLE, word, 1);
	}
	if (settings[SPANK_IMAGE]) {
		image = command_image(settings[SPANK_IMAGE], &err);
		pin(image, site, is_srun);
	}
	return 0;
}

int spank_begin(spank_t sp, const struct spank_site *site)
{
	const char *settings[SPANK_SETTINGS] = { 0 };

	pass_rest(sp);
	spank_settings(settings, variable);
	return settings[SPANK_STAGE] && settings[SPANK_IMAGE] ? stage_send(sp, site, settings) : 0;
}
