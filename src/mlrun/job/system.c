#include "job/job.h"

/* sbatch(1) OUTPUT ENVIRONMENT VARIABLES, qsub(1B), bsub(1), flux-environment(7) */
static const struct system {
	const char *name, *id;   /* id: the variable that every job has */
	const char *prefixes[2]; /* of all its variables */
} systems[] = {
	{ "Slurm", "SLURM_JOB_ID", { "SLURM", "SRUN_" } },
	{ "PBS", "PBS_JOBID", { "PBS_" } },
	{ "LSF", "LSB_JOBID", { "LSB_" } },
	{ "Flux", "FLUX_JOB_ID", { "FLUX_" } },
};

/* PMIx, PMI-1, PMI-2, Open MPI, MPICH and Intel MPI, and the libraries of their networks. */
static const char *const mpi_prefixes[] = { "PMIX_", "PMI_", "PMI2_", "OMPI_", "MPICH_", "I_MPI_",
	"UCX_", "FI_" };

static const struct system *system_of(char *const *env)
{
	for (size_t i = 0; i < ARRAY_LEN(systems); i++) {
		const char *id = strv_env_get(env, systems[i].id);

		if (id && *id)
			return &systems[i];
	}
	return NULL;
}

const char *job_system(char *const *env)
{
	const struct system *s = system_of(env);

	return s ? s->name : NULL;
}

const char *job_id(char *const *env)
{
	const struct system *s = system_of(env);

	return s ? strv_env_get(env, s->id) : NULL;
}

const char *job_step_id(char *const *env)
{
	const char *id = strv_env_get(env, "SLURM_STEP_ID");

	return id && *id ? id : NULL;
}

static int begins(const char *key, const char *const *prefixes, size_t n)
{
	for (size_t i = 0; i < n && prefixes[i]; i++)
		if (strncmp(key, prefixes[i], strlen(prefixes[i])) == 0)
			return 1;
	return 0;
}

int job_sets(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(systems); i++)
		if (begins(key, systems[i].prefixes, ARRAY_LEN(systems[i].prefixes)))
			return 1;
	return begins(key, mpi_prefixes, ARRAY_LEN(mpi_prefixes));
}
