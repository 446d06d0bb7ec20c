#include "report/report.h"

#include <math.h>

void curve_smooth(const double *y, size_t n, double *ret)
{
	double span = fmax(3, (double)n / 25), keep = 1 - 1 / span, sum = 0, weight = 0;

	for (size_t i = 0; i < n; i++) {
		sum = keep * sum + y[i];
		weight = keep * weight + 1;
		ret[i] = sum / weight;
	}
}

/* Smoothed values of each run, kept until the chart is written. */
struct smooth {
	double *v[RUNS_MAX];
};

static void smooth_done(struct smooth *s)
{
	for (int i = 0; i < RUNS_MAX; i++)
		free(s->v[i]);
}

static void add(struct chart *c, const char *name, const char *what, int color,
	enum line_style style, const struct curve *k, const double *y)
{
	int by_time = strcmp(c->x_name, "seconds") == 0;

	chart_add(c,
		&(struct line){ name, what, color, style, by_time ? k->time : k->step, y ? y : k->y,
			k->n });
}

static const double *smooth_of(struct smooth *s, size_t run, const struct curve *k)
{
	s->v[run] = xcalloc(k->n + 1, sizeof(double));
	curve_smooth(k->y, k->n, s->v[run]);
	return s->v[run];
}

/* Draw the curve at this offset in struct run for each run. */
static void write_each(
	FILE *f, const struct runs *runs, size_t offset, enum line_style style, struct chart c)
{
	c.x_name = c.x_name ? c.x_name : "step";
	for (size_t i = 0; i < runs->n; i++)
		add(&c, runs->n > 1 ? runs->v[i].label : c.title, NULL, (int)i, style,
			(const struct curve *)((const char *)&runs->v[i] + offset), NULL);
	chart_write(f, &c);
}

/* Draw it as it is, and a smoothed one over it. */
static void write_smoothed(FILE *f, const struct runs *runs, size_t offset, struct chart c)
{
	auto_call(smooth_done) struct smooth smooth = { { NULL } };

	c.x_name = "step";
	for (size_t i = 0; i < runs->n; i++) {
		const struct curve *k = (const struct curve *)((const char *)&runs->v[i] + offset);
		const char *name = runs->n > 1 ? runs->v[i].label : c.title;

		add(&c, name, "raw", (int)i, LINE_FAINT, k, NULL);
		add(&c, name, "smoothed", (int)i, LINE_STRONG, k, smooth_of(&smooth, i, k));
	}
	chart_write(f, &c);
}

/* Draw batches and validation of one run; of several only validation, which compares. */
static void write_error(FILE *f, const struct runs *runs)
{
	auto_call(smooth_done) struct smooth smooth = { { NULL } };
	struct chart c = { .id = "error",
		.title = "Error",
		.x_name = "step",
		.unit = "%",
		.scale = 100,
		.log_choice = 1,
		.from_zero = 1,
		.about = "Share of images that are not named as labelled." };

	for (size_t i = 0; i < runs->n; i++) {
		const struct run *r = &runs->v[i];
		const struct curve *k = &r->batch_error, *v = &r->validation_error;
		const double *y = smooth_of(&smooth, i, k);

		if (runs->n > 1) {
			add(&c, r->label, "batches, smoothed", (int)i, LINE_FAINT, k, y);
			add(&c, r->label, "validation", (int)i, LINE_POINTS, v, NULL);
			continue;
		}
		add(&c, "batches", "raw", 0, LINE_FAINT, k, NULL);
		add(&c, "batches", "smoothed", 0, LINE_STRONG, k, y);
		add(&c, "validation", NULL, 1, LINE_POINTS, v, NULL);
	}
	chart_write(f, &c);
}

/* Do the durations differ so much that a linear axis would hide the short runs? */
static int is_uneven(const struct runs *runs)
{
	double lo = INFINITY, hi = 0;

	for (size_t i = 0; i < runs->n; i++) {
		lo = fmin(lo, runs->v[i].total_s);
		hi = fmax(hi, runs->v[i].total_s);
	}
	return hi > 5 * lo;
}

/* Elastic ranks over the time of day, so that runs that share a machine can be seen side by side.
 */
static void write_ranks(FILE *f, const struct runs *runs)
{
	struct chart c = { .id = "ranks",
		.title = "Ranks",
		.x_name = "seconds",
		.from_zero = 1,
		.alone = runs->n == 1,
		.about = "Processes that train, since the first of the runs began." };
	double *time[RUNS_MAX] = { NULL }, first = INFINITY;

	for (size_t i = 0; i < runs->n; i++)
		if (runs->v[i].ranks.n)
			first = fmin(first, runs->v[i].ranks.time[0]);
	for (size_t i = 0; i < runs->n; i++) {
		const struct curve *k = &runs->v[i].ranks;

		time[i] = xcalloc(k->n + 1, sizeof(*time[i]));
		for (size_t p = 0; p < k->n; p++)
			time[i][p] = k->time[p] - first;
		chart_add(&c,
			&(struct line){
				runs->v[i].label, NULL, (int)i, LINE_STRONG, time[i], k->y, k->n });
	}
	chart_write(f, &c);
	for (size_t i = 0; i < runs->n; i++)
		free(time[i]);
}

static void write_cpu(FILE *f, const struct runs *runs)
{
	struct chart c = { .id = "cpu",
		.title = "Processors",
		.x_name = "seconds",
		.unit = "%",
		.from_zero = 1,
		.about = "Of this process 100 % is one processor at work the whole time, "
			 "of the node all of them." };

	for (size_t i = 0; i < runs->n; i++) {
		const struct run *r = &runs->v[i];

		if (runs->n > 1) {
			add(&c, r->label, "process", (int)i, LINE_STRONG, &r->cpu_process, NULL);
			add(&c, r->label, "node", (int)i, LINE_FAINT, &r->cpu_node, NULL);
			continue;
		}
		add(&c, "this process", NULL, 0, LINE_STRONG, &r->cpu_process, NULL);
		add(&c, "the whole node", NULL, 1, LINE_STRONG, &r->cpu_node, NULL);
	}
	chart_write(f, &c);
}

/* Draw one quantity of every GPU of every run. */
static void write_gpus(FILE *f, const struct runs *runs, size_t offset, struct chart c)
{
	struct {
		char *v[RUNS_MAX * RUNS_GPUS_MAX];
		size_t n;
	} names = { .n = 0 };
	int color = 0;

	c.x_name = "seconds";
	c.from_zero = 1;
	for (size_t i = 0; i < runs->n; i++)
		for (int g = 0; g < runs->v[i].n_gpus; g++) {
			const struct run_gpu *gpu = &runs->v[i].gpus[g];
			const struct curve *k = (const struct curve *)((const char *)gpu + offset);
			char *name = runs->n > 1
				? xasprintf("%s: GPU %d", runs->v[i].label, gpu->index)
				: xasprintf("GPU %d", gpu->index);

			names.v[names.n++] = name;
			add(&c, name, NULL, runs->n > 1 ? (int)i : color++, LINE_STRONG, k, NULL);
		}
	chart_write(f, &c);
	for (size_t i = 0; i < names.n; i++)
		free(names.v[i]);
}

static void write_load(FILE *f, const struct runs *runs)
{
	write_cpu(f, runs);
	write_each(f, runs, offsetof(struct run, rss), LINE_STRONG,
		(struct chart){ .id = "memory",
			.title = "Memory of the process",
			.alone = runs->n == 1,
			.x_name = "seconds",
			.unit = "MB",
			.scale = 1e-6,
			.from_zero = 1 });
	write_gpus(f, runs, offsetof(struct run_gpu, percent),
		(struct chart){ .id = "gpu",
			.title = "GPUs",
			.unit = "%",
			.about = "Share of the time in which a kernel ran, as NVIDIA's management "
				 "library tells it." });
	write_gpus(f, runs, offsetof(struct run_gpu, power),
		(struct chart){ .id = "power", .title = "Power of the GPUs", .unit = "W" });
	write_gpus(f, runs, offsetof(struct run_gpu, memory),
		(struct chart){ .id = "gpumemory",
			.title = "Memory of the GPUs",
			.unit = "GB",
			.scale = 1e-9 });
}

void curves_write(FILE *f, const struct runs *runs)
{
	fputs("<section aria-labelledby=\"h-curves\"><h2 id=\"h-curves\">Curves</h2>\n"
	      "<p class=\"about hint\">Drag across a stretch to zoom into it; a double click shows all "
	      "again.</p>\n"
	      "<div class=\"charts\">\n",
		f);
	write_smoothed(f, runs, offsetof(struct run, loss),
		(struct chart){ .id = "loss",
			.title = "Loss",
			.log_choice = 1,
			.about = "Of the latest batch, with the penalty on large weights." });
	write_error(f, runs);
	if (runs->n > 1)
		write_each(f, runs, offsetof(struct run, validation_error), LINE_POINTS,
			(struct chart){ .id = "errortime",
				.title = "Validation error against time",
				.x_log = is_uneven(runs),
				.x_name = "seconds",
				.unit = "%",
				.scale = 100,
				.log_choice = 1,
				.from_zero = 1,
				.about =
					"What counts when machines of different speed are compared." });
	write_each(f, runs, offsetof(struct run, lr), LINE_STRONG,
		(struct chart){ .id = "lr",
			.title = "Learning rate",
			.alone = runs->n == 1,
			.log_choice = 1 });
	write_smoothed(f, runs, offsetof(struct run, rate),
		(struct chart){ .id = "rate",
			.title = "Speed",
			.unit = "images/s",
			.from_zero = 1,
			.log_choice = runs->n > 1,
			.about =
				"While computing steps; evaluation and checkpoints do not count." });
	write_ranks(f, runs);
	fputs("</div></section>\n<section aria-labelledby=\"h-load\"><h2 id=\"h-load\">Load of the "
	      "machine</h2>\n<div class=\"charts\">\n",
		f);
	write_load(f, runs);
	fputs("</div></section>\n", f);
}
