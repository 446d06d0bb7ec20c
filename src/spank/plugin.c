/*
 * The plugin's hooks (spank(7)). In srun, sbatch and salloc they run as the user; in slurmstepd
 * slurm_spank_init() runs as root and only registers options, whose values are copied as they are.
 * slurm_spank_task_init() runs in each task, after Slurm has become the user, and
 * slurm_spank_local_user_init() in srun.
 */
#include "spank/submit.h"
#include "spank/task.h"

#pragma GCC visibility push(default)
SPANK_PLUGIN(mlrun, 1);
#pragma GCC visibility pop

static struct spank_site site;
static int is_wrong; /* plugstack.conf's arguments */

int slurm_spank_init(spank_t sp, int argc, char **argv)
{
	switch (spank_context()) {
	case S_CTX_LOCAL:
	case S_CTX_ALLOCATOR:
	case S_CTX_REMOTE:
		/* Before Slurm reads its own variables for options. */
		if (spank_context() == S_CTX_ALLOCATOR)
			spank_forget();
		is_wrong = spank_site_read(argc, argv, &site) < 0;
		return spank_options_register(sp, &site);
	default:
		return 0;
	}
}

int slurm_spank_init_post_opt(spank_t sp, int argc, char **argv)
{
	enum spank_context context = spank_context();

	if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR)
		return 0;
	if (is_wrong)
		return -1;
	return spank_submit(&site, context == S_CTX_LOCAL);
}

int slurm_spank_local_user_init(spank_t sp, int argc, char **argv)
{
	return spank_begin(sp, &site);
}

int slurm_spank_task_init(spank_t sp, int argc, char **argv)
{
	return spank_task(sp, &site, is_wrong);
}
