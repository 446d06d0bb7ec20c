/* A service's supervisor: writes its command's output to the log, starts it again, checks it. */
#include "work/child.h"
#include "work/inside.h"
#include "work/service_log.h"
#include "work/service_parts.h"
#include "work/step.h"

#include "base/base.h"
#include "base/proc.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

#define LOOK_MS      5    /* how often to look whether the container is there */
#define LOOK_LATE_MS 50   /* the same a second after its start */
#define STEP_LOOK_MS 1000 /* how often to look whether the job goes on, without a pidfd */
#define DELAY_MS     100
#define DELAY_MAX_MS 60000
#define STEADY_MS    10000 /* up for so long, it is started at once again */
#define STREAMS      2

static const char *const stream_names[STREAMS] = { "stdout", "stderr" };

struct hold {
	struct store *st;
	const char *program;
	struct service s;
	struct service_log log;
	struct service_probe probe;
	pid_t child;       /* mlrun exec, which becomes the command; 0: none runs */
	int out[STREAMS];  /* what it prints */
	int signals, proc; /* /proc */
	struct step step;
	struct inside inside; /* the child's container; s.inside is its id */
	int starter;          /* who waits for the first start; -1 */
	int64_t begun, up; /* when the child was started, and seen in the container; mlr_now_ms() */
	int64_t again_at;  /* when to start it again; 0: not */
	int64_t delay;
	int64_t kill_at;  /* when to send SIGKILL; 0: nobody asked it to end */
	int stop, again;  /* it is not to be started again; it is, by an order */
	int over, failed; /* failed: the first start */
};

#define HOLD_INIT                                                                               \
	{                                                                                       \
		.s = SERVICE_INIT, .log = SERVICE_LOG_INIT, .probe = { .out = -1 },             \
		.out = { -1, -1 }, .signals = -1, .proc = -1, .step = STEP_INIT, .starter = -1, \
		.inside = INSIDE_INIT, .delay = DELAY_MS,                                       \
	}

static void hold_done(struct hold *h)
{
	int *const all[] = { &h->out[0], &h->out[1], &h->probe.out, &h->signals, &h->proc,
		&h->starter };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		mlr_cleanup_close(all[i]);
	step_done(&h->step);
	service_done(&h->s);
	service_log_done(&h->log);
}

/* A state that cannot be written, on a full disk, is no reason to end the command. */
static void write_state(struct hold *h)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (service_write_state(h->st, &h->s, &err) < 0)
		mlr_debug("%s", err.text);
}

static void tell(struct hold *h, enum service_word word, int code, const char *text)
{
	struct service_message m = { .word = word, .code = code };

	snprintf(m.text, sizeof(m.text), "%s", text ? text : "");
	if (h->starter >= 0 && file_write_all(h->starter, &m, sizeof(m)) < 0)
		mlr_debug("nobody waits for the service");
	if (word != SERVICE_SAYS_HELD) {
		mlr_cleanup_close(&h->starter);
		h->starter = -1;
	}
}

/* --- the command --------------------------------------------------------------------------- */

static void add_words(const struct hold *h, struct strv *argv)
{
	const struct service *s = &h->s;
	auto_free char *env = service_path(h->st, s->name, "env"),
		       *hosts = service_path(h->st, s->name, "hosts"),
		       *environ_file = service_path(h->st, s->name, "environ");

	strv_add(argv, "mlrun");
	strv_add(argv, "exec");
	strv_addf(argv, "--store=%s", store_path(h->st));
	if (access(env, F_OK) == 0)
		strv_addf(argv, "--env-file=%s", env);
	strv_addf(argv, "--env-out=%s", environ_file);
	if (access(hosts, F_OK) == 0)
		strv_addf(argv, "--mount=type=bind,src=%s,dst=/etc/hosts,ro", hosts);
	for (size_t i = 0; i < s->options.n; i++)
		strv_add(argv, s->options.v[i]);
	strv_add(argv, "--");
	strv_add(argv, s->image);
	for (size_t i = 0; i < s->command.n; i++)
		strv_add(argv, s->command.v[i]);
}

/* The process that stands for the command. */
static void remember(struct hold *h, pid_t pid)
{
	struct proc_stat shown;
	char name[40];

	snprintf(name, sizeof(name), "%ld/stat", (long)pid);
	h->s.pid = pid;
	h->s.start = proc_stat_read(h->proc, name, &shown) == 0 ? shown.start : 0;
}

static int start(struct hold *h, struct mlr_error *err)
{
	auto_strv struct strv argv = STRV_INIT;
	auto_close int out = -1, errs = -1;
	int r;

	for (int i = 0; i < STREAMS; i++) {
		int pair[2];

		if (pipe2(pair, O_CLOEXEC) < 0)
			return mlr_fail_errno(err, "make a pipe");
		mlr_cleanup_close(&h->out[i]);
		h->out[i] = pair[0];
		fcntl(pair[0], F_SETFL, O_NONBLOCK);
		*(i == 0 ? &out : &errs) = pair[1];
	}
	add_words(h, &argv);
	h->s.status = SERVICE_STARTING;
	h->s.runs++;
	h->s.pid = 0;
	h->s.inside = 0;
	h->s.ended = 0;
	h->s.exit_status = -1;
	h->s.started = mlr_epoch_ms();
	h->begun = mlr_now_ms();
	h->again_at = h->kill_at = 0;
	service_probe_reset(&h->probe, &h->s);
	r = child_start(h->program, &argv, -1, out, errs, &h->child);
	h->child = r < 0 ? 0 : h->child;
	if (r < 0)
		return mlr_fail(err, -r, "start '%s': %s", h->program, strerror(-r));
	/* If this process is killed before it sees the command in its container, its starter and
	 * stop know by this what to end. */
	remember(h, h->child);
	write_state(h);
	return 0;
}

static void look_inside(struct hold *h)
{
	pid_t pid = h->child > 0 ? inside_find(h->proc, h->child, &h->inside) : 0;

	if (pid <= 0)
		return;
	remember(h, pid);
	h->s.inside = h->inside.id;
	h->s.status = SERVICE_RUNNING;
	h->up = mlr_now_ms();
	write_state(h);
	tell(h, SERVICE_SAYS_UP, 0, NULL);
}

/* Read at least a full pipe, but not for ever: a command that never stops printing must not starve
 * the loop. */
static void read_stream(struct hold *h, int i)
{
	char buf[1 << 16];
	ssize_t n = 1;

	for (int k = 0; k < 16 && h->out[i] >= 0 && n > 0; k++) {
		n = read(h->out[i], buf, sizeof(buf));
		if (n > 0)
			service_log_put(&h->log, stream_names[i], buf, (size_t)n);
	}
	if (h->out[i] >= 0 && n == 0) {
		close(h->out[i]);
		h->out[i] = -1;
	}
}

/* --- its end ------------------------------------------------------------------------------- */

static int is_due_again(const struct hold *h, int status)
{
	const struct service *s = &h->s;

	if (h->stop)
		return 0;
	if (s->restart == SERVICE_ON_FAILURE)
		return status != 0 && (s->restarts_max == 0 || s->restarts < s->restarts_max);
	return s->restart == SERVICE_ALWAYS;
}

/* Twice as long as before, as Docker does. */
static void plan_restart(struct hold *h)
{
	if (mlr_now_ms() - h->begun >= STEADY_MS)
		h->delay = DELAY_MS;
	h->again_at = mlr_now_ms() + h->delay;
	h->delay = h->delay * 2 < DELAY_MAX_MS ? h->delay * 2 : DELAY_MAX_MS;
	h->s.status = SERVICE_RESTARTING;
	h->s.restarts++;
}

static void finish(struct hold *h)
{
	h->s.status = SERVICE_EXITED;
	h->over = 1;
	write_state(h);
}

/* The command did not begin if mlrun says so and nobody has seen it in the container. */
static int is_failed_start(const struct hold *h, int status)
{
	return h->starter >= 0 && h->s.inside == 0 && status >= 125 && status <= 127;
}

static void ended(struct hold *h, int status)
{
	h->failed = is_failed_start(h, status);
	service_probe_kill(&h->probe);
	inside_kill(h->proc, &h->inside);
	for (int i = 0; i < STREAMS; i++)
		read_stream(h, i);
	h->child = 0;
	h->s.pid = 0;
	h->s.inside = 0;
	h->s.exit_status = status;
	h->s.ended = mlr_epoch_ms();
	h->kill_at = 0;
	h->s.health = SERVICE_UNCHECKED;
	if (h->again) {
		h->again_at = mlr_now_ms();
		h->delay = DELAY_MS;
		h->s.status = SERVICE_RESTARTING;
	} else if (!h->failed && is_due_again(h, status)) {
		plan_restart(h);
	} else {
		finish(h);
	}
	h->again = 0;
	if (!h->over)
		write_state(h);
	tell(h, h->failed ? SERVICE_SAYS_FAILED : SERVICE_SAYS_UP, status, NULL);
}

static int exit_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Also reap orphans of the container: this process is their subreaper. */
static void reap(struct hold *h)
{
	siginfo_t info = { 0 };

	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0) {
		pid_t pid = info.si_pid;
		int status;

		/* Those of its process group that nobody has seen in a container. The number is the
		 * group's until it is waited for. */
		if (pid == h->child)
			kill(-pid, SIGKILL);
		if (waitpid(pid, &status, 0) != pid)
			break;
		info.si_pid = 0;
		if (pid == h->child)
			ended(h, exit_status(status));
		else if (pid == h->probe.pid &&
			service_probe_ended(&h->probe, &h->s, exit_status(status), h->up))
			write_state(h);
	}
}

/* --- signals ------------------------------------------------------------------------------- */

static void stop(struct hold *h, int64_t timeout_ms)
{
	h->again_at = 0;
	if (h->child == 0) {
		if (h->again)
			h->again_at = mlr_now_ms();
		else
			finish(h);
		h->again = 0;
		return;
	}
	if (h->kill_at == 0)
		kill(h->child, h->s.stop_signal);
	h->kill_at = mlr_now_ms() + timeout_ms;
}

static void take_order(struct hold *h, int value)
{
	int again = value & SERVICE_ORDER_AGAIN;
	int64_t seconds = value / SERVICE_ORDER_TIMEOUT;

	if (again && h->stop) /* who stops it waits for its end */
		return;
	h->again = again;
	h->stop = !again;
	if (again)
		h->s.restarts = 0;
	stop(h, seconds == SERVICE_ORDER_OWN ? h->s.stop_ms : seconds * 1000);
}

static void read_signals(struct hold *h)
{
	struct signalfd_siginfo s;

	while (!h->over && read(h->signals, &s, sizeof(s)) == sizeof(s)) {
		if (s.ssi_signo == SIGCHLD) {
			reap(h);
		} else if ((int)s.ssi_signo == SIGRTMIN) {
			if (s.ssi_code == SI_QUEUE && s.ssi_uid == geteuid())
				take_order(h, s.ssi_int);
		} else {
			h->stop = 1;
			stop(h, h->s.stop_ms);
		}
	}
}

static int open_signals(struct hold *h, struct mlr_error *err)
{
	sigset_t all;

	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a log that may not grow is one that cannot be written */
	sigemptyset(&all);
	sigaddset(&all, SIGTERM);
	sigaddset(&all, SIGINT);
	sigaddset(&all, SIGRTMIN);
	sigaddset(&all, SIGCHLD);
	sigprocmask(SIG_BLOCK, &all, NULL);
	h->signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	return h->signals < 0 ? mlr_fail_errno(err, "signalfd") : 0;
}

/* --- the supervisor ------------------------------------------------------------------------ */

static void sooner(int64_t *ms, int64_t other)
{
	if (other >= 0 && (*ms < 0 || other < *ms))
		*ms = other;
}

static int64_t until(int64_t moment)
{
	int64_t left = moment - mlr_now_ms();

	return moment == 0 ? -1 : left > 0 ? left : 0;
}

static void start_again(struct hold *h)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (start(h, &err) == 0)
		return;
	service_log_put(&h->log, "stderr", err.text, strlen(err.text));
	service_log_put(&h->log, "stderr", "\n", 1);
	ended(h, 125);
}

/* Do what is due. Returns milliseconds until there is more, -1: only an event tells. */
static int64_t do_due(struct hold *h)
{
	int64_t ms = -1;

	if (step_has_ended(h->proc, &h->step)) {
		step_done(&h->step);
		h->stop = 1;
		stop(h, h->s.stop_ms);
	}
	if (h->step.keeper.pid > 0 && h->step.fd < 0)
		ms = STEP_LOOK_MS;
	if (h->again_at && until(h->again_at) == 0)
		start_again(h);
	if (h->child > 0 && h->kill_at && until(h->kill_at) == 0) {
		kill(-h->child, SIGKILL);
		inside_kill(h->proc, &h->inside);
		h->kill_at = 0;
	}
	if (h->child > 0 && h->s.inside == 0)
		look_inside(h);
	if (h->child > 0 && h->s.inside == 0)
		sooner(&ms, mlr_now_ms() - h->begun < 1000 ? LOOK_MS : LOOK_LATE_MS);
	sooner(&ms, until(h->again_at));
	sooner(&ms, until(h->kill_at));
	if (h->kill_at == 0)
		sooner(&ms,
			service_probe_run(&h->probe, &h->s, h->program, store_path(h->st), h->up));
	return ms;
}

static void supervise(struct hold *h)
{
	while (!h->over) {
		int64_t ms = do_due(h);
		struct pollfd p[] = { { h->signals, POLLIN, 0 }, { h->out[0], POLLIN, 0 },
			{ h->out[1], POLLIN, 0 }, { h->probe.out, POLLIN, 0 },
			{ h->step.fd, POLLIN, 0 } };

		if (h->over)
			break;
		if (poll(p, ARRAY_LEN(p), ms > INT32_MAX ? INT32_MAX : (int)ms) < 0 &&
			errno != EINTR)
			return;
		for (int i = 0; i < STREAMS; i++)
			if (p[1 + i].revents)
				read_stream(h, i);
		if (p[3].revents)
			service_probe_read(&h->probe);
		if (p[0].revents)
			read_signals(h);
	}
}

static int begin(struct hold *h, const char *name, struct mlr_error *err)
{
	struct store_process self;
	char process[STORE_PROCESS_NAME];
	int r;

	TRY(service_read(h->st, name, &h->s, err));
	r = store_process_self(&self);
	if (r < 0)
		return mlr_fail(err, -r, "read '/proc/self': %s", strerror(-r));
	h->proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (h->proc < 0)
		return mlr_fail_errno(err, "open '/proc'");
	if (chdir(h->s.directory) < 0)
		return mlr_fail_errno(err, "enter '%s'", h->s.directory);
	store_process_name(&self, process);
	free(h->s.process);
	h->s.process = xstrdup(process);
	h->s.runs = h->s.restarts = 0;
	h->s.status = SERVICE_STARTING;
	r = service_log_open(h->st, name, h->s.log_size, &h->log, err);
	if (r == 0)
		r = open_signals(h, err);
	if (r == 0)
		r = service_write_state(h->st, &h->s, err);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	proc_leave_keyring();
	/* Where Slurm finds a job's processes by their parents (proctrack/linuxproc) it would leave
	 * this one behind. The starter waits, so that it is among them still. */
	step_find(h->proc, &h->step);
	return r;
}

int service_hold(
	struct store *st, const char *program, const char *name, int fd, struct mlr_error *err)
{
	auto_call(hold_done) struct hold h = HOLD_INIT;
	int r;

	h.st = st;
	h.program = program;
	h.starter = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	r = begin(&h, name, err);
	if (r == 0) {
		tell(&h, SERVICE_SAYS_HELD, 0, NULL);
		r = start(&h, err);
	}
	if (r < 0) {
		tell(&h, SERVICE_SAYS_ERROR, err->code, err->text);
		return r;
	}
	close(fd);
	supervise(&h);
	return h.s.remove && !h.failed ? service_forget(st, &h.s, err) : 0;
}
