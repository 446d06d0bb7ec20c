#include "mpi/mpi.h"

#include "base/base.h"
#include "job/job.h"
#include "mpi/fabric.h"

/* Mount a directory of the PMIx server. A top-level directory is never mounted, whatever the
 * variables say, since it would cover the image's. */
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

	if (!job_rank_read(env).is_mpi)
		return;
	for (size_t i = 0; i < ARRAY_LEN(directories); i++) {
		const char *dir = strv_env_get(env, directories[i]);

		if (dir)
			bring_directory(dir, p);
	}
	mpi_fabric_plan(p);
	if (p->namespaces & PLAN_NS_PID)
		plan_env_set(p, "OMPI_MCA_btl", "^vader", PLAN_FROM_MPI);
	else if (!p->share)
		plan_env_set(p, "OMPI_MCA_btl_vader_single_copy_mechanism", "none", PLAN_FROM_MPI);
	if (!p->share)
		plan_env_set(p, "UCX_TLS", "^posix,cma", PLAN_FROM_MPI);
}

void mpi_world_plan(char *const *env, struct plan *p)
{
	auto_call(job_world_done) struct job_world w = { 0 };
	char port[16];

	if (!job_world_read(env, &w))
		return;
	plan_env_set(p, "RANK", w.rank, PLAN_FROM_MPI);
	plan_env_set(p, "WORLD_SIZE", w.size, PLAN_FROM_MPI);
	plan_env_set(p, "LOCAL_RANK", w.local, PLAN_FROM_MPI);
	if (!w.address)
		return;
	snprintf(port, sizeof(port), "%u", w.port);
	plan_env_set(p, "MASTER_ADDR", w.address, PLAN_FROM_MPI);
	plan_env_set(p, "MASTER_PORT", port, PLAN_FROM_MPI);
}

void mpi_data_plan(char *const *env, struct plan *p)
{
	const char *job = strv_env_get(env, "SLURM_JOB_ID"),
		   *step = strv_env_get(env, "SLURM_STEP_ID"),
		   *top = strv_env_get(env, "SLURM_PMIX_TMPDIR"),
		   *modules = plan_env_get(p, "PMIX_GDS_MODULE");

	if (!job || !step || !modules || !strstr(modules, "shmem") ||
		plan_env_origin(p, "PMIX_GDS_MODULE") != PLAN_FROM_CALLER)
		return;
	auto_free char *dir = xasprintf(
		"%s/spmix_appdir_%u_%s.%s", top ? top : "/tmp", (unsigned)geteuid(), job, step);

	bring_directory(dir, p);
	if (!plan_covers(p, dir) || access(dir, F_OK) < 0)
		plan_env_set(p, "PMIX_GDS_MODULE", "hash", PLAN_FROM_MPI);
}
