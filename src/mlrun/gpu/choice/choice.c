#include "gpu/choice/choice.h"

#include "gpu/choice/name.h"
#include "gpu/choice/variable.h"
#include "gpu/vendor.h"

void gpu_choice_done(struct gpu_choice *c)
{
	free(c->v);
	for (int v = 0; v < GPU_VENDORS; v++)
		free(c->visible[v]);
	strv_done(&c->remarks);
	strv_done(&c->notes);
	*c = (struct gpu_choice){ 0 };
}

/* The state of one choice. */
struct choosing {
	const struct gpu_wish *w;
	const struct gpu_machine *m;
	const struct gpu_allocation *a;
	/* The GPUs of w->devices that exist and are the job's; n_items. */
	struct gpu_chosen *items;
	size_t n_items;
	char *refused; /* the first refusal's remark; NULL */
	struct gpu_choice *c;
};

static void add(struct gpu_choice *c, struct gpu_chosen one)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].gpu == one.gpu && c->v[i].mig == one.mig)
			return;
	*xadd(c->v, c->n) = one;
}

/* Does the job have the GPU, or a part of it? */
static int is_jobs(const struct gpu_allocation *a, struct gpu_chosen c)
{
	for (size_t i = 0; i < a->n; i++)
		if (a->v[i].gpu == c.gpu && (c.mig < 0 || a->v[i].mig < 0 || a->v[i].mig == c.mig))
			return 1;
	return 0;
}

static char *list_jobs(const struct choosing *s)
{
	auto_strv struct strv names = STRV_INIT;

	for (size_t i = 0; i < s->a->n; i++)
		strv_take(&names, gpu_name_print(s->m, s->a->v[i]));
	return names.n ? strv_join(&names, names.n, ", ") : xstrdup("none");
}

/* Names the source of the allocation in messages. */
static const char *from(const struct choosing *s)
{
	return s->a->from ? s->a->from : "this user's GPUs";
}

/* Report an unavailable GPU: an error if --gpu named it, else a remark. */
static int refuse(struct choosing *s, int code, const char *hint, struct mlr_error *err, char *why)
{
	auto_free char *text = why;

	if (!s->w->must) {
		strv_addf(&s->c->remarks, "%s: %s", s->w->who, text);
		if (!s->refused)
			s->refused = xstrdup(s->c->remarks.v[s->c->remarks.n - 1]);
		return 0;
	}
	mlr_fail(err, code, "%s: %s", s->w->who, text);
	return hint ? mlr_hint(err, "%s", hint) : -code;
}

static int refuse_unknown(struct choosing *s, const char *item, int r, struct mlr_error *err)
{
	auto_free char *have = gpu_name_list(s->m), *hint = xasprintf("available: %s", have);

	if (s->m->driver == GPU_DRIVER_WSL && s->m->n_gpus == 0)
		return refuse(s, ENODEV, "--gpu=all", err,
			xasprintf("'%s': on WSL a container has all GPUs or none", item));
	if (s->m->n_gpus == 0)
		return refuse(s, ENODEV, "--gpu=auto starts without a GPU", err,
			xasprintf("'%s': this machine has no GPU", item));
	if (r == -ENOTUNIQ)
		return refuse(s, ENODEV, hint, err,
			xasprintf("'%s' is the beginning of more than one uuid", item));
	return refuse(s, ENODEV, hint, err, xasprintf("this machine has no GPU '%s'", item));
}

/* A number beyond the GPUs that can be opened: explain why the others are closed. */
static int refuse_closed(struct choosing *s, const char *item, struct mlr_error *err)
{
	auto_free char *have = gpu_name_list(s->m), *why = NULL, *hint = NULL;
	size_t closed = 0;

	for (size_t i = 0; i < s->m->n_gpus; i++) {
		if (s->m->gpus[i].index >= 0)
			continue;
		closed++;
		if (!why)
			why = gpu_name_obstacle(s->m, (struct gpu_chosen){ i, -1 });
	}
	hint = xasprintf("available: %s; numbers count only these", have);
	return refuse(s, EACCES, hint, err,
		xasprintf("GPU '%s' cannot be opened: of %zu here %zu cannot (%s)", item,
			s->m->n_gpus, closed, why ? why : "for an unknown reason"));
}

/* Would the number exist if all GPUs could be opened? */
static int is_closed_number(const struct choosing *s, const char *item)
{
	size_t total = 0, closed = 0;

	if (!*item || item[strspn(item, "0123456789")] || strlen(item) > 4)
		return 0;
	for (size_t i = 0; i < s->m->n_gpus; i++) {
		if (s->m->gpus[i].vendor != gpu_vendor_first(s->m))
			continue;
		total++;
		closed += s->m->gpus[i].index < 0;
	}
	return closed && strtoul(item, NULL, 10) < total;
}

static int refuse_not_jobs(struct choosing *s, const char *item, struct mlr_error *err)
{
	auto_free char *jobs = list_jobs(s);
	auto_free char *hint =
		xasprintf("%s: %s; leave --gpu out, or ask for more GPUs when the job is submitted",
			from(s), jobs);

	if (s->a->is_job)
		return refuse(s, EACCES, hint, err,
			xasprintf("'%s' is not one of the job's GPUs (%s)", item, from(s)));
	set_ptr(&hint, xasprintf("%s: %s", from(s), jobs));
	return refuse(s, EACCES, hint, err, xasprintf("'%s' is not of %s", item, from(s)));
}

static int resolve(struct choosing *s, const char *item, struct mlr_error *err)
{
	struct gpu_chosen c;
	auto_free char *obstacle = NULL;
	int r = gpu_name_find(s->m, gpu_vendor_first(s->m), item, &c);

	if (r < 0)
		return r == -ENODEV && is_closed_number(s, item) ? refuse_closed(s, item, err)
								 : refuse_unknown(s, item, r, err);
	obstacle = gpu_name_obstacle(s->m, c);
	if (obstacle)
		return refuse(s, EACCES, NULL, err, xasprintf("'%s': %s", item, obstacle));
	if (!is_jobs(s->a, c))
		return refuse_not_jobs(s, item, err);
	*xadd(s->items, s->n_items) = c;
	return 0;
}

/* Choose what is wanted of one of the job's GPUs: all of it, or parts. */
static void take(struct choosing *s, struct gpu_chosen has)
{
	for (size_t i = 0; i < s->n_items; i++)
		if (s->items[i].gpu == has.gpu &&
			(s->items[i].mig < 0 || s->items[i].mig == has.mig)) {
			add(s->c, has);
			return;
		}
	for (size_t part = 0; has.mig < 0 && part < s->m->gpus[has.gpu].n_mig; part++)
		for (size_t i = 0; i < s->n_items; i++)
			if (s->items[i].gpu == has.gpu && s->items[i].mig == (int)part)
				add(s->c, s->items[i]);
}

static int choose_list(struct choosing *s, struct mlr_error *err)
{
	for (size_t i = 0; i < s->w->devices.n; i++)
		TRY(resolve(s, s->w->devices.v[i], err));
	for (size_t i = 0; i < s->a->n; i++)
		take(s, s->a->v[i]);
	return 0;
}

/* All GPUs are wanted, and none is left. */
static int refuse_all(struct choosing *s, struct mlr_error *err)
{
	const char *hint = NULL;
	auto_free char *why = NULL;

	if (s->m->driver == GPU_DRIVER_WSL && s->m->n_gpus == 0)
		return 0;
	if (s->m->n_gpus == 0)
		return refuse(s, ENODEV, "--gpu=auto starts without a GPU", err,
			xstrdup("this machine has no GPU"));
	for (size_t i = 0; i < s->m->n_gpus; i++) {
		if (s->m->gpus[i].index >= 0)
			return refuse(s, EACCES, NULL, err,
				xasprintf("%s has no GPU (%s)",
					s->a->is_job ? "the job" : "the caller", from(s)));
		if (!why)
			why = gpu_name_obstacle(s->m, (struct gpu_chosen){ i, -1 });
		if (s->m->gpus[i].vendor == GPU_NVIDIA && s->m->gpus[i].node.error == ENOENT)
			hint = "root makes the nodes: nvidia-modprobe -u -c 0, or nvidia-smi";
	}
	return refuse(s, EACCES, hint, err, xasprintf("no GPU can be opened: %s", why));
}

static int choose_all(struct choosing *s, struct mlr_error *err)
{
	for (size_t i = 0; i < s->a->n; i++)
		add(s->c, s->a->v[i]);
	return s->c->n ? 0 : refuse_all(s, err);
}

static int is_chosen(const struct gpu_choice *c, size_t gpu)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].gpu == gpu)
			return 1;
	return 0;
}

static void remark_left_out(struct choosing *s)
{
	for (size_t i = 0; i < s->m->n_gpus; i++) {
		struct gpu_chosen g = { i, -1 };
		auto_free char *name = NULL, *obstacle = NULL;

		if (is_chosen(s->c, i))
			continue;
		name = gpu_name_print(s->m, g);
		obstacle = gpu_name_obstacle(s->m, g);
		if (obstacle)
			strv_addf(&s->c->remarks, "omitted GPU %s: %s", name, obstacle);
		else if (!is_jobs(s->a, g))
			strv_addf(&s->c->remarks, "omitted GPU %s: not of %s", name, from(s));
		else
			strv_addf(&s->c->remarks, "omitted GPU %s: not of %s", name, s->w->who);
	}
}

static void remark_chosen(struct choosing *s)
{
	for (size_t i = 0; i < s->c->n; i++) {
		auto_free char *name = gpu_name_print(s->m, s->c->v[i]);

		strv_addf(&s->c->remarks, "GPU %s is chosen: %s%s%s", name, s->w->who,
			s->a->from ? ", within " : "", s->a->from ? s->a->from : "");
	}
}

/* Explain why none can be opened, to free(); NULL if one can, or if the job hides them. */
static char *common_obstacle(const struct gpu_machine *m)
{
	for (size_t i = 0; i < m->n_gpus; i++)
		if (m->gpus[i].index >= 0 || m->gpus[i].node.error == EPERM)
			return NULL;
	return gpu_name_obstacle(m, (struct gpu_chosen){ 0, -1 });
}

/* Warn: GPUs exist and may be expected, but the container gets none. */
static void note_nothing(struct choosing *s)
{
	auto_free char *why = s->c->n || s->m->n_gpus == 0 ? NULL : common_obstacle(s->m);

	if (s->c->n || s->m->n_gpus == 0)
		return;
	if (why)
		strv_addf(&s->c->notes, "no GPU is in the container: %s", why);
	else if (s->a->n == 0 && s->a->lost)
		strv_addf(&s->c->notes, "no GPU is in the container: %s", s->a->lost);
	else if (s->w->devices.n && s->refused)
		strv_addf(&s->c->notes, "no GPU is in the container: %s", s->refused);
}

static int compare(const void *a, const void *b)
{
	const struct gpu_chosen *x = a, *y = b;

	if (x->gpu != y->gpu)
		return x->gpu < y->gpu ? -1 : 1;
	return x->mig - y->mig;
}

/* A GPU's rank among the chosen ones of its vendor, as the container counts them. */
static size_t rank(const struct choosing *s, size_t gpu)
{
	size_t n = 0;

	for (size_t i = 0; i < gpu; i++)
		n += s->m->gpus[i].vendor == s->m->gpus[gpu].vendor && is_chosen(s->c, i);
	return n;
}

static int models_differ(const struct choosing *s)
{
	const char *first = NULL;

	for (size_t i = 0; i < s->c->n; i++) {
		const char *model = s->m->gpus[s->c->v[i].gpu].model;

		if (first && model && strcmp(first, model) != 0)
			return 1;
		first = model ? model : first;
	}
	return 0;
}

/* NULL when the container counts them in this order anyway. */
static char *print_visible(const struct choosing *s, enum gpu_vendor vendor)
{
	const struct gpu_chosen *last = NULL;
	auto_strv struct strv names = STRV_INIT;
	int is_ordered = 1, by_uuid = s->a->by_uuid || models_differ(s);

	for (size_t i = 0; i < s->c->n; i++) {
		const struct gpu_chosen *one = &s->c->v[i];
		char *name = NULL;

		if (s->m->gpus[one->gpu].vendor != vendor)
			continue;
		if (last && compare(last, one) > 0)
			is_ordered = 0;
		last = one;
		if (by_uuid || one->mig >= 0)
			name = gpu_name_uuid(s->m, *one);
		strv_take(&names, name ? name : xasprintf("%zu", rank(s, one->gpu)));
	}
	return is_ordered ? NULL : strv_join(&names, names.n, ",");
}

static int choose(struct choosing *s, struct mlr_error *err)
{
	int r = 0;

	if (s->w->kind == GPU_WISH_ALL)
		r = choose_all(s, err);
	else if (s->w->kind == GPU_WISH_LIST)
		r = choose_list(s, err);
	if (r < 0 || s->w->kind == GPU_WISH_NOTHING || s->w->kind == GPU_WISH_DRIVER)
		return r;
	remark_chosen(s);
	remark_left_out(s);
	note_nothing(s);
	for (int v = 0; v < GPU_VENDORS; v++)
		s->c->visible[v] = print_visible(s, (enum gpu_vendor)v);
	return 0;
}

int gpu_choose(const struct gpu_wish *w, const struct gpu_machine *m,
	const struct gpu_allocation *a, struct gpu_choice *ret, struct mlr_error *err)
{
	auto_call(gpu_choice_done) struct gpu_choice c = { 0 };
	struct choosing s = { .w = w, .m = m, .a = a, .c = &c };
	int r = choose(&s, err);

	free(s.items);
	free(s.refused);
	TRY(r);
	*ret = take_struct(&c, { 0 });
	return 0;
}

/* Is any UUID unknown? */
static int has_unknown(const struct gpu_machine *m)
{
	for (size_t i = 0; i < m->n_gpus; i++) {
		if (m->gpus[i].vendor != GPU_NVIDIA)
			continue;
		if (!m->gpus[i].uuid)
			return 1;
		for (size_t k = 0; k < m->gpus[i].n_mig; k++)
			if (!m->gpus[i].mig[k].uuid)
				return 1;
	}
	return 0;
}

static int is_unknown(const struct gpu_machine *m, const char *item)
{
	struct gpu_chosen c;

	return gpu_name_is_uuid(item) && gpu_name_find(m, GPU_NVIDIA, item, &c) == -ENODEV;
}

int gpu_choice_needs_nvml(const struct gpu_wish *w, char *const *env, const struct gpu_machine *m)
{
	const char *visible = strv_env_get(env, gpu_vendors[GPU_NVIDIA].visible);
	auto_strv struct strv items = STRV_INIT;

	if (!has_unknown(m))
		return 0;
	if (visible)
		gpu_variable_items(visible, &items);
	for (size_t i = 0; i < w->devices.n; i++)
		if (is_unknown(m, w->devices.v[i]))
			return 1;
	for (size_t i = 0; i < items.n; i++)
		if (is_unknown(m, items.v[i]))
			return 1;
	return 0;
}
