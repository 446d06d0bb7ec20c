#include "base/proc.h"
#include "job/job.h"

#include <sys/socket.h>

/* Programs that start ranks, the most particular first: mpirun may run in a step of Slurm's. */
static const struct launcher {
	const char *name;
	const char *rank; /* the variable with the rank's number */
	const char *step; /* one that is the same for the ranks of a step alone, or NULL */
	const char *word; /* begins such a step's name */
	int is_mpi;
} launchers[] = {
	{ "PMIx", "PMIX_RANK", "PMIX_NAMESPACE", "pmix", 1 },
	{ "PMI", "PMI_RANK", NULL, NULL, 1 },
	{ "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_MCA_ess_base_jobid", "ompi", 1 },
	{ "Slurm", "SLURM_PROCID", NULL, NULL, 0 },
};

/* The variable's value; NULL also if it is empty. */
static const char *get(char *const *env, const char *key)
{
	const char *value = strv_env_get(env, key);

	return value && *value ? value : NULL;
}

static int above_one(const char *text)
{
	return text && strtol(text, NULL, 10) > 1;
}

struct job_rank job_rank_read(char *const *env)
{
	for (size_t i = 0; i < ARRAY_LEN(launchers); i++) {
		const struct launcher *l = &launchers[i];
		const char *number = get(env, l->rank);

		if (number)
			return (struct job_rank){ number, l->name, l->is_mpi };
	}
	return (struct job_rank){ 0 };
}

/*
 * Hydra names no job in the environment. PMI_FD is one end of a socket pair, which the node's proxy
 * makes for each rank (socketpair(2), unix(7) SO_PEERCRED). Each job has one proxy on a node.
 */
static char *hydra_proxy(const char *text)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	struct proc_stat st;
	char *end, path[40];
	long fd = strtol(text, &end, 10);

	if (*end || fd < 3 || fd > 1 << 20 ||
		getsockopt((int)fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return NULL;
	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)peer.pid);
	if (proc_stat_read(AT_FDCWD, path, &st) < 0)
		return NULL;
	return xasprintf("hydra %ld %llu", (long)st.pid, st.start);
}

char *job_step(char *const *env)
{
	const char *job = get(env, "SLURM_JOB_ID"), *step = get(env, "SLURM_STEP_ID"),
		   *fd = get(env, "PMI_FD");

	for (size_t i = 0; i < ARRAY_LEN(launchers); i++) {
		const struct launcher *l = &launchers[i];
		const char *name = l->step ? get(env, l->step) : NULL;

		if (name && get(env, l->rank))
			return xasprintf("%s %s", l->word, name);
	}
	if (job && step &&
		(above_one(get(env, "SLURM_STEP_NUM_TASKS")) || job_rank_read(env).is_mpi))
		return xasprintf("slurm %s.%s", job, step);
	if (fd && above_one(get(env, "PMI_SIZE")))
		return hydra_proxy(fd);
	return NULL;
}

/*
 * What starts ranks, the most particular first: mpirun's may run in a step of Slurm's. Open MPI's
 * mpirun(1), Hydra (MPICH, Intel MPI), srun(1), flux-environment(7).
 */
static const struct {
	const char *rank, *size, *local;
	const char *word; /* the same for all ranks of a start, and no other's; NULL: none */
} starters[] = {
	{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
		"PMIX_NAMESPACE" },
	{ "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", NULL },
	{ "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_ID" },
	{ "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", NULL },
};

static char *first_word(const char *text)
{
	size_t n = strcspn(text, " \t\n");

	return n ? xasprintf("%.*s", (int)n, text) : NULL;
}

char *job_nodes_first(const char *list)
{
	size_t n = strcspn(list, ",[");
	auto_free char *rest = NULL;
	const char *in, *end;
	size_t digits;

	if (list[n] != '[')
		return n ? xasprintf("%.*s", (int)n, list) : NULL;
	in = list + n + 1;
	digits = strspn(in, "0123456789");
	end = strchr(in, ']');
	if (!end || digits == 0)
		return NULL;
	rest = end[1] ? job_nodes_first(end + 1) : NULL; /* of "rack[1-2]node[3-4]" */
	return xasprintf("%.*s%.*s%s", (int)n, list, (int)digits, in, rest ? rest : "");
}

/* PBS names a file with a line for each task, the first one's first. */
static char *first_line(const char *path)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char text[256];
	ssize_t n = fd >= 0 ? file_read_full(fd, text, sizeof(text) - 1) : -1;

	if (n < 0)
		return NULL;
	text[n] = '\0';
	return first_word(text);
}

/* The first node of a step of Slurm's or, for mpirun's ranks, of the job: mpirun starts its daemons
 * by a step that lacks the node where it runs itself. */
static char *first_node(char *const *env, int is_step)
{
	const char *slurm = get(env, is_step ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST"),
		   *pbs = get(env, "PBS_NODEFILE"), *lsf = get(env, "LSB_MCPU_HOSTS"),
		   *here = get(env, "OMPI_COMM_WORLD_LOCAL_SIZE"),
		   *all = get(env, "OMPI_COMM_WORLD_SIZE");

	if (slurm)
		return job_nodes_first(slurm);
	if (pbs)
		return first_line(pbs);
	if (lsf)
		return first_word(lsf);
	return here && all && strcmp(here, all) == 0 ? xstrdup("127.0.0.1") : NULL;
}

/* FNV-1a */
static uint32_t hash(const char *s)
{
	uint32_t h = 2166136261U;

	for (; s && *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619U;
	return h;
}

/*
 * 15000 to 31383, below the ports that kernels give to clients (ip(7), ip_local_port_range). Jobs
 * of Slurm with numbers less than 528 apart differ, and so do the first 31 steps of each.
 */
static unsigned port(char *const *env, const char *word, int is_step)
{
	const char *id = job_id(env);
	uint32_t step = is_step ? (uint32_t)strtoul(word ? word : "0", NULL, 10) : hash(word);
	return 15000 + ((id ? (uint32_t)strtoul(id, NULL, 10) : 0) * 31 + step) % 16384;
}

int job_world_read(char *const *env, struct job_world *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(starters); i++) {
		const char *rank = get(env, starters[i].rank), *size = get(env, starters[i].size),
			   *local = get(env, starters[i].local);
		int is_step = strcmp(starters[i].rank, "SLURM_PROCID") == 0;

		if (!rank || !size || !local)
			continue;
		if (strtol(size, NULL, 10) < 2)
			return 0;
		*ret = (struct job_world){ rank, size, local, first_node(env, is_step),
			port(env, starters[i].word ? get(env, starters[i].word) : NULL, is_step) };
		return 1;
	}
	return 0;
}

void job_world_done(struct job_world *w)
{
	free(w->address);
}
