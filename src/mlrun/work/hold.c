/* A worker's supervisor: sleeps until its command ends, a signal comes or the deadline. */
#include "work/inside.h"
#include "work/parts.h"

#include "base/base.h"
#include "job/job.h"
#include "store/process.h"
#include "work/slurm.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/prctl.h>
#include <sys/utsname.h>

#define LOOK_MS       5     /* how often to look whether the container is there */
#define GRACE_MS      1000  /* after SIGTERM, before SIGKILL */
#define STEP_MS       30000 /* the same for an elastic run's: it finishes a step */
#define AGAIN_MS      1000  /* before a coordinator that was killed is started again */
#define OWN_SIGNAL_MS 300

struct hold {
	struct store *st;
	struct worker w;
	pid_t child; /* mlrun exec, which becomes the command; 0: it has ended */
	int input;   /* the end of its standard input to write to; it waits for this to close */
	int proc;    /* /proc */
	struct inside inside; /* the container, once it is there */
	int status;           /* the child's, as waitpid(2) gives it */
	pid_t keeper;         /* elastic_keep()'s; 0: there is none */
	int64_t begun, kept;  /* when child and keeper were started, mlr_now_ms() */
};

#define HOLD_INIT                                                                \
	{                                                                        \
		.w = WORKER_INIT, .input = -1, .proc = -1, .inside = INSIDE_INIT \
	}

static void hold_done(struct hold *h)
{
	worker_done(&h->w);
	if (h->input >= 0)
		close(h->input);
	if (h->proc >= 0)
		close(h->proc);
}

/* --- the node ------------------------------------------------------------------------------ */

static int is_loopback(const char *address)
{
	return strncmp(address, "127.", 4) == 0;
}

/* The address that the cluster's hosts file or name service has for this node. getent(1) asks them;
 * mlrun is linked statically. */
static char *address_by_name(const char *node)
{
	char *const argv[] = { (char *)"getent", (char *)"ahostsv4", (char *)node, NULL };
	char said[4096];
	size_t n;

	if (job_ask(argv, environ, 5000, said, sizeof(said)) != 0)
		return NULL;
	n = strspn(said, "0123456789.");
	said[n] = '\0';
	return n > 0 && !is_loopback(said) ? xstrdup(said) : NULL;
}

static char *address_of_interface(void)
{
	struct ifaddrs *all = NULL;
	char text[INET_ADDRSTRLEN] = "127.0.0.1";

	if (getifaddrs(&all) < 0)
		return xstrdup(text);
	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP) &&
			!(i->ifa_flags & IFF_LOOPBACK)) {
			struct sockaddr_in in;

			memcpy(&in, i->ifa_addr, sizeof(in));
			inet_ntop(AF_INET, &in.sin_addr, text, sizeof(text));
			break;
		}
	freeifaddrs(all);
	return xstrdup(text);
}

static char *address_of(const struct worker *w)
{
	char *address;

	if (strcmp(w->system, "local") == 0)
		return xstrdup("127.0.0.1");
	address = address_by_name(w->node);
	return address ? address : address_of_interface();
}

static int begin(struct hold *h, struct mlr_error *err)
{
	struct store_process self;
	char name[STORE_PROCESS_NAME];
	struct utsname host;
	int r = store_process_self(&self);

	if (r < 0)
		return mlr_fail(err, -r, "read '/proc/self': %s", strerror(-r));
	uname(&host);
	store_process_name(&self, name);
	h->w.process = xstrdup(name);
	h->w.node = xstrdup(host.nodename);
	h->proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (h->proc < 0)
		return mlr_fail_errno(err, "open '/proc'");
	return worker_tell_hold(h->st, &h->w, err);
}

/* --- the container ------------------------------------------------------------------------- */

/* A shell that waits for the end of its input: in every image that can be entered at all, and
 * without any processor's time. The image's entrypoint is not for it. */
static void add_command(const struct worker *w, struct strv *argv)
{
	if (w->command.n == 0)
		strv_add(argv, "--entrypoint=");
	strv_add(argv, "--");
	strv_add(argv, w->image);
	for (size_t i = 0; i < w->command.n; i++)
		strv_add(argv, w->command.v[i]);
	if (w->command.n > 0)
		return;
	strv_add(argv, "sh");
	strv_add(argv, "-c");
	strv_add(argv, "while read -r _; do :; done");
}

/* It ends with its supervisor, which posix_spawn(3) cannot have: outside of the job, which ends
 * then, nothing of it may go on. */
static int spawn(struct hold *h, const struct strv *argv, int input)
{
	pid_t parent = getpid(), pid = fork();
	sigset_t none;

	if (pid < 0)
		return -errno;
	if (pid > 0) {
		h->child = pid;
		setpgid(pid, pid); /* both do: who of them is first is not known */
		return 0;
	}
	setpgid(0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	if (dup2(input, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
		execvp(argv->v[0], strv_argv(argv));
	_exit(126);
}

/* Where the workers of a run can meet: at the oldest one's. */
static void add_host(const struct hold *h, struct strv *argv)
{
	auto_free char *node = elastic_host(&h->w), *address = NULL;
	const char *own = getenv("SLURMD_NODENAME");

	if (node)
		address = own && strcmp(node, own) == 0 ? address_of(&h->w) : address_by_name(node);
	if (address)
		strv_addf(argv, "--env=MLRUN_ELASTIC_HOST=%s", address);
}

/* The worker's options override the defaults above; the options below override the worker's. */
static void add_options(const struct hold *h, const char *program, struct strv *argv)
{
	strv_addf(argv, "--store=%s", store_path(h->st));
	/* Ranks of two workers on one node are strangers to each other, but name their segments in
	 * /dev/shm alike: by host, user, job and number on the host (btl_vader_component.c). Their
	 * daemons do so with directories in /tmp (session_dir.c). */
	if (!h->w.run)
		strv_add(argv, "--ipc=private");
	strv_add(argv, "--env=OMPI_MCA_orte_tmpdir_base=/dev/shm");
	for (size_t i = 0; i < h->w.options.n; i++)
		strv_add(argv, h->w.options.v[i]);
	/* Open MPI's orted, which mlrun-rsh starts in the container, ends if it does not find there
	 * what started it (plm_rsh_component.c, rsh_query). */
	strv_addf(argv, "--mount=type=bind,src=%s,dst=/usr/bin/mlrun-rsh,ro", program);
	local_limit(&h->w, argv);
	if (h->w.run)
		elastic_add_options(h->st, &h->w, argv);
	if (h->w.run && !h->w.warning)
		add_host(h, argv);
}

/* Open the child's input: /dev/null, or a pipe that this process holds open. */
static int open_input(struct hold *h)
{
	int pair[2];

	if (h->w.command.n > 0)
		return open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (pipe2(pair, O_CLOEXEC) < 0)
		return -1;
	h->input = pair[1];
	return pair[0];
}

/* With several nodes the process is srun's; the containers are not below this one. */
static int tell_up(struct hold *h, pid_t pid, struct mlr_error *err)
{
	h->w.pid = pid;
	h->w.address = address_of(&h->w);
	return worker_tell_up(h->st, &h->w, err);
}

static int start(struct hold *h, const char *program, struct mlr_error *err)
{
	auto_strv struct strv argv = STRV_INIT;
	auto_close int input = open_input(h);
	int r;

	if (input < 0)
		return mlr_fail_errno(err, "make a pipe");
	if (chdir(h->w.directory) < 0)
		return mlr_fail_errno(err, "enter '%s'", h->w.directory);
	if (h->w.warning)
		slurm_on_all_nodes(&h->w, &argv);
	strv_add(&argv, program);
	strv_add(&argv, "exec");
	add_options(h, program, &argv);
	add_command(&h->w, &argv);
	h->begun = mlr_now_ms();
	r = spawn(h, &argv, input);
	if (r < 0)
		return mlr_fail(err, -r, "start '%s': %s", program, strerror(-r));
	return h->w.warning ? tell_up(h, h->child, err) : 0;
}

static int look_inside(struct hold *h, struct mlr_error *err)
{
	pid_t pid = inside_find(h->proc, h->child, &h->inside);

	return pid > 0 ? tell_up(h, pid, err) : 0;
}

/* --- the run of an elastic worker ---------------------------------------------------------- */

/* Keep a coordinator. Returns the milliseconds until it is to be looked after, -1: a signal tells.
 */
static int64_t keep(struct hold *h)
{
	int64_t due = h->kept + AGAIN_MS - mlr_now_ms();
	pid_t pid;

	if (!h->w.run)
		return -1;
	if (h->keeper > 0 && waitpid(h->keeper, NULL, WNOHANG) == h->keeper)
		h->keeper = 0;
	if (h->keeper > 0)
		return -1;
	if (h->kept && due > 0)
		return due;
	h->kept = mlr_now_ms();
	pid = elastic_keep(h->st, &h->w);
	h->keeper = pid > 0 ? pid : 0;
	return pid > 0 ? -1 : AGAIN_MS;
}

static void end_keeper(struct hold *h)
{
	if (h->keeper <= 0)
		return;
	kill(h->keeper, SIGKILL);
	while (waitpid(h->keeper, NULL, 0) < 0 && errno == EINTR)
		;
	h->keeper = 0;
}

/* --- waiting ------------------------------------------------------------------------------ */

/* Has the child ended? */
static int reap(struct hold *h)
{
	if (h->child > 0 && waitpid(h->child, &h->status, WNOHANG) == h->child)
		h->child = 0;
	return h->child == 0;
}

static int64_t left_ms(const struct worker *w)
{
	return w->deadline ? w->deadline * 1000 - mlr_epoch_ms() : INT64_MAX;
}

/* The child has ended. Slurm sends a signal to all processes of a job, one after another: if one
 * ended the child, this process's own comes at once. A run's command may heed it and end with 0. */
static const char *why_ended(const struct hold *h, const sigset_t *signals)
{
	int64_t until = mlr_now_ms() + (WIFSIGNALED(h->status) || h->w.run ? OWN_SIGNAL_MS : 0),
		left;
	sigset_t ends = *signals;

	sigdelset(&ends, SIGCHLD);
	do {
		struct timespec wait;

		left = until - mlr_now_ms();
		left = left > 0 ? left : 0;
		wait = (struct timespec){ 0, left * 1000000 };
		if (sigtimedwait(&ends, NULL, &wait) > 0)
			return "signal";
	} while (left > 0);
	return "exit";
}

/* Returns why it ended. */
static const char *wait_for_end(struct hold *h, const sigset_t *signals, struct mlr_error *err)
{
	for (;;) {
		int64_t left = left_ms(&h->w), ms = left < 60000 ? left : 60000, due = keep(h);
		struct timespec wait;
		int sig;

		if (reap(h))
			return why_ended(h, signals);
		if (left <= 0)
			return "deadline";
		if (h->w.pid == 0 && look_inside(h, err) < 0)
			mlr_log_failure(
				MLR_WARNING, err, ", so nobody sees that the worker is ready");
		if (h->w.pid == 0 && ms > LOOK_MS)
			ms = LOOK_MS;
		if (due >= 0 && ms > due)
			ms = due;
		wait = (struct timespec){ ms / 1000, ms % 1000 * 1000000 };
		sig = sigtimedwait(signals, NULL, &wait);
		if (sig > 0 && sig != SIGCHLD)
			return "signal";
	}
}

/* Wait until the child has ended, or for so long; further signals change nothing. */
static void await_end(struct hold *h, const sigset_t *signals, int64_t ms)
{
	int64_t until = mlr_now_ms() + ms, left;

	while (!reap(h) && (left = until - mlr_now_ms()) > 0) {
		struct timespec wait = { left / 1000, left % 1000 * 1000000 };

		sigtimedwait(signals, NULL, &wait);
	}
}

static void end(struct hold *h, const sigset_t *signals)
{
	pid_t child = h->child;

	mlr_cleanup_close(&h->input);
	h->input = -1;
	/* srun alone: it passes the signal on, and has helpers that do not know it. */
	if (child > 0 && h->w.warning) {
		kill(child, (int)h->w.warning);
		await_end(h, signals, h->w.grace * 1000);
	}
	if (h->child > 0) {
		kill(-child, SIGTERM);
		await_end(h, signals, h->w.run && !h->w.warning ? STEP_MS : GRACE_MS);
	}
	if (child > 0)
		kill(-child, SIGKILL);
	/* What came in by mlrun-rsh is no child of this process. */
	inside_kill(h->proc, &h->inside);
	while (h->child > 0 && waitpid(child, &h->status, 0) < 0 && errno == EINTR)
		;
}

static int exit_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int work_hold(
	struct store *st, const char *program, const char *key, int *status, struct mlr_error *err)
{
	auto_call(hold_done) struct hold h = HOLD_INIT;
	sigset_t signals;
	int r;

	h.st = st;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	r = worker_read(st, key, &h.w, err);
	if (r == 0)
		r = begin(&h, err);
	if (r == 0 && h.w.run && elastic_is_over(st, &h.w)) {
		h.w.why = xstrdup("signal");
		*status = h.w.exit_status = 0;
		return worker_tell_end(st, &h.w, err);
	}
	if (r == 0)
		r = start(&h, program, err);
	if (r < 0) {
		if (h.w.run)
			elastic_ended(st, &h.w, 125, 0);
		return r;
	}
	h.w.why = xstrdup(wait_for_end(&h, &signals, err));
	end_keeper(&h);
	end(&h, &signals);
	*status = exit_status(h.status);
	if (h.w.run && strcmp(h.w.why, "exit") == 0)
		elastic_ended(st, &h.w, *status, (mlr_now_ms() - h.begun) / 1000);
	else if (h.w.run && strcmp(h.w.why, "signal") == 0)
		elastic_follow(st, &h.w);
	h.w.exit_status = *status;
	return worker_tell_end(st, &h.w, err);
}
