
#include "gpu/choice/name.h"
#include "gpu/choice/variable.h"
#include "gpu/vendor.h"
#include "job/job.h"

#define NUMBER_MAX 4096 /* more GPUs than any machine has */

void gpu_allocation_done(struct gpu_allocation *a)
{
	free(a->from);
	free(a->v);
	free(a->lost);
	strv_done(&a->remarks);
	*a = (struct gpu_allocation){ 0 };
}

/* A list of GPUs in one variable. */
struct list {
	struct gpu_chosen *v;
	size_t n;
};

static void list_done(struct list *l)
{
	free(l->v);
}

static int has_gpu(const struct list *l, size_t gpu)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].gpu == gpu)
			return 1;
	return 0;
}

static void add(struct list *l, struct gpu_chosen c)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].gpu == c.gpu && l->v[i].mig == c.mig)
			return;
	*xadd(l->v, l->n) = c;
}

static void add_openable(const struct gpu_machine *m, enum gpu_vendor vendor, struct list *l)
{
	for (size_t i = 0; i < m->n_gpus; i++)
		if (m->gpus[i].vendor == vendor && m->gpus[i].index >= 0)
			add(l, (struct gpu_chosen){ i, -1 });
}

static void add_from(struct gpu_allocation *a, const char *key, const char *value)
{
	auto_free char *one = gpu_variable_print(key, value);
	char *longer = a->from ? xasprintf("%s, %s", a->from, one) : xstrdup(one);

	set_ptr(&a->from, longer);
}

static char *trimmed(const char *at, size_t len)
{
	for (; len && isblank((unsigned char)*at); at++)
		len--;
	while (len && isblank((unsigned char)at[len - 1]))
		len--;
	return xstrndup(at, len);
}

/* Find an item of a list as CUDA and ROCm do. Returns 0 or -ENODEV. */
static int find_visible(const struct gpu_machine *m, enum gpu_vendor vendor, const char *item,
	struct gpu_chosen *ret)
{
	/* Neither takes bus ids or parts by number. */
	if (!gpu_name_is_uuid(item) && item[strspn(item, "0123456789")])
		return -ENODEV;
	if (gpu_name_find(m, vendor, item, ret) < 0 || m->gpus[ret->gpu].vendor != vendor ||
		m->gpus[ret->gpu].index < 0)
		return -ENODEV;
	return 0;
}

/* Keep the last remark as lost. */
static void keep_lost(struct gpu_allocation *a)
{
	if (!a->lost)
		a->lost = xstrdup(a->remarks.v[a->remarks.n - 1]);
}

static void remark_cut(
	const char *key, const char *value, const char *item, struct gpu_allocation *a)
{
	auto_free char *text = gpu_variable_print(key, value);

	strv_addf(&a->remarks,
		"%s: GPU '%s' cannot be opened here; mlrun ignores it and those after it", text,
		item);
	keep_lost(a);
}

/* Does the item end the list? */
static int ends_list(const char *item)
{
	return strcmp(item, "-1") == 0 || strcasecmp(item, "NoDevFiles") == 0;
}

/* Read CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES, up to the first unknown item. */
static void read_visible(const struct gpu_machine *m, enum gpu_vendor vendor, const char *key,
	const char *value, struct list *l, struct gpu_allocation *a)
{
	for (const char *at = value; *value; at++) {
		size_t len = strcspn(at, ",");
		auto_free char *item = trimmed(at, len);
		struct gpu_chosen c;

		if (ends_list(item))
			return;
		if (find_visible(m, vendor, item, &c) < 0) {
			remark_cut(key, value, item, a);
			return;
		}
		a->by_uuid |= gpu_name_is_uuid(item);
		add(l, c);
		at += len;
		if (!*at)
			return;
	}
}

/* HIP_VISIBLE_DEVICES counts the GPUs that ROCR_VISIBLE_DEVICES leaves (ROCm documentation, "GPU
 * isolation techniques"). */
static void read_within(const struct gpu_machine *m, enum gpu_vendor vendor, const char *key,
	const char *value, const struct list *outer, struct list *l, struct gpu_allocation *a)
{
	for (const char *at = value; *value; at++) {
		size_t len = strcspn(at, ",");
		auto_free char *item = trimmed(at, len);
		unsigned long number = NUMBER_MAX;
		struct gpu_chosen c;

		if (ends_list(item))
			return;
		if (*item && strlen(item) <= 4 && !item[strspn(item, "0123456789")])
			number = strtoul(item, NULL, 10);
		if (number < outer->n)
			add(l, outer->v[number]);
		else if (gpu_name_is_uuid(item) && find_visible(m, vendor, item, &c) == 0 &&
			has_gpu(outer, c.gpu))
			add(l, c);
		else {
			remark_cut(key, value, item, a);
			return;
		}
		at += len;
		if (!*at)
			return;
	}
}

/* Slurm numbers a GPU by the digits at the end of its File= in gres.conf(5): /dev/nvidia<minor>.
 * AMD's files start at /dev/dri/renderD128; their GPUs are counted. */
static int find_global(const struct gpu_machine *m, enum gpu_vendor vendor, unsigned long number,
	struct gpu_chosen *ret)
{
	unsigned long count = 0;

	for (size_t i = 0; i < m->n_gpus; i++) {
		const struct gpu *g = &m->gpus[i];

		if (g->vendor != vendor)
			continue;
		if (g->minor == number || (gpu_vendors[vendor].is_counted && count == number)) {
			*ret = (struct gpu_chosen){ i, -1 };
			return 0;
		}
		count++;
	}
	return -ENODEV;
}

static void add_global(const struct gpu_machine *m, enum gpu_vendor vendor, const char *text,
	unsigned long number, struct list *l, struct gpu_allocation *a)
{
	struct gpu_chosen c;
	auto_free char *obstacle = NULL;

	if (find_global(m, vendor, number, &c) < 0) {
		strv_addf(&a->remarks, "%s: this machine has no GPU number %lu", text, number);
		keep_lost(a);
		return;
	}
	obstacle = gpu_name_obstacle(m, c);
	if (!obstacle) {
		add(l, c);
		return;
	}
	strv_addf(&a->remarks, "%s: number %lu does not count: %s", text, number, obstacle);
	keep_lost(a);
}

/* Read "0,2-3". Returns 0, or -EINVAL for an invalid or too long list. */
static int read_global(const struct gpu_machine *m, enum gpu_vendor vendor, const char *key,
	const char *value, struct list *l, struct gpu_allocation *a)
{
	auto_free char *text = gpu_variable_print(key, value);
	unsigned long n = 0;

	for (const char *at = value;;) {
		char *end;
		unsigned long from, to;

		if (!isdigit((unsigned char)*at))
			return -EINVAL;
		from = to = strtoul(at, &end, 10);
		if (*end == '-' && isdigit((unsigned char)end[1]))
			to = strtoul(end + 1, &end, 10);
		if (from > to || to > NUMBER_MAX || (*end && *end != ','))
			return -EINVAL;
		n += to - from + 1;
		if (n > NUMBER_MAX)
			return -EINVAL;
		for (; from <= to; from++)
			add_global(m, vendor, text, from, l, a);
		if (!*end)
			return 0;
		at = end + 1;
	}
}

/* Read Slurm's list: the step's, else the job's. Returns the variable's name; NULL without a valid
 * one. */
static const char *read_slurm(char *const *env, const struct gpu_machine *m, enum gpu_vendor vendor,
	struct list *l, struct gpu_allocation *a)
{
	static const char *const keys[] = { "SLURM_STEP_GPUS", "SLURM_JOB_GPUS" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const char *value = strv_env_get(env, keys[i]);
		auto_free char *text = NULL;
		size_t before = l->n;

		if (!value || !*value)
			continue;
		if (read_global(m, vendor, keys[i], value, l, a) == 0)
			return keys[i];
		l->n = before;
		text = gpu_variable_print(keys[i], value);
		strv_addf(&a->remarks, "ignoring %s: not a list of numbers", text);
	}
	return NULL;
}

/* A step without GPUs (srun --gres=none) inherits only the batch script's SLURM_JOB_GPUS. */
static int is_step_without(char *const *env)
{
	const char *step = strv_env_get(env, "SLURM_STEP_ID"),
		   *gpus = strv_env_get(env, "SLURM_STEP_GPUS"),
		   *jobs = strv_env_get(env, "SLURM_JOB_GPUS");

	return step && *step && jobs && *jobs && !gpus;
}

/* Without a variable of the vendor's own. */
static void read_batch_system(char *const *env, const struct gpu_machine *m, enum gpu_vendor vendor,
	struct list *l, struct gpu_allocation *a)
{
	const char *key;

	if (is_step_without(env)) {
		set_ptr(&a->from, xstrdup("a step of Slurm's without SLURM_STEP_GPUS"));
		return;
	}
	key = read_slurm(env, m, vendor, l, a);
	if (key) {
		add_from(a, key, strv_env_get(env, key));
		return;
	}
	add_openable(m, vendor, l);
	if (a->is_job)
		strv_add(&a->remarks,
			"no variable says which GPUs are the job's: mlrun takes all that it can open");
}

/* The narrower variable won. Do its GPUs belong to this job at all? */
static void cross_check(char *const *env, const struct gpu_machine *m, const char *visible,
	const struct list *l, struct gpu_allocation *a)
{
	auto_call(gpu_allocation_done) struct gpu_allocation unused = { 0 };
	auto_call(list_done) struct list jobs = { NULL, 0 };
	const char *key = read_slurm(env, m, GPU_NVIDIA, &jobs, &unused);

	for (size_t i = 0; key && i < l->n; i++) {
		auto_free char *name = NULL;

		if (l->v[i].mig >= 0 || has_gpu(&jobs, l->v[i].gpu))
			continue;
		name = gpu_name_print(m, l->v[i]);
		strv_addf(&a->remarks,
			"CUDA_VISIBLE_DEVICES=%s and %s=%s contradict each other about %s; the first counts",
			visible, key, strv_env_get(env, key), name);
	}
}

static int models_differ(const struct gpu_machine *m)
{
	const char *first = NULL;

	for (size_t i = 0; i < m->n_gpus; i++) {
		const struct gpu *g = &m->gpus[i];

		if (g->vendor != GPU_NVIDIA || g->index < 0 || !g->model)
			continue;
		if (first && strcmp(first, g->model) != 0)
			return 1;
		first = g->model;
	}
	return 0;
}

static void remark_order(char *const *env, const struct gpu_machine *m, const char *visible,
	struct gpu_allocation *a)
{
	const char *order = strv_env_get(env, "CUDA_DEVICE_ORDER");

	if ((order && strcmp(order, "PCI_BUS_ID") == 0) || a->by_uuid || !models_differ(m))
		return;
	strv_addf(&a->remarks,
		"CUDA_VISIBLE_DEVICES=%s is counted by bus id; CUDA counts the fastest first among GPUs of "
		"different models unless CUDA_DEVICE_ORDER is PCI_BUS_ID",
		visible);
}

static void read_vendor(char *const *env, const struct gpu_machine *m, enum gpu_vendor vendor,
	struct list *l, struct gpu_allocation *a)
{
	const struct gpu_vendor_row *row = &gpu_vendors[vendor];
	auto_call(list_done) struct list outer = { NULL, 0 };
	int is_first = gpu_vendor_first(m) == vendor;
	const char *visible = strv_env_get(env, row->visible), *name = row->within[0],
		   *within = name ? strv_env_get(env, name) : NULL;

	if (row->borrowed && !visible && !within && is_first) {
		name = row->borrowed;
		within = strv_env_get(env, name);
	}
	if (visible) {
		read_visible(m, vendor, row->visible, visible, &outer, a);
		add_from(a, row->visible, visible);
	} else if (!within && is_first) {
		read_batch_system(env, m, vendor, &outer, a);
	} else {
		add_openable(m, vendor, &outer);
	}
	if (within) {
		read_within(m, vendor, name, within, &outer, l, a);
		add_from(a, name, within);
		return;
	}
	for (size_t i = 0; i < outer.n; i++)
		add(l, outer.v[i]);
	if (vendor != GPU_NVIDIA || !visible)
		return;
	cross_check(env, m, visible, &outer, a);
	if (outer.n)
		remark_order(env, m, visible, a);
}

void gpu_allocation_read(char *const *env, const struct gpu_machine *m, struct gpu_allocation *ret)
{
	struct list l = { NULL, 0 };

	*ret = (struct gpu_allocation){ .is_job = job_system(env) != NULL };
	for (int v = 0; v < GPU_VENDORS; v++)
		if (gpu_vendor_is_here(m, (enum gpu_vendor)v))
			read_vendor(env, m, (enum gpu_vendor)v, &l, ret);
	ret->v = l.v;
	ret->n = l.n;
}
