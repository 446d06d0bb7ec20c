#include "web/charts.h"

#include "report/html.h"
#include "report/report.h"
#include "web/lines.h"

#include <math.h>

#define FILE_MAX    ((off_t)64 << 20) /* bytes that are read; of a larger file the end */
#define METRICS_MAX 64

/* A number over the steps. */
struct series {
	char *name;
	struct curve at;
};

struct metrics {
	struct series v[METRICS_MAX];
	size_t n;
	double line;
};

static void metrics_done(struct metrics *m)
{
	for (size_t i = 0; i < m->n; i++) {
		free(m->v[i].name);
		free(m->v[i].at.step);
		free(m->v[i].at.y);
	}
}

static struct series *series_of(struct metrics *m, const char *name)
{
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->v[i].name, name) == 0)
			return &m->v[i];
	if (m->n == METRICS_MAX)
		return NULL;
	m->v[m->n].name = xstrdup(name);
	return &m->v[m->n++];
}

static void add_point(struct series *s, double step, double y)
{
	struct curve *c = &s->at;

	if (c->n && step < c->step[c->n - 1])
		return; /* what a run that began again has repeated */
	c->step = xgrow(c->step, c->n, sizeof(double));
	c->y = xgrow(c->y, c->n, sizeof(double));
	c->step[c->n] = step;
	c->y[c->n++] = y;
}

static void take_line(void *ctx, const char *text, size_t len)
{
	struct metrics *m = ctx;
	const char *key;
	int has_nan;
	json_t *o = lines_parse(text, len, &has_nan), *v;
	double step = lines_step(o);

	json_object_foreach(o, key, v) {
		struct series *s;

		if (json_is_number(v) && isfinite(json_number_value(v)) && (s = series_of(m, key)))
			add_point(s, isnan(step) ? m->line : step, json_number_value(v));
	}
	json_decref(o);
}

/* A text as HTML, to free(). */
static char *escaped(const char *text)
{
	char *ret = NULL;
	size_t len;
	FILE *f = open_memstream(&ret, &len);

	html_text(f, text);
	fclose(f);
	return ret;
}

static void write_series(FILE *f, const struct series *s, size_t number)
{
	auto_free char *title = escaped(s->name);
	char id[32];
	struct chart c = {
		.id = id, .title = title, .x_name = "step", .log_choice = 1, .alone = 1
	};
	const struct line line = { .name = s->name, .x = s->at.step, .y = s->at.y, .n = s->at.n };

	snprintf(id, sizeof(id), "m%zu", number);
	chart_add(&c, &line);
	chart_write(f, &c);
}

static void write_others(FILE *f, int fd, off_t from, off_t size)
{
	auto_call(metrics_done) struct metrics m = { 0 };

	lines_read(fd, from, size, take_line, &m);
	fputs("<div class=\"charts\">\n", f);
	for (size_t i = 0; i < m.n; i++)
		if (strcmp(m.v[i].name, "step") != 0 && m.v[i].at.n > 1)
			write_series(f, &m.v[i], i);
	fputs("</div>\n", f);
}

/* Read mltrain's log. Returns whether it is one. */
static int read_runs(int fd, off_t size, const char *path, struct runs *ret)
{
	auto_free char *text = xmalloc((size_t)size + 1);
	ssize_t n = pread(fd, text, (size_t)size, 0);
	struct mlr_error err = MLR_ERROR_INIT;
	const char *end = n > 0 ? memrchr(text, '\n', (size_t)n) : NULL;

	return end && runs_parse(ret, text, (size_t)(end + 1 - text), path, &err) >= 0 && ret->n;
}

int charts_make(int fd, off_t size, const char *path, json_t **ret, struct mlr_error *err)
{
	auto_free char *html = NULL;
	struct runs runs = { 0 };
	size_t len;
	FILE *f = open_memstream(&html, &len);

	if (!f)
		return mlr_fail_errno(err, "draw charts");
	if (size <= FILE_MAX && read_runs(fd, size, path, &runs))
		curves_write(f, &runs);
	runs_done(&runs);
	fflush(f);
	if (!strstr(html, "<figure")) { /* no log of mltrain's, or one without what it measures */
		rewind(f);
		write_others(f, fd, size > FILE_MAX ? size - FILE_MAX : 0, size);
	}
	fclose(f);
	*ret = json_stringn(html, len);
	return *ret ? 0 : mlr_fail(err, EPROTO, "'%s': the metrics are no UTF-8", path);
}
