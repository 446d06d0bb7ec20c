#include "gpu/nvidia/nvml.h"

#include <jansson.h>

#define GPUS_MAX 1024

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

/* A count; -1: missing or invalid. */
static int64_t count_of(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_integer(v) && json_integer_value(v) >= 0 ? json_integer_value(v) : -1;
}

static int small_count_of(const json_t *o, const char *key)
{
	int64_t v = count_of(o, key);

	return v <= INT_MAX ? (int)v : -1;
}

static double real_of(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_number(v) && json_number_value(v) >= 0 ? json_number_value(v) : -1;
}

/* Parse the line's object, which has a list of GPUs. Returns 0, -EIO or -EPROTO. */
static int parse(const char *text, json_t **ret, struct mlr_error *err)
{
	json_auto_t *o = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	const char *why = text_of(o, "error"), *hint = text_of(o, "hint");
	const json_t *gpus = json_object_get(o, "gpus");

	if (why) {
		mlr_fail(err, EIO, "%s", why);
		if (hint)
			mlr_hint(err, "%s", hint);
		return -EIO;
	}
	if (!json_is_array(gpus) || json_array_size(gpus) > GPUS_MAX) {
		mlr_fail(err, EPROTO, "mlrun-nvml says '%.60s'", text);
		mlr_hint(err, "is it of another mlrun? install both from one build");
		return -EPROTO;
	}
	*ret = take_ptr(&o);
	return 0;
}

static void fill_text(char **field, const char *text)
{
	if (!*field && text)
		*field = xstrdup(text);
}

/* Match parts by their numbers: NVML and the kernel count alike. */
static void fill_parts(struct gpu *g, const json_t *parts)
{
	const json_t *part;
	size_t k;

	json_array_foreach((json_t *)parts, k, part)
		for (size_t i = 0; i < g->n_mig; i++)
			if (g->mig[i].gi == count_of(part, "gi") &&
				g->mig[i].ci == count_of(part, "ci"))
				fill_text(&g->mig[i].uuid, text_of(part, "uuid"));
}

static void fill_gpu(struct gpu *g, const json_t *o)
{
	int64_t memory = count_of(o, "memory_total");
	const char *arch = text_of(o, "arch");

	fill_text(&g->uuid, text_of(o, "uuid"));
	fill_text(&g->model, text_of(o, "name"));
	fill_text(&g->brand, text_of(o, "brand"));
	if (g->memory == 0 && memory > 0)
		g->memory = (uint64_t)memory;
	if (!gpu_version_is_known(&g->arch) && arch)
		gpu_version_parse(arch, &g->arch);
	fill_parts(g, json_object_get(o, "parts"));
}

static struct gpu *find_gpu(struct gpu_machine *m, const char *bus_id)
{
	for (size_t i = 0; bus_id && i < m->n_gpus; i++)
		if (m->gpus[i].vendor == GPU_NVIDIA && m->gpus[i].bus_id &&
			strcmp(m->gpus[i].bus_id, bus_id) == 0)
			return &m->gpus[i];
	return NULL;
}

int gpu_nvml_read_query(const char *text, struct gpu_machine *m, struct mlr_error *err)
{
	json_auto_t *o = NULL;
	int r = parse(text, &o, err);
	const char *cuda = text_of(o, "cuda");
	const json_t *item;
	size_t i;

	TRY(r);
	if (!gpu_version_is_known(&m->cuda) && cuda)
		gpu_version_parse(cuda, &m->cuda);
	json_array_foreach(json_object_get(o, "gpus"), i, item) {
		const char *bus_id = text_of(item, "bus_id"), *why = text_of(item, "error");
		struct gpu *g = find_gpu(m, bus_id);

		if (g)
			fill_gpu(g, item);
		if (why)
			strv_addf(&m->warnings,
				"GPU %s is broken: %s; dmesg | grep -i xid shows why",
				bus_id ? bus_id : "without a bus id", why);
	}
	return 0;
}

static void read_processes(const json_t *list, struct gpu_sample *s)
{
	const json_t *item;
	size_t i;

	s->processes = xcalloc(json_array_size(list) + 1, sizeof(*s->processes));
	json_array_foreach((json_t *)list, i, item) {
		int pid = small_count_of(item, "pid");

		if (pid > 0)
			s->processes[s->n_processes++] = (struct gpu_process){ .pid = pid,
				.memory = count_of(item, "memory") };
	}
}

static void read_sample(const json_t *o, struct gpu_sample *ret)
{
	const char *bus_id = text_of(o, "bus_id"), *trouble = text_of(o, "error");

	*ret = (struct gpu_sample){
		.busy = small_count_of(o, "busy"),
		.memory_busy = small_count_of(o, "memory_busy"),
		.memory_used = count_of(o, "memory_used"),
		.memory_total = count_of(o, "memory_total"),
		.power = real_of(o, "power"),
		.power_limit = real_of(o, "power_limit"),
		.temperature = small_count_of(o, "temperature"),
		.clock = small_count_of(o, "clock"),
	};
	snprintf(ret->bus_id, sizeof(ret->bus_id), "%s", bus_id ? bus_id : "");
	snprintf(ret->trouble, sizeof(ret->trouble), "%s", trouble ? trouble : "");
	read_processes(json_object_get(o, "processes"), ret);
}

int gpu_nvml_read_samples(const char *text, struct gpu_sample **ret, struct mlr_error *err)
{
	json_auto_t *o = NULL;
	int r = parse(text, &o, err);
	const json_t *gpus = json_object_get(o, "gpus"), *item;
	size_t i;
	int n = 0;

	TRY(r);
	*ret = xcalloc(json_array_size(gpus) + 1, sizeof(**ret));
	json_array_foreach((json_t *)gpus, i, item)
		if (text_of(item, "bus_id"))
			read_sample(item, &(*ret)[n++]);
	return n;
}

void gpu_samples_free(struct gpu_sample *v, int n)
{
	for (int i = 0; i < n; i++)
		free(v[i].processes);
	free(v);
}
