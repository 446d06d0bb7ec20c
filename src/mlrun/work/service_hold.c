/* A service's supervisor: writes its command's output to the log, starts it again, checks it. */
#include "work/forward.h"
#include "work/service.h"
#include "work/service_log.h"
#include "work/supervisor.h"
#include "work/work.h"

#include "base/proc.h"

#define STEP_LOOK_MS 1000 /* how often to look whether the job goes on, without a pidfd */
#define DELAY_MS     100
#define DELAY_MAX_MS 60000
#define STEADY_MS    10000 /* up for so long, it is started at once again */
#define STREAMS      2

static const char *const stream_names[STREAMS] = { "stdout", "stderr" };

/* A check that runs, or is to be run. */
struct probe {
	pid_t pid;        /* 0: none runs */
	int out;          /* its output, or -1 */
	int killed;       /* its time was up */
	int64_t due, end; /* when to start the next, and to kill this; mlr_now_ms() */
	char said[1024];
	size_t n;
};

struct hold {
	struct supervisor sup;
	struct store *st;
	struct service s;
	struct service_log log;
	struct probe probe;
	struct forward forward;
	int out[STREAMS];      /* the command's output */
	int input;             /* the end of a shell's standard input that is written to; -1 */
	struct proc_stat step; /* slurmstepd of the step that this was started in; pid 0: none */
	int step_fd;           /* a pidfd of it; -1: none, as before Linux 5.3 */
	int64_t again_at;      /* when to start it again; 0: not */
	int64_t delay;
	int stop, again; /* it is not to be started again; it is, by an order */
	int failed;      /* the first start */
};

#define HOLD_INIT                                                                                \
	{                                                                                        \
		.sup = SUPERVISOR_INIT, .s = SERVICE_INIT, .log = SERVICE_LOG_INIT,              \
		.forward = FORWARD_INIT, .probe = { .out = -1 }, .out = { -1, -1 }, .input = -1, \
		.step_fd = -1, .delay = DELAY_MS,                                                \
	}

static void hold_done(struct hold *h)
{
	int *const all[] = { &h->out[0], &h->out[1], &h->input, &h->probe.out, &h->step_fd };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		fd_close(all[i]);
	supervisor_done(&h->sup);
	service_done(&h->s);
	service_log_done(&h->log);
	forward_done(&h->forward);
}

static int write_down(void *of)
{
	struct hold *h = of;

	return service_write_state(h->st, &h->s, NULL);
}

/* --- the step that it was started in ---------------------------------------------------------- */

/* The parent of a process, and whether it is Slurm's for a step. "pid (name) state ppid ..." */
static pid_t parent_of(int proc, pid_t pid, int *is_step)
{
	char name[32], text[512], *end;
	pid_t parent = 0;
	char state;

	snprintf(name, sizeof(name), "%ld/stat", (long)pid);
	if (proc_read(proc, name, text, sizeof(text)) < 0 || !(end = strrchr(text, ')')) ||
		sscanf(end + 1, " %c %d", &state, &parent) != 2)
		return 0;
	*end = '\0';
	*is_step = strstr(text, " (slurmstepd") != NULL;
	return parent;
}

/* Find the step's slurmstepd among the ancestors. Where Slurm finds a job's processes by their
 * parents (proctrack/linuxproc) it would leave this one behind. The starter waits, so that it is
 * among them still. */
static void find_step(struct hold *h)
{
	int is_step = 0;

	for (pid_t pid = getppid(), next; pid > 1; pid = next) {
		next = parent_of(h->sup.proc, pid, &is_step);
		if (!is_step)
			continue;
		if (proc_stat_of(h->sup.proc, pid, &h->step) == 0)
			h->step_fd = proc_pidfd(pid);
		return;
	}
}

static int step_has_ended(const struct hold *h)
{
	struct proc_stat now;

	return h->step.pid > 0 &&
		(proc_stat_of(h->sup.proc, h->step.pid, &now) < 0 || now.start != h->step.start);
}

/* --- checks, as Docker's HEALTHCHECK --------------------------------------------------------- */

static void kill_probe(struct hold *h)
{
	if (h->probe.pid > 0)
		kill(-h->probe.pid, SIGKILL);
}

static void reset_probe(struct hold *h)
{
	kill_probe(h);
	h->s.health = h->s.check.test.n > 0 ? SERVICE_NOT_YET : SERVICE_UNCHECKED;
	h->s.failures = 0;
	h->probe.due = 0;
}

static int is_early(const struct hold *h)
{
	return h->s.health == SERVICE_NOT_YET && mlr_now_ms() - h->sup.up < h->s.check.start_period;
}

static int64_t interval(const struct hold *h)
{
	const struct service_check *c = &h->s.check;

	return is_early(h) && c->start_interval < c->interval ? c->start_interval : c->interval;
}

static int start_probe(struct hold *h)
{
	auto_strv struct strv argv = STRV_INIT;
	auto_free char *program = work_program();
	int pair[2], r;

	if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	struct child c = { program, &argv, { -1, pair[1], pair[1] }, 3 };

	strv_add_words(&argv, "mlrun", "exec");
	strv_addf(&argv, "--store=%s", store_path(h->st));
	strv_addf(&argv, "--join=%s", h->s.name);
	strv_add(&argv, "--"); /* the words are the image's: none is an option of mlrun's */
	strv_add_all(&argv, &h->s.check.test);
	r = work_child_start(&c, &h->probe.pid);
	close(pair[1]);
	h->probe.out = pair[0];
	if (r < 0)
		close(take_fd(&h->probe.out));
	return r;
}

/* Start or end a check if it is time. Returns milliseconds until something is to be done; -1: an
 * event. */
static int64_t run_probe(struct hold *h)
{
	struct probe *p = &h->probe;
	int64_t now = mlr_now_ms();

	if (h->s.check.test.n == 0 || h->s.status != SERVICE_RUNNING)
		return -1;
	if (p->pid > 0 && now >= p->end && !p->killed) {
		kill_probe(h);
		p->killed = 1;
	}
	if (p->pid > 0)
		return p->killed ? -1 : p->end - now;
	if (p->due == 0) /* Docker waits before the first, too */
		p->due = now + interval(h);
	if (now < p->due)
		return p->due - now;
	p->n = 0;
	p->killed = 0;
	p->end = now + h->s.check.timeout;
	if (start_probe(h) == 0)
		return h->s.check.timeout;
	p->due = now + interval(h);
	return interval(h);
}

static void read_probe(struct hold *h)
{
	struct probe *p = &h->probe;
	char rest[4096];
	ssize_t n = 1;

	while (p->out >= 0 && n > 0) {
		size_t room = sizeof(p->said) - 1 - p->n;

		n = room > 0 ? read(p->out, p->said + p->n, room)
			     : read(p->out, rest, sizeof(rest));
		if (n > 0 && room > 0)
			p->n += (size_t)n;
	}
	if (p->out >= 0 && n == 0)
		close(take_fd(&p->out));
}

static void probe_ended(struct hold *h, int status)
{
	struct probe *p = &h->probe;
	struct service *s = &h->s;
	int is_news = status != 0 || s->failures > 0 || s->health != SERVICE_HEALTHY;

	read_probe(h);
	close(take_fd(&p->out));
	p->pid = 0;
	if (s->status != SERVICE_RUNNING)
		return;
	if (status == 0) {
		s->health = SERVICE_HEALTHY;
		s->failures = 0;
	} else {
		p->said[p->n] = '\0';
		set_ptr(&s->said,
			p->killed ? xasprintf("it took longer than %lld ms",
					    (long long)s->check.timeout)
				  : xstrdup(p->said));
		if (!is_early(h) && ++s->failures >= s->check.retries)
			s->health = SERVICE_UNHEALTHY;
	}
	p->due = mlr_now_ms() + interval(h);
	if (is_news)
		supervisor_write(&h->sup);
}

/* --- the command --------------------------------------------------------------------------- */

static void add_words(const struct hold *h, struct strv *argv)
{
	const struct service *s = &h->s;
	auto_free char *env = service_path(h->st, s->name, "env"),
		       *hosts = service_path(h->st, s->name, "hosts"),
		       *environ_file = service_path(h->st, s->name, "environ");

	strv_add_words(argv, "mlrun", "exec");
	strv_addf(argv, "--store=%s", store_path(h->st));
	strv_addf(argv, "--env-out=%s", environ_file);
	if (access(hosts, F_OK) == 0)
		strv_addf(argv, "--mount=type=bind,src=%s,dst=/etc/hosts,ro", hosts);
	strv_add_all(argv, &s->options);
	if (access(env, F_OK) == 0) /* the last file: -e wins over all of the user's */
		strv_addf(argv, "--env-file=%s", env);
	strv_add_words(argv, "--", s->image);
	strv_add_all(argv, &s->command);
}

/* With -i or -t a shell waits for input, which never comes, until it is ended, as Docker's does. */
static int open_input(struct hold *h, int *ret, struct mlr_error *err)
{
	int pair[2];

	close(take_fd(&h->input));
	if (!strv_has(&h->s.options, "--interactive") && !strv_has(&h->s.options, "--tty"))
		return 0;
	if (pipe2(pair, O_CLOEXEC) < 0)
		return mlr_fail_errno(err, "make a pipe");
	h->input = pair[1];
	*ret = pair[0];
	return 0;
}

/* The process that stands for the command. */
static void remember(struct hold *h, pid_t pid)
{
	struct proc_stat shown;

	h->s.pid = pid;
	h->s.start = proc_stat_of(h->sup.proc, pid, &shown) == 0 ? shown.start : 0;
}

static int start(struct hold *h, struct mlr_error *err)
{
	auto_strv struct strv argv = STRV_INIT;
	auto_free char *program = work_program();
	auto_close int in = -1, out = -1, errs = -1;

	for (int i = 0; i < STREAMS; i++) {
		int pair[2];

		if (pipe2(pair, O_CLOEXEC) < 0)
			return mlr_fail_errno(err, "make a pipe");
		close(take_fd(&h->out[i]));
		h->out[i] = pair[0];
		*(i == 0 ? &out : &errs) = pair[1];
		if (fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0)
			return mlr_fail_errno(err, "fcntl");
	}
	TRY(open_input(h, &in, err));
	struct child c = { program, &argv, { in, out, errs }, 3 };

	add_words(h, &argv);
	h->s.status = SERVICE_STARTING;
	h->s.runs++;
	h->s.pid = 0;
	h->s.inside = 0;
	h->s.ended = 0;
	h->s.exit_status = -1;
	h->s.started = mlr_epoch_ms();
	h->again_at = 0;
	reset_probe(h);
	TRY(supervisor_start(&h->sup, &c, err));
	/* If this process is killed before it sees the command in its container, its starter and
	 * stop know by this what to end. */
	remember(h, h->sup.child);
	supervisor_write(&h->sup);
	return 0;
}

static void up(void *of, pid_t pid)
{
	struct hold *h = of;

	remember(h, pid);
	h->s.inside = h->sup.inside.id;
	h->s.status = SERVICE_RUNNING;
	supervisor_write(&h->sup);
	supervisor_tell(&h->sup, SUPERVISOR_UP, 0, NULL);
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
	if (h->out[i] >= 0 && n == 0)
		close(take_fd(&h->out[i]));
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
	if (mlr_now_ms() - h->sup.begun >= STEADY_MS)
		h->delay = DELAY_MS;
	h->again_at = mlr_now_ms() + h->delay;
	h->delay = h->delay * 2 < DELAY_MAX_MS ? h->delay * 2 : DELAY_MAX_MS;
	h->s.status = SERVICE_RESTARTING;
	h->s.restarts++;
}

static void finish(struct hold *h)
{
	h->s.status = SERVICE_EXITED;
	h->sup.over = 1;
}

static void ended(void *of, int status)
{
	struct hold *h = of;

	/* The command did not begin if mlrun exits so, and it was never seen in the container. */
	h->failed = h->sup.starter >= 0 && h->s.inside == 0 && status >= 125 && status <= 127;
	kill_probe(h);
	for (int i = 0; i < STREAMS; i++)
		read_stream(h, i);
	h->s.pid = 0;
	h->s.inside = 0;
	h->s.exit_status = status;
	h->s.ended = mlr_epoch_ms();
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
	supervisor_write(&h->sup);
	supervisor_tell(&h->sup, h->failed ? SUPERVISOR_FAILED : SUPERVISOR_UP, status, NULL);
}

static void reaped(void *of, pid_t pid, int status)
{
	struct hold *h = of;

	if (pid == h->probe.pid)
		probe_ended(h, status);
}

/* --- orders -------------------------------------------------------------------------------- */

static void stop(struct hold *h, int64_t timeout_ms)
{
	h->again_at = 0;
	if (h->sup.child > 0) {
		supervisor_end(&h->sup, h->sup.child, h->s.stop_signal, timeout_ms);
		return;
	}
	if (h->again) {
		h->again_at = mlr_now_ms();
	} else {
		finish(h);
		supervisor_write(&h->sup);
	}
	h->again = 0;
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

static void order(void *of, const struct signalfd_siginfo *info)
{
	struct hold *h = of;

	if ((int)info->ssi_signo == SIGRTMIN) {
		if (info->ssi_code == SI_QUEUE && info->ssi_uid == geteuid())
			take_order(h, info->ssi_int);
	} else if (info->ssi_signo != SIGHUP) {
		h->stop = 1;
		stop(h, h->s.stop_ms);
	}
}

/* --- the supervisor ------------------------------------------------------------------------ */

static void start_again(struct hold *h)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (start(h, &err) == 0)
		return;
	service_log_put(&h->log, "stderr", err.text, strlen(err.text));
	service_log_put(&h->log, "stderr", "\n", 1);
	ended(h, 125);
}

static int64_t due(void *of)
{
	struct hold *h = of;
	int64_t ms = -1, left;

	for (int i = 0; i < STREAMS; i++)
		read_stream(h, i);
	read_probe(h);
	forward_turn(&h->forward);
	if (step_has_ended(h)) {
		h->step.pid = 0;
		close(take_fd(&h->step_fd));
		h->stop = 1;
		stop(h, h->s.stop_ms);
	}
	if (h->step.pid > 0 && h->step_fd < 0)
		ms = STEP_LOOK_MS;
	if (h->again_at && h->again_at <= mlr_now_ms())
		start_again(h);
	left = h->again_at - mlr_now_ms();
	if (h->again_at)
		supervisor_sooner(&ms, left > 0 ? left : 0);
	if (h->sup.kill_at == 0)
		supervisor_sooner(&ms, run_probe(h));
	return ms;
}

static int begin(struct hold *h, const char *name, struct mlr_error *err)
{
	TRY(supervisor_begin(&h->sup, 1, err));
	TRY(service_read(h->st, name, &h->s, err));
	if (chdir(h->s.directory) < 0)
		return mlr_fail_errno(err, "enter '%s'", h->s.directory);
	TRY(forward_open(&h->s.ports, &h->forward, err));
	set_ptr(&h->s.process, xstrdup(h->sup.process));
	h->s.runs = h->s.restarts = 0;
	h->s.status = SERVICE_STARTING;
	TRY(service_log_open(h->st, name, h->s.log_size, h->s.log_file, &h->log, err));
	TRY(service_reserve(h->st, &h->s, err));
	TRY(service_write_state(h->st, &h->s, err));
	supervisor_tell(&h->sup, SUPERVISOR_HOLDS, 0, NULL);
	proc_leave_keyring();
	find_step(h);
	return start(h, err);
}

int service_hold(struct store *st, const char *name, struct mlr_error *err)
{
	static const struct supervisor_kind kind = { up, ended, due, order, reaped, write_down };
	auto_call(hold_done) struct hold h = HOLD_INIT;
	int r;

	h.st = st;
	h.sup.kind = &kind;
	h.sup.of = &h;
	memcpy(h.sup.fds,
		(const int *[]){ &h.out[0], &h.out[1], &h.probe.out, &h.step_fd, &h.forward.poll },
		sizeof(h.sup.fds));
	r = begin(&h, name, err);
	if (r < 0) {
		supervisor_tell(&h.sup, SUPERVISOR_ERROR, err->code, err->text);
		return r;
	}
	supervisor_run(&h.sup);
	return h.s.remove && !h.failed ? service_forget(st, &h.s, err) : 0;
}
