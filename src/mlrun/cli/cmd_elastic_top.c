/* mlrun elastic top: shows who has how many slots, again and again. */
#include "cli/cli.h"
#include "cli/listing.h"
#include "cli/options.h"
#include "cli/screen.h"

#include "base/json.h"
#include "work/watch.h"
#include "work/work.h"

#include <math.h>

#define TROUBLE_MS 60000 /* the longest time between two questions that Slurm does not answer */

struct args {
	struct cli_common common;
	long interval_ms;
	int once, json;
};

static const struct option_row options[] = {
	{ "interval", 'i', "SECONDS", 0, "between two looks: 0.1 to 86400 (2)", 1,
		OPT_PARSE(struct args, interval_ms, cli_options_interval) },
	{ "once", 0, NULL, 0, "print one look as text", 1, OPT(struct args, once) },
	{ "json", 0, NULL, 0, "print one look as JSON; the man page lists its keys", 1,
		OPT(struct args, json) },
	{ 0 },
};

static const struct cli_syntax syntax = {
	.s.options = options,
	.s.doc =
		"Show the elastic runs of all users, the slots that they have and had, again and again. "
		"q or ^C ends it.\vWithout a terminal the same comes as text, once each interval.",
	.s.surplus = "expected no argument",
};

/* Does the terminal show UTF-8? The first that is set counts (locale(7)). */
static int has_utf8(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *v = getenv(names[i]);

		if (v && *v)
			return strcasestr(v, "utf-8") || strcasestr(v, "utf8");
	}
	return 0;
}

/* A column for each cell, as high as its share of all slots. */
static char *picture(const struct watch_run *r, long slots)
{
	static const char *const high[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" },
				 *const plain[] = { " ", ".", ".", ":", "-", "=", "+", "*", "#" };
	const char *const *levels = has_utf8() ? high : plain;
	auto_strv struct strv cells = STRV_INIT;

	strv_add(&cells, "|");
	for (int i = 0; i < WATCH_CELLS; i++) {
		int level = slots > 0 ? (int)ceil(8 * r->past[i] / (double)slots) : 0;

		strv_add(&cells, levels[level > 8 ? 8 : level]);
	}
	strv_add(&cells, "|");
	return strv_join(&cells, cells.n, "");
}

static void put(struct listing *l, const struct watch_pool *pool, const struct watch_run *r)
{
	auto_free char *user = cli_user_name((uid_t)atol(r->user));
	int knows_rate = !isnan(r->images_per_second);
	listing_row(l);
	listing_text(l, "ID", "id", r->key);
	listing_text(l, "USER", "user", user);
	listing_text(l, "NAME", "name", r->name);
	listing_text(l, NULL, "partition", pool->partition);
	listing_text(l, NULL, "unit", pool->kind == 'g' ? "gpu" : "cpu");
	listing_cell(l, "SLOTS", xasprintf("%ld of %ld", r->held, pool->slots));
	listing_number(l, NULL, "held", r->held);
	listing_number(l, NULL, "running", r->running);
	listing_number(l, NULL, "waiting", r->waiting);
	listing_number(l, NULL, "due", r->due);
	listing_number(l, "MIN", "min", r->min);
	listing_number(l, "MAX", "max", r->max);
	listing_number(l, "WEIGHT", "weight", r->weight);
	listing_text(l, "STATE", "state", watch_state_names[r->state]);
	listing_known(l, "GEN", "generation", r->generation, r->generation >= 0);
	listing_cell(l, "IMAGES/S", knows_rate ? xasprintf("%.0f", r->images_per_second) : NULL);
	listing_json(
		l, "images_per_second", knows_rate ? json_real(r->images_per_second) : json_null());
	listing_cell(l, "LAST 5 MINUTES", picture(r, pool->slots));
	listing_json(l, "past", MLR_JSON_LIST(i, WATCH_CELLS, json_real(r->past[i])));
	listing_text(l, "WAITS FOR", "reason", r->reason);
	listing_optional(l);
}

static json_t *to_json(const struct watch *w)
{
	struct listing partitions = { .as_json = 1 }, runs = { .as_json = 1 };

	for (size_t i = 0; i < w->n; i++) {
		const struct watch_pool *pool = &w->v[i];

		listing_row(&partitions);
		listing_text(&partitions, NULL, "partition", pool->partition);
		listing_text(&partitions, NULL, "unit", pool->kind == 'g' ? "gpu" : "cpu");
		listing_number(&partitions, NULL, "slots", pool->slots);
		listing_number(&partitions, NULL, "free", pool->free);
		for (size_t k = 0; k < pool->n; k++)
			put(&runs, pool, &pool->runs[k]);
	}
	return json_pack("{s:I, s:i, s:o, s:o}", "time", (json_int_t)w->time, "past_seconds",
		WATCH_CELL_S, "partitions", listing_take(&partitions), "runs", listing_take(&runs));
}

static void write_pool(FILE *out, const struct watch_pool *pool)
{
	struct listing l = { .as_json = 0 };

	fprintf(out, "\n%s: %ld %s, %ld free, %zu run%s\n", pool->partition, pool->slots,
		pool->kind == 'g' ? "GPUs" : "processors", pool->free, pool->n,
		pool->n == 1 ? "" : "s");
	for (size_t i = 0; i < pool->n; i++)
		put(&l, pool, &pool->runs[i]);
	if (pool->n > 0)
		listing_write(&l, out);
}

/* To free(). trouble: what Slurm said in place of an answer; NULL: it gave one. */
static char *view(const struct watch *w, const char *trouble)
{
	char when[CLI_TIME_SIZE], *text = NULL;
	struct tm tm;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		mlr_oom();
	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", localtime_r(&(time_t){ w->time }, &tm));
	fprintf(out, "elastic runs  %s\n", when);
	if (trouble)
		fprintf(out, "%s\n", trouble);
	else if (w->n == 0)
		fputs("none waits or runs\n", out);
	for (size_t i = 0; i < w->n; i++)
		write_pool(out, &w->v[i]);
	if (fclose(out) != 0)
		mlr_oom();
	return text;
}

/* --- again and again ------------------------------------------------------------------------ */

/* Returns the exit status. If Slurm stops answering, say so and poll less often. */
static int run(struct screen *s, struct store *st, const struct args *a, struct mlr_error *err)
{
	int64_t pause = a->interval_ms;

	screen_begin(s, screen_is_there());
	for (int is_first = 1; !screen_shall_end(); is_first = 0) {
		auto_call(watch_done) struct watch w = { 0 };
		auto_free char *text = NULL;
		int r = watch_read(st, &w, err);

		if (r < 0 && is_first)
			return cli_fail_at(err, "elastic top");
		text = view(&w, r < 0 ? err->text : NULL);
		if (screen_show(s, is_first, text) < 0)
			return CLI_FAILED;
		pause = r < 0 ? work_later(pause, a->interval_ms, TROUBLE_MS) : a->interval_ms;
		screen_wait(s, -1, mlr_now_ms() + pause);
	}
	return 0;
}

static int once(struct store *st, const struct args *a, struct mlr_error *err)
{
	auto_call(watch_done) struct watch w = { 0 };
	auto_free char *text = NULL;

	if (watch_read(st, &w, err) < 0)
		return cli_fail_at(err, "elastic top");
	if (a->json)
		return cli_print_json(to_json(&w));
	text = view(&w, NULL);
	fputs(text, stdout);
	return 0;
}

int cmd_elastic_top(int argc, char **argv)
{
	auto_call(screen_close_keys) struct screen s = SCREEN_INIT;
	auto_store struct store *st = NULL;
	struct args a = { .interval_ms = 2000 };
	struct mlr_error err = MLR_ERROR_INIT;
	int r;

	cli_options_parse(argc, argv, &syntax, &a);
	r = cli_open_store(a.common.store, &st, &err);
	if (r == -ENOENT && !a.common.store)
		r = cli_store_may_come(&err);
	if (r < 0)
		return cli_fail_at(&err, "elastic top");
	setvbuf(stdout, NULL, _IOFBF, 1 << 16); /* one write(2) for a view, else it flickers */
	return a.once || a.json ? once(st, &a, &err) : run(&s, st, &a, &err);
}
