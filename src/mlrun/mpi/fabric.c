#include "mpi/fabric.h"

#include "base/base.h"
#include "gpu/root.h"

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
