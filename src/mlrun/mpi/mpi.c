#include "mpi/mpi.h"

#include "gpu/root.h"
#include "job/job.h"

#include <sys/vfs.h>

#define NODE_FLAGS      (PLAN_READONLY | PLAN_NOSUID | PLAN_NOEXEC | PLAN_OPTIONAL)
#define HUGEPAGES_MAGIC 0x958458f6 /* statfs(2) */

const char *mpi_fabric_root(void)
{
	const char *root = getenv("MLRUN_MPI_ROOT");

	return root && *root == '/' ? root : "/";
}

static int is_fabric(const char *name)
{
	static const char *const whole[] = { "infiniband", "xpmem", "knem", "cma", "hugepages" };
	static const char *const numbered[] = { "cxi", "hfi1", "psm3_" };

	for (size_t i = 0; i < ARRAY_LEN(whole); i++)
		if (strcmp(name, whole[i]) == 0)
			return 1;
	for (size_t i = 0; i < ARRAY_LEN(numbered); i++)
		if (strncmp(name, numbered[i], strlen(numbered[i])) == 0)
			return 1;
	return 0;
}

/* The directory exists everywhere, and with no huge pages in it, files there would lie in /dev. */
static int is_mounted_hugepages(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && (unsigned long)fs.f_type == HUGEPAGES_MAGIC;
}

static void add(struct plan *p, const char *root, const char *name)
{
	auto_free char *target = xasprintf("/dev/%s", name);
	auto_free char *source = xasprintf("%s%s", strcmp(root, "/") ? root : "", target);
	int is_huge = strcmp(name, "hugepages") == 0;

	if (plan_covers(p, target) || (is_huge && !is_mounted_hugepages(source)))
		return;
	plan_mount_add(p, PLAN_BIND, source, target,
		is_huge ? PLAN_NOSUID | PLAN_NODEV | PLAN_OPTIONAL : NODE_FLAGS, PLAN_FROM_MPI,
		NULL);
}

void mpi_fabric_plan(struct plan *p)
{
	auto_call(gpu_dir_close) struct gpu_dir d = GPU_DIR_INIT;
	auto_strv struct strv names = STRV_INIT;
	const char *root = mpi_fabric_root();

	if (gpu_dir_open(root, &d) < 0 || gpu_dir_list(&d, "/dev", &names) < 0)
		return;
	for (size_t i = 0; i < names.n; i++)
		if (is_fabric(names.v[i]))
			add(p, root, names.v[i]);
}

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
