#include "exec/parts.h"

#include "base/cleanup.h"
#include "exec/users_mounts.h"

#include <stdlib.h>
#include <string.h>

static enum plan_origin origin_of(int is_sites)
{
	return is_sites ? PLAN_FROM_SITE : PLAN_FROM_CONFIG;
}

static int set_home(const struct config *c, struct exec_options *o, struct mlr_error *err)
{
	auto_free char *word = NULL;
	int is_sites;
	int r = o->home == EXEC_UNSET ? config_word(c, "exec", "home", &word, &is_sites, err) : 0;

	if (word) {
		o->home = config_truth(word) ? EXEC_YES : EXEC_NO;
		o->home_origin = origin_of(is_sites);
	}
	return r;
}

/* The words stay where they are said. */
static int set_gpu(const struct config *c, struct exec_options *o, struct mlr_error *err)
{
	const char *env = getenv("MLRUN_GPU");
	const struct config_value *v = c ? config_get(c, "exec", "gpu") : NULL;
	auto_free char *word = NULL;
	int is_sites;
	int r = o->gpu ? 0 : config_word(c, "exec", "gpu", &word, &is_sites, err);

	if (word && (env || v)) {
		o->gpu = env && *env ? env : v ? v->value : NULL;
		o->gpu_origin = env && *env ? PLAN_FROM_CALLER : origin_of(is_sites);
	}
	return r;
}

static int set_mpi(const struct config *c, struct exec_options *o, struct mlr_error *err)
{
	auto_free char *word = NULL;
	int is_sites;
	int r = o->mpi == EXEC_MPI_UNSET ? config_word(c, "exec", "mpi", &word, &is_sites, err) : 0;

	if (word)
		o->mpi = strcmp(word, "none") == 0 ? EXEC_MPI_NONE : EXEC_MPI_AUTO;
	return r;
}

static int set_pull(const struct config *c, struct exec_options *o, struct mlr_error *err)
{
	auto_free char *word = NULL;
	int is_sites;
	int r = o->pull == EXEC_PULL_UNSET ? config_word(c, "exec", "pull", &word, &is_sites, err)
					   : 0;

	if (word)
		o->pull = strcmp(word, "always") == 0 ? EXEC_PULL_ALWAYS
			: strcmp(word, "never") == 0  ? EXEC_PULL_NEVER
						      : EXEC_PULL_MISSING;
	return r;
}

int exec_defaults(const struct config *c, struct exec_options *o, struct mlr_error *err)
{
	int r;

	if (o->join) /* the container is there, and was made as the configuration wanted it */
		return 0;
	r = set_home(c, o, err);
	if (r == 0)
		r = set_gpu(c, o, err);
	if (r == 0)
		r = set_mpi(c, o, err);
	if (r == 0)
		r = set_pull(c, o, err);
	if (r < 0)
		return r;
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
