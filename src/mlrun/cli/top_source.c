#include "cli/top_source.h"

#include "gpu/choice/choice.h"
#include "gpu/vendor.h"

/* A job names its part of a GPU by a UUID that only NVIDIA's library knows. */
static void learn_parts(struct gpu_machine *m)
{
	const char *devices = getenv("CUDA_VISIBLE_DEVICES");
	struct mlr_error err;

	if (devices && strstr(devices, "MIG-") && gpu_nvml_fill(m, &err) < 0)
		mlr_log_failure(MLR_DEBUG, &err, "");
}

static int choose_gpus(struct top_source *s, int all, struct mlr_error *err)
{
	auto_call(gpu_allocation_done) struct gpu_allocation a = { 0 };
	const struct gpu_machine *m = &s->machine;
	size_t n = 0;

	learn_parts(&s->machine);
	TRY(gpu_allocation_read(environ, m, &a, err));
	s->is_job = a.is_job;
	s->is_shown = xcalloc(m->n_gpus + 1, 1);
	if (all || (!a.is_job && !a.from)) {
		memset(s->is_shown, 1, m->n_gpus);
		return 0;
	}
	for (size_t i = 0; i < a.n; i++)
		s->is_shown[a.order[i]] = 1;
	for (size_t i = 0; i < m->n_gpus; i++)
		n += s->is_shown[i] != 0;
	if (m->n_gpus > 0)
		s->top.scope = xasprintf("%zu of %zu GPUs%s%s; --all shows all", n, m->n_gpus,
			a.from ? ": " : " of the job", a.from ? a.from : "");
	return 0;
}

static char *driver_text(const struct gpu_machine *m)
{
	auto_free char *version = m->driver_text ? xasprintf(" %s", m->driver_text) : xstrdup("");
	char cuda[GPU_VERSION_TEXT];

	if (m->driver == GPU_DRIVER_NONE)
		return m->n_gpus > 0 ? xstrdup(gpu_vendors[m->gpus[0].vendor].title) : NULL;
	return xasprintf("NVIDIA driver%s%s%s%s", version,
		m->driver == GPU_DRIVER_WSL ? " of Windows (WSL)" : "",
		gpu_version_is_known(&m->cuda) ? ", CUDA " : "",
		gpu_version_is_known(&m->cuda) ? gpu_version_print(&m->cuda, cuda) : "");
}

/* Explain missing samples in a line of the view. */
static void set_note(struct top_source *s, const struct mlr_error *err)
{
	char *hint;

	free(s->top.note);
	s->top.note = xstrdup(err->text);
	hint = strstr(s->top.note, "\nhint: ");
	if (hint) {
		memcpy(hint, "; ", 2);
		memmove(hint + 2, hint + strlen("\nhint: "), strlen(hint + strlen("\nhint: ")) + 1);
	}
}

int top_source_open(struct top_source *s, int all, unsigned interval_ms, struct mlr_error *err)
{
	const char *root = gpu_root();
	int r = gpu_machine_read_gpus(root, &s->machine, err);

	if (r == 0)
		r = choose_gpus(s, all, err);
	if (r < 0)
		return r;
	gethostname(s->top.host, sizeof(s->top.host) - 1);
	s->top.driver = driver_text(&s->machine);
	s->node = top_node_watch_new("/", s->is_job);
	gpu_dir_open(root, &s->dir);
	if (s->machine.refused) {
		mlr_fail(err, ENOTSUP, "%s", s->machine.refused);
		set_note(s, err);
	} else if (s->machine.driver != GPU_DRIVER_NONE &&
		gpu_watch_open(&s->machine, interval_ms, &s->watch, err) < 0) {
		set_note(s, err);
	}
	return 0;
}

static void drop_samples(struct top_samples *l)
{
	gpu_samples_free(l->v, l->n);
	*l = (struct top_samples){ NULL, 0 };
}

void top_source_close(struct top_source *s)
{
	gpu_watch_close(&s->watch);
	top_empty(&s->top);
	drop_samples(&s->arrived);
	drop_samples(&s->shown);
	free(s->top.driver);
	free(s->top.scope);
	free(s->top.note);
	free(s->is_shown);
	top_node_watch_free(s->node);
	gpu_dir_close(&s->dir);
	gpu_machine_done(&s->machine);
}

/* No file lists Windows' GPUs: the library's first answer shows them. */
static void add_windows_gpus(struct top_source *s, const struct top_samples *l)
{
	struct gpu_machine *m = &s->machine;

	if (m->driver != GPU_DRIVER_WSL || m->n_gpus > 0)
		return;
	top_empty(&s->top); /* its pointers lead into the old array of GPUs */
	for (int i = 0; i < l->n; i++) {
		struct gpu *g = gpu_machine_add_gpu(m);

		g->bus_id = xstrdup(l->v[i].bus_id);
		g->index = i;
	}
	s->is_shown = xreallocarray(s->is_shown, m->n_gpus + 1, 1);
	memset(s->is_shown, 1, m->n_gpus);
}

int top_source_hear(struct top_source *s)
{
	struct top_samples l = { NULL, 0 };
	struct mlr_error err;

	l.n = gpu_watch_next(&s->watch, &l.v, &err);
	if (l.n == -EAGAIN)
		return 0;
	if (l.n < 0) {
		set_note(s, &err);
		gpu_watch_close(&s->watch);
		return l.n;
	}
	drop_samples(&s->arrived);
	s->arrived = l;
	add_windows_gpus(s, &l);
	return 0;
}

static void add_samples(struct top_source *s,
	int (*sample)(const struct gpu_dir *, const struct gpu_machine *, struct gpu_sample **))
{
	struct gpu_sample *v;
	int n = sample(&s->dir, &s->machine, &v);

	s->shown.v = xreallocarray(s->shown.v, (size_t)(s->shown.n + n) + 1, sizeof(*v));
	memcpy(s->shown.v + s->shown.n, v, (size_t)n * sizeof(*v));
	s->shown.n += n;
	free(v);
}

void top_source_next(struct top_source *s)
{
	struct top_node node;

	top_empty(&s->top);
	drop_samples(&s->shown);
	s->shown = s->arrived;
	s->arrived = (struct top_samples){ NULL, 0 };
	for (int v = 0; v < GPU_VENDORS; v++)
		if (gpu_vendors[v].sample)
			add_samples(s, gpu_vendors[v].sample);
	top_node_next(s->node, &node);
	top_fill(&s->top, &s->machine, s->is_shown, s->shown.v, s->shown.n, &node);
}
