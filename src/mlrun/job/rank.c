#include "job/job.h"

#include "base/base.h"
#include "base/proc.h"

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
