/* Starts, stops, awaits and forgets services, for commands. */
#include "work/inside.h"
#include "work/service_parts.h"

#include "base/base.h"

#include <poll.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/syscall.h>

#define LOOK_MS   5
#define MARGIN_MS 20000 /* for a supervisor to end its container, beyond the time to stop */

static void nap(void)
{
	struct timespec t = { 0, LOOK_MS * 1000000 };

	nanosleep(&t, NULL);
}

/* Nobody else starts a service of this node until it is closed. Returns it or -errno. */
static int lock(struct store *st, struct mlr_error *err)
{
	auto_free char *top = service_top(err);
	auto_close int fd = -1;
	int r;

	if (!top)
		return -err->code;
	r = file_mkdir_p(store_fd(st), top, 0700, err);
	if (r < 0)
		return mlr_wrap(err, "store '%s'", store_path(st));
	fd = openat(store_fd(st), top, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	while ((r = fd < 0 ? -1 : flock(fd, LOCK_EX)) < 0 && errno == EINTR)
		;
	return r < 0 ? mlr_fail_errno(err, "lock '%s/%s'", store_path(st), top) : take_fd(&fd);
}

/* --- the end ------------------------------------------------------------------------------- */

/* Wait for the supervisor, which is p. Returns 0 or -ETIMEDOUT. */
static int await_process(
	struct store *st, const struct service *s, const struct store_process *p, int64_t ms)
{
	auto_close int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	int64_t end = ms < 0 ? INT64_MAX : mlr_now_ms() + ms, left;
	struct store_process now;

	while (service_judge(st, s, &now) > 0) {
		struct pollfd f = { fd, POLLIN, 0 };

		left = end - mlr_now_ms();
		if (left <= 0)
			return -ETIMEDOUT;
		if (fd < 0) /* before Linux 5.3 */
			nap();
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
	else if (inside_find(proc, s->pid, &in) > 0)
		inside_kill(proc, &in);
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
	if (r < 0)
		return r;
	service_done(s);
	*s = now;
	now = (struct service)SERVICE_INIT;
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
	int alive = service_judge(st, s, &p);
	int64_t limit = (timeout_ms < 0 ? s->stop_ms : timeout_ms) + MARGIN_MS;

	if (alive < 0 && !service_has_ended(s))
		return refuse_elsewhere(st, s, err);
	if (alive > 0) {
		order(&p, timeout_ms, 0);
		if (await_process(st, s, &p, limit) < 0 && service_judge(st, s, &p) > 0)
			kill(p.pid, SIGKILL);
	}
	if (read_again(st, s, err) < 0)
		return -err->code;
	clear_rest(s);
	return 0;
}

int service_await(struct store *st, struct service *s, int64_t ms, struct mlr_error *err)
{
	struct store_process p;
	int alive = service_judge(st, s, &p);

	if (alive < 0 && !service_has_ended(s))
		return refuse_elsewhere(st, s, err);
	if (alive > 0 && await_process(st, s, &p, ms) < 0)
		return mlr_fail(err, ETIMEDOUT, "service '%s' has not ended", s->name);
	return read_again(st, s, err);
}

/* The caller has the lock. */
static int remove_files(struct store *st, const char *name, struct mlr_error *err)
{
	auto_free char *top = service_top(err), *path = top ? xasprintf("%s/%s", top, name) : NULL;

	return path ? file_remove_tree(store_fd(st), path, err) : -err->code;
}

int service_forget(struct store *st, const struct service *s, struct mlr_error *err)
{
	auto_call(service_done) struct service now = SERVICE_INIT;
	struct mlr_error why = MLR_ERROR_INIT;
	auto_close int locked = lock(st, err);
	int r = locked < 0 ? locked : service_get(st, s->name, &now, &why);

	if (locked < 0)
		return r;
	if (r == 0 && (now.created != s->created || !service_has_ended(&now)))
		return 0;
	return remove_files(st, s->name, err);
}

/* --- the start ----------------------------------------------------------------------------- */

static int spawn(struct store *st, const char *program, const char *name, int to, pid_t *pid)
{
	auto_free char *store = xasprintf("--store=%s", store_path(st));
	char *const argv[] = { (char *)"mlrun", (char *)"service-hold", store, (char *)name, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none;
	int r;

	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_adddup2(&files, 0, 1);
	posix_spawn_file_actions_adddup2(&files, 0, 2);
	posix_spawn_file_actions_adddup2(&files, to, 3);
	posix_spawn_file_actions_addclosefrom_np(&files, 4);
	r = posix_spawn(pid, program, &files, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return -r;
}

/* Wait for the supervisor's word. *locked is closed when others see it. */
static int hear(int from, pid_t pid, int *locked, struct service *s, struct mlr_error *err)
{
	struct service_message m;

	for (;;) {
		ssize_t n = file_read_full(from, &m, sizeof(m));

		if (n != sizeof(m)) {
			waitpid(pid, NULL, 0);
			return mlr_fail(err, EIO, "its supervisor was killed");
		}
		m.text[sizeof(m.text) - 1] = '\0';
		if (m.word == SERVICE_SAYS_UP)
			return 0;
		if (m.word == SERVICE_SAYS_HELD) {
			close(take_fd(locked));
			continue;
		}
		waitpid(pid, NULL, 0);
		if (m.word == SERVICE_SAYS_ERROR)
			return mlr_pass(err, m.code, m.text);
		s->exit_status = m.code;
		return mlr_fail(err, ECHILD, "its command did not start");
	}
}

static int launch(struct store *st, const char *program, int *locked, struct service *s,
	struct mlr_error *err)
{
	auto_close int from = -1, to = -1;
	int pair[2], r;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return mlr_fail_errno(err, "make a pipe");
	from = pair[0];
	to = pair[1];
	r = spawn(st, program, s->name, to, &pid);
	close(take_fd(&to));
	if (r < 0)
		return mlr_fail(err, -r, "start '%s': %s", program, strerror(-r));
	return hear(from, pid, locked, s, err);
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
	if (r == 0)
		clear_rest(&old);
	return remove_files(st, name, err);
}

static int make_dir(struct store *st, const char *name, struct mlr_error *err)
{
	auto_free char *top = service_top(err), *path = top ? xasprintf("%s/%s", top, name) : NULL;

	if (!path)
		return -err->code;
	return mkdirat(store_fd(st), path, 0700) < 0
		? mlr_fail_errno(err, "make '%s/%s'", store_path(st), path)
		: 0;
}

/* Clean up after a failed start or a killed supervisor. */
static void abandon(struct store *st, const struct service *s)
{
	auto_call(service_done) struct service now = SERVICE_INIT;

	if (service_read(st, s->name, &now, NULL) == 0 && now.created == s->created)
		clear_rest(&now);
	service_forget(st, s, NULL);
}

int service_start(struct store *st, const char *program, struct service *s, struct mlr_error *err)
{
	auto_close int locked = -1;
	int r;

	TRY(service_name_check(s->name, err));
	locked = lock(st, err);
	if (locked < 0)
		return locked;
	TRY(replace(st, s->name, err));
	TRY(make_dir(st, s->name, err));
	s->created = mlr_epoch_ms();
	r = service_write_wish(st, s, err);
	if (r == 0)
		r = launch(st, program, &locked, s, err);
	if (r < 0 && r != -ECHILD)
		abandon(st, s);
	return r;
}

/* Its own supervisor starts it again. */
static int await_run(struct store *st, struct service *s, int64_t timeout_ms, struct mlr_error *err)
{
	int64_t end = mlr_now_ms() + (timeout_ms < 0 ? s->stop_ms : timeout_ms) + MARGIN_MS;
	int64_t was = s->started;
	long runs = s->runs;

	do {
		int r = read_again(st, s, err);

		if (r < 0)
			return r;
		if (service_has_ended(s))
			return mlr_fail(err, ECHILD, "it has ended");
		if (s->status >= SERVICE_RUNNING && (s->runs != runs || s->started != was))
			return 0;
		nap();
	} while (mlr_now_ms() < end);
	return mlr_fail(err, ETIMEDOUT, "it does not start again");
}

int service_restart(struct store *st, const char *program, struct service *s, int64_t timeout_ms,
	struct mlr_error *err)
{
	auto_close int locked = lock(st, err);
	struct store_process p;
	int alive, r = locked;

	if (r < 0 || (r = read_again(st, s, err)) < 0)
		return r;
	alive = service_judge(st, s, &p);
	if (alive < 0 && !service_has_ended(s))
		return refuse_elsewhere(st, s, err);
	if (alive > 0 && order(&p, timeout_ms, 1) == 0) {
		close(take_fd(&locked));
		return await_run(st, s, timeout_ms, err);
	}
	clear_rest(s);
	return launch(st, program, &locked, s, err);
}
