#include "cli/workers.h"

#include "base/base.h"
#include "cli/cli.h"
#include "cli/common.h"

#include "base/json.h"

int workers_open(const char *dir, struct store **st, struct worker_list *ret, struct mlr_error *err)
{
	int r = cli_open_store(dir, st, err);

	if (r == -ENOENT && !dir)
		return cli_store_may_come(err);
	return r < 0 ? r : work_list(*st, ret, err);
}

static int keep(struct worker_list *l, const int *wanted)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		if (wanted[i])
			l->v[n++] = l->v[i];
		else
			worker_done(&l->v[i]);
	l->n = n;
	return 0;
}

int workers_choose(struct worker_list *l, const struct strv *names, struct mlr_error *err)
{
	auto_free int *wanted = xcalloc(l->n + 1, sizeof(*wanted));

	for (size_t i = 0; names->n == 0 && i < l->n; i++)
		wanted[i] = !worker_has_ended(&l->v[i]);
	for (size_t i = 0; i < names->n; i++) {
		int at = work_find(l, names->v[i], err);

		if (at < 0)
			return at;
		wanted[at] = 1;
	}
	return keep(l, wanted);
}

/* null for 0 and below */
static json_t *count(int64_t n)
{
	return n > 0 ? json_integer(n) : json_null();
}

static json_t *moment(int64_t seconds)
{
	char text[CLI_TIME_SIZE];

	if (seconds <= 0)
		return json_null();
	cli_time_utc(seconds, text);
	return json_string(text);
}

static json_t *to_json(const struct store *st, const struct worker *w)
{
	auto_free char *host = worker_host(w), *log = worker_path(st, w, "log");
	json_t *o = json_pack("{s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "id",
		mlr_json_text(w->id), "name", mlr_json_text(w->name), "system", w->system, "status",
		worker_status_names[w->status], "state", mlr_json_text(w->state), "reason",
		mlr_json_text(w->reason), "exit_status",
		w->exit_status >= 0 ? json_integer(w->exit_status) : json_null(), "node",
		mlr_json_text(w->node), "ip_address", mlr_json_text(w->address), "host",
		mlr_json_text(host), "slots", count(worker_slots(w)), "image",
		mlr_json_text(w->image));

	json_object_set_new(o, "options", mlr_json_texts(&w->options));
	json_object_set_new(o, "command", mlr_json_texts(&w->command));
	json_object_set_new(o, "directory", mlr_json_text(w->directory));
	json_object_set_new(o, "cpus", count(w->cpus));
	json_object_set_new(o, "memory", count((int64_t)w->memory));
	json_object_set_new(o, "gpus", json_integer(w->gpus));
	json_object_set_new(o, "partition", mlr_json_text(w->partition));
	json_object_set_new(o, "pid", count(w->pid));
	json_object_set_new(o, "created", moment(w->created));
	json_object_set_new(o, "ready", moment(w->ready));
	json_object_set_new(o, "ended", moment(w->ended));
	json_object_set_new(o, "deadline", moment(w->deadline));
	json_object_set_new(o, "log", mlr_json_text(log));
	return o;
}

static int print_json(const struct store *st, const struct worker_list *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->n; i++)
		json_array_append_new(list, to_json(st, &l->v[i]));
	return cli_print_json(list);
}

static const char *const heads[] = { "ID", "NAME", "STATUS", "NODE", "CPUS", "GPUS", "IMAGE" };
#define COLUMNS ARRAY_LEN(heads)

static void cells_of(const struct worker *w, struct strv *ret)
{
	strv_add(ret, w->id);
	strv_add(ret, w->name);
	if (w->reason && *w->reason && w->status != WORKER_RUNNING)
		strv_addf(ret, "%s (%s)", worker_status_names[w->status], w->reason);
	else if (w->status == WORKER_FAILED && w->exit_status > 0)
		strv_addf(ret, "failed (%d)", w->exit_status);
	else
		strv_add(ret, worker_status_names[w->status]);
	strv_add(ret, w->node ? w->node : "-");
	strv_addf(ret, "%ld", w->cpus);
	strv_addf(ret, "%ld", w->gpus);
	strv_add(ret, w->image);
}

static int print_table(const struct worker_list *l)
{
	auto_strv struct strv cells = STRV_INIT;

	for (size_t i = 0; i < COLUMNS; i++)
		strv_add(&cells, heads[i]);
	for (size_t i = 0; i < l->n; i++)
		cells_of(&l->v[i], &cells);
	cli_print_cells(&cells, COLUMNS);
	return 0;
}

int workers_print(const struct store *st, const struct worker_list *l, int json)
{
	return json ? print_json(st, l) : print_table(l);
}
