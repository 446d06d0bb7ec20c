#include "cli/workers.h"

#include "base/json.h"
#include "cli/cli.h"
#include "cli/listing.h"

int workers_open(const char *dir, struct store **st, struct worker_list *ret, struct mlr_error *err)
{
	int r = cli_open_store(dir, st, err);

	if (r == -ENOENT && !dir)
		return cli_store_may_come(err);
	return r < 0 ? r : work_list(*st, ret, err);
}

void workers_check_all(struct argp_state *state, int all, const struct strv *names)
{
	if (all && names->n > 0)
		argp_error(state, "--all is all of them: no id is expected");
	if (!all && names->n == 0)
		argp_error(state, "which? Give ids, or --all");
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

static void put(struct listing *l, const struct worker *w, const char *host, const char *log)
{
	long slots = host ? worker_slots(w) : 0;
	auto_free char *run = w->run ? xstrndup(w->run, strcspn(w->run, ":")) : NULL;

	listing_text(l, "ID", "id", w->id);
	listing_text(l, "NAME", "name", w->name);
	listing_text(l, "RUN", "run", run);
	listing_optional(l);
	listing_text(l, NULL, "system", w->system);
	listing_cell(l, "STATUS", worker_describe(w));
	listing_text(l, NULL, "status", worker_status_names[w->status]);
	listing_text(l, NULL, "state", w->state);
	listing_text(l, NULL, "reason", w->reason);
	listing_known(l, NULL, "exit_status", w->exit_status, w->exit_status >= 0);
	listing_text(l, "NODE", "node", w->node);
	listing_text(l, NULL, "ip_address", w->address);
	listing_text(l, NULL, "host", host);
	listing_known(l, NULL, "slots", slots, slots > 0);
	listing_text(l, NULL, "directory", w->directory);
	listing_known(l, "CPUS", "cpus", w->cpus, w->cpus > 0);
	listing_known(l, NULL, "memory", (int64_t)w->memory, w->memory > 0);
	listing_number(l, "GPUS", "gpus", w->gpus);
	listing_text(l, "IMAGE", "image", w->image);
	listing_json(l, "options", mlr_json_texts(&w->options));
	listing_json(l, "command", mlr_json_texts(&w->command));
	listing_text(l, NULL, "partition", w->partition);
	listing_known(l, NULL, "pid", w->pid, w->pid > 0);
	listing_time(l, NULL, "created", w->created);
	listing_time(l, NULL, "ready", w->ready);
	listing_time(l, NULL, "ended", w->ended);
	listing_time(l, NULL, "deadline", w->deadline);
	listing_text(l, NULL, "log", log);
}

int workers_print(const struct store *st, const struct worker_list *workers, int json)
{
	static const struct worker nothing = WORKER_INIT;
	struct listing l = { .as_json = json };

	for (size_t i = 0; i < workers->n; i++) {
		const struct worker *w = &workers->v[i];
		auto_free char *host = worker_host(w), *log = worker_path(st, w, "log");

		listing_row(&l);
		put(&l, w, host ? host : "", log);
	}
	if (workers->n == 0) {
		listing_heads(&l);
		put(&l, &nothing, NULL, NULL);
	}
	return listing_end(&l);
}
