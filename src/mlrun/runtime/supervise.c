#include "runtime/supervise.h"

#include "base/proc.h"

#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <termios.h>

/* The report of our pid 1 to the supervisor outside, which cannot see the command itself. */
struct report {
	char what; /* 'T': the command has stopped, 'K': it was killed */
	char sig;
};

/* The writing end in a child of supervise_fork(); execve(2) closes it. */
static int report_to = -1;

struct outside {
	pid_t child;
	int proc, reports, tty, signals;
	pid_t group; /* our process group if it had the terminal at the start; else 0 */
	int ends_by; /* the signal to end by, if another one had to kill the child; or 0 */
	const struct supervise_end *end;
	pid_t mortal; /* who our parent is, if we end with it; or 0 */
};

/* --- what both supervisors do -------------------------------------------------------------- */

static int is_job_signal(int sig)
{
	return sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU;
}

/* Did the terminal send it to the whole foreground group? A timer or a limit signals one
 * process. */
static int is_for_group(const struct signalfd_siginfo *s)
{
	return s->ssi_code == SI_KERNEL &&
		(is_job_signal((int)s->ssi_signo) || s->ssi_signo == SIGINT ||
			s->ssi_signo == SIGQUIT || s->ssi_signo == SIGWINCH ||
			s->ssi_signo == SIGHUP);
}

/* Descriptors left open would keep the caller's pipes from ending. Sorts keep. */
static void close_all_but(int *keep, size_t n)
{
	unsigned next = 0;

	for (size_t i = 1; i < n; i++)
		for (size_t j = i; j > 0 && keep[j - 1] > keep[j]; j--) {
			int t = keep[j];

			keep[j] = keep[j - 1];
			keep[j - 1] = t;
		}
	for (size_t i = 0; i < n; i++) {
		if (keep[i] < 0)
			continue;
		if ((unsigned)keep[i] > next)
			fds_close_range(next, (unsigned)keep[i] - 1, 0);
		next = (unsigned)keep[i] + 1;
	}
	fds_close_range(next, ~0u, 0);
}

/* Signal settings that a supervisor changes and its child restores. */
struct dispositions {
	sigset_t mask;
	struct sigaction child;
};

/* Block signals so that none is lost, and reset SIGCHLD: if it is ignored, children end without a
 * status. */
static void hold_signals(struct dispositions *old)
{
	struct sigaction usual = { .sa_handler = SIG_DFL };
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old->mask);
	sigaction(SIGCHLD, &usual, &old->child);
}

static void release_signals(const struct dispositions *old)
{
	sigaction(SIGCHLD, &old->child, NULL);
	sigprocmask(SIG_SETMASK, &old->mask, NULL);
}

static int open_signals(void)
{
	sigset_t all;

	sigfillset(&all);
	return signalfd(-1, &all, SFD_CLOEXEC);
}

static int drop_privileges(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };

	return syscall(SYS_capset, &head, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
		? -errno
		: 0;
}

/* --- the process outside --------------------------------------------------------------------- */

/* The hexadecimal number after a name in /proc/PID/status. */
static uint64_t mask_of(const char *status, const char *name)
{
	const char *s = strstr(status, name);

	return s ? strtoull(s + strlen(name), NULL, 16) : 0;
}

/* Does the kernel withhold this signal from the child because it is its namespace's first process
 * and the default action would end or stop it? A blocked signal stays pending instead. */
static int is_withheld(const struct outside *o, int sig)
{
	char name[40], status[32768]; /* long: a user may be in many groups */
	const char *pids;
	uint64_t bit = 1ull << (sig - 1);

	snprintf(name, sizeof(name), "%ld/status", (long)o->child);
	if (proc_read(o->proc, name, status, sizeof(status)) < 0)
		return 0;
	pids = strstr(status, "\nNSpid:");
	if (!pids)
		return 0;
	pids++;
	pids += strcspn(pids, "\n");
	if (pids[-1] != '1' || pids[-2] != '\t')
		return 0;
	return !((mask_of(status, "\nSigBlk:") | mask_of(status, "\nSigIgn:") |
			 mask_of(status, "\nSigCgt:")) &
		bit);
}

static int child_is_stopped(const struct outside *o)
{
	struct proc_stat st;

	return proc_stat_of(o->proc, o->child, &st) == 0 && st.state == 'T';
}

/* Take the default action of a signal. */
static void suffer(int sig)
{
	sigset_t one, old;

	sigemptyset(&one);
	sigaddset(&one, sig);
	signal(sig, SIG_DFL);
	kill(getpid(), sig);
	sigprocmask(SIG_UNBLOCK, &one, &old);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

/* Stop as the child did, until something continues us. In an orphaned process group the kernel does
 * not stop processes for the terminal's signals. */
static void stop_too(const struct outside *o, int sig)
{
	suffer(sig);
	if (child_is_stopped(o))
		kill(o->child, SIGCONT);
}

__attribute__((noreturn)) static void end_as(const struct outside *o, int code, int status)
{
	static const struct rlimit no_core = { 0, 0 };

	/* A shell inside took the terminal and could not give it back, since our process group has
	 * no number in its namespace. */
	if (o->group) {
		pid_t now = tcgetpgrp(o->tty);

		if (now > 0 && now != o->group && kill(-now, 0) < 0 && errno == ESRCH)
			tcsetpgrp(o->tty, o->group);
	}
	if (o->end) {
		int r = o->end->fn(o->end->ctx);

		if (code == CLD_EXITED && status == 0)
			status = r;
	}
	if (code == CLD_EXITED && !o->ends_by)
		_exit(status);
	if (o->ends_by)
		status = o->ends_by;
	setrlimit(RLIMIT_CORE, &no_core);
	suffer(status);
	_exit(128 + status);
}

/* Read the next report. The pipe closes when the command is executed. */
static int next_report(struct outside *o, struct report *ret)
{
	struct pollfd p = { .fd = o->reports, .events = POLLIN };

	if (o->reports < 0 || poll(&p, 1, 0) <= 0)
		return 0;
	if (read(o->reports, ret, sizeof(*ret)) == sizeof(*ret))
		return 1;
	close(take_fd(&o->reports));
	return 0;
}

static void take_report(struct outside *o)
{
	struct report r;

	if (!next_report(o, &r))
		return;
	if (r.what == 'K') {
		o->ends_by = r.sig;
		return;
	}
	stop_too(o, r.sig);
	kill(o->child, SIGCONT); /* pid 1 did not stop and continues the command */
}

static void look_at_child(struct outside *o)
{
	siginfo_t info = { .si_pid = 0 };
	struct report r;

	while (waitid(P_PID, (id_t)o->child, &info, WEXITED | WSTOPPED | WNOHANG) == 0 &&
		info.si_pid) {
		if (info.si_code != CLD_STOPPED) {
			while (next_report(o, &r))
				if (r.what == 'K')
					o->ends_by = r.sig;
			end_as(o, info.si_code, info.si_status);
		}
		stop_too(o, info.si_status);
		info.si_pid = 0;
	}
}

/* The namespace's first process does not get the signal: perform the default action for it. */
static void act_for_child(struct outside *o, int sig)
{
	if (sig == SIGCHLD || sig == SIGCONT || sig == SIGURG || sig == SIGWINCH)
		return;
	if (is_job_signal(sig)) {
		kill(o->child, SIGSTOP);
		stop_too(o, sig);
		return;
	}
	o->ends_by = sig;
	kill(o->child, SIGKILL);
}

static void hand_on(struct outside *o, const struct signalfd_siginfo *s)
{
	int sig = (int)s->ssi_signo, withheld;

	if (sig == SIGCHLD) {
		look_at_child(o);
		return;
	}
	if (sig == SIGCONT) {
		if (child_is_stopped(o))
			kill(o->child, sig);
		return;
	}
	withheld = is_withheld(o, sig);
	/* The kernel tells only the session's leader that the terminal is gone. */
	if (!is_for_group(s) || (sig == SIGHUP && getsid(0) == getpid()))
		kill(o->child, sig);
	if (withheld)
		act_for_child(o, sig);
}

static void find_terminal(struct outside *o)
{
	for (int fd = 0; fd <= 2 && o->tty < 0; fd++)
		if (isatty(fd))
			o->tty = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (o->tty >= 0 && tcgetpgrp(o->tty) == getpgrp())
		o->group = getpgrp();
}

__attribute__((noreturn)) static void watch(struct outside *o)
{
	/* Leave the working directory, which would keep a host mount busy, unless something is yet
	 * to be done there. Our root changes with the child's pivot_root(2). */
	if (drop_privileges() < 0 || (!o->end && chdir("/") < 0))
		_exit(125);
	if (o->mortal && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != o->mortal))
		_exit(125);
	find_terminal(o);
	close_all_but((int[]){ o->proc, o->reports, o->tty, o->end ? STDERR_FILENO : -1,
			      o->end ? o->end->fd : -1 },
		5);
	o->signals = open_signals();
	if (o->signals < 0)
		_exit(125);
	for (;;) {
		struct pollfd p[] = { { .fd = o->signals, .events = POLLIN },
			{ .fd = o->reports, .events = POLLIN } };
		struct signalfd_siginfo s;

		if (poll(p, 2, -1) < 0)
			continue;
		/* Read pid 1's last report before its exit status. */
		if (p[1].revents)
			take_report(o);
		else if (read(o->signals, &s, sizeof(s)) == sizeof(s))
			hand_on(o, &s);
	}
}

/* Has this pipe lost its last reader? */
static int is_deserted(int pipe_end)
{
	struct pollfd p = { .fd = pipe_end };

	return poll(&p, 1, 0) > 0 && (p.revents & POLLERR);
}

static int fork_failed(struct mlr_error *err)
{
	if (errno == ENOMEM)
		return mlr_fail(err, ENOMEM,
			"start a process in the container: %s (has its first process ended?)",
			strerror(ENOMEM));
	return mlr_fail_errno(err, "start a process in the container");
}

int supervise_fork(
	int proc, int dies_with_parent, const struct supervise_end *end, struct mlr_error *err)
{
	struct outside o = {
		.tty = -1, .signals = -1, .end = end, .mortal = dies_with_parent ? getppid() : 0
	};
	struct dispositions old;
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		return mlr_fail_errno(err, "make a pipe");
	auto_close int from = pair[0], to = pair[1];

	hold_signals(&old);
	o.child = fork();
	if (o.child > 0) {
		o.proc = proc;
		o.reports = from;
		close(take_fd(&to));
		watch(&o);
	}
	if (o.child < 0) {
		int r = fork_failed(err);

		release_signals(&old);
		return r;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(take_fd(&from));
	if (is_deserted(to)) /* the parent ended before prctl(2) */
		_exit(125);
	report_to = take_fd(&to);
	release_signals(&old);
	return 0;
}

int supervise_detach(struct mlr_error *err)
{
	long child = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);

	if (child > 0)
		_exit(0);
	return child < 0 ? fork_failed(err) : 0;
}

/* --- pid 1 --- */

struct inside {
	pid_t command;
	int reports, signals, stopped;
};

static void tell(const struct inside *in, char what, int sig)
{
	struct report r = { what, (char)sig };

	if (in->reports >= 0 && write(in->reports, &r, sizeof(r)) < 0)
		_exit(125); /* the supervisor has ended; we are about to be killed */
}

static void reap(struct inside *in)
{
	siginfo_t info = { .si_pid = 0 };

	while (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) == 0 &&
		info.si_pid) {
		if (info.si_pid != in->command) {
			info.si_pid = 0;
			continue;
		}
		switch (info.si_code) {
		case CLD_STOPPED:
			in->stopped = 1;
			tell(in, 'T', info.si_status);
			break;
		case CLD_CONTINUED:
			in->stopped = 0;
			break;
		case CLD_EXITED:
			_exit(info.si_status);
		default:
			tell(in, 'K', info.si_status);
			_exit(128 + info.si_status);
		}
		info.si_pid = 0;
	}
}

__attribute__((noreturn)) static void be_init(struct inside *in)
{
	close_all_but((int[]){ in->reports }, 1);
	in->signals = open_signals();
	if (in->signals < 0)
		_exit(125);
	for (;;) {
		struct signalfd_siginfo s;

		if (read(in->signals, &s, sizeof(s)) != sizeof(s))
			continue;
		reap(in);
		if (s.ssi_signo == SIGCHLD)
			continue;
		if (s.ssi_signo == SIGCONT ? in->stopped : !is_for_group(&s))
			kill(in->command, (int)s.ssi_signo);
	}
}

int supervise_init(struct mlr_error *err)
{
	struct inside in = { .reports = report_to };
	struct dispositions old;

	prctl(PR_SET_NAME, "mlrun-init"); /* in the child until it executes the command */
	hold_signals(&old);
	in.command = fork();
	if (in.command > 0)
		be_init(&in);
	if (in.command < 0) {
		int r = mlr_fail_errno(err, "start a second process in the container");

		release_signals(&old);
		return r;
	}
	release_signals(&old);
	return 0;
}
