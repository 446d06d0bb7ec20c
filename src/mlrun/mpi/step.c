#include "mpi/step.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "base/path.h"
#include "base/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* One that is empty is as none. */
static const char *get(char *const *env, const char *key)
{
	const char *value = strv_env_get(env, key);

	return value && *value ? value : NULL;
}

static int above_one(const char *text)
{
	return text && strtol(text, NULL, 10) > 1;
}

int mpi_is_rank(char *const *env)
{
	return get(env, "PMIX_RANK") || get(env, "PMI_RANK") || get(env, "OMPI_COMM_WORLD_RANK");
}

/*
 * Hydra names no job in the environment. PMI_FD is one end of a socket pair that the node's proxy
 * made for each rank (socketpair(2), unix(7) SO_PEERCRED), and the proxy is one a job and node.
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

char *mpi_step(char *const *env)
{
	const char *name = get(env, "PMIX_NAMESPACE"), *job = get(env, "SLURM_JOB_ID"),
		   *step = get(env, "SLURM_STEP_ID"), *fd = get(env, "PMI_FD");

	/* The most particular first: mpirun may have been started in a step of Slurm's. */
	if (name && get(env, "PMIX_RANK"))
		return xasprintf("pmix %s", name);
	name = get(env, "OMPI_MCA_ess_base_jobid");
	if (name && get(env, "OMPI_COMM_WORLD_RANK"))
		return xasprintf("ompi %s", name);
	if (job && step && (above_one(get(env, "SLURM_STEP_NUM_TASKS")) || mpi_is_rank(env)))
		return xasprintf("slurm %s.%s", job, step);
	if (fd && above_one(get(env, "PMI_SIZE")))
		return hydra_proxy(fd);
	return NULL;
}

/* A directory of the PMI server's. Whatever the variables say, no directory that an image has
 * itself is put over: those lie deeper. */
static void bring_directory(const char *path, struct plan *p)
{
	auto_free char *clean = path[0] == '/' ? path_clean(path) : NULL;
	struct stat st;

	if (!clean || !strchr(clean + 1, '/') || plan_covers(p, clean) || stat(clean, &st) < 0 ||
		!S_ISDIR(st.st_mode))
		return;
	plan_mount_add(p, PLAN_BIND, clean, clean, PLAN_OPTIONAL, PLAN_FROM_MPI, NULL);
}

void mpi_plan(char *const *env, struct plan *p)
{
	static const char *const directories[] = { "PMIX_SERVER_TMPDIR", "PMIX_SYSTEM_TMPDIR",
		"PMIX_DSTORE_21_BASE_PATH", "PMIX_DSTORE_ESH_BASE_PATH" };

	if (!mpi_is_rank(env))
		return;
	for (size_t i = 0; i < ARRAY_LEN(directories); i++) {
		const char *dir = get(env, directories[i]);

		if (dir)
			bring_directory(dir, p);
	}
	if (p->namespaces & PLAN_NS_PID)
		plan_env_set(p, "OMPI_MCA_btl", "^vader", PLAN_FROM_MPI);
	else if (!p->share)
		plan_env_set(p, "OMPI_MCA_btl_vader_single_copy_mechanism", "none", PLAN_FROM_MPI);
}
