#include "cli/build_cache.h"

#include "cli/push_options.h"
#include "cli/cli.h"
#include "pull/steps.h"
#include "push/push.h"

int build_cache_parse(const char *text, struct oci_ref *ret, struct mlr_error *err)
{
	auto_free char *copy = xstrdup(text);
	char *rest = copy, *part;
	const char *ref = NULL;
	int is_other = 0;

	if (!strchr(text, '='))
		return push_args_destination(text, ret, err);
	while ((part = strsep(&rest, ",")))
		if (strncmp(part, "ref=", 4) == 0)
			ref = part + 4;
		else if (strcmp(part, "type=registry") != 0 && strncmp(part, "mode=", 5) != 0)
			is_other = 1;
	if (is_other || !ref)
		return mlr_fail(err, EINVAL, "'%s': use type=registry,ref=IMAGE", text);
	return push_args_destination(ref, ret, err);
}

/* --- from ----------------------------------------------------------------------- */

static int is_stopped(void *ctx)
{
	return cli_stop_signal;
}

static void open_all(struct build_cache *c)
{
	c->is_open = 1;
	c->options = *c->registry;
	c->options.cancelled = is_stopped;
	c->v = xcalloc(c->from->n + 1, sizeof(*c->v));
	for (size_t i = 0; i < c->from->n; i++) {
		auto_call(oci_ref_done) struct oci_ref ref = { 0 };
		struct mlr_error err = MLR_ERROR_INIT;
		int r = build_cache_parse(c->from->v[i], &ref, &err);

		if (r == 0)
			r = pull_steps_open(&ref, &c->options, &c->v[i], &err);
		if (r == -ENOENT) /* the first build fills it */
			mlr_debug("--cache-from '%s': %s", c->from->v[i], err.text);
		else if (r < 0 && !cli_stop_signal)
			mlr_warning("--cache-from '%s' is not used: %s", c->from->v[i], err.text);
	}
}

static int bring(struct build_cache *c, size_t i, const struct oci_step *step)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (pull_steps_bring(c->v[i], c->st, step, &err) == 0)
		return 1;
	if (!cli_stop_signal)
		mlr_warning("--cache-from '%s' is not used: %s", c->from->v[i], err.text);
	pull_steps_free(c->v[i]);
	c->v[i] = NULL;
	return 0;
}

int build_cache_find(struct build_cache *c, const char *key, struct store_cached *ret)
{
	if (!c->is_open && c->from->n > 0)
		open_all(c);
	for (size_t i = 0; i < c->from->n; i++) {
		const struct oci_step *step = c->v[i] ? pull_steps_find(c->v[i], key) : NULL;

		if (!step || !bring(c, i, step))
			continue;
		*ret = (struct store_cached){ .size = step->size, .created = step->created };
		snprintf(ret->diff_id, sizeof(ret->diff_id), "%s", step->diff_id);
		return 1;
	}
	return 0;
}

void build_cache_done(struct build_cache *c)
{
	for (size_t i = 0; c->v && i < c->from->n; i++)
		pull_steps_free(c->v[i]);
	free(c->v);
}

/* --- to ------------------------------------------------------------------------- */

static int push_one(struct store *st, const struct registry_options *registry, const char *text,
	const struct build_result *r, struct mlr_error *err)
{
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };
	const struct push_options opt = { .compression = OCI_GZIP,
		.jobs = PUSH_JOBS,
		.registry = *registry,
		.cancel = &cli_stop_signal };
	struct push_result result;
	int e = build_cache_parse(text, &ref, err);

	return e < 0 ? e : push_steps(st, r->made, r->steps, &ref, &opt, &result, err);
}

int build_cache_push(struct store *st, const struct registry_options *registry,
	const struct strv *to, const struct build_result *r, struct mlr_error *err)
{
	for (size_t i = 0; i < to->n && r->steps > 0; i++)
		if (push_one(st, registry, to->v[i], r, err) < 0)
			return mlr_wrap(err, "--cache-to '%s'", to->v[i]);
	return 0;
}
