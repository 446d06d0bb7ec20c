#include "cdi/cdi.h"

#include "base/base.h"
#include "cdi/dir.h"
#include "cdi/edits.h"
#include "cdi/hook.h"
#include "gpu/vendor.h"

/* The edits of one call in their order: a file's own before those of its first device. */
struct step {
	const struct cdi_edits *edits;
	char *what; /* names their owner in messages */
};

struct steps {
	struct step *v;
	size_t n;
};

static void steps_done(struct steps *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].what);
	free(s->v);
}

static void job_done(struct cdi_job *job)
{
	gpu_dir_close(&job->root);
	free(job->root_path);
	strv_done(&job->links);
}

int cdi_is_name(const char *text)
{
	const char *equals = strchr(text, '=');

	return equals && cdi_is_kind(text, (size_t)(equals - text)) && cdi_is_device(equals + 1);
}

int cdi_is_gpu(const char *name)
{
	const char *slash = strchr(name, '/');

	return slash && (strncmp(slash, "/gpu=", 5) == 0 || strncmp(name, "nvidia.com/", 11) == 0);
}

static void add_step(struct steps *s, const struct cdi_edits *e, char *what)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].edits == e) {
			free(what);
			return;
		}
	s->v = xgrow(s->v, s->n, sizeof(*s->v));
	s->v[s->n++] = (struct step){ e, what };
}

static int find_steps(
	const struct cdi_dir *d, const struct strv *names, struct steps *ret, struct mlr_error *err)
{
	for (size_t i = 0; i < names->n; i++) {
		const struct cdi_spec *s;
		const struct cdi_device *device;
		int r = cdi_dir_find(d, names->v[i], &s, &device, err);

		if (r < 0)
			return mlr_wrap(err, "'%s'", names->v[i]), r;
		add_step(ret, &s->edits, xasprintf("'%s'", s->file));
		add_step(ret, &device->edits, xasprintf("'%s': device '%s'", s->file, names->v[i]));
	}
	for (size_t i = 0; i < ret->n; i++) {
		int r = cdi_edits_check(ret->v[i].edits, err);

		if (r < 0)
			return mlr_wrap(err, "%s", ret->v[i].what), r;
	}
	return 0;
}

int cdi_check(const struct strv *names, struct mlr_error *err)
{
	auto_call(cdi_dir_done) struct cdi_dir d = GPU_CDI_DIR_INIT;
	auto_call(steps_done) struct steps steps = { NULL, 0 };

	if (names->n == 0)
		return 0;
	cdi_dir_read(&d);
	return find_steps(&d, names, &steps, err);
}

/* Links come first, because the linker's cache lists them; the image's newer libraries last. */
static int hook_turn(const struct cdi_hook *h)
{
	if (strv_has(&h->args, "create-symlinks") || strv_has(&h->args, "create-soname-symlinks"))
		return 0;
	return strv_has(&h->args, "enable-cuda-compat") ? 2 : 1;
}

static int plan_hooks(struct cdi_job *job, const struct steps *steps)
{
	for (int turn = 0; turn < 3; turn++)
		for (size_t i = 0; i < steps->n; i++) {
			const struct cdi_edits *e = steps->v[i].edits;

			for (size_t k = 0; k < e->n_hooks; k++) {
				int r = hook_turn(&e->hooks[k]) == turn
					? cdi_hook_plan(job, &e->hooks[k])
					: 0;

				if (r < 0)
					return mlr_wrap(job->err, "%s", steps->v[i].what), r;
			}
		}
	return 0;
}

static int plan_steps(struct cdi_job *job, const struct steps *steps)
{
	size_t first = job->p->n_mounts;
	int r = 0;

	for (size_t i = 0; r == 0 && i < steps->n; i++) {
		r = cdi_edits_plan(job, steps->v[i].edits, steps->v[i].what);
		if (r < 0)
			return mlr_wrap(job->err, "%s", steps->v[i].what), r;
	}
	if (r < 0)
		return r;
	plan_mounts_sort(job->p, first);
	r = plan_hooks(job, steps);
	plan_mounts_into_image(job->p, first);
	return r;
}

static int has_some(const struct strv *names, const char *vendor)
{
	size_t len = strlen(vendor);

	for (size_t i = 0; i < names->n; i++)
		if (strncmp(names->v[i], vendor, len) == 0 && cdi_is_gpu(names->v[i]) &&
			strcmp(strchr(names->v[i], '='), "=all") != 0)
			return 1;
	return 0;
}

static int has_all(const struct strv *names, const char *vendor)
{
	auto_free char *all = xasprintf("%s/gpu=all", vendor);

	return strv_has(names, all);
}

static void drop_number(
	const struct strv *names, const char *vendor, const char *variable, struct plan *p)
{
	const char *value = plan_env_get(p, variable);

	if (!value || plan_env_origin(p, variable) != PLAN_FROM_CALLER ||
		value[strspn(value, "0123456789,. ")] || !has_some(names, vendor) ||
		has_all(names, vendor))
		return;
	plan_remark_add(p, PLAN_FROM_CDI, "ignored %s=%s: its numbers count the machine's GPUs",
		variable, value);
	plan_env_unset(p, variable);
}

/*
 * A job's numbers count the machine's GPUs, but programs inside count those of the container: with
 * some of the GPUs, a number would select a wrong one or none. UUIDs stay, and what the user has
 * set.
 */
static void drop_numbers(const struct strv *names, struct plan *p)
{
	for (int v = 0; v < GPU_VENDORS; v++) {
		const struct gpu_vendor_row *row = &gpu_vendors[v];
		auto_free char *vendor = xasprintf("%s.com", row->name);

		drop_number(names, vendor, row->visible, p);
		for (const char *const *name = row->within; *name; name++)
			drop_number(names, vendor, *name, p);
		if (row->borrowed)
			drop_number(names, vendor, row->borrowed, p);
	}
	drop_number(names, "intel.com", "ZE_AFFINITY_MASK", p);
}

int cdi_plan(const struct strv *names, const struct gpu_image *image, struct plan *p,
	struct mlr_error *err)
{
	auto_call(cdi_dir_done) struct cdi_dir d = GPU_CDI_DIR_INIT;
	auto_call(steps_done) struct steps steps = { NULL, 0 };
	auto_call(job_done) struct cdi_job job = {
		.root = GPU_DIR_INIT, .image = image, .p = p, .err = err
	};
	int r;

	if (names->n == 0)
		return 0;
	cdi_dir_read(&d);
	TRY(find_steps(&d, names, &steps, err));
	r = gpu_dir_open(gpu_root(), &job.root);
	if (r < 0)
		return mlr_fail(err, -r, "'%s': %s", gpu_root(), strerror(-r));
	job.root_path = job.root.is_machine ? xstrdup("") : realpath(gpu_root(), NULL);
	if (!job.root_path)
		return mlr_fail_errno(err, "'%s'", gpu_root());
	for (size_t i = 0; i < steps.n; i++)
		plan_remark_add(p, PLAN_FROM_CDI, "edits of %s", steps.v[i].what);
	for (size_t i = 0; i < d.n_problems; i++)
		plan_remark_add(
			p, PLAN_FROM_CDI, "ignored an invalid file: %s", d.problems[i].text);
	drop_numbers(names, p);
	return plan_steps(&job, &steps);
}

/* Two files with one name in common usually share many: report the first. */
static void add_twice(const struct cdi_dir *d, const struct strv *twice, struct strv *problems)
{
	const struct cdi_spec *spec;
	const struct cdi_device *device;
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *others =
		twice->n > 1 ? xasprintf(" and %zu more", twice->n - 1) : xstrdup("");

	if (twice->n && cdi_dir_find(d, twice->v[0], &spec, &device, &err) < 0)
		strv_take(problems, xasprintf("'%s'%s: %s", twice->v[0], others, err.text));
}

void cdi_list(struct strv *ret, struct strv *problems)
{
	auto_call(cdi_dir_done) struct cdi_dir d = GPU_CDI_DIR_INIT;
	auto_strv struct strv twice = STRV_INIT;

	cdi_dir_read(&d);
	cdi_dir_names(&d, ret, &twice);
	for (size_t i = 0; i < d.n_problems; i++)
		strv_add(problems, d.problems[i].text);
	add_twice(&d, &twice, problems);
}
