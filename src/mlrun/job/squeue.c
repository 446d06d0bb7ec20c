#include "job/job.h"

#include "base/spawn.h"

#include <poll.h>

#define SQUEUE_MS 5000
#define ID_MAX    20

extern char **environ;

/* A variable's value if it is a single word, so that the name can be split again. */
static const char *word(const char *key, int digits)
{
	const char *s = getenv(key);

	if (!s || !*s || strlen(s) > ID_MAX + 10)
		return NULL;
	for (const char *c = s; *c; c++)
		if (digits ? !isdigit((unsigned char)*c) : !isgraph((unsigned char)*c))
			return NULL;
	return s;
}

/* The cluster's name; NULL if it is not known: Slurm 23.11 calls it "(null)" in steps. */
static const char *cluster_name(void)
{
	const char *name = word("SLURM_CLUSTER_NAME", 0);

	return name && strcmp(name, "(null)") != 0 ? name : NULL;
}

void job_name(char name[JOB_NAME_SIZE])
{
	const char *id = word("SLURM_JOB_ID", 1), *step = word("SLURM_STEP_ID", 1),
		   *cluster = cluster_name();

	name[0] = '\0';
	if (id && strlen(id) <= ID_MAX)
		snprintf(name, JOB_NAME_SIZE, "%s.%s %s", id, step ? step : "-",
			cluster ? cluster : "-");
}

/* Read the output until its end or until time runs out. Returns 0 or -errno. */
static int collect(int fd, int64_t until, char *buf, size_t size)
{
	size_t got = 0;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int64_t left = until - mlr_now_ms();
		char rest[256];
		ssize_t n;

		if (left <= 0 || poll(&p, 1, (int)left) == 0)
			return -ETIMEDOUT;
		n = got + 1 < size ? read(fd, buf + got, size - 1 - got)
				   : read(fd, rest, sizeof(rest));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			break;
		if (n > 0 && got + 1 < size)
			got += (size_t)n;
		buf[got] = '\0';
	}
	return 0;
}

/* The environment without what narrows squeue's answers: SQUEUE_STATES and kin, and clusters. */
static void plain_environment(struct strv *ret)
{
	for (char **s = environ; *s; s++)
		if (strncmp(*s, "SQUEUE_", 7) != 0 && strncmp(*s, "SLURM_CLUSTERS=", 15) != 0)
			strv_add(ret, *s);
}

/* Wait for a process; kill it if time runs out. Returns 0 and its status, or -ETIMEDOUT. */
static int reap(pid_t pid, int64_t until, int *status)
{
	pid_t r;

	while ((r = waitpid(pid, status, WNOHANG)) == 0 || (r < 0 && errno == EINTR)) {
		if (mlr_now_ms() >= until) {
			kill(pid, SIGKILL);
			*status = spawn_wait(pid);
			return -ETIMEDOUT;
		}
		mlr_sleep_ms(10);
	}
	return 0;
}

int job_ask(char *const *argv, char *const *env, int ms, char *said, size_t size)
{
	int64_t until = mlr_now_ms() + ms;
	struct spawn s = { argv[0], argv, env, .in = SPAWN_NOTHING };
	int out[2], status = 0, r;
	pid_t pid;

	said[0] = '\0';
	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	s.out = s.err = out[1];
	r = spawn_start(&s, &pid);
	close(out[1]);
	if (r < 0) {
		close(out[0]);
		return r;
	}
	r = collect(out[0], until, said, size);
	close(out[0]);
	if (reap(pid, r < 0 ? 0 : until, &status) < 0 || r < 0) {
		mlr_debug("%s does not answer", argv[0]);
		return -ETIMEDOUT;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EPIPE;
}

/* The same for squeue and scontrol, with their usual answers. */
static int run(char *const *argv, char *said, size_t size)
{
	auto_strv struct strv env = STRV_INIT;

	plain_environment(&env);
	return job_ask(argv, strv_argv(&env), SQUEUE_MS, said, size);
}

static int ask(const char *id)
{
	char *const argv[] = { (char *)"squeue", (char *)"-a", (char *)"-h", (char *)"-o",
		(char *)"%T", (char *)"-j", (char *)id, NULL };
	char said[4096];
	int status = run(argv, said, sizeof(said));

	if (status == 0)
		return said[0] != '\0';
	return status > 0 && strstr(said, "Invalid job id") ? 0 : -1;
}

/* Is this the cluster that answers here? Outside of jobs Slurm itself is asked, once. */
static int is_this_cluster(const char *name)
{
	static char here[128];
	char *const argv[] = { (char *)"scontrol", (char *)"show", (char *)"config", NULL };
	const char *env = cluster_name();

	if (env)
		return strcmp(name, env) == 0;
	if (!here[0]) {
		auto_free char *said = xmalloc(1u << 16);
		const char *line =
			run(argv, said, 1u << 16) == 0 ? strstr(said, "\nClusterName") : NULL;

		snprintf(here, sizeof(here), "%s", "-");
		if (line)
			(void)sscanf(line, " ClusterName = %127s", here);
	}
	return strcmp(name, here) == 0;
}

/* The answers so far; only one thread asks. */
static struct {
	char id[ID_MAX + 1];
	int alive;
} * answers;
static size_t n_answers;

/* The cached answer. */
static int ask_once(const char *id)
{
	static int silent; /* it failed to answer once: do not ask again */
	int alive;

	for (size_t i = 0; i < n_answers; i++)
		if (strcmp(answers[i].id, id) == 0)
			return answers[i].alive;
	alive = silent ? -1 : ask(id);
	silent = silent || alive < 0;
	answers = xreallocarray(answers, n_answers + 1, sizeof(*answers));
	snprintf(answers[n_answers].id, sizeof(answers[n_answers].id), "%s", id);
	return answers[n_answers++].alive = alive;
}

int job_is_alive(const char *name)
{
	const char *cluster = strchr(name, ' ');
	size_t len = strspn(name, "0123456789");
	char id[ID_MAX + 1];
	int alive;

	if (len == 0 || len > ID_MAX || name[len] != '.')
		return -1;
	snprintf(id, sizeof(id), "%.*s", (int)len, name);
	alive = ask_once(id);
	/* Another cluster does not know the job, or has one of the same number. */
	if (alive >= 0 && cluster && strcmp(cluster + 1, "-") != 0 && !is_this_cluster(cluster + 1))
		return -1;
	return alive;
}
