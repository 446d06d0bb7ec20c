/* The wish for a worker, by the options of `mlrun workers start`. */
#include "cli/cli.h"
#include "cli/fetch.h"
#include "cli/options.h"
#include "cli/workers.h"

#include "base/config_value.h"
#include "oci/name.h"

int workers_read_deadline(const char *text, void *field)
{
	TRY(cli_read_age(text, field));
	return *(int64_t *)field > 0 ? 0 : -EINVAL;
}

/* Keep an option of exec's that limits the whole worker, not its own container. */
void workers_keep_word(void *args, const char *name, const char *arg)
{
	struct workers_wish *a = args;

	if (strcmp(name, "cpus") == 0 || strcmp(name, "memory") == 0)
		return;
	if (arg)
		strv_addf(&a->words, "--%s=%s", name, arg);
	else
		strv_addf(&a->words, "--%s", name);
}

static int read_limits(const struct exec_options *o, struct worker *w, struct mlr_error *err)
{
	char *end = NULL;
	double cpus = o->cpus ? strtod(o->cpus, &end) : 1;
	int r = o->memory ? config_bytes(o->memory, &w->memory) : 0;

	if (end && (end == o->cpus || *end || !(cpus > 0 && cpus <= 65536)))
		return mlr_fail(err, EINVAL,
			"--cpus takes a number of processors for each worker, not '%s'", o->cpus);
	w->cpus = (long)cpus + (cpus > (double)(long)cpus);
	if (r == -ERANGE)
		return mlr_fail(
			err, EINVAL, "--memory=%s: more than machines have, or nothing", o->memory);
	if (r < 0 || (w->memory && w->memory < 1 << 20))
		return mlr_fail(err, EINVAL,
			"--memory takes an amount for each worker, 512m or 4g, not '%s'",
			o->memory);
	return 0;
}

int workers_refuse_options(const struct workers_wish *a, struct mlr_error *err)
{
	const struct exec_options *o = &a->x.exec;
	struct worker limits = WORKER_INIT;

	if (a->x.explain) {
		mlr_fail(err, EINVAL, "--explain runs nothing");
		return mlr_hint(err, "mlrun exec --explain takes the same options and image");
	}
	if (o->join || !o->image)
		return mlr_fail(err, EINVAL, "--join: a worker is a new container");
	if (o->preserve_fds > 0 || o->keep_fds.n > 0)
		return mlr_fail(err, EINVAL,
			"--preserve-fds, --preserve-fd: a worker inherits no descriptors");
	return read_limits(o, &limits, err);
}

int workers_bring_image(const struct workers_wish *a, int here, const char *command)
{
	auto_call(store_image_done) struct store_image im = { 0 };
	const struct exec_options *o = &a->x.exec;
	struct mlr_error err = MLR_ERROR_INIT;
	const char *path;
	int r;

	if (here && oci_transport_is_root(oci_transport_of(o->image, &path)) &&
		access(path, F_OK) < 0) {
		mlr_fail_errno(&err, "image");
		return cli_fail_at(&err, "%s '%s'", command, o->image);
	}
	if (!cli_can_fetch(o->image))
		return 0;
	r = cli_find_image(o->image, o->store, &im, &err);
	if (r == 0)
		return 0;
	if (r != -ENOENT || o->pull == EXEC_PULL_NEVER)
		return cli_fail_at(&err, "%s '%s'", command, o->image);
	return cli_pull(o->image, o->store, a->x.common.quiet);
}

int workers_fill(const struct workers_wish *a, struct worker *w, struct mlr_error *err)
{
	const struct exec_options *o = &a->x.exec;
	int r = read_limits(o, w, err);

	w->image = xstrdup(o->image);
	w->name = xstrdup(a->name ? a->name : o->image);
	w->partition = a->partition ? xstrdup(a->partition) : NULL;
	w->gpus = a->gpus;
	w->deadline = a->deadline ? time(NULL) + a->deadline : 0;
	for (size_t i = 0; i < a->words.n; i++)
		strv_add(&w->options, a->words.v[i]);
	for (char *const *s = o->command; s && *s; s++)
		strv_add(&w->command, *s);
	return r;
}
