#include "work/supervisor.h"
#include "work/work.h"

#include "base/proc.h"
#include "base/spawn.h"
#include "runtime/container.h"

#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>

#define LOOK_MS      5  /* how often to look whether the container is there */
#define LOOK_LATE_MS 50 /* the same a second after its start */

#define WRITE_MS    1000 /* before what could not be written is written again */
#define WRITE_TRIES 60   /* in the end */

enum { TO_STARTER = 3, LOCK }; /* descriptors of a supervisor that was launched */

/* --- children ------------------------------------------------------------------------------ */

/* Become the program, in a child that has this process's memory until then: system calls only. */
static void become(const struct child *c, pid_t parent)
{
	int high[CHILD_FDS], null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	/* Above all targets first: a source may have the number of another's target. */
	for (int i = 0; i < c->n; i++) {
		high[i] = fcntl(c->fds[i] < 0 ? null : c->fds[i], F_DUPFD_CLOEXEC, c->n);
		if (high[i] < 0) {
			errno = null < 0 || errno == EINVAL ? EMFILE : errno;
			return;
		}
	}
	for (int i = 0; i < c->n; i++)
		if (dup2(high[i], i) < 0)
			return;
	fds_close_range((unsigned)c->n, ~0u, 0);
	if (c->session)
		setsid();
	else
		setpgid(0, 0);
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	errno = ESRCH;
	if (!c->mortal || (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent))
		execvp(c->program, strv_argv(c->argv));
}

/* posix_spawn(3) has no PR_SET_PDEATHSIG, and fork(2) alone would not say why execve(2) failed. */
int work_child_start(const struct child *c, pid_t *ret)
{
	volatile int code = 0;
	pid_t parent = getpid(), pid;
	sigset_t all, old;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid = vfork();
	if (pid == 0) {
		become(c, parent);
		code = errno;
		_exit(126);
	}
	if (pid < 0)
		code = errno;
	else if (code)
		waitpid(pid, NULL, 0);
	else
		*ret = pid;
	sigprocmask(SIG_SETMASK, &old, NULL);
	return -code;
}

/* --- the processes in a child's container ---------------------------------------------------- */

/* An init of ours, or a process that has not executed its command yet, and perhaps cannot. */
static int is_ours(int proc, pid_t pid)
{
	struct stat own, exe;
	char name[32];

	snprintf(name, sizeof(name), "%ld/exe", (long)pid);
	return fstatat(proc, "self/exe", &own, 0) == 0 && fstatat(proc, name, &exe, 0) == 0 &&
		file_is_one(&own, &exe);
}

static int take(int proc, pid_t pid, const struct container *c, struct inside *ret)
{
	auto_close int root = -1;
	struct stat sb;
	char name[32];

	snprintf(name, sizeof(name), "%ld/root", (long)pid);
	root = openat(proc, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || fstat(root, &sb) < 0 ||
		c->id != ((uint64_t)major(sb.st_dev) << 32 | minor(sb.st_dev)))
		return 0; /* it has ended meanwhile */
	fd_close(&ret->root);
	*ret = (struct inside){ c->id, take_fd(&root) };
	return 1;
}

pid_t work_inside_find(int proc, pid_t pid, struct inside *ret)
{
	auto_call(container_done) struct container c = { 0 };
	char name[64], children[4096], *rest = children, *word;

	if (container_look(proc, pid, &c) == 0 && !is_ours(proc, pid) && take(proc, pid, &c, ret))
		return pid;
	snprintf(name, sizeof(name), "%ld/task/%ld/children", (long)pid, (long)pid);
	if (proc_read(proc, name, children, sizeof(children)) < 0)
		return 0;
	while ((word = strsep(&rest, " "))) {
		pid_t child = (pid_t)atol(word),
		      found = child > 0 ? work_inside_find(proc, child, ret) : 0;

		if (found > 0)
			return found;
	}
	return 0;
}

void work_inside_kill(int proc, struct inside *in)
{
	int found = in->id != 0;

	for (int i = 0; found && i < 200; i++) {
		auto_strv struct strv names = STRV_INIT;

		found = 0;
		file_list(proc, ".", 0, &names);
		for (size_t k = 0; k < names.n; k++) {
			auto_call(container_done) struct container c = { 0 };
			pid_t pid = (pid_t)atol(names.v[k]);

			if (pid <= 0 || container_look(proc, pid, &c) < 0 || c.id != in->id)
				continue;
			kill(pid, SIGKILL);
			found = 1;
		}
		if (found)
			mlr_sleep_ms(LOOK_MS);
	}
	fd_close(&in->root);
	*in = (struct inside)INSIDE_INIT;
}

/* --- the child ----------------------------------------------------------------------------- */

int supervisor_start(struct supervisor *s, const struct child *c, struct mlr_error *err)
{
	int r = work_child_start(c, &s->child);

	s->pid = 0;
	s->kill_at = 0;
	s->begun = mlr_now_ms();
	return mlr_result(err, r, "start '%s'", c->program);
}

void supervisor_end(struct supervisor *s, pid_t pid, int sig, int64_t ms)
{
	if (s->kill_at == 0)
		kill(pid, sig);
	s->kill_at = mlr_now_ms() + ms;
}

/* Its time is up. */
static void insist(struct supervisor *s)
{
	int64_t ms = s->term_ms;

	s->kill_at = s->term_ms = 0;
	if (ms > 0) {
		supervisor_end(s, -s->child, SIGTERM, ms);
		return;
	}
	kill(-s->child, SIGKILL);
	/* Processes that came in by exec --join or mlrun-rsh are not below the child. */
	work_inside_kill(s->proc, &s->inside);
}

static void look_inside(struct supervisor *s)
{
	pid_t pid = work_inside_find(s->proc, s->child, &s->inside);

	if (pid <= 0)
		return;
	s->pid = pid;
	s->up = mlr_now_ms();
	s->kind->up(s->of, pid);
}

static void child_ended(struct supervisor *s, int status)
{
	work_inside_kill(s->proc, &s->inside);
	s->child = 0;
	s->status = status;
	s->kill_at = 0;
	s->kind->ended(s->of, spawn_exit(status));
}

/* Also reap orphans of the container: this process is their subreaper. */
static void reap(struct supervisor *s)
{
	siginfo_t info = { 0 };

	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0) {
		pid_t pid = info.si_pid;
		int status;

		/* Kill also its process group, which may be outside the container. The number is
		 * the group's until it is waited for. */
		if (pid == s->child)
			kill(-pid, SIGKILL);
		if (waitpid(pid, &status, 0) != pid)
			break;
		info.si_pid = 0;
		if (pid == s->child)
			child_ended(s, status);
		else
			s->kind->reaped(s->of, pid, spawn_exit(status));
	}
}

/* --- the supervisor -------------------------------------------------------------------------- */

void supervisor_done(struct supervisor *s)
{
	int *const all[] = { &s->inside.root, &s->signals, &s->proc, &s->starter, &s->lock };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		fd_close(all[i]);
	free(s->process);
	*s = (struct supervisor)SUPERVISOR_INIT;
}

int supervisor_begin(struct supervisor *s, int launched, struct mlr_error *err)
{
	struct store_process self;
	char name[STORE_PROCESS_NAME];
	sigset_t all;

	if (launched) {
		s->starter = TO_STARTER;
		s->lock = LOCK;
		if (fcntl(TO_STARTER, F_SETFD, FD_CLOEXEC) < 0 ||
			fcntl(LOCK, F_SETFD, FD_CLOEXEC) < 0)
			return mlr_fail_errno(err, "its starter's descriptors");
	}
	TRY(mlr_result(err, store_process_self(&self), "read '/proc/self'"));
	store_process_name(&self, name);
	s->process = xstrdup(name);
	s->proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s->proc < 0)
		return mlr_fail_errno(err, "open '/proc'");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a log that may not grow is one that cannot be written */
	sigemptyset(&all);
	sigaddset(&all, SIGTERM);
	sigaddset(&all, SIGINT);
	sigaddset(&all, SIGHUP);
	sigaddset(&all, SIGRTMIN);
	sigaddset(&all, SIGCHLD);
	sigprocmask(SIG_BLOCK, &all, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	s->signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signals < 0 ? mlr_fail_errno(err, "signalfd") : 0;
}

void supervisor_write(struct supervisor *s)
{
	int r, tries = s->over ? WRITE_TRIES : 1;

	while ((r = s->kind->write(s->of)) < 0 && r != -ENOENT && --tries > 0)
		mlr_sleep_ms(WRITE_MS);
	s->write_at = r < 0 && r != -ENOENT ? mlr_now_ms() + WRITE_MS : 0;
}

void supervisor_sooner(int64_t *ms, int64_t other)
{
	if (other >= 0 && (*ms < 0 || other < *ms))
		*ms = other;
}

/* Do what is due. Returns milliseconds until there is more, -1: an event. */
static int64_t do_due(struct supervisor *s)
{
	int64_t ms, now;

	if (s->child > 0 && s->kill_at && s->kill_at <= mlr_now_ms())
		insist(s);
	if (s->child > 0 && s->pid == 0)
		look_inside(s);
	if (s->write_at && s->write_at <= mlr_now_ms())
		supervisor_write(s);
	ms = s->kind->due(s->of);
	now = mlr_now_ms();
	if (s->child > 0 && s->pid == 0)
		supervisor_sooner(&ms, now - s->begun < 1000 ? LOOK_MS : LOOK_LATE_MS);
	if (s->kill_at)
		supervisor_sooner(&ms, s->kill_at > now ? s->kill_at - now : 0);
	if (s->write_at)
		supervisor_sooner(&ms, WRITE_MS);
	return ms;
}

static void read_signals(struct supervisor *s)
{
	struct signalfd_siginfo info;

	while (!s->over && read(s->signals, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo == SIGCHLD)
			reap(s);
		else
			s->kind->order(s->of, &info);
}

void supervisor_run(struct supervisor *s)
{
	for (;;) {
		int64_t ms = s->over ? 0 : do_due(s);
		struct pollfd p[1 + ARRAY_LEN(s->fds)] = { { s->signals, POLLIN, 0 } };
		nfds_t n = 1;

		if (s->over)
			return;
		for (; n < ARRAY_LEN(p) && s->fds[n - 1]; n++)
			p[n] = (struct pollfd){ *s->fds[n - 1], POLLIN, 0 };
		poll(p, n, ms > INT32_MAX ? INT32_MAX : (int)ms);
		read_signals(s);
	}
}

/* --- supervisor and starter ------------------------------------------------------------------ */

int supervisor_judge(struct store *st, const char *process, struct store_process *ret)
{
	struct store_process self;

	if (!process || store_process_parse(process, ret) < 0)
		return 0;
	return store_process_self(&self) < 0 ? -1 : store_process_judge(st, ret, &self);
}

/* A message, written by one write(2). */
struct message {
	enum supervisor_word word;
	int code;
	char text[1020];
};

void supervisor_tell(struct supervisor *s, enum supervisor_word word, int code, const char *text)
{
	struct message m = { .word = word, .code = code };

	snprintf(m.text, sizeof(m.text), "%s", text ? text : "");
	close(take_fd(&s->lock));
	/* A starter that is told nothing sees the end of the pipe. */
	if (s->starter >= 0 && file_write_all(s->starter, &m, sizeof(m)) == 0 &&
		word == SUPERVISOR_HOLDS)
		return;
	close(take_fd(&s->starter));
}

int supervisor_lock(
	struct store *st, const char *path, int flags, int *is_waiting, struct mlr_error *err)
{
	auto_close int fd = openat(store_fd(st), path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
	int how = is_waiting ? LOCK_EX | LOCK_NB : LOCK_EX, r;

	r = TEMP_FAILURE_RETRY(fd < 0 ? -1 : flock(fd, how));
	if (is_waiting)
		*is_waiting = r < 0 && errno == EWOULDBLOCK;
	return r < 0 ? mlr_fail_errno(err, "lock '%s/%s'", store_path(st), path) : take_fd(&fd);
}

static int hear(int from, pid_t pid, int *locked, enum supervisor_word until, int *exit_status,
	struct mlr_error *err)
{
	struct message m;

	for (;;) {
		ssize_t n = file_read_full(from, &m, sizeof(m));

		if (n != sizeof(m)) {
			kill(pid, SIGTERM); /* it may run, and cannot say so */
			waitpid(pid, NULL, 0);
			return mlr_fail(err, EIO, "its supervisor ended without a word");
		}
		m.text[sizeof(m.text) - 1] = '\0';
		if (m.word == SUPERVISOR_HOLDS)
			close(take_fd(locked));
		if (m.word == until)
			return 0;
		if (m.word < SUPERVISOR_FAILED)
			continue;
		waitpid(pid, NULL, 0);
		if (m.word == SUPERVISOR_ERROR)
			return mlr_pass(err, m.code, m.text);
		if (exit_status)
			*exit_status = m.code;
		return mlr_fail(err, ECHILD, "its command did not start");
	}
}

int supervisor_launch(struct store *st, const char *const *command, const char *name, int out,
	int *locked, enum supervisor_word until, int *exit_status, struct mlr_error *err)
{
	auto_strv struct strv argv = STRV_INIT;
	auto_close int from = -1, to = -1;
	int pair[2];
	pid_t pid;

	strv_take(&argv, work_program());
	while (*command)
		strv_add(&argv, *command++);
	strv_addf(&argv, "--store=%s", store_path(st));
	strv_add(&argv, name);

	if (pipe2(pair, O_CLOEXEC) < 0)
		return mlr_fail_errno(err, "make a pipe");
	from = pair[0];
	to = pair[1];
	struct child c = { argv.v[0], &argv, { -1, out, out, to, *locked }, 5, .session = 1 };

	TRY(mlr_result(err, work_child_start(&c, &pid), "start '%s'", argv.v[0]));
	close(take_fd(&to));
	return hear(from, pid, locked, until, exit_status, err);
}
