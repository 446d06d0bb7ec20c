/* mlrun gpu top: shows what the GPUs and processors do, again and again. */
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/screen.h"
#include "cli/top.h"
#include "gpu/gpu.h"
#include "gpu/nvidia/nvml.h"
#include "gpu/choice/choice.h"
#include "gpu/vendor.h"

/* --- where the numbers come from --- */

struct top_samples {
	struct gpu_sample *v;
	int n;
};

struct top_source {
	struct gpu_machine machine;
	struct gpu_dir dir;
	int is_job;
	char *is_shown;             /* for each of the machine's GPUs */
	struct gpu_watch watch;     /* from is -1 without NVIDIA's library */
	struct top_samples arrived; /* received, not yet in top */
	struct top_samples shown;   /* those in top */
	struct top_node_watch *node;
	struct top top; /* the latest state; its note explains missing samples */
};

#define TOP_SOURCE_INIT                                                                   \
	{                                                                                 \
		.machine = GPU_MACHINE_INIT, .dir = GPU_DIR_INIT, .watch = GPU_WATCH_INIT \
	}

/* A job names its part of a GPU by a UUID that only NVIDIA's library knows. */
static void learn_parts(struct gpu_machine *m)
{
	const char *devices = getenv("CUDA_VISIBLE_DEVICES");
	struct mlr_error err;

	if (devices && strstr(devices, "MIG-") && gpu_nvml_fill(m, &err) < 0)
		mlr_log_failure(MLR_DEBUG, &err, "");
}

static void choose_gpus(struct top_source *s, int all)
{
	auto_call(gpu_allocation_done) struct gpu_allocation a = { 0 };
	const struct gpu_machine *m = &s->machine;
	size_t n = 0;

	learn_parts(&s->machine);
	gpu_allocation_read(environ, m, &a);
	s->is_job = a.is_job;
	s->is_shown = xcalloc(m->n_gpus + 1, 1);
	if (all || (!a.is_job && !a.from)) {
		memset(s->is_shown, 1, m->n_gpus);
		return;
	}
	for (size_t i = 0; i < a.n; i++)
		s->is_shown[a.v[i].gpu] = 1;
	for (size_t i = 0; i < m->n_gpus; i++)
		n += s->is_shown[i] != 0;
	if (m->n_gpus > 0)
		s->top.scope = xasprintf("%zu of %zu GPUs%s%s; --all shows all", n, m->n_gpus,
			a.from ? ": " : " of the job", a.from ? a.from : "");
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

/*
 * Start sampling the job's GPUs, or all.
 *
 * Returns 0, also without samples; an -errno when the machine or the job cannot be read. Close the
 * source either way.
 */
static int top_source_open(
	struct top_source *s, int all, unsigned interval_ms, struct mlr_error *err)
{
	const char *root = gpu_root();

	TRY(gpu_machine_read_gpus(root, &s->machine, err));
	choose_gpus(s, all);
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

static void top_source_close(struct top_source *s)
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

/* Read what the library sent. Returns 0, or -errno when it has stopped: the note changes. */
static int top_source_hear(struct top_source *s)
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

/* Put the current state into top. */
static void top_source_next(struct top_source *s)
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

/* --- the command --- */

#define FIRST_MS    300   /* before the first sample: processor time is measured over it */
#define GRACE_MS    2000  /* NVIDIA's library may take so much longer than the interval */
#define WAKING_MS   10000 /* and, for a log, to wake all GPUs */
#define PATIENCE_MS 60000 /* the same with --count */
#define PLAIN_WIDTH 120

static const char doc[] =
	"Show what this machine's GPUs, or the job's, and its processors do, again and again. q or "
	"^C ends it.\v"
	"Without a terminal the same comes as text, once each interval; with --log then nothing but the "
	"log. In a job script:\n\n  mlrun gpu top --log gpu.csv &";

struct args {
	long interval_ms, count; /* count 0: endless */
	const char *log;
	int once, all;
};

enum style { SILENT, PLAIN, SCREEN };

struct session {
	struct args args;
	enum style style;
	struct top_source source;
	struct screen screen;
	int log;
	pid_t script; /* in a job: the first process of our process group; 0: none */
};

/* --- options ----------------------------------------------------------------- */

static void parse_once(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	a->once = 1;
	a->count = 1;
}

static const struct option_row options[] = {
	{ "interval", 'i', "SECONDS", 0, "between two samples: 0.1 to 86400 (2)", 1,
		OPT_PARSE(struct args, interval_ms, cli_options_interval) },
	{ "count", 'n', "N", 0, "end after so many samples", 1,
		OPT_COUNT(struct args, count, 1, LONG_MAX - 1) },
	{ "once", 0, 0, 0, "print one sample as text", 1, OPT_CALL(parse_once) },
	{ "log", 0, "FILE", 0,
		"append each sample to a file as CSV; the man page lists the columns", 1,
		OPT(struct args, log) },
	{ "all", 0, 0, 0, "in a job: also the GPUs that are not the job's", 1,
		OPT(struct args, all) },
	{ 0 },
};
static const struct cli_syntax syntax = {
	.s.options = options,
	.s.doc = doc,
	.no_store = 1,
	.s.surplus = "expected no argument",
};

/* --- what is shown ------------------------------------------------------------- */

/*
 * Has the job's script, the first process of our process group, ended? Then a process that it left
 * in the background ends too. Batch systems that find a job's processes by their parents (Slurm's
 * proctrack/linuxproc) do not end it.
 */
static int is_gone(pid_t pid)
{
	return kill(pid, 0) < 0 && errno == ESRCH;
}

/* Missing samples are explained in a line of the view, or else in a warning. */
static void tell_note(const struct session *s)
{
	if (s->style == SILENT)
		mlr_warning("gpu top: %s", s->source.top.note);
}

static int open_session(struct session *s, struct mlr_error *err)
{
	TRY(top_source_open(&s->source, s->args.all, (unsigned)s->args.interval_ms, err));
	s->script = s->source.is_job && !is_gone(getpgrp()) ? getpgrp() : 0;
	if (s->args.log) {
		s->log = top_log_open(s->args.log, err);
		if (s->log < 0)
			return s->log;
	}
	if (s->source.top.note)
		tell_note(s);
	return 0;
}

static void close_session(struct session *s)
{
	screen_close_keys(&s->screen);
	top_source_close(&s->source);
	fd_close(&s->log);
}

/* Returns 0, or -1 when nobody reads any more. */
static int show_picture(struct session *s, int is_first)
{
	auto_free char *text = NULL;
	int width = PLAIN_WIDTH, height = 0;

	if (s->style == SILENT)
		return 0;
	if (s->style == SCREEN)
		screen_size(&width, &height);
	text = top_view(&s->source.top, width, height);
	return screen_show(&s->screen, is_first, text);
}

/* --- waiting ------------------------------------------------------------------- */

/*
 * Wait for samples, at least until earliest and at most until latest, or until an end is requested.
 */
static void wait_for_news(struct session *s, long long earliest, long long latest)
{
	const struct top_source *from = &s->source;

	while (screen_wait(&s->screen, from->watch.from,
		from->arrived.v || from->watch.from < 0 ? earliest : latest))
		if (top_source_hear(&s->source) < 0)
			tell_note(s);
}

/* Returns the exit status, or -errno. */
static int run(struct session *s, struct mlr_error *err)
{
	long long began = mlr_now_ms(), interval = s->args.interval_ms;
	long long earliest = began + FIRST_MS, latest = earliest;

	if (s->args.count)
		latest = began + PATIENCE_MS;
	else if (s->style != SCREEN || s->args.log)
		latest = began + WAKING_MS;
	screen_begin(&s->screen, s->style == SCREEN);
	for (long done = 0; s->args.count == 0 || done < s->args.count; done++) {

		wait_for_news(s, earliest, latest);
		if (screen_shall_end() || (s->script && is_gone(s->script)))
			break;
		top_source_next(&s->source);
		TRY(s->log >= 0 ? top_log_add(s->log, s->args.log, &s->source.top, err) : 0);
		if (show_picture(s, done == 0) < 0)
			return CLI_FAILED;
		if (s->source.watch.from >= 0)
			earliest = 0; /* the library sets the pace */
		else
			earliest = earliest + interval > mlr_now_ms() ? earliest + interval
								      : mlr_now_ms();
		latest = mlr_now_ms() + interval + GRACE_MS;
	}
	return 0;
}

static enum style choose_style(const struct args *a)
{
	if (isatty(STDOUT_FILENO) && tcgetpgrp(STDOUT_FILENO) == getpgrp())
		return !a->once && screen_is_there() ? SCREEN : PLAIN;
	return a->log ? SILENT : PLAIN;
}

int cmd_gpu_top(int argc, char **argv)
{
	auto_call(close_session) struct session s = { .args = { .interval_ms = 2000 },
		.source = TOP_SOURCE_INIT,
		.screen = SCREEN_INIT,
		.log = -1 };
	struct mlr_error err = MLR_ERROR_INIT;
	int r;

	cli_options_parse(argc, argv, &syntax, &s.args);
	s.style = choose_style(&s.args);
	setvbuf(stdout, NULL, _IOFBF, 1 << 16); /* one write(2) for a view, else it flickers */
	r = open_session(&s, &err);
	if (r == 0)
		r = run(&s, &err);
	if (r >= 0)
		return r;
	return cli_fail_at(&err, "gpu top");
}
