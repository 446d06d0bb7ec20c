/* What the commands of workers have printed. */
#include "cli/cli.h"
#include "cli/workers.h"

#include "work/elastic.h"

#define LOOK_MS 200
#define SLURM   10 /* looks until Slurm is asked again */

/* The place to which a worker's log has been printed. */
struct log {
	char *key;
	off_t at;
};

struct logs {
	int titles;
	struct log *v;
	size_t n;
	const char *last; /* the key of whose output was printed last; NULL: none was */
};

static void logs_done(struct logs *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].key);
	free(l->v);
}

static struct log *log_of(struct logs *l, const struct worker *w)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].key, w->key) == 0)
			return &l->v[i];
	*xadd(l->v, l->n) = (struct log){ xstrdup(w->key), 0 };
	return &l->v[l->n - 1];
}

static void print_title(struct logs *l, const struct log *log, const struct worker *w)
{
	auto_free char *how = worker_describe(w), *text = NULL;

	if (!l->titles || l->last == log->key)
		return;
	text = xasprintf("%s==> worker %s on %s, %s <==\n", l->last ? "\n" : "", w->id,
		w->node ? w->node : "-", how);
	file_write_all(STDOUT_FILENO, text, strlen(text));
	l->last = log->key;
}

/* Print what there is from here on. The log comes with the job's start. */
static int pass_on(struct store *st, struct logs *l, const struct worker *w, struct mlr_error *err)
{
	auto_free char *path = worker_path(st, w, "log");
	/* Opened each time: a run may have had thousands of workers. */
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct log *log = log_of(l, w);
	char buf[1 << 16];
	ssize_t n;
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : mlr_fail_errno(err, "'%s'", path);
	while ((n = pread(fd, buf, sizeof(buf), log->at)) > 0) {
		print_title(l, log, w);
		r = file_write_all(STDOUT_FILENO, buf, (size_t)n);
		if (r < 0)
			return mlr_fail(err, -r, "write: %s", strerror(-r));
		log->at += n;
	}
	return n < 0 ? mlr_fail_errno(err, "read '%s'", path) : 0;
}

/* Keep the workers of the run. Returns whether it is to go on: more of them may come. */
static int keep_run(struct store *st, const char *run, struct worker_list *l, int *goes_on,
	struct mlr_error *err)
{
	auto_call(elastic_list_done) struct elastic_list runs = { 0 };
	size_t n = 0, at = 0;

	if (st)
		TRY(elastic_list(st, &runs, err));
	while (at < runs.n && strcmp(runs.v[at].share.key, run) != 0)
		at++;
	if (at == runs.n) {
		mlr_fail(err, ENOENT, "no run of yours is '%s'", run);
		return mlr_hint(err, "mlrun elastic list --all shows them");
	}
	*goes_on = runs.v[at].status <= ELASTIC_RUNNING;
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].run && strcmp(l->v[i].run, runs.v[at].wish.run) == 0)
			l->v[n++] = l->v[i];
		else
			worker_done(&l->v[i]);
	l->n = n;
	return 0;
}

/* Look which workers there are. */
static int look(struct store *st, const char *id, int is_run, struct worker_list *l, int *goes_on,
	struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT;

	worker_list_done(l);
	if (st)
		TRY(work_list(st, l, err));
	if (is_run)
		return keep_run(st, id, l, goes_on, err);
	strv_add(&names, id);
	TRY(workers_choose(l, &names, err));
	*goes_on = !worker_has_ended(&l->v[0]);
	return 0;
}

int workers_logs(const char *dir, const char *id, int is_run, int follow)
{
	auto_store struct store *st = NULL;
	auto_call(worker_list_done) struct worker_list l = { 0 };
	auto_call(logs_done) struct logs logs = { .titles = is_run };
	struct mlr_error err = MLR_ERROR_INIT;
	int goes_on = 1, r = workers_open(dir, &st, &l, &err);

	for (int i = 0; r == 0; i++) {
		int is_last;

		if (i % SLURM == 0)
			r = look(st, id, is_run, &l, &goes_on, &err);
		is_last = !follow || !goes_on;
		for (size_t k = 0; r == 0 && k < l.n; k++)
			r = pass_on(st, &logs, &l.v[k], &err);
		if (r < 0 || is_last)
			break;
		mlr_sleep_ms(LOOK_MS);
	}
	return r < 0 ? cli_fail_at(&err, "%s logs %s", is_run ? "elastic" : "workers", id) : 0;
}
