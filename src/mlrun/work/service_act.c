/* Starts, stops, awaits and forgets services, for commands. */
#include "work/service.h"
#include "work/supervisor.h"

#include "base/proc.h"
#include "store/trash.h"

#include <poll.h>

#define LOOK_MS   5
#define MARGIN_MS 20000 /* for a supervisor to end its container, beyond the time to stop */

/* Nobody else starts a service of this node until it is closed. Returns it or -errno. */
static int lock(struct store *st, struct mlr_error *err)
{
	auto_free char *top = service_top();

	if (file_mkdir_p(store_fd(st), top, 0700, err) < 0)
		return mlr_wrap(err, "store '%s'", store_path(st));
	return supervisor_lock(st, top, O_RDONLY | O_DIRECTORY, NULL, err);
}

/* --- the end ------------------------------------------------------------------------------- */

/* Wait for the supervisor, which is p. Returns 0 or -ETIMEDOUT. */
static int await_process(
	struct store *st, const struct service *s, const struct store_process *p, int64_t ms)
{
	auto_close int fd = proc_pidfd(p->pid);
	int64_t end = ms < 0 ? INT64_MAX : mlr_now_ms() + ms, left;
	struct store_process now;

	for (int alive; (alive = supervisor_judge(st, s->process, &now)) != 0;) {
		struct pollfd f = { fd, POLLIN, 0 };

		left = end - mlr_now_ms();
		if (left <= 0)
			return -ETIMEDOUT;
		if (fd < 0 || alive < 0) /* before Linux 5.3; a shortage of descriptors */
			mlr_sleep_ms(LOOK_MS);
		else
			poll(&f, 1, left < 60000 ? (int)left : 60000);
		/* It is a zombie until its parent, if that is this process, has waited. */
		waitpid(p->pid, NULL, WNOHANG);
	}
	return 0;
}

static int refuse_elsewhere(struct store *st, const struct service *s, struct mlr_error *err)
{
	auto_free char *dir = service_path(st, s->name, "");

	mlr_fail(err, EPERM, "service '%s' is in another PID namespace", s->name);
	return mlr_hint(err, "run mlrun where it was started; if that is gone, remove '%s'", dir);
}

/* End what a killed supervisor has left: a container, or a command on its way into one. */
static void clear_rest(const struct service *s)
{
	auto_close int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct inside in = INSIDE_INIT;

	if (proc < 0 || !service_is_inside(s))
		return;
	if (!s->inside)
		kill(-s->pid, SIGKILL);
	else if (work_inside_find(proc, s->pid, &in) > 0)
		work_inside_kill(proc, &in);
}

/* Read a service again, with its present state. */
static int read_again(struct store *st, struct service *s, struct mlr_error *err)
{
	auto_call(service_done) struct service now = SERVICE_INIT;
	int r = service_get(st, s->name, &now, err);

	if (r == -ENOENT) { /* it was to be forgotten */
		s->status = SERVICE_EXITED;
		return 0;
	}
	TRY(r);
	service_done(s);
	*s = take_struct(&now, SERVICE_INIT);
	return 0;
}

static int order(const struct store_process *p, int64_t timeout_ms, int again)
{
	int64_t seconds = timeout_ms < 0 ? SERVICE_ORDER_OWN : (timeout_ms + 999) / 1000;
	union sigval v = { .sival_int = (int)(seconds * SERVICE_ORDER_TIMEOUT + again) };

	return sigqueue(p->pid, SIGRTMIN, v) < 0 ? -errno : 0;
}

int service_stop(struct store *st, struct service *s, int64_t timeout_ms, struct mlr_error *err)
{
	struct store_process p;
	int alive = supervisor_judge(st, s->process, &p);
	int64_t limit = (timeout_ms < 0 ? s->stop_ms : timeout_ms) + MARGIN_MS;

	if (alive < 0 && !service_has_ended(s))
		return refuse_elsewhere(st, s, err);
	if (alive > 0) {
		order(&p, timeout_ms, 0);
		if (await_process(st, s, &p, limit) < 0 && supervisor_judge(st, s->process, &p) > 0)
			kill(p.pid, SIGKILL);
	}
	if (read_again(st, s, err) < 0)
		return -err->code;
	clear_rest(s);
	return 0;
}

int service_kill(struct store *st, struct service *s, int sig, struct mlr_error *err)
{
	if (sig == SIGKILL && !service_has_ended(s))
		return service_stop(st, s, 0, err);
	if (service_has_ended(s) || !service_is_inside(s) || kill(s->pid, sig) < 0)
		return mlr_fail(
			err, ESRCH, "it does not run: it is %s", service_status_names[s->status]);
	return 0;
}

int service_await(struct store *st, struct service *s, int64_t ms, struct mlr_error *err)
{
	struct store_process p;
	int alive = supervisor_judge(st, s->process, &p);

	if (alive < 0 && !service_has_ended(s))
		return refuse_elsewhere(st, s, err);
	if (alive > 0 && await_process(st, s, &p, ms) < 0)
		return mlr_fail(err, ETIMEDOUT, "service '%s' has not ended", s->name);
	return read_again(st, s, err);
}

/* The caller of this and of those below has the lock. */
static int remove_files(struct store *st, const char *name, struct mlr_error *err)
{
	auto_free char *path = service_below(name, "");

	/* Renamed away it is gone whatever happens then; the store's sweep takes the rest along. */
	return store_discard(st, path, NULL) == 0 ? 0 : file_remove_tree(store_fd(st), path, err);
}

static int forget(struct store *st, const struct service *s, struct mlr_error *err)
{
	auto_call(service_done) struct service now = SERVICE_INIT;
	struct mlr_error why = MLR_ERROR_INIT;
	int r = service_get(st, s->name, &now, &why);

	if (r == 0 && (now.created != s->created || !service_has_ended(&now)))
		return 0;
	if (r < 0 && r != -ENOENT && r != -EPROTO)
		return mlr_pass(err, why.code, why.text);
	return remove_files(st, s->name, err);
}

int service_forget(struct store *st, const struct service *s, struct mlr_error *err)
{
	auto_close int locked = lock(st, err);

	return locked < 0 ? locked : forget(st, s, err);
}

/* Send the supervisor a signal; its command line tells it. Returns whether it is there. */
static int signal_supervisor(struct store *st, const char *name, int sig)
{
	auto_free char *store = xasprintf("--store=%s", store_path(st));
	auto_strv struct strv names = STRV_INIT;
	int found = 0;

	file_list(AT_FDCWD, "/proc", 0, &names);
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *path = xasprintf("/proc/%s/cmdline", names.v[i]);
		char text[PATH_MAX + 512 + 4] = "", *word = text;
		const char *const want[] = { "service-hold", store, name };
		size_t same = 0;

		if (atol(names.v[i]) <= 0 || proc_read(AT_FDCWD, path, text, sizeof(text) - 4) < 0)
			continue;
		while (same < ARRAY_LEN(want) && strcmp(word += strlen(word) + 1, want[same]) == 0)
			same++;
		found |= same == ARRAY_LEN(want) && kill((pid_t)atol(names.v[i]), sig) == 0;
	}
	return found;
}

/* End what cannot be read: its supervisor, which ends the rest. */
static void end_damaged(struct store *st, const char *name)
{
	int64_t end = mlr_now_ms() + MARGIN_MS;

	for (int sig = SIGTERM; signal_supervisor(st, name, sig) && mlr_now_ms() < end; sig = 0)
		mlr_sleep_ms(LOOK_MS);
}

int service_remove(struct store *st, const char *name, int force, struct mlr_error *err)
{
	auto_call(service_done) struct service s = SERVICE_INIT;
	int r = service_get(st, name, &s, err);

	if (r == -EPROTO) {
		end_damaged(st, name);
		r = service_get(st, name, &s, err); /* its last state may be there */
	}
	if (r == -EPROTO) {
		s.name = xstrdup(name);
		return service_forget(st, &s, err);
	}
	TRY(r);
	if (!force && !service_has_ended(&s)) {
		mlr_fail(err, EBUSY, "the service is %s", service_status_names[s.status]);
		return mlr_hint(err, "mlrun rm --force %s ends and removes it", name);
	}
	TRY(service_stop(st, &s, force ? 0 : -1, err));
	return service_forget(st, &s, err);
}

/* --- the start ----------------------------------------------------------------------------- */

static int launch(struct store *st, int *locked, struct service *s, struct mlr_error *err)
{
	static const char *const command[] = { "service-hold", NULL };

	return supervisor_launch(
		st, command, s->name, -1, locked, SUPERVISOR_UP, &s->exit_status, err);
}

static int refuse_second(const struct service *s, struct mlr_error *err)
{
	mlr_fail(err, EEXIST, "a service of that name is there already, %s",
		service_status_names[s->status]);
	return mlr_hint(err,
		"mlrun stop %s ends it, mlrun restart %s starts it again, and another --name stands beside it",
		s->name, s->name);
}

/* Make room for a new one. */
static int replace(struct store *st, const char *name, struct mlr_error *err)
{
	auto_call(service_done) struct service old = SERVICE_INIT;
	struct mlr_error why = MLR_ERROR_INIT;
	int r = service_get(st, name, &old, &why);

	if (r == 0 && !service_has_ended(&old))
		return refuse_second(&old, err);
	if (r < 0 && r != -ENOENT)
		return mlr_pass(err, why.code, why.text);
	if (r == 0)
		clear_rest(&old);
	return remove_files(st, name, err);
}

static int make_dir(struct store *st, const char *name, struct mlr_error *err)
{
	auto_free char *path = service_below(name, "");

	return mkdirat(store_fd(st), path, 0700) < 0
		? mlr_fail_errno(err, "make '%s/%s'", store_path(st), path)
		: 0;
}

/* Clean up after a failed start or a killed supervisor. locked: -1 if a supervisor held it. */
static void abandon(struct store *st, const struct service *s, int locked)
{
	auto_call(service_done) struct service now = SERVICE_INIT;
	struct mlr_error why = MLR_ERROR_INIT;
	auto_close int again = locked < 0 ? lock(st, &why) : -1;

	if (service_read(st, s->name, &now, &why) == 0 && now.created == s->created)
		clear_rest(&now);
	if (locked >= 0 || again >= 0)
		forget(st, s, &why);
}

int service_start(struct store *st, struct service *s, struct mlr_error *err)
{
	auto_close int locked = -1;
	int r;

	TRY(service_name_check(s->name, err));
	signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like others */
	locked = lock(st, err);
	if (locked < 0)
		return locked;
	TRY(replace(st, s->name, err));
	TRY(make_dir(st, s->name, err));
	s->created = mlr_epoch_ms();
	r = service_write_wish(st, s, err);
	if (r == 0)
		r = launch(st, &locked, s, err);
	if (r < 0 && r != -ECHILD)
		abandon(st, s, locked);
	return r;
}

/* Its own supervisor starts it again. */
static int await_run(struct store *st, struct service *s, int64_t timeout_ms, struct mlr_error *err)
{
	int64_t end = mlr_now_ms() + (timeout_ms < 0 ? s->stop_ms : timeout_ms) + MARGIN_MS;
	int64_t was = s->started;
	long runs = s->runs;

	do {
		TRY(read_again(st, s, err));
		if (service_has_ended(s))
			return mlr_fail(err, ECHILD, "it has ended");
		if (s->status >= SERVICE_RUNNING && (s->runs != runs || s->started != was))
			return 0;
		mlr_sleep_ms(LOOK_MS);
	} while (mlr_now_ms() < end);
	return mlr_fail(err, ETIMEDOUT, "it does not start again");
}

int service_restart(struct store *st, struct service *s, int64_t timeout_ms, struct mlr_error *err)
{
	auto_close int locked = lock(st, err);
	struct store_process p;
	int alive, r = locked;

	if (r < 0 || (r = read_again(st, s, err)) < 0)
		return r;
	alive = supervisor_judge(st, s->process, &p);
	if (alive < 0 && !service_has_ended(s))
		return refuse_elsewhere(st, s, err);
	if (alive > 0 && order(&p, timeout_ms, 1) == 0) {
		close(take_fd(&locked));
		return await_run(st, s, timeout_ms, err);
	}
	clear_rest(s);
	return launch(st, &locked, s, err);
}
