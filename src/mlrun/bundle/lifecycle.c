#include "bundle/lifecycle.h"

#include "base/base.h"
#include "base/proc.h"
#include "bundle/bundle.h"
#include "bundle/hook.h"
#include "bundle/signal.h"
#include "bundle/state.h"
#include "bundle/talk.h"
#include "bundle/terminal.h"
#include "plan/plan.h"
#include "runtime/meeting.h"
#include "runtime/runtime.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define FAILED         125
#define NOT_EXECUTABLE 126
#define NOT_FOUND      127
#define DEATH_MS       10000 /* how long a killed process may take to end */

/* What both sides have when the container's process is forked. */
struct making {
	struct bundle bundle;
	struct plan plan;
	struct state state;
	int talk[2]; /* the command's end and the container's */
	int listener, console, call;
	int status; /* 126 or 127: the command cannot be executed */
};

static void close_at(int *fd)
{
	if (*fd >= 0)
		close(take_fd(fd));
}

static void making_done(struct making *m)
{
	close_at(&m->talk[0]);
	close_at(&m->talk[1]);
	close_at(&m->listener);
	close_at(&m->console);
	bundle_state_done(&m->state);
	plan_done(&m->plan);
	bundle_done(&m->bundle);
}

static int run_hooks(
	const struct making *m, enum bundle_stage stage, enum status status, struct mlr_error *err)
{
	json_auto_t *o = bundle_state_json(&m->state, &m->bundle, status);
	auto_free char *text = json_dumps(o, JSON_COMPACT);

	if (!text)
		mlr_oom();
	return hooks_run(&m->bundle, stage, text, err);
}

/* --- in the container's process --------------------------------------------------- */

/* The command's end ends us, too. */
static int ask(struct making *m, const struct talk_message *what, struct mlr_error *err)
{
	struct talk_message answer;
	int r = talk_send(m->talk[1], what);

	if (r == 0)
		r = talk_receive(m->talk[1], &answer, NULL);
	if (r < 0)
		return mlr_fail(err, -r, "the command that makes the container has ended");
	m->state.pid = answer.pid;
	return 0;
}

/* Those of namespaces that this process is in now, which /proc/sys shows to it. */
static int write_sysctls(const struct bundle *b, const char *of, struct mlr_error *err)
{
	for (size_t i = 0; i < b->sysctls.n; i += 3) {
		auto_free char *path = xasprintf("/proc/sys/%s", b->sysctls.v[i]);
		const char *value = b->sysctls.v[i + 1];
		auto_close int fd = -1;

		if (strcmp(b->sysctls.v[i + 2], of) != 0)
			continue;
		for (char *s = path; *s; s++)
			*s = *s == '.' ? '/' : *s;
		fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0 || write(fd, value, strlen(value)) < 0)
			return mlr_fail_errno(err, "sysctl '%s' = '%s'", b->sysctls.v[i], value);
	}
	return 0;
}

/* Enter namespaces that are there already, while this process has its caller's rights over them. */
static int join(const struct bundle *b, struct mlr_error *err)
{
	for (size_t i = 0; i < b->joined.n; i += 2) {
		const char *type = b->joined.v[i];
		int flag = strcmp(type, "network") == 0 ? CLONE_NEWNET
			: strcmp(type, "ipc") == 0      ? CLONE_NEWIPC
							: CLONE_NEWUTS;
		auto_close int fd = open(b->joined.v[i + 1], O_RDONLY | O_CLOEXEC | O_NONBLOCK);

		if (fd < 0 || setns(fd, flag) < 0)
			return mlr_fail_errno(err, "join the %s namespace '%s'", b->joined.v[i],
				b->joined.v[i + 1]);
	}
	return write_sysctls(b, "joined", err);
}

static int before_pivot(void *ctx, int root, struct mlr_error *err)
{
	struct talk_message made = { .what = TALK_MADE };
	struct proc_stat self;
	struct stat st;
	int r;

	if (stat("/proc/self/ns/mnt", &st) == 0)
		made.mounts = st.st_ino;
	if (proc_stat_read(AT_FDCWD, "/proc/self/stat", &self) == 0)
		made.start = self.start;
	made.root_mount = bundle_mount_of(root, "");
	r = ask(ctx, &made, err);
	if (r == 0)
		r = write_sysctls(&((struct making *)ctx)->bundle, "", err);
	return r < 0 ? r : run_hooks(ctx, BUNDLE_CREATE_CONTAINER, STATUS_CREATING, err);
}

static int wait_for_start(struct making *m, struct mlr_error *err)
{
	struct talk_message ready = { .what = TALK_READY }, taken = { .what = TALK_TAKEN };
	int r;

	TRY(ask(m, &ready, err));
	close_at(&m->talk[1]);
	do
		m->call = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC);
	while (m->call < 0 && errno == EINTR);
	if (m->call < 0)
		return mlr_fail_errno(err, "wait for the start");
	r = talk_send(m->call, &taken);
	return r < 0 ? mlr_fail(err, -r, "answer the start: %s", strerror(-r)) : 0;
}

static int before_command(void *ctx, struct mlr_error *err)
{
	struct making *m = ctx;
	int r = 0;

	if (m->plan.dies_with_parent)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (m->plan.detached)
		setsid(); /* the first process of a PID namespace is another than the one that
			     forked */
	if (m->console >= 0)
		r = terminal_enter(m->console, m->bundle.rows, m->bundle.columns, err);
	if (r == 0) {
		r = runtime_find_command(&m->plan, err);
		m->status = r == 0 ? 0 : r == -ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
	}
	if (r == 0)
		r = wait_for_start(m, err);
	if (r == 0)
		r = run_hooks(m, BUNDLE_START_CONTAINER, STATUS_CREATED, err);
	if (r == 0 && m->bundle.umask >= 0)
		umask((mode_t)m->bundle.umask);
	return r;
}

/* Lowering it needs privileges; crun and runc, too, then leave it to an ordinary user. */
static void set_oom_score(const struct bundle *b)
{
	auto_close int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (b->has_oom_score_adj && (fd < 0 || dprintf(fd, "%d", b->oom_score_adj) < 0))
		mlr_debug("oomScoreAdj %d: %s", b->oom_score_adj, strerror(errno));
}

__attribute__((noreturn)) static void become_container(struct making *m)
{
	const struct runtime_stops stops = { before_pivot, before_command, m };
	struct talk_message failed = { .what = TALK_FAILED };
	struct mlr_error *err = &failed.error;
	int r, status = FAILED;

	close_at(&m->talk[0]);
	close_at(&m->state.making);
	set_oom_score(&m->bundle);
	/* Of the caller's terminal neither signals nor /dev/tty reach the container. */
	if (m->plan.detached)
		setsid();
	r = bundle_state_wait_lock(&m->state, err);
	if (r == 0)
		r = join(&m->bundle, err);
	if (r == 0)
		r = runtime_enter_stopping(&m->plan, &stops, err);
	if (r == 0) {
		r = runtime_exec(&m->plan, err);
		status = r == -ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
	}
	failed.status = m->status;
	talk_send(m->call >= 0 ? m->call : m->talk[1], &failed);
	_exit(status);
}

/* --- create ------------------------------------------------------------------------ */

static int keep_text(const struct making *m, const char *name, const char *text, size_t len,
	struct mlr_error *err)
{
	return file_replace(m->state.dir, name, text, len, 0600, err);
}

/* The profile is read as a file, runtime/seccomp.h. */
static int keep_seccomp(struct making *m, struct mlr_error *err)
{
	const char *text = m->bundle.seccomp;
	auto_free char *dir = NULL;

	if (!text)
		return 0;
	TRY(keep_text(m, "seccomp.json", text, strlen(text), err));
	dir = file_fd_path(m->state.dir);
	if (!dir)
		return mlr_fail_errno(err, "find the container's state");
	m->plan.seccomp = xasprintf("%s/seccomp.json", dir);
	return 0;
}

static int read_bundle(
	const struct lifecycle_options *o, const char *dir, struct making *m, struct mlr_error *err)
{
	auto_free char *path = !o->config || *o->config != '/'
		? xasprintf("%s/%s", dir, o->config ? o->config : "config.json")
		: xstrdup(o->config);
	auto_free char *text = NULL;
	size_t len;
	int r;

	TRY(file_read(AT_FDCWD, path, BUNDLE_CONFIG_MAX, &text, &len, err));
	r = bundle_parse(text, len, &m->bundle, err);
	if (r == 0)
		r = bundle_plan(text, len, dir, &m->bundle, &m->plan, err);
	if (r < 0)
		return mlr_wrap(err, "'%s'", path);
	r = bundle_state_make(o->root, o->id, &m->state, err);
	if (r == 0)
		r = keep_text(m, "config.json", text, len, err);
	return r < 0 ? r : keep_seccomp(m, err);
}

static int keep_fds(int n, struct plan *p, struct mlr_error *err)
{
	for (int fd = 3; fd < 3 + n; fd++) {
		int flags = fcntl(fd, F_GETFD);

		/* One with close-on-exec is mlrun's own, not inherited. */
		if (flags < 0 || flags & FD_CLOEXEC)
			return mlr_fail(
				err, EBADF, "--preserve-fds %d: descriptor %d is not open", n, fd);
		plan_keep_fd(p, fd);
	}
	return 0;
}

static int open_ends(const struct lifecycle_options *o, struct making *m, struct mlr_error *err)
{
	TRY(talk_pair(m->talk, err));
	m->listener = talk_listen(m->state.dir);
	if (m->listener < 0)
		return mlr_fail(
			err, -m->listener, "listen for the start: %s", strerror(-m->listener));
	if (m->bundle.terminal && o->console_socket) {
		m->console = terminal_connect(o->console_socket, err);
		return m->console < 0 ? m->console : 0;
	}
	return 0;
}

/* Receive what the container's process must say next. */
static int expect(struct making *m, enum talk_what what, struct talk_message *ret, pid_t *sender,
	struct mlr_error *err)
{
	int r = talk_receive(m->talk[0], ret, sender);

	if (r < 0)
		return mlr_fail(err, ECHILD, "the container's process has ended");
	if (ret->what == TALK_FAILED) {
		m->status = ret->status;
		return mlr_pass(err, ret->error.code, ret->error.text);
	}
	return ret->what == what ? 0 : mlr_fail(err, EPROTO, "unexpected message");
}

static int go_on(struct making *m, struct mlr_error *err)
{
	struct talk_message go = { .what = TALK_GO, .pid = m->state.pid };
	int r = talk_send(m->talk[0], &go);

	return r < 0 ? mlr_fail(err, ECHILD, "the container's process has ended") : 0;
}

static int put_pid(const char *path, pid_t pid, struct mlr_error *err)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%ld", (long)pid);

	return path ? file_put(path, text, (size_t)n, 0644, err) : 0;
}

/* Lead the container's process up to its start. */
static int lead(
	const struct lifecycle_options *o, const char *dir, struct making *m, struct mlr_error *err)
{
	struct talk_message made, said;
	int r;

	TRY(expect(m, TALK_MADE, &made, &m->state.pid, err));
	r = run_hooks(m, BUNDLE_PRESTART, STATUS_CREATING, err);
	if (r == 0)
		r = run_hooks(m, BUNDLE_CREATE_RUNTIME, STATUS_CREATING, err);
	if (r == 0)
		r = go_on(m, err);
	if (r == 0)
		r = expect(m, TALK_READY, &said, NULL, err);
	if (r == 0)
		r = bundle_state_write(&m->state, m->state.pid, &made, dir, err);
	if (r == 0)
		r = put_pid(o->pid_file, m->state.pid, err);
	return r < 0 ? r : go_on(m, err);
}

/* Undo: nothing of the container remains. */
static void undo(struct making *m, pid_t child)
{
	struct mlr_error ignored = MLR_ERROR_INIT;

	if (child > 0) {
		if (m->state.pid > 0)
			kill(m->state.pid, SIGKILL);
		kill(child, SIGKILL);
		close_at(&m->talk[0]);
		waitpid(child, NULL, 0);
	}
	if (m->state.dir >= 0)
		bundle_state_remove(&m->state, &ignored);
}

static int fork_container(
	const struct lifecycle_options *o, struct making *m, pid_t *child, struct mlr_error *err)
{
	TRY(open_ends(o, m, err));
	*child = fork();
	if (*child == 0) {
		if (!o->keep_keyring)
			proc_leave_keyring();
		become_container(m);
	}
	if (*child < 0)
		return mlr_fail_errno(err, "fork");
	close_at(&m->talk[1]);
	close_at(&m->listener);
	close_at(&m->console);
	return 0;
}

/* child gets the forked process, which with a PID namespace and detached is not the container's. */
static int create(
	const struct lifecycle_options *o, struct making *m, pid_t *child, struct mlr_error *err)
{
	auto_free char *dir = realpath(o->bundle, NULL);
	int r = keep_fds(o->preserve_fds, &m->plan, err);

	if (r == 0)
		r = dir ? read_bundle(o, dir, m, err)
			: mlr_fail_errno(err, "the bundle '%s'", o->bundle);

	/* `run` leaves the caller's terminal to the command. */
	if (r == 0 && m->bundle.terminal && m->plan.detached && !o->console_socket)
		r = mlr_fail(err, EINVAL, "'terminal' needs --console-socket");
	if (r == 0) {
		m->state.bundle = xstrdup(dir);
		r = fork_container(o, m, child, err);
	}
	if (r == 0)
		r = lead(o, dir, m, err);
	if (r < 0)
		undo(m, *child);
	return r;
}

#define MAKING_INIT                                                                             \
	{                                                                                       \
		.bundle = BUNDLE_INIT, .state = STATE_INIT, .talk = { -1, -1 }, .listener = -1, \
		.console = -1, .call = -1                                                       \
	}

int lifecycle_create(const struct lifecycle_options *o, int *status, struct mlr_error *err)
{
	auto_call(making_done) struct making m = MAKING_INIT;
	pid_t child = -1;

	signal(SIGCHLD, SIG_DFL); /* if it is ignored, children end without a status */
	m.plan.detached = 1;
	if (create(o, &m, &child, err) < 0) {
		*status = m.status;
		return mlr_wrap(err, "create '%s'", o->id);
	}
	return 0;
}

/* --- start ------------------------------------------------------------------------- */

/* Call the waiting process. It answers by a failure, or by executing the command, which hangs
 * up. */
static int call_start(const struct state *s, struct mlr_error *err)
{
	auto_close int call = talk_call(s->dir);
	struct talk_message m;
	int r = call < 0 ? call : talk_receive(call, &m, NULL);

	if (r < 0)
		return mlr_fail(err, EINVAL, "it does not wait for its start any more");
	r = talk_receive(call, &m, NULL);
	if (r == 0 && m.what == TALK_FAILED)
		return mlr_pass(err, m.error.code, m.error.text);
	return 0;
}

static void run_late_hooks(
	const struct state *s, const struct bundle *b, enum bundle_stage stage, enum status status)
{
	json_auto_t *o = bundle_state_json(s, b, status);
	auto_free char *text = json_dumps(o, JSON_COMPACT);

	if (!text)
		mlr_oom();
	hooks_run(b, stage, text, NULL);
}

static int start(const struct state *s, const struct bundle *b, struct mlr_error *err)
{
	enum status status = bundle_state_status(s);
	int r;

	if (status != STATUS_CREATED)
		return mlr_fail(
			err, EINVAL, "it is %s, not created", bundle_state_status_name(status));
	r = call_start(s, err);
	if (r == 0)
		run_late_hooks(s, b, BUNDLE_POSTSTART, STATUS_RUNNING);
	return r;
}

int lifecycle_start(const char *root, const char *id, struct mlr_error *err)
{
	auto_call(bundle_state_done) struct state s = STATE_INIT;
	auto_call(bundle_done) struct bundle b = BUNDLE_INIT;

	TRY(bundle_state_open(root, id, &s, err));
	TRY(bundle_state_bundle(&s, &b, err));
	return start(&s, &b, err) < 0 ? mlr_wrap(err, "start '%s'", id) : 0;
}

/* --- kill --------------------------------------------------------------------------- */

int lifecycle_kill(const char *root, const char *id, int sig, int all, struct mlr_error *err)
{
	auto_call(bundle_state_done) struct state s = STATE_INIT;
	int n = 0, r = bundle_state_open(root, id, &s, err);

	if (r < 0)
		return r;
	/* Before it executes the command, its mounts cannot be looked at. */
	if (all && bundle_state_status(&s) != STATUS_CREATED)
		n = bundle_signal_all(&s, sig);
	if (n == 0)
		r = bundle_signal(&s, sig);
	if (r == -ESRCH)
		return mlr_fail(err, EINVAL, "kill '%s': container not running", id);
	return r < 0 ? mlr_fail(err, -r, "kill '%s': %s", id, strerror(-r)) : 0;
}

/* --- delete ------------------------------------------------------------------------- */

/* Kill what is left until nothing is. */
static int kill_rest(const struct state *s, struct mlr_error *err)
{
	long end = meeting_now_ms() + DEATH_MS;

	while (bundle_signal_all(s, SIGKILL) > 0 || bundle_state_status(s) != STATUS_STOPPED) {
		if (meeting_now_ms() > end)
			return mlr_fail(err, EBUSY, "its processes do not end");
		meeting_pause_us(1000);
	}
	return 0;
}

static int delete (const struct state *s, int force, struct mlr_error *err)
{
	auto_call(bundle_done) struct bundle b = BUNDLE_INIT;
	enum status status = bundle_state_status(s);
	struct mlr_error none = MLR_ERROR_INIT;
	int r;

	if (status == STATUS_CREATING || (status != STATUS_STOPPED && !force)) {
		mlr_fail(err, EBUSY, "it is %s, not stopped", bundle_state_status_name(status));
		return status == STATUS_CREATING ? -EBUSY : mlr_hint(err, "--force kills it");
	}
	/* A container whose creation was killed has no config.json. */
	r = bundle_state_bundle(s, &b, &none);
	if (r < 0)
		mlr_debug("%s", none.text);
	r = kill_rest(s, err);
	if (r == 0)
		r = bundle_state_remove(s, err);
	if (r == 0)
		run_late_hooks(s, &b, BUNDLE_POSTSTOP, STATUS_STOPPED);
	return r;
}

int lifecycle_delete(const char *root, const char *id, int force, struct mlr_error *err)
{
	auto_call(bundle_state_done) struct state s = STATE_INIT;
	int r = bundle_state_open(root, id, &s, err);

	if (r == -ENOENT && force)
		return 0;
	if (r < 0)
		return r;
	return delete (&s, force, err) < 0 ? mlr_wrap(err, "delete '%s'", id) : 0;
}

/* --- run ----------------------------------------------------------------------------- */

/* Pass on what is sent to us alone; the terminal's signals reach the whole group. */
static int wait_for(pid_t child)
{
	sigset_t all;
	siginfo_t si;
	int status;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	for (;;) {
		pid_t got = waitpid(child, &status, WNOHANG);

		if (got == child)
			return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		if (sigwaitinfo(&all, &si) > 0 && si.si_signo != SIGCHLD && si.si_code != SI_KERNEL)
			kill(child, si.si_signo);
	}
}

static int run(const struct lifecycle_options *o, struct making *m, int detach, int *status,
	struct mlr_error *err)
{
	struct mlr_error ignored = MLR_ERROR_INIT;
	pid_t child = -1;
	int r;

	TRY(create(o, m, &child, err));
	close_at(&m->state.making);
	r = start(&m->state, &m->bundle, err);
	if (detach && r == 0)
		return 0;
	*status = r < 0 && detach ? 0 : wait_for(child);
	if (!o->keep && delete (&m->state, 1, &ignored) < 0)
		mlr_log_failure(MLR_WARNING, &ignored, ", ignoring");
	return r;
}

int lifecycle_run(const struct lifecycle_options *o, int detach, int *status, struct mlr_error *err)
{
	auto_call(making_done) struct making m = MAKING_INIT;

	signal(SIGCHLD, SIG_DFL);
	m.plan.detached = detach;
	m.plan.dies_with_parent = !detach;
	if (run(o, &m, detach, status, err) < 0) {
		*status = m.status ? m.status : *status;
		return mlr_wrap(err, "run '%s'", o->id);
	}
	return 0;
}
