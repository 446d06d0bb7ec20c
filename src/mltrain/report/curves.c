#include "report/curves.h"

#include "report/chart.h"

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

/* Smoothed values, kept until the charts are written. */
struct smooth {
	double **v;
	size_t n;
};

static void smooth_done(struct smooth *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i]);
	free(s->v);
}

static const double *smooth_of(struct smooth *s, const struct curve *c)
{
	double *y = xcalloc(c->n ? c->n : 1, sizeof(*y));

	curve_smooth(c->y, c->n, y);
	s->v = xgrow(s->v, s->n, sizeof(*s->v));
	s->v[s->n++] = y;
	return y;
}

/* Draw the curve at this offset in struct run for each run: the smoothed one over the raw one. */
static void add_smoothed(
	struct chart *c, const struct runs *runs, size_t offset, struct smooth *smooth)
{
	for (size_t i = 0; i < runs->n; i++) {
		const struct run *r = &runs->v[i];
		const struct curve *k = (const struct curve *)((const char *)r + offset);
		struct line l = { runs->n > 1 ? r->label : c->title, "raw", (int)i, LINE_FAINT,
			k->step, k->y, k->n };

		chart_add(c, &l);
		l.what = "smoothed";
		l.style = LINE_STRONG;
		l.y = smooth_of(smooth, k);
		chart_add(c, &l);
	}
}

static void add_plain(struct chart *c, const struct runs *runs, size_t offset)
{
	for (size_t i = 0; i < runs->n; i++) {
		const struct run *r = &runs->v[i];
		const struct curve *k = (const struct curve *)((const char *)r + offset);

		chart_add(c,
			&(struct line){ runs->n > 1 ? r->label : c->title, NULL, (int)i,
				LINE_STRONG, k->step, k->y, k->n });
	}
}

static void write_loss(FILE *f, const struct runs *runs)
{
	auto_call(smooth_done) struct smooth smooth = { 0 };
	struct chart c = { .id = "loss",
		.title = "Loss",
		.x_name = "step",
		.log_choice = 1,
		.about = "Of the latest batch, with the penalty on large weights." };

	add_smoothed(&c, runs, offsetof(struct run, loss), &smooth);
	chart_write(f, &c);
}

/* Draw batches and validation of one run; of several only validation, which compares. */
static void write_error(FILE *f, const struct runs *runs)
{
	auto_call(smooth_done) struct smooth smooth = { 0 };
	struct chart c = { .id = "error",
		.title = "Error",
		.x_name = "step",
		.unit = "%",
		.scale = 100,
		.log_choice = 1,
		.from_zero = 1,
		.about = "Share of images that are not named as labelled." };
	int several = runs->n > 1;

	for (size_t i = 0; i < runs->n; i++) {
		const struct run *r = &runs->v[i];
		const struct curve *k = &r->batch_error, *v = &r->validation_error;
		const double *y = smooth_of(&smooth, k);
		int color = (int)i;

		if (!several)
			chart_add(&c,
				&(struct line){
					"batches", "raw", color, LINE_FAINT, k->step, k->y, k->n });
		chart_add(&c,
			&(struct line){ several ? r->label : "batches",
				several ? "batches, smoothed" : "smoothed", color,
				several ? LINE_FAINT : LINE_STRONG, k->step, y, k->n });
		chart_add(&c,
			&(struct line){ several ? r->label : "validation",
				several ? "validation" : NULL, several ? color : 1, LINE_POINTS,
				v->step, v->y, v->n });
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

static void write_error_time(FILE *f, const struct runs *runs)
{
	struct chart c = { .id = "errortime",
		.title = "Validation error against time",
		.x_log = is_uneven(runs),
		.x_name = "seconds",
		.unit = "%",
		.scale = 100,
		.log_choice = 1,
		.from_zero = 1,
		.about = "What counts when machines of different speed are compared." };

	for (size_t i = 0; i < runs->n; i++) {
		const struct run *r = &runs->v[i];
		const struct curve *v = &r->validation_error;

		chart_add(&c,
			&(struct line){ r->label, NULL, (int)i, LINE_POINTS, v->time, v->y, v->n });
	}
	chart_write(f, &c);
}

static void write_rates(FILE *f, const struct runs *runs)
{
	auto_call(smooth_done) struct smooth smooth = { 0 };
	struct chart lr = { .id = "lr",
		.title = "Learning rate",
		.alone = runs->n == 1,
		.x_name = "step",
		.log_choice = 1 };
	struct chart rate = { .id = "rate",
		.title = "Speed",
		.x_name = "step",
		.unit = "images/s",
		.from_zero = 1,
		.log_choice = runs->n > 1,
		.about = "While computing steps; evaluation and checkpoints do not count." };

	add_plain(&lr, runs, offsetof(struct run, lr));
	chart_write(f, &lr);
	add_smoothed(&rate, runs, offsetof(struct run, rate), &smooth);
	chart_write(f, &rate);
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
	struct chart m = { .id = "memory",
		.title = "Memory of the process",
		.alone = runs->n == 1,
		.x_name = "seconds",
		.unit = "MB",
		.scale = 1e-6,
		.from_zero = 1 };

	for (size_t i = 0; i < runs->n; i++) {
		const struct run *r = &runs->v[i];
		const struct curve *p = &r->cpu_process, *n = &r->cpu_node, *s = &r->rss;
		int several = runs->n > 1, color = (int)i;

		chart_add(&c,
			&(struct line){ several ? r->label : "this process",
				several ? "process" : NULL, color, LINE_STRONG, p->time, p->y,
				p->n });
		chart_add(&c,
			&(struct line){ several ? r->label : "the whole node",
				several ? "node" : NULL, several ? color : 1,
				several ? LINE_FAINT : LINE_STRONG, n->time, n->y, n->n });
		chart_add(&m,
			&(struct line){ r->label, NULL, color, LINE_STRONG, s->time, s->y, s->n });
	}
	chart_write(f, &c);
	chart_write(f, &m);
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
			chart_add(&c,
				&(struct line){ name, NULL, runs->n > 1 ? (int)i : color++,
					LINE_STRONG, k->time, k->y, k->n });
		}
	chart_write(f, &c);
	for (size_t i = 0; i < names.n; i++)
		free(names.v[i]);
}

void curves_write(FILE *f, const struct runs *runs)
{
	fputs("<section aria-labelledby=\"h-curves\"><h2 id=\"h-curves\">Curves</h2>\n"
	      "<p class=\"about hint\">Drag across a stretch to zoom into it; a double click shows all "
	      "again.</p>\n"
	      "<div class=\"charts\">\n",
		f);
	write_loss(f, runs);
	write_error(f, runs);
	if (runs->n > 1)
		write_error_time(f, runs);
	write_rates(f, runs);
	write_ranks(f, runs);
	fputs("</div></section>\n<section aria-labelledby=\"h-load\"><h2 id=\"h-load\">Load of the "
	      "machine</h2>\n<div class=\"charts\">\n",
		f);
	write_cpu(f, runs);
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
	fputs("</div></section>\n", f);
}
