#include "exec/parts.h"

#include "exec/users_mounts.h"

const char *const exec_dialect_names[] = { "mlrun", "pyxis", "apptainer", "apptainer-contained",
	NULL };

/* Apptainer's own variables are options, and its LD_LIBRARY_PATH is the host's. */
#define APPTAINER                                                                          \
	.hidden = { "LD_LIBRARY_PATH", "APPTAINER*", "SINGULARITY*" }, .root_has_home = 1, \
	.workdir = WORKDIR_OR_HOME, .gpu_is_wish = 1, .keeps_fds = 1, .begins_anew = 1,    \
	.first_counts = 1, .kept = { "TERM", "*_proxy", "*_PROXY" }

const struct dialect *exec_dialect_of(const struct exec_options *o)
{
	static const struct dialect rows[] = {
		[EXEC_MLRUN] = { .hides_hosts = 1 },
		[EXEC_PYXIS] = { .root_has_home = 1, .workdir = WORKDIR_IMAGES, .enters_kept = 1 },
		[EXEC_APPTAINER] = { APPTAINER, .hosts_dev = 1, .var_tmp = 1 },
		[EXEC_CONTAINED] = { APPTAINER, .no_caller_dir = 1 },
	};

	return &rows[o->dialect];
}

static enum plan_origin origin_of(int is_sites)
{
	return is_sites ? PLAN_FROM_SITE : PLAN_FROM_CONFIG;
}

/* The value of a setting without an option, from its environment variable or the configuration. */
static int find(const struct config *c, const char *key, int is_given, char **word,
	enum plan_origin *origin, struct mlr_error *err)
{
	int is_sites, r;

	if (is_given)
		return 0;
	r = config_word(c, "exec", key, word, &is_sites, err);
	*origin = origin_of(is_sites);
	return r;
}

/* The strings stay their owners'. */
static void set_gpu(const struct config *c, enum plan_origin origin, struct exec_options *o)
{
	const char *env = getenv("MLRUN_GPU");
	const struct config_value *v = c ? config_get(c, "exec", "gpu") : NULL;

	if (env && *env) {
		o->gpu = env;
		o->gpu_origin = PLAN_FROM_CALLER;
	} else if (v) {
		o->gpu = v->value;
		o->gpu_origin = origin;
	}
}

/* Does anybody set it, or is it the default? */
static int is_set(const struct config *c, const char *key, const char *variable)
{
	const char *env = getenv(variable);

	return (env && *env) || (c && config_get(c, "exec", key));
}

static void set_ca(const struct config *c, struct exec_options *o)
{
	const struct config_value *v = c ? config_get(c, "exec", "ca") : NULL;

	if (!v)
		return;
	o->ca = v->value;
	o->ca_origin = origin_of(v->is_sites);
}

int exec_mpi_read(const char *word, struct exec_options *o)
{
	enum mpi_host_level level = MPI_HOST_UNSET;
	enum exec_mpi mpi = strcmp(word, "auto") == 0 ? EXEC_MPI_AUTO
		: strcmp(word, "none") == 0           ? EXEC_MPI_NONE
		: strncmp(word, "host", 4) == 0       ? EXEC_MPI_HOST
						      : EXEC_MPI_UNSET;

	if (mpi == EXEC_MPI_HOST && word[4] == ':')
		level = mpi_host_level_read(word + 5);
	if (mpi == EXEC_MPI_UNSET || (mpi == EXEC_MPI_HOST && word[4] && level == MPI_HOST_UNSET))
		return -EINVAL;
	o->mpi = mpi;
	o->mpi_level = level;
	return 0;
}

int exec_defaults(const struct config *c, struct exec_options *o, struct mlr_error *err)
{
	auto_free char *home = NULL, *gpu = NULL, *mpi = NULL, *pull = NULL;
	enum plan_origin from = PLAN_FROM_NOBODY;

	if (o->join) /* the container exists already, with the configuration of its start */
		return 0;
	TRY(find(c, "home", o->home != EXEC_UNSET, &home, &o->home_origin, err));
	TRY(find(c, "mpi", o->mpi != EXEC_MPI_UNSET, &mpi, &from, err));
	TRY(find(c, "pull", o->pull != EXEC_PULL_UNSET, &pull, &from, err));
	TRY(find(c, "gpu", o->gpu != NULL, &gpu, &from, err));
	if (home)
		o->home = config_truth(home) ? EXEC_YES : EXEC_NO;
	if (gpu)
		set_gpu(c, from, o);
	if (mpi && is_set(c, "mpi", "MLRUN_MPI")) /* else the image's label decides */
		exec_mpi_read(mpi, o);
	if (pull)
		o->pull = strcmp(pull, "always") == 0 ? EXEC_PULL_ALWAYS
			: strcmp(pull, "never") == 0  ? EXEC_PULL_NEVER
						      : EXEC_PULL_MISSING;
	set_ca(c, o);
	config_list(c, "exec", "unset_env", &o->unset_env);
	o->config = c;
	return 0;
}

int defaults_volumes(const struct config *c, struct plan *p, struct mlr_error *err)
{
	for (size_t i = 0; c && i < c->n; i++) {
		const struct config_value *v = &c->v[i];
		int r;

		if (strcmp(v->section, "exec") != 0 || strcmp(v->key, "volume") != 0)
			continue;
		r = volume_configured(v->value, origin_of(v->is_sites), p, err);
		if (r < 0)
			return mlr_wrap(err, "%s:%d: volume '%s'", v->file, v->line, v->value);
	}
	return 0;
}
