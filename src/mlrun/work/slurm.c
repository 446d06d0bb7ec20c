/*
 * Slurm: its own programs are run as the user, and their words passed on.
 *
 * squeue(1) is asked for fields (--format), not for --json: the layout of its JSON changes with
 * Slurm's versions (data_parser), and 22.05 puts all users' jobs into it whatever is asked for,
 * with 3.6 kB a job in place of 54 bytes.
 */
#include "work/batch.h"

#include "base/program.h"
#include "job/job.h"

#define COMMENT    "mlrun-worker:"
#define ASK_MS     20000 /* squeue, scancel */
#define SUBMIT_MS  90000 /* sbatch tries to reach a busy controller for a minute */
#define ANSWER_MAX (8u << 20)
#define FIELDS     "|%A|%T|%U|%N|%r|%P|%D|%C|%b|%S|%e|%k"

/* --- running its programs ------------------------------------------------------------------- */

static int is_here(void)
{
	auto_free char *program = program_find("sbatch");

	return program != NULL;
}

static int begins(const char *text, const char *const *prefixes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strncmp(text, prefixes[i], strlen(prefixes[i])) == 0)
			return 1;
	return 0;
}

static void environment(struct strv *ret)
{
	static const char *const dropped[] = { "SLURM", "SRUN_", "SQUEUE_", "SCANCEL_", "SINFO_",
		"PMI", "OMPI_COMM_" },
				 *const kept[] = {
					 "SLURM_CONF=", "SLURM_CONF_SERVER=", "SLURM_JWT="
				 };

	for (char **s = environ; *s; s++)
		if (!begins(*s, dropped, ARRAY_LEN(dropped)) || begins(*s, kept, ARRAY_LEN(kept)))
			strv_add(ret, *s);
}

/* Lines become one, "a; b", without the program's own name and "error: ". */
static void one_line(char *said, const char *program)
{
	auto_free char *name = xasprintf("%s: ", program), *copy = xstrdup(said);
	char *rest = copy, *line, *out = said;

	while ((line = strsep(&rest, "\n"))) {
		if (strncmp(line, name, strlen(name)) == 0)
			line += strlen(name);
		if (strncmp(line, "error: ", 7) == 0)
			line += 7;
		if (*line)
			out += sprintf(out, "%s%s", out == said ? "" : "; ", line);
	}
	*out = '\0';
}

static int refuse(const char *program, int r, int ms, char *said, struct mlr_error *err)
{
	if (r == -ETIMEDOUT)
		mlr_fail(err, EIO, "%s gave no answer in %d seconds", program, ms / 1000);
	else if (r < 0)
		mlr_fail(err, EIO, "run %s: %s", program, strerror(-r));
	else {
		one_line(said, program);
		if (!*said)
			return mlr_fail(err, ENODATA, "%s: failed without a message", program);
		mlr_fail(err, EIO, "%s: %s", program, said);
	}
	if (strstr(said, "onfiguration source"))
		mlr_hint(err,
			"no cluster is configured here: mlrun workers start --local starts "
			"workers on this machine");
	else if (strstr(said, "slurm controller") || r < 0)
		mlr_hint(err,
			"nothing is lost: workers live on and are listed again when "
			"Slurm's controller answers (scontrol ping)");
	return -EIO;
}

/*
 * Run one of Slurm's programs.
 *
 *   variable  "NAME=VALUE" beside its environment, which other users cannot see; or NULL
 *
 * Returns 0 and what the program said, to free(), -EIO, or -ENODATA if it failed without a word.
 */
static int ask(
	const struct strv *argv, const char *variable, int ms, char **ret, struct mlr_error *err)
{
	auto_strv struct strv env = STRV_INIT;
	auto_free char *said = xmalloc(ANSWER_MAX);
	int r;

	environment(&env);
	if (variable)
		strv_add(&env, variable);
	r = job_ask(strv_argv(argv), strv_argv(&env), ms, said, ANSWER_MAX);
	if (r != 0)
		return refuse(argv->v[0], r, ms, said, err);
	if (strlen(said) + 1 == ANSWER_MAX)
		return mlr_fail(err, EIO, "%s: its answer is longer than %u MiB", argv->v[0],
			ANSWER_MAX >> 20);
	*ret = take_ptr(&said);
	return 0;
}

/* --- squeue ------------------------------------------------------------------------------ */

/* The GPUs in "gpu:a100:4(S:0-1),gpu:2,craynetwork:1" of sinfo's, "gres:gpu:1" or "gres/gpu:1" of
 * squeue's. */
static long gpus_in(const char *gres)
{
	long sum = 0;

	while (*gres) {
		gres += strncmp(gres, "gres", 4) == 0 && gres[4] && strchr(":/", gres[4]) ? 5 : 0;

		size_t n = strcspn(gres, "(,");
		const char *number = memrchr(gres, ':', n);

		if (strncmp(gres, "gpu:", 4) == 0 && number)
			sum += atol(number + 1);
		gres += n;
		if (*gres == '(')
			gres += strcspn(gres, ")");
		gres += strcspn(gres, ",");
		gres += *gres == ',';
	}
	return sum;
}

/* "2026-11-26T17:04:00", of this machine's time zone; 0 for "N/A" and "Unknown". */
static int64_t time_in(const char *text)
{
	struct tm tm = { .tm_isdst = -1 };

	return strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) ? (int64_t)mktime(&tm) : 0;
}

/* squeue(1), JOB STATE CODES */
static enum worker_status status_of(const char *state)
{
	static const struct {
		const char *state;
		enum worker_status status;
	} rows[] = {
		{ "PENDING", WORKER_PENDING },
		{ "CONFIGURING", WORKER_PENDING },
		{ "SUSPENDED", WORKER_SUSPENDED },
		{ "REQUEUED", WORKER_PENDING },
		{ "REQUEUE_HOLD", WORKER_PENDING },
		{ "RESV_DEL_HOLD", WORKER_PENDING },
		{ "SPECIAL_EXIT", WORKER_PENDING },
		{ "COMPLETED", WORKER_SUCCEEDED },
		{ "CANCELLED", WORKER_STOPPED },
		{ "REVOKED", WORKER_STOPPED },
		{ "TIMEOUT", WORKER_TIMEDOUT },
		{ "DEADLINE", WORKER_TIMEDOUT },
		{ "BOOT_FAIL", WORKER_FAILED },
		{ "FAILED", WORKER_FAILED },
		{ "LAUNCH_FAILED", WORKER_FAILED },
		{ "NODE_FAIL", WORKER_FAILED },
		{ "OUT_OF_MEMORY", WORKER_FAILED },
		{ "PREEMPTED", WORKER_FAILED },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(state, rows[i].state) == 0)
			return rows[i].status;
	return WORKER_STARTING;
}

/* Does a pending job wait for a hold or a dependency? */
static int is_held(const char *reason)
{
	static const char *const words[] = { "JobHeldUser", "JobHeldAdmin", "Dependency",
		"BeginTime" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(reason, words[i]) == 0)
			return 1;
	return 0;
}

/* A worker's comment: its key, and its run's word. */
static void take_comment(const char *comment, struct batch_job *j)
{
	const char *key = comment + strlen(COMMENT), *space;

	if (strncmp(comment, COMMENT, strlen(COMMENT)) != 0)
		return;
	space = strchrnul(key, ' ');
	/* Anybody's comment can say so, and the key becomes a file's name. */
	if (space == key || strspn(key, "0123456789abcdef") != (size_t)(space - key))
		return;
	j->key = xstrndup(key, (size_t)(space - key));
	j->run = *space ? xstrdup(space + 1) : NULL;
}

/* Take the fields of a line. Returns whether it is a job's. */
static int take_fields(char *line, struct batch_job *ret)
{
	char *field[11];
	size_t n = 0;
	long nodes;

	/* The comment is last: a user's may contain anything. */
	while (n < ARRAY_LEN(field) && (field[n] = strsep(&line, "|")))
		n++;
	if (!line || !*field[0] || strspn(field[0], "0123456789") != strlen(field[0]))
		return 0;
	nodes = atol(field[6]) > 0 ? atol(field[6]) : 1;
	*ret = (struct batch_job){ .id = xstrdup(field[0]),
		.state = xstrdup(field[1]),
		.user = xstrdup(field[2]),
		.node = xstrdup(field[3]),
		.reason = strcmp(field[4], "None") == 0 ? NULL : xstrdup(field[4]),
		.partition = xstrdup(field[5]),
		.nodes = nodes,
		.cpus = atol(field[7]) / nodes,
		.gpus = gpus_in(field[8]),
		.start = time_in(field[9]),
		.end = time_in(field[10]),
		.status = status_of(field[1]),
		.runs = strcmp(field[1], "RUNNING") == 0,
		.ends = strcmp(field[1], "COMPLETING") == 0,
		.is_held = is_held(field[4]) };
	take_comment(line, ret);
	return 1;
}

void slurm_jobs_parse(char *text, const char *mark, struct batch_jobs *ret)
{
	size_t marked = strlen(mark);
	char *line;

	while ((line = strsep(&text, "\n"))) {
		struct batch_job job;

		/* Warnings of squeue's, and what follows a newline in a comment. */
		if (strncmp(line, mark, marked) != 0 || line[marked] != '|' ||
			!take_fields(line + marked + 1, &job))
			continue;
		*xadd(ret->v, ret->n) = job;
	}
}

static int read_jobs(enum batch_whose whose, struct batch_jobs *ret, struct mlr_error *err)
{
	auto_strv struct strv argv = STRV_INIT;
	auto_free char *said = NULL, *format = NULL;
	char mark[RANDOM_HEX_SIZE];
	int r;

	random_hex(mark);
	format = xasprintf("SQUEUE_FORMAT=%s%s", mark, FIELDS);
	strv_add_words(&argv, "squeue", "--noheader", "--all", "--states=all");
	if (whose == BATCH_OWN)
		strv_addf(&argv, "--user=%u", (unsigned)geteuid());
	r = ask(&argv, format, ASK_MS, &said, err);
	if (r == 0)
		slurm_jobs_parse(said, mark, ret);
	return r;
}

/* --- sinfo -------------------------------------------------------------------------------- */

/* sinfo(1), NODE STATE CODES. A node with '*' does not answer; those that save power can. */
static int is_in_service(const char *state)
{
	static const char *const words[] = { "idle", "mixed", "allocated", "completing" };

	return begins(state, words, ARRAY_LEN(words)) && !strchr(state, '*');
}

/* Fields without blanks: the state, allocated/idle/other/all processors, how many of them jobs of
 * the partition may use ("UNLIMITED"), GPUs, those in use, how many jobs share a processor ("NO",
 * "FORCE:4"), the host name; of all partitions also the name, which ends with '*' for the default
 * one. */
void slurm_nodes_parse(char *text, struct batch_node **ret, size_t *n)
{
	char *line;

	while ((line = strsep(&text, "\n"))) {
		char state[64], most[64], gres[512], used[512], share[64], partition[64] = "*";
		long in_use, idle, other, all, limit, free, sharing;
		struct batch_node node;

		if (sscanf(line, "%63s %ld/%ld/%ld/%ld %63s %511s %511s %63s %63s %63s", state,
			    &in_use, &idle, &other, &all, most, gres, used, share, node.machine,
			    partition) < 10 ||
			!strchr(partition, '*'))
			continue;
		limit = atol(most);
		all = limit > 0 && limit < all ? limit : all;
		free = all - in_use;
		sharing = strchr(share, ':') ? atol(strchr(share, ':') + 1) : 1;
		node.free_cpus = free < idle ? free : idle;
		node.free_gpus = gpus_in(gres) - gpus_in(used);
		node.all_cpus = all * (sharing > 1 ? sharing : 1);
		node.all_gpus = gpus_in(gres);
		if (!is_in_service(state))
			node.free_cpus = node.free_gpus = 0;
		*xadd(*ret, *n) = node;
	}
}

static int read_nodes(
	const char *partition, struct batch_node **ret, size_t *n, struct mlr_error *err)
{
	auto_strv struct strv argv = STRV_INIT;
	auto_free char *said = NULL;
	int r;

	strv_add_words(&argv, "sinfo", "--noheader", "--Node");
	if (partition)
		strv_addf(&argv, "--partition=%s", partition);
	strv_addf(&argv,
		"--Format=StateLong:64,CPUsState:64,MaxCPUsPerNode:64,Gres:512,GresUsed:512,"
		"OverSubscribe:64,NodeHost:64%s",
		partition ? "" : ",Partition:64");
	r = ask(&argv, NULL, ASK_MS, &said, err);
	if (r == 0)
		slurm_nodes_parse(said, ret, n);
	return r;
}

/* --- sbatch, scancel, srun ------------------------------------------------------------------- */

/* Escape a file name for --output, where '%' begins a pattern. */
static char *without_patterns(const char *path)
{
	char *out = xmalloc(2 * strlen(path) + 1), *to = out;

	for (; *path; path++) {
		if (*path == '%')
			*to++ = '%';
		*to++ = *path;
	}
	*to = '\0';
	return out;
}

/*
 * The supervisor keeps the deadline to the second. Slurm, which counts minutes, removes a job that
 * still waits then (--deadline), and ends one whose supervisor is gone (--time). With --time-min it
 * shortens the time of a job that starts late.
 */
static void add_deadline(const struct worker *w, struct strv *argv)
{
	int64_t minutes = (w->deadline - w->created + 59) / 60 + 1;

	strv_addf(argv, "--time=%" PRId64, minutes);
	strv_add(argv, "--time-min=1");
	strv_addf(argv, "--deadline=now+%" PRId64 "minutes", minutes);
}

static void add_wish(const struct worker *w, struct strv *argv)
{
	long nodes = w->nodes > 1 ? w->nodes : 1;

	strv_addf(argv, "--job-name=%s", w->name);
	strv_addf(argv, "--comment=" COMMENT "%s%s%s", w->key, w->run ? " " : "",
		w->run ? w->run : "");
	strv_addf(argv, "--chdir=%s", w->directory);
	strv_addf(argv, "--nodes=%ld", nodes);
	strv_addf(argv, "--ntasks=%ld", nodes);
	strv_addf(argv, "--cpus-per-task=%ld", w->cpus);
	if (w->memory)
		strv_addf(argv, "--mem=%" PRIu64 "M", (w->memory + (1 << 20) - 1) >> 20);
	if (w->gpus)
		strv_addf(argv, "--gres=gpu:%ld", w->gpus);
	if (w->partition)
		strv_addf(argv, "--partition=%s", w->partition);
	if (w->deadline)
		add_deadline(w, argv);
}

/* The id in sbatch's answer, "4711" or "4711;cluster", which warnings may precede; to free(). */
static char *id_in(char *said)
{
	char *line;

	while ((line = strsep(&said, "\n"))) {
		size_t n = strspn(line, "0123456789");

		if (n > 0 && (line[n] == '\0' || line[n] == ';'))
			return xstrndup(line, n);
	}
	return NULL;
}

static int submit(const struct worker *w, const char *log, const char *command,
	const struct strv *further, char **id, struct mlr_error *err)
{
	auto_strv struct strv argv = STRV_INIT;
	auto_free char *said = NULL, *words = NULL, *output = without_patterns(log);

	strv_add_words(&argv, "sbatch", "--parsable", "--no-requeue", "--open-mode=append");
	strv_addf(&argv, "--output=%s", output);
	add_wish(w, &argv);
	for (size_t i = 0; further && i < further->n; i++)
		strv_add(&argv, further->v[i]);
	strv_addf(&argv, "--wrap=%s", command);
	TRY(ask(&argv, NULL, SUBMIT_MS, &said, err));
	words = xstrdup(said);
	*id = id_in(said);
	if (*id)
		return 0;
	one_line(words, "sbatch");
	return mlr_fail(err, EIO, "sbatch: its answer has no job id: %s", words);
}

/* --quiet: no word of jobs that have ended or are about to. They make it fail all the same. */
static int run_scancel(int is_signal, const struct strv *ids, struct mlr_error *err)
{
	struct mlr_error why = MLR_ERROR_INIT;
	auto_strv struct strv argv = STRV_INIT;
	auto_free char *said = NULL;
	int r;

	if (ids->n == 0)
		return 0;
	strv_add_words(&argv, "scancel", "--quiet");
	if (is_signal)
		strv_add_words(&argv, "--batch", "--signal=TERM");
	strv_add_all(&argv, ids);
	r = ask(&argv, NULL, ASK_MS, &said, &why);
	return r == -ENODATA ? 0 : r < 0 ? mlr_pass(err, why.code, why.text) : 0;
}

static int cancel(const struct strv *ids, struct mlr_error *err)
{
	return run_scancel(0, ids, err);
}

static int terminate(const struct strv *ids, struct mlr_error *err)
{
	return run_scancel(1, ids, err);
}

/* All processors, so that a cluster that binds tasks binds it to no fewer. */
static void add_step(const struct worker *w, int tty, struct strv *ret)
{
	strv_add(ret, "srun");
	strv_addf(ret, "--jobid=%s", w->id);
	strv_add_words(ret, "--overlap", "--nodes=1", "--ntasks=1");
	strv_addf(ret, "--cpus-per-task=%ld", w->cpus);
	strv_add_words(ret, "--mpi=none", "--quiet", tty ? "--pty" : "--unbuffered");
}

/* Signals that srun(1) gets it passes on. */
static void add_on_all_nodes(const struct worker *w, struct strv *ret)
{
	strv_add(ret, "srun");
	strv_addf(ret, "--nodes=%ld", w->nodes);
	strv_addf(ret, "--ntasks=%ld", w->nodes);
	strv_addf(ret, "--cpus-per-task=%ld", w->cpus);
	strv_add_words(ret, "--kill-on-bad-exit", "--unbuffered");
}

const struct batch batch_slurm = {
	.name = "slurm",
	.node_variable = "SLURMD_NODENAME",
	.is_here = is_here,
	.status = status_of,
	.jobs = read_jobs,
	.nodes = read_nodes,
	.submit = submit,
	.cancel = cancel,
	.terminate = terminate,
	.step = add_step,
	.on_all_nodes = add_on_all_nodes,
	.environment = environment,
};
