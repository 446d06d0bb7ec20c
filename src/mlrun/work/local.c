/* Workers on this machine, without Slurm: a supervisor each, in a session of its own. */
#include "work/supervisor.h"
#include "work/work.h"

#include "gpu/gpu.h"
#include "gpu/machine.h"
#include "runtime/limits.h"
#include "store/process.h"

#include <sched.h>
#include <sys/sysinfo.h>

enum { PROCESSORS, GPUS }; /* in worker.lists */

/* --- limits ------------------------------------------------------------------------------- */

/* Can it have a control group of its own here? Returns 0 or -errno. */
static int check_groups(const struct worker *w, struct mlr_error *err)
{
	auto_call(plan_done) struct plan p;
	auto_free char *dir = NULL;

	plan_init(&p);
	p.cpus = (unsigned)w->cpus * 100;
	p.memory = w->memory;
	return cgroup_find("/", &p, &dir, err);
}

int work_limits_check(const struct worker *w, struct mlr_error *err)
{
	return strcmp(w->system, "local") == 0 && w->memory ? check_groups(w, err) : 0;
}

/* Numbers of a list, "0,2". */
static void mark_all(const char *list, int *used, int n)
{
	while (list && *list) {
		char *end;
		long i = strtol(list, &end, 10);

		if (end == list)
			return;
		if (i >= 0 && i < n)
			used[i]++;
		list = *end == ',' ? end + 1 : end;
	}
}

/* How many of this machine's running workers use each. */
static int *count_used(struct store *st, size_t which, int n)
{
	auto_call(worker_list_done) struct worker_list l = { 0 };
	int *used = xcalloc((size_t)n + 1, sizeof(*used));

	worker_read_all(st, &l, NULL);
	for (size_t i = 0; i < l.n; i++) {
		struct worker *w = &l.v[i];

		if (strcmp(w->system, "local") != 0 || w->lists.n <= which)
			continue;
		local_look(st, w);
		/* Of a worker on another machine local_look() gives a reason. */
		if (!w->ended && !w->reason && !worker_has_ended(w))
			mark_all(w->lists.v[which], used, n);
	}
	return used;
}

/* The least used of those allowed, as "0,1"; to free(). */
static char *choose(const int *used, const int *allowed, int n, long wanted, int max_used)
{
	auto_strv struct strv list = STRV_INIT;

	for (int level = 0; level <= max_used && (long)list.n < wanted; level++)
		for (int i = 0; i < n && (long)list.n < wanted; i++)
			if (allowed[i] && used[i] == level)
				strv_addf(&list, "%d", i);
	return (long)list.n < wanted ? NULL : strv_join(&list, list.n, ",");
}

static int choose_processors(struct store *st, struct worker *w, struct mlr_error *err)
{
	int allowed[CPU_SETSIZE] = { 0 };
	auto_free int *used = count_used(st, PROCESSORS, CPU_SETSIZE);
	auto_free char *list = NULL;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return mlr_fail_errno(err, "sched_getaffinity");
	for (int i = 0; i < CPU_SETSIZE; i++)
		allowed[i] = CPU_ISSET(i, &set) != 0;
	list = choose(used, allowed, CPU_SETSIZE, w->cpus, 1 << 16);
	if (!list) {
		mlr_fail(err, EINVAL, "--cpus=%ld: you may use %d processors of this machine",
			w->cpus, CPU_COUNT(&set));
		return mlr_hint(err, "ask for fewer");
	}
	strv_add(&w->lists, list);
	return 0;
}

static int choose_gpus(struct store *st, struct worker *w, struct mlr_error *err)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	auto_free int *used = NULL, *allowed = NULL;
	auto_free char *list = NULL;
	int n = 0, r = w->gpus > 0 ? gpu_machine_read_gpus(gpu_root(), &m, err) : 0;

	TRY(r);
	for (size_t i = 0; i < m.n_gpus; i++)
		n += m.gpus[i].index >= 0;
	allowed = xcalloc((size_t)n + 1, sizeof(*allowed));
	for (int i = 0; i < n; i++)
		allowed[i] = 1;
	used = count_used(st, GPUS, n);
	list = choose(used, allowed, n, w->gpus, 0);
	if (!list && w->gpus > n) {
		mlr_fail(err, ENODEV, "--gpus=%ld: this machine has %d that you may use", w->gpus,
			n);
		return mlr_hint(err, "mlrun gpu list shows them");
	}
	if (!list) {
		mlr_fail(err, EBUSY, "--gpus=%ld: other workers use this machine's %d GPUs",
			w->gpus, n);
		return mlr_hint(err, "mlrun workers list shows them, mlrun workers stop ends them");
	}
	strv_add(&w->lists, list);
	return 0;
}

static int check_memory(const struct worker *w, struct mlr_error *err)
{
	struct sysinfo s;
	uint64_t all = sysinfo(&s) == 0 ? (uint64_t)s.totalram * s.mem_unit : UINT64_MAX;

	if (w->memory <= all)
		return 0;
	mlr_fail(err, EINVAL, "--memory=%" PRIu64 "m: this machine has %" PRIu64 "m",
		w->memory >> 20, all >> 20);
	return mlr_hint(err, "ask for less");
}

void local_limit(const struct worker *w, struct strv *options)
{
	int chosen[CPU_SETSIZE] = { 0 };
	cpu_set_t set;

	if (strcmp(w->system, "local") != 0)
		return;
	CPU_ZERO(&set);
	mark_all(w->lists.n > PROCESSORS ? w->lists.v[PROCESSORS] : NULL, chosen, CPU_SETSIZE);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (chosen[i])
			CPU_SET(i, &set);
	sched_setaffinity(0, sizeof(set), &set);
	if (check_groups(w, NULL) == 0) {
		strv_addf(options, "--cpus=%ld", w->cpus);
		if (w->memory)
			strv_addf(options, "--memory=%" PRIu64, w->memory);
	}
	if (w->gpus > 0 && w->lists.n > GPUS)
		strv_addf(options, "--gpu=%s", w->lists.v[GPUS]);
}

/* --- start -------------------------------------------------------------------------------- */

/* "local-abcdef", of the key: no digits, which mpirun would take for a range's. */
static char *local_id(const char *key)
{
	char letters[7];

	for (size_t i = 0; i < 6; i++)
		letters[i] = (char)('a' + (key[i] <= '9' ? key[i] - '0' : key[i] - 'a' + 10));
	letters[6] = '\0';
	return xasprintf("local-%s", letters);
}

/* It is seen by others from here on. */
static int launch(struct store *st, const struct worker *w, int *locked, struct mlr_error *err)
{
	static const char *const command[] = { "workers", "hold", NULL };
	auto_free char *path = worker_path(st, w, "log");
	auto_close int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	if (log < 0)
		return mlr_fail_errno(err, "open '%s'", path);
	return supervisor_launch(st, command, w->key, log, locked, SUPERVISOR_HOLDS, NULL, err);
}

int local_start(struct store *st, struct worker *w, struct mlr_error *err)
{
	auto_close int locked = -1;

	if (w->partition)
		return mlr_fail(err, EINVAL,
			"--partition=%s: workers on this machine have no partition", w->partition);
	/* Another start sees what this one took. */
	locked = supervisor_lock(st, "workers/lock", O_RDWR | O_CREAT, NULL, err);
	if (locked < 0)
		return locked;
	w->id = local_id(w->key);
	TRY(check_memory(w, err));
	TRY(choose_processors(st, w, err));
	TRY(choose_gpus(st, w, err));
	TRY(worker_write(st, w, err));
	return launch(st, w, &locked, err);
}

/* --- look, end ---------------------------------------------------------------------------- */

void local_look(struct store *st, struct worker *w)
{
	struct store_process p;
	int alive = supervisor_judge(st, w->process, &p);

	free(w->reason);
	w->reason = NULL;
	if (alive < 0)
		w->reason = xasprintf("it is on %s", w->node);
	if (alive != 0)
		w->status = w->pid > 0 ? WORKER_RUNNING : WORKER_STARTING;
	else if (!w->process && time(NULL) - w->created < WORK_NEW_S)
		w->status = WORKER_STARTING;
	else
		w->status = WORKER_LOST;
}

int local_cancel(struct store *st, const struct worker *w, struct mlr_error *err)
{
	struct store_process p;
	int alive = supervisor_judge(st, w->process, &p);

	if (alive < 0) {
		mlr_fail(err, EPERM, "worker %s is on %s", w->id, w->node);
		return mlr_hint(err, "run mlrun workers stop there");
	}
	if (alive > 0)
		kill(p.pid, SIGTERM);
	return 0;
}

/* --- use ---------------------------------------------------------------------------------- */

void local_enter(const struct worker *w)
{
	cpu_set_t set;

	if (sched_getaffinity(w->pid, sizeof(set), &set) == 0)
		sched_setaffinity(0, sizeof(set), &set);
	if (cgroup_join(w->pid) < 0)
		mlr_warning(
			"the worker's control group cannot be entered: its limits of memory and "
			"processors do not hold for this command");
}
