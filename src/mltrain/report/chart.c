/*
 * A chart as inline SVG, drawn without scripts: axes, grid and lines. On request it has a second
 * drawing with a logarithmic axis, which a checkbox shows by CSS alone. The data that a script
 * needs to show values under the pointer follows as JSON.
 */
#include "report/report.h"

#include "base/json.h"
#include "report/html.h"

#include <math.h>

/* Sizes of the drawing, in pixels at the width of a column on a desktop. */
#define WIDTH     560
#define HEIGHT    300
#define LEFT      62
#define RIGHT     14
#define TOP       12
#define BOTTOM    40
#define TICKS_MAX 16

#define COLORS 8 /* in report.css */

#define LOG_MIN 1e-30 /* a logarithmic axis has no lower values */

struct axis {
	double lo, hi;
	int is_log;
};

void chart_add(struct chart *c, const struct line *l)
{
	if (!c->unit)
		c->unit = "";
	if (c->scale == 0)
		c->scale = 1;
	if (l->n && c->n < CHART_LINES_MAX)
		c->lines[c->n++] = *l;
}

/* --- axes ----------------------------------------------------------------------------- */

static size_t log_ticks(double lo, double hi, double *ret, size_t max)
{
	static const double steps[][3] = { { 1, 2, 5 }, { 1, 3, 0 }, { 1, 0, 0 } };
	double decades = log10(hi / lo);
	const double *step = steps[decades <= 1.7 ? 0 : decades <= 3.4 ? 1 : 2];
	int every = decades > 8 ? (int)ceil(decades / 8) : 1;
	size_t n = 0;

	for (int e = (int)floor(log10(lo)); e <= (int)ceil(log10(hi)); e += every)
		for (int i = 0; i < 3 && step[i] > 0; i++) {
			double v = step[i] * pow(10, e);

			if (v >= lo * (1 - 1e-9) && v <= hi * (1 + 1e-9) && n < max)
				ret[n++] = v;
		}
	return n;
}

size_t chart_ticks(double lo, double hi, int is_log, double *ret, size_t max)
{
	double rough = (hi - lo) / 5, power, step;
	size_t n = 0;

	if (is_log)
		return log_ticks(lo, hi, ret, max);
	if (!(rough > 0))
		return 0;
	power = pow(10, floor(log10(rough)));
	step = rough / power < 1.5    ? power
		: rough / power < 3.5 ? 2 * power
		: rough / power < 7.5 ? 5 * power
				      : 10 * power;
	for (double i = ceil(lo / step - 1e-9); i * step <= hi + 1e-9 * step && n < max; i++)
		ret[n++] = i == 0 ? 0 : i * step;
	return n;
}

static double place(const struct axis *a, double v)
{
	if (a->is_log)
		return log(v / a->lo) / log(a->hi / a->lo);
	return (v - a->lo) / (a->hi - a->lo);
}

static double x_of(const struct axis *a, double v)
{
	return LEFT + (WIDTH - LEFT - RIGHT) * place(a, v);
}

static double y_of(const struct axis *a, double v)
{
	return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * place(a, v);
}

static struct axis x_axis(const struct chart *c)
{
	struct axis a = { INFINITY, -INFINITY, 0 };

	for (size_t i = 0; i < c->n; i++) {
		const struct line *l = &c->lines[i];

		a.lo = fmin(a.lo, l->x[0]);
		a.hi = fmax(a.hi, l->x[l->n - 1]);
	}
	if (c->x_log && a.lo > 1e-6 && a.hi > 2 * a.lo) {
		a.is_log = 1;
		return a;
	}
	if (a.lo < 0.2 * a.hi)
		a.lo = 0;
	if (!(a.hi > a.lo))
		a.hi = a.lo + fmax(1, 0.1 * a.lo);
	return a;
}

/* Find the range of positive values for a logarithmic axis. Returns 0, or -1 without values. */
static int y_axis(const struct chart *c, int is_log, struct axis *a)
{
	*a = (struct axis){ INFINITY, -INFINITY, is_log };
	for (size_t i = 0; i < c->n; i++)
		for (size_t k = 0; k < c->lines[i].n; k++) {
			double y = c->scale * c->lines[i].y[k];

			if (is_log && y < LOG_MIN)
				continue;
			a->lo = fmin(a->lo, y);
			a->hi = fmax(a->hi, y);
		}
	if (a->lo > a->hi)
		return -1;
	if (is_log) {
		a->lo /= 1.1;
		a->hi *= a->hi > 1.2 * a->lo ? 1.1 : 10;
		return 0;
	}
	if (c->from_zero && a->lo > 0)
		a->lo = 0;
	if (!(a->hi > a->lo)) { /* a constant curve: in the middle, or at the bottom if it is 0 */
		double v = a->lo;

		a->hi = v + (v != 0 ? 0.5 * fabs(v) : 1);
		a->lo = v - 0.5 * fabs(v);
	}
	a->hi += 0.04 * (a->hi - a->lo);
	if (a->lo != 0)
		a->lo -= 0.04 * (a->hi - a->lo);
	return 0;
}

/* Format a label short enough for the margin: 0.05, 1200, 15 k, 2 M. */
static void tick_text(double v, char buf[32])
{
	if (fabs(v) >= 1e13)
		snprintf(buf, 32, "%.0e", v);
	else if (fabs(v) >= 1e10)
		snprintf(buf, 32, "%.4g G", v / 1e9);
	else if (fabs(v) >= 1e7)
		snprintf(buf, 32, "%.4g M", v / 1e6);
	else if (fabs(v) >= 1e4)
		snprintf(buf, 32, "%.4g k", v / 1e3);
	else
		snprintf(buf, 32, "%.4g", v);
}

static void write_y_ticks(FILE *f, const struct axis *a)
{
	double ticks[TICKS_MAX];
	size_t n = chart_ticks(a->lo, a->hi, a->is_log, ticks, TICKS_MAX);

	fputs("<g class=\"y\">\n", f);
	for (size_t i = 0; i < n; i++) {
		double y = y_of(a, ticks[i]);
		char text[32];

		tick_text(ticks[i], text);
		fprintf(f,
			"<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" "
			"text-anchor=\"end\">%s</text>\n",
			LEFT, y, WIDTH - RIGHT, LEFT - 7, y + 4, text);
	}
	fputs("</g>\n", f);
}

static void write_x_ticks(FILE *f, const struct axis *a, const char *name)
{
	double ticks[TICKS_MAX];
	size_t n = chart_ticks(a->lo, a->hi, a->is_log, ticks, TICKS_MAX);

	fprintf(f, "<path class=\"base\" d=\"M%d %dH%d\"/>\n<g class=\"x\">\n", LEFT,
		HEIGHT - BOTTOM, WIDTH - RIGHT);
	for (size_t i = 0; i < n; i++) {
		double x = x_of(a, ticks[i]);
		char text[32];

		tick_text(ticks[i], text);
		fprintf(f,
			"<path class=\"base\" d=\"M%.1f %dv4\"/><text x=\"%.1f\" y=\"%d\" "
			"text-anchor=\"middle\">%s</text>\n",
			x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 18, text);
	}
	fprintf(f, "</g>\n<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", WIDTH - RIGHT,
		HEIGHT - 4, name);
}

/* --- lines ----------------------------------------------------------------------------- */

static const char *style_name(enum line_style s)
{
	return s == LINE_FAINT ? "faint" : s == LINE_POINTS ? "points" : "strong";
}

static void write_line(FILE *f, const struct chart *c, const struct line *l, const struct axis *x,
	const struct axis *y)
{
	char command = 'M';

	fprintf(f, "<path class=\"line %s c%d%s\" data-points=\"%zu\" d=\"", style_name(l->style),
		l->color % COLORS, l->color >= COLORS ? " dashed" : "", l->n);
	for (size_t i = 0; i < l->n; i++) {
		double v = c->scale * l->y[i];

		if (y->is_log && v < LOG_MIN) {
			command = 'M'; /* a gap */
			continue;
		}
		fprintf(f, "%c%.1f %.1f", command, x_of(x, l->x[i]), y_of(y, v));
		command = 'L';
	}
	fputs("\"/>\n", f);
	if (l->style != LINE_POINTS && l->n > 1) /* a line of one point is invisible */
		return;
	for (size_t i = 0; i < l->n; i++)
		if (!y->is_log || c->scale * l->y[i] >= LOG_MIN)
			fprintf(f, "<circle class=\"c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\"/>\n",
				l->color % COLORS, x_of(x, l->x[i]), y_of(y, c->scale * l->y[i]));
}

static void write_drawing(
	FILE *f, const struct chart *c, const struct axis *x, const struct axis *y)
{
	fprintf(f, "<g class=\"%s\">\n", y->is_log ? "log" : "lin");
	write_y_ticks(f, y);
	fputs("<g class=\"lines\">\n", f);
	for (size_t i = 0; i < c->n; i++)
		if (c->lines[i].style == LINE_FAINT)
			write_line(f, c, &c->lines[i], x, y);
	for (size_t i = 0; i < c->n; i++)
		if (c->lines[i].style != LINE_FAINT)
			write_line(f, c, &c->lines[i], x, y);
	fputs("</g>\n</g>\n", f);
}

static void write_legend(FILE *f, const struct chart *c)
{
	if (c->alone && c->n == 1)
		return;
	fputs("<ul class=\"legend\">\n", f);
	for (size_t i = 0; i < c->n; i++) {
		const struct line *l = &c->lines[i];

		fprintf(f,
			"<li><svg class=\"key\" viewBox=\"0 0 22 10\" aria-hidden=\"true\"><path "
			"class=\"line %s c%d%s\" d=\"M1 5H21\"/></svg>",
			style_name(l->style), l->color % COLORS,
			l->color >= COLORS ? " dashed" : "");
		html_text(f, l->name);
		if (l->what)
			html_format(f, " <span class=\"what\">%s</span>", l->what);
		fputs("</li>\n", f);
	}
	fputs("</ul>\n", f);
}

/* --- data for the script -------------------------------------------------------------- */

static json_t *array(const double *v, size_t n, double scale)
{
	return MLR_JSON_LIST(i, n, json_real(v[i] * scale));
}

static json_t *line_json(const struct line *l, double scale)
{
	return json_pack("{s:s, s:s, s:i, s:o, s:o}", "name", l->name, "what",
		l->what ? l->what : "", "color", l->color % COLORS, "x", array(l->x, l->n, 1), "y",
		array(l->y, l->n, scale));
}

static void write_data(FILE *f, const struct chart *c, const struct axis *x, const struct axis *lin,
	const struct axis *log)
{
	auto_free char *text =
		mlr_json_print(json_pack("{s:[iiii], s:[ff], s:b, s:[ff], s:o, s:s, s:s, s:o}",
				       "box", LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM, "x", x->lo,
				       x->hi, "xlog", x->is_log, "lin", lin->lo, lin->hi, "log",
				       log ? json_pack("[ff]", log->lo, log->hi) : json_null(),
				       "xname", c->x_name, "unit", c->unit, "lines",
				       MLR_JSON_LIST(i, c->n, line_json(&c->lines[i], c->scale))),
			JSON_COMPACT | JSON_REAL_PRECISION(9));

	fprintf(f, "<script type=\"application/json\" id=\"data-%s\">", c->id);
	for (const char *p = text; *p; p++) /* text must not end the element */
		if (*p == '<')
			fputs("\\u003c", f);
		else
			fputc(*p, f);
	fputs("</script>\n", f);
}

/* --- thinning ---------------------------------------------------------------------------- */

/* Keep the lowest and highest point of each stretch, in their order. */
static void thin(struct line *l, double *x, double *y)
{
	size_t bins = CHART_POINTS_MAX / 2, n = 0;

	for (size_t b = 0; b < bins; b++) {
		size_t from = b * l->n / bins, to = (b + 1) * l->n / bins, lo = from, hi = from;

		for (size_t i = from; i < to; i++) {
			lo = l->y[i] < l->y[lo] ? i : lo;
			hi = l->y[i] > l->y[hi] ? i : hi;
		}
		for (int k = 0; k < (lo == hi ? 1 : 2); k++) {
			size_t i = k == 0 ? (lo < hi ? lo : hi) : lo < hi ? hi : lo;

			x[n] = l->x[i];
			y[n++] = l->y[i];
		}
	}
	l->x = x;
	l->y = y;
	l->n = n;
}

static void write_figure(FILE *f, const struct chart *c)
{
	struct axis x = x_axis(c), lin, log;
	int has_log;

	if (y_axis(c, 0, &lin) < 0)
		return;
	has_log = c->log_choice && y_axis(c, 1, &log) == 0;
	fprintf(f, "<figure class=\"chart\" id=\"%s\"><figcaption><h3>%s</h3>", c->id, c->title);
	if (c->unit[0])
		fprintf(f, "<span class=\"unit\">%s</span>", c->unit);
	fputs("</figcaption>\n", f);
	if (has_log)
		fprintf(f,
			"<input type=\"checkbox\" class=\"logswitch\" id=\"log-%s\"><label "
			"for=\"log-%s\">logarithmic</label>\n",
			c->id, c->id);
	fprintf(f,
		"<svg class=\"plot%s\" viewBox=\"0 0 %d %d\" role=\"img\" tabindex=\"0\" "
		"aria-label=\"%s%s%s over %s; arrow keys tell values, plus zooms, escape shows all\">\n",
		has_log ? " haslog" : "", WIDTH, HEIGHT, c->title, c->unit[0] ? ", " : "", c->unit,
		c->x_name);
	write_x_ticks(f, &x, c->x_name);
	write_drawing(f, c, &x, &lin);
	if (has_log)
		write_drawing(f, c, &x, &log);
	fputs("</svg>\n", f);
	write_legend(f, c);
	if (c->about)
		fprintf(f, "<p class=\"about\">%s</p>\n", c->about);
	write_data(f, c, &x, &lin, has_log ? &log : NULL);
	fputs("</figure>\n", f);
}

void chart_write(FILE *f, const struct chart *c)
{
	auto_free double *room = NULL;
	struct chart thinned = *c;

	if (!c->n)
		return;
	room = xcalloc(c->n * 2 * CHART_POINTS_MAX, sizeof(*room));
	for (size_t i = 0; i < c->n; i++)
		if (c->lines[i].n > CHART_POINTS_MAX)
			thin(&thinned.lines[i], room + 2 * i * CHART_POINTS_MAX,
				room + (2 * i + 1) * CHART_POINTS_MAX);
	write_figure(f, &thinned);
}
