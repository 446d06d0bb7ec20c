#include "report/traffic_page.h"

#include "report/chart.h"
#include "report/html.h"

#include <math.h>

/* --- numbers ---------------------------------------------------------------------------- */

/* "0.123 ms", "12.3 ms", "1.23 s" of milliseconds. */
static char *duration(double ms, char buf[64])
{
	if (isnan(ms))
		strcpy(buf, "–");
	else if (ms < 10)
		snprintf(buf, 64, "%.3f ms", ms);
	else if (ms < 1000)
		snprintf(buf, 64, "%.1f ms", ms);
	else
		snprintf(buf, 64, "%.2f s", ms / 1000);
	return buf;
}

static char *count(double v, char buf[64])
{
	return html_count(v, buf);
}

static char *share(double v, char buf[64])
{
	return html_percent(v, 2, buf);
}

static char *seconds(double v, char buf[64])
{
	return html_duration(v, buf);
}

static char *bytes(double v, char buf[64])
{
	if (isnan(v))
		return strcpy(buf, "–");
	snprintf(buf, 64, v < 1e6 ? "%.1f kB" : "%.1f MB", v < 1e6 ? v / 1e3 : v / 1e6);
	return buf;
}

static char *micro(double v, char buf[64])
{
	if (isnan(v))
		return strcpy(buf, "–");
	snprintf(buf, 64, "%.1f µs", v);
	return buf;
}

static double failed_share(const struct traffic_run *r)
{
	return r->numbers[TRAFFIC_REQUESTS] > 0
		? r->numbers[TRAFFIC_FAILED] / r->numbers[TRAFFIC_REQUESTS]
		: NAN;
}

static double known_share(const struct traffic_run *r)
{
	double all = r->numbers[TRAFFIC_KNOWN] + r->numbers[TRAFFIC_UNIQUE];

	return all > 0 ? r->numbers[TRAFFIC_KNOWN] / all : NAN;
}

/* --- tables ----------------------------------------------------------------------------- */

/* A row: a number of the run or a share of two, how it is written, whether it is compared. */
static const struct row {
	const char *name;
	int number; /* -1: value tells it */
	double (*value)(const struct traffic_run *r);
	char *(*shown)(double v, char buf[64]);
	int compared;
} rows[] = {
	{ "requests a second", TRAFFIC_RATE, NULL, count, 1 },
	{ "requests", TRAFFIC_REQUESTS, NULL, count, 0 },
	{ "failed", -1, failed_share, share, 0 },
	{ "never sent", TRAFFIC_NOT_SENT, NULL, count, 0 },
	{ "known bodies", -1, known_share, share, 0 },
	{ "most users, or requests on their way", TRAFFIC_USERS, NULL, count, 0 },
	{ "connections", TRAFFIC_CONNECTIONS, NULL, count, 0 },
	{ "sent", TRAFFIC_SENT, NULL, bytes, 0 },
	{ "received", TRAFFIC_RECEIVED, NULL, bytes, 0 },
	{ "time", TRAFFIC_SECONDS, NULL, seconds, 0 },
	{ "generator, processor time a request", TRAFFIC_CPU, NULL, micro, 0 },
	{ "generator, share of a processor", TRAFFIC_SHARE, NULL, share, 0 },
};

static double value_of(const struct row *row, const struct traffic_run *r)
{
	return row->number < 0 ? row->value(r) : r->numbers[row->number];
}

static void cell(FILE *f, const char *shown, double v, double first, int compared)
{
	char b[64] = "";

	if (compared)
		html_ratio(v, first, b);
	html_format(f, "<td class=\"num\">%s <small>%s</small></td>", shown, b);
}

static void write_head(FILE *f, const struct traffic *t)
{
	fputs("<thead><tr><th scope=\"col\"></th>", f);
	for (size_t i = 0; i < t->n; i++)
		html_column(f, i, t->v[i].name);
	fputs("</tr></thead>\n<tbody>\n", f);
}

static void end_table(FILE *f)
{
	fputs("</tbody></table></div></section>\n", f);
}

static void write_latencies(FILE *f, const struct traffic *t)
{
	html_table_begin(f, "latency", "Latency", "latency");
	write_head(f, t);
	for (int l = 0; l < TRAFFIC_LATENCIES; l++) {
		html_format(f, "<tr><th scope=\"row\">%s</th>", traffic_latencies[l]);
		for (size_t i = 0; i < t->n; i++) {
			double v = t->v[i].latencies[l];
			char a[64];

			cell(f, duration(v, a), v, t->v[0].latencies[l], i > 0);
		}
		fputs("</tr>\n", f);
	}
	end_table(f);
}

static void write_requests(FILE *f, const struct traffic *t)
{
	html_table_begin(f, "requests", "Requests", "requests");
	write_head(f, t);
	for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
		html_format(f, "<tr><th scope=\"row\">%s</th>", rows[k].name);
		for (size_t i = 0; i < t->n; i++) {
			double v = value_of(&rows[k], &t->v[i]);
			char a[64];

			cell(f, rows[k].shown(v, a), v, value_of(&rows[k], &t->v[0]),
				rows[k].compared && i > 0);
		}
		fputs("</tr>\n", f);
	}
	end_table(f);
}

static void write_verdicts(FILE *f, const struct traffic *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += t->v[i].n_verdicts;
	if (!n)
		return;
	html_table_begin(f, "verdicts", "Checks and thresholds", "verdicts");
	fputs("<thead><tr><th scope=\"col\">run</th><th scope=\"col\">what must be true</th>"
	      "<th scope=\"col\">seen</th><th scope=\"col\">result</th></tr></thead>\n<tbody>\n",
		f);
	for (size_t i = 0; i < t->n; i++)
		for (size_t k = 0; k < t->v[i].n_verdicts; k++) {
			const struct traffic_verdict *v = &t->v[i].verdicts[k];

			fprintf(f, "<tr><th scope=\"row\"><span class=\"dot c%zu\"></span>", i % 8);
			html_format(f,
				"%s</th><td>%s</td><td class=\"num\">%s</td><td>"
				"<span class=\"outcome %s\">%s</span></td></tr>\n",
				t->v[i].name, v->text, v->shown, v->good ? "ended" : "odd",
				v->good ? "kept" : "broken");
		}
	end_table(f);
}

/* --- curves ----------------------------------------------------------------------------- */

static int any_failed(const struct traffic *t)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].numbers[TRAFFIC_FAILED] > 0)
			return 1;
	return 0;
}

static void write_curve(FILE *f, const struct traffic *t, enum traffic_curve curve, struct chart c)
{
	c.x_name = c.x_name ? c.x_name : "seconds";
	c.from_zero = 1;
	for (int two = curve == TRAFFIC_CURVE_MED, k = 0; k <= two; k++)
		for (size_t i = 0; i < t->n; i++) {
			const struct traffic_points *p =
				&t->v[i].curves[k ? TRAFFIC_CURVE_P99 : curve];

			chart_add(&c,
				&(struct line){ t->v[i].name,
					!two        ? NULL
						: k ? "p99"
						    : "median",
					(int)i, k ? LINE_FAINT : LINE_STRONG, p->x, p->y, p->n });
		}
	chart_write(f, &c);
}

static void write_curves(FILE *f, const struct traffic *t)
{
	int alone = t->n == 1;

	fputs("<section aria-labelledby=\"h-curves\"><h2 id=\"h-curves\">Curves</h2>\n"
	      "<p class=\"about hint\">Drag across a stretch to zoom into it; a double click shows all "
	      "again.</p>\n<div class=\"charts\">\n",
		f);
	write_curve(f, t, TRAFFIC_CURVE_MED,
		(struct chart){ .id = "times",
			.title = "Latency over time",
			.about = "In each second, half and one of a hundred requests took longer.",
			.unit = "ms",
			.log_choice = 1 });
	write_curve(f, t, TRAFFIC_CURVE_PERCENTILES,
		(struct chart){ .id = "percentiles",
			.title = "Latency by percentile",
			.about = "One of so many requests took longer: 100 is the 99th percentile.",
			.x_name = "one of",
			.unit = "ms",
			.log_choice = 1,
			.x_log = 1,
			.alone = alone });
	write_curve(f, t, TRAFFIC_CURVE_RATE,
		(struct chart){ .id = "rate",
			.title = "Requests a second",
			.unit = "requests/s",
			.log_choice = !alone,
			.alone = alone });
	write_curve(f, t, TRAFFIC_CURVE_USERS,
		(struct chart){ .id = "users",
			.title = "Users, or requests on their way",
			.alone = alone });
	if (any_failed(t))
		write_curve(f, t, TRAFFIC_CURVE_FAILED,
			(struct chart){ .id = "failed",
				.title = "Failed requests in each second",
				.alone = alone });
	fputs("</div></section>\n", f);
}

/* --- the page --------------------------------------------------------------------------- */

/* Describe the runs, a line each. */
static void write_header(FILE *f, const struct traffic *t, const char *title)
{
	html_format(f, "<header><h1>%s</h1>\n", title);
	for (size_t i = 0; i < t->n; i++) {
		const struct traffic_run *r = &t->v[i];

		fprintf(f, "<p class=\"machine\"><span class=\"dot c%zu\"></span>", i % 8);
		html_format(f, "%s: <span>%s</span> · <span>%s</span> · <span>%s</span>%s</p>\n",
			r->name, r->url, r->load, r->host, r->interrupted ? " · interrupted" : "");
	}
	fputs("</header>\n<main>\n", f);
}

void traffic_page_write(FILE *f, const struct traffic *t)
{
	auto_free char *title = t->n == 1 ? xasprintf("Load on %s", t->v[0].url)
					  : xasprintf("Load: %zu runs", t->n);

	html_page_begin(f, title);
	write_header(f, t, title);
	write_latencies(f, t);
	write_requests(f, t);
	write_curves(f, t);
	write_verdicts(f, t);
	html_page_end(f);
}
