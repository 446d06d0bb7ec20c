/* The process that a command of `mlrun oci` forks, and what the two say to each other. */
#include "bundle/making.h"

#include "base/proc.h"
#include "bundle/hook.h"
#include "bundle/parts.h"
#include "bundle/signal.h"
#include "runtime/limits.h"
#include "runtime/runtime.h"

#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/ioctl.h>
#include <sys/un.h>

/* --- the terminal of the container's process --- */

/* Connect to --console-socket. Returns a descriptor or -errno. */
static int terminal_connect(const char *path, struct mlr_error *err)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(a.sun_path))
		return mlr_fail(err, ENAMETOOLONG, "--console-socket '%s'", path);
	strcpy(a.sun_path, path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return mlr_fail_errno(err, "--console-socket '%s'", path);
	return take_fd(&fd);
}

/* Open a terminal of the container's own, send its master to the socket (SCM_RIGHTS), and make it
 * the standard input, output and error of a new session. rows 0: no size. */
static int terminal_enter(int socket, int rows, int columns, struct mlr_error *err)
{
	auto_close int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), slave = -1;
	struct winsize size = { .ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns };
	int locked = 0;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &locked) < 0)
		return mlr_fail_errno(err, "open a terminal in the container");
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return mlr_fail_errno(err, "open a terminal in the container");
	if (rows)
		ioctl(slave, TIOCSWINSZ, &size);
	TRY(mlr_result(err, (int)fds_send(socket, "/dev/ptmx", strlen("/dev/ptmx"), master),
		"send the terminal"));
	setsid();
	if (ioctl(slave, TIOCSCTTY, 0) < 0)
		return mlr_fail_errno(err, "take the terminal");
	for (int fd = 0; fd <= 2; fd++)
		if (dup2(slave, fd) < 0)
			return mlr_fail_errno(err, "take the terminal");
	return 0;
}

/* --- making --- */

#define FAILED         125
#define NOT_EXECUTABLE 126
#define NOT_FOUND      127

void making_done(struct making *m)
{
	fd_close(&m->talk[0]);
	fd_close(&m->talk[1]);
	fd_close(&m->listener);
	fd_close(&m->console);
	bundle_state_done(&m->state);
	plan_done(&m->plan);
	bundle_done(&m->bundle);
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

/* Write the settings of namespaces that this process is in now, which /proc/sys shows to it. */
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
		if (fd >= 0 && write(fd, value, strlen(value)) >= 0)
			continue;
		/* Groups that nobody in the container has: podman names root's in every bundle. */
		if (strcmp(b->sysctls.v[i], "net.ipv4.ping_group_range") != 0 || errno != EINVAL)
			return mlr_fail_errno(err, "sysctl '%s' = '%s'", b->sysctls.v[i], value);
	}
	return 0;
}

static int join_one(const char *type, const char *path, struct mlr_error *err)
{
	int flag = strcmp(type, "network") == 0 ? CLONE_NEWNET
		: strcmp(type, "ipc") == 0      ? CLONE_NEWIPC
		: strcmp(type, "user") == 0     ? CLONE_NEWUSER
						: CLONE_NEWUTS;
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 || setns(fd, flag) < 0
		? mlr_fail_errno(err, "join the %s namespace '%s'", type, path)
		: 0;
}

/* Enter namespaces that are there already, while this process has its caller's rights over them;
 * the user namespace first, which may give rights over the others. */
static int join(const struct making *m, struct mlr_error *err)
{
	const struct strv *joined = &m->bundle.joined;
	const struct plan_identity *id = &m->plan.id;

	for (int user = 1; user >= 0; user--)
		for (size_t i = 0; i < joined->n; i += 2)
			if ((strcmp(joined->v[i], "user") == 0) == user)
				TRY(join_one(joined->v[i], joined->v[i + 1], err));
	if (m->plan.in_user_namespace && (id->uid != geteuid() || id->gid != getegid()))
		return mlr_fail(err, ENOTSUP,
			"'user' %u:%u: you are %u:%u in the user namespace that is joined", id->uid,
			id->gid, geteuid(), getegid());
	return write_sysctls(&m->bundle, "joined", err);
}

static int before_pivot(void *ctx, int root, struct mlr_error *err)
{
	struct making *m = ctx;
	const struct bundle *b = &m->bundle;
	struct talk_message made = { .what = TALK_MADE };
	struct proc_stat self;
	struct stat st;
	int r;

	if (stat("/proc/self/ns/mnt", &st) == 0)
		made.mounts = st.st_ino;
	if (proc_stat_read(AT_FDCWD, "/proc/self/stat", &self) == 0)
		made.start = self.start;
	made.root_mount = bundle_mount_of(root, "");
	r = door_offer(m->door);
	if (r < 0)
		mlr_debug("exec will not enter before the start: %s", strerror(-r));
	r = ask(m, &made, err);
	if (r == 0 && b->domainname && *b->domainname &&
		setdomainname(b->domainname, strlen(b->domainname)) < 0)
		r = mlr_fail_errno(err, "'domainname'");
	if (r == 0)
		r = write_sysctls(b, "", err);
	return r < 0 ? r : hooks_run(&m->state, b, BUNDLE_CREATE_CONTAINER, STATUS_CREATING, err);
}

/* Take a call. Returns 1 for that of `start`; 0 for another one, to whom it gives the namespaces,
 * as nobody may inspect this process. */
static int take_call(struct making *m, int *call, struct mlr_error *err)
{
	struct talk_message said, taken = { .what = TALK_TAKEN };
	int is_start = 0;

	*call = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC);
	if (*call < 0)
		return errno == EINTR ? 0 : mlr_fail_errno(err, "wait for the start");
	if (talk_receive(*call, &said, NULL) == 0) {
		is_start = said.what == TALK_START;
		for (size_t i = 0; i < (is_start ? 1 : DOOR_KINDS); i++)
			fds_send(*call, &taken, sizeof(taken), is_start ? -1 : m->door[i]);
	}
	if (!is_start)
		fd_close(call);
	return is_start;
}

static int wait_for_start(struct making *m, struct mlr_error *err)
{
	struct talk_message ready = { .what = TALK_READY };
	int r;

	TRY(ask(m, &ready, err));
	fd_close(&m->talk[1]);
	while ((r = take_call(m, &m->call, err)) == 0)
		;
	return r < 0 ? r : 0;
}

/* The terminal, the session and the command's file. */
static int settle(struct making *m, struct mlr_error *err)
{
	int r = 0;

	if (m->plan.dies_with_parent)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (m->plan.detached)
		setsid(); /* the first process of a PID namespace is another than the one that
			     forked */
	if (m->bundle.is_32_bit && personality(PER_LINUX32) < 0)
		return mlr_fail_errno(err, "'personality'");
	if (m->console >= 0)
		r = terminal_enter(m->console, m->bundle.rows, m->bundle.columns, err);
	TRY(r);
	process_home(&m->plan);
	r = runtime_find_command(&m->plan, err);
	m->status = r == 0 ? 0 : r == -ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
	return r;
}

static void set_umask(const struct bundle *b)
{
	if (b->umask >= 0)
		umask((mode_t)b->umask);
}

static int before_command(void *ctx, struct mlr_error *err)
{
	struct making *m = ctx;

	TRY(settle(m, err));
	TRY(wait_for_start(m, err));
	TRY(hooks_run(&m->state, &m->bundle, BUNDLE_START_CONTAINER, STATUS_CREATED, err));
	set_umask(&m->bundle);
	return 0;
}

/* The same of a command that enters a container: it waits for nobody, and hooks do not concern it.
 */
static int before_entering_command(void *ctx, struct mlr_error *err)
{
	const struct talk_message ready = { .what = TALK_READY };
	struct making *m = ctx;

	TRY(settle(m, err));
	TRY(ask(m, &ready, err));
	set_umask(&m->bundle);
	return 0;
}

/* Lowering it needs privileges; crun and runc, too, then leave it to an ordinary user. */
static void set_oom_score(const struct bundle *b)
{
	auto_close int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (b->has_oom_score_adj && (fd < 0 || dprintf(fd, "%d", b->oom_score_adj) < 0))
		mlr_debug("oomScoreAdj %d: %s", b->oom_score_adj, strerror(errno));
}

static int take_place(struct making *m, struct mlr_error *err)
{
	int r = m->plan.join ? cgroup_join(m->plan.join) : 0;

	if (r < 0)
		return mlr_result(err, r, "join the container's control group");
	if (m->plan.join)
		return 0;
	TRY(bundle_state_wait_lock(&m->state, err));
	return join(m, err);
}

__attribute__((noreturn)) static void become_container(struct making *m)
{
	const struct runtime_stops stops = { before_pivot,
		m->plan.join ? before_entering_command : before_command, m };
	struct talk_message failed = { .what = TALK_FAILED };
	struct mlr_error *err = &failed.error;
	int r, status = FAILED;

	fd_close(&m->talk[0]);
	fd_close(&m->state.making);
	set_oom_score(&m->bundle);
	/* Neither signals of the caller's terminal nor /dev/tty reach the container. */
	if (m->plan.detached)
		setsid();
	r = take_place(m, err);
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

/* --- in the command that forks it ---------------------------------------------------- */

/* The profile is read as a file, runtime/seccomp.h. */
int making_keep_seccomp(struct making *m, struct mlr_error *err)
{
	const char *text = m->bundle.seccomp;
	auto_free char *dir = NULL;

	if (!text)
		return 0;
	TRY(file_replace(m->state.dir, "seccomp.json", text, strlen(text), 0600, err));
	dir = file_fd_path(m->state.dir);
	if (!dir)
		return mlr_fail_errno(err, "find the container's state");
	m->plan.seccomp = xasprintf("%s/seccomp.json", dir);
	return 0;
}

/* Let the command inherit n descriptors from 3 on. */
static int keep_fds(int n, struct plan *p, struct mlr_error *err)
{
	for (int fd = 3; fd < 3 + n; fd++) {
		int flags = fcntl(fd, F_GETFD);

		/* A descriptor with close-on-exec is mlrun's own, not inherited. */
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
	m->listener = m->plan.join ? -1 : talk_listen(m->state.dir);
	if (m->listener < 0 && !m->plan.join)
		return mlr_fail(
			err, -m->listener, "listen for the start: %s", strerror(-m->listener));
	if (m->bundle.terminal && o->console_socket) {
		m->console = terminal_connect(o->console_socket, err);
		return m->console < 0 ? m->console : 0;
	}
	return 0;
}

/* Receive what the container's process must say next. */
int making_expect(struct making *m, enum talk_what what, struct talk_message *ret, pid_t *sender,
	struct mlr_error *err)
{
	if (talk_receive(m->talk[0], ret, sender) < 0)
		return mlr_fail(err, ECHILD, "the container's process has ended");
	if (ret->what == TALK_FAILED) {
		m->status = ret->status;
		return mlr_pass(err, ret->error.code, ret->error.text);
	}
	return ret->what == what ? 0 : mlr_fail(err, EPROTO, "unexpected message");
}

int making_go_on(struct making *m, struct mlr_error *err)
{
	struct talk_message go = { .what = TALK_GO, .pid = m->state.pid };

	return talk_send(m->talk[0], &go) < 0
		? mlr_fail(err, ECHILD, "the container's process has ended")
		: 0;
}

int making_put_pid(const char *path, pid_t pid, struct mlr_error *err)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%ld", (long)pid);

	return path ? file_put(path, text, (size_t)n, 0644, err) : 0;
}

int making_fork(
	const struct lifecycle_options *o, struct making *m, pid_t *child, struct mlr_error *err)
{
	TRY(keep_fds(o->preserve_fds, &m->plan, err));
	/* Without detach the caller's terminal is left to the command. */
	if (m->bundle.terminal && m->plan.detached && !o->console_socket)
		return mlr_fail(err, EINVAL, "'terminal' needs --console-socket");
	TRY(open_ends(o, m, err));
	*child = fork();
	if (*child == 0) {
		if (!o->keep_keyring)
			proc_leave_keyring();
		become_container(m);
	}
	if (*child < 0)
		return mlr_fail_errno(err, "fork");
	fd_close(&m->talk[1]);
	fd_close(&m->listener);
	fd_close(&m->console);
	return 0;
}
