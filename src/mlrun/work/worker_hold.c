/* A worker's supervisor: sleeps until its command ends, a signal comes or the deadline. */
#include "work/elastic.h"

#include "work/supervisor.h"
#include "work/work.h"

#include "base/spawn.h"
#include "job/job.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/utsname.h>

#define GRACE_MS      1000  /* after SIGTERM, before SIGKILL */
#define STEP_MS       30000 /* the same for an elastic run's: it finishes a step */
#define AGAIN_MS      1000  /* before a coordinator that was killed is started again */
#define OWN_SIGNAL_MS 300

struct hold {
	struct supervisor sup;
	struct store *st;
	struct worker w;
	int input; /* the end of its standard input to write to; it waits for this to close */
	enum worker_event event; /* the last */
	int64_t end_at;          /* its deadline, mlr_now_ms(); the day's clock may be set */
	pid_t keeper;            /* elastic_keep()'s; 0: there is none */
	int64_t kept;            /* when it was started, mlr_now_ms() */
};

/* --- the node ------------------------------------------------------------------------------ */

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
	return n > 0 && strncmp(said, "127.", 4) != 0 ? xstrdup(said) : NULL;
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

/* --- the container ------------------------------------------------------------------------- */

/* A shell that waits for the end of its input: in every image that can be entered at all, and
 * without any processor's time. The image's entrypoint is not for it. */
static void add_command(const struct worker *w, struct strv *argv)
{
	if (w->command.n == 0)
		strv_add(argv, "--entrypoint=");
	strv_add_words(argv, "--", w->image);
	strv_add_all(argv, &w->command);
	if (w->command.n > 0)
		return;
	strv_add_words(argv, "sh", "-c");
	strv_add(argv, "while read -r _; do :; done");
}

/* Where the workers of a run can meet: at the oldest one's. */
static void add_host(const struct hold *h, struct strv *argv)
{
	auto_free char *node = elastic_host(&h->w), *address = NULL;
	const char *own = getenv(work_batch()->node_variable);

	if (node)
		address = own && strcmp(node, own) == 0 ? address_of(&h->w) : address_by_name(node);
	if (address)
		strv_addf(argv, "--env=MLRUN_ELASTIC_HOST=%s", address);
}

/* The worker's options override the defaults above; the options below override the worker's. */
static int add_options(
	const struct hold *h, const char *program, struct strv *argv, struct mlr_error *err)
{
	auto_strv struct strv env = STRV_INIT;
	auto_free char *path = worker_path(h->st, &h->w, "env");

	strv_addf(argv, "--store=%s", store_path(h->st));
	/* Ranks of two workers on one node are strangers to each other, but name their segments in
	 * /dev/shm alike: by host, user, job and number on the host (btl_vader_component.c). Their
	 * daemons do so with directories in /tmp (session_dir.c). */
	if (!h->w.run)
		strv_add(argv, "--ipc=private");
	strv_add(&env, "OMPI_MCA_orte_tmpdir_base=/dev/shm");
	for (size_t i = 0; i < h->w.options.n; i++) {
		const char *option = h->w.options.v[i];
		int is_env = strncmp(option, "--env=", 6) == 0;

		strv_add(is_env ? &env : argv, option + (is_env ? 6 : 0));
	}
	TRY(file_replace_list(AT_FDCWD, path, &env, 0600, err));
	strv_addf(argv, "--env-file=%s", path);
	/* Open MPI's orted, which mlrun-rsh starts in the container, ends if it does not find there
	 * what started it (plm_rsh_component.c, rsh_query). */
	strv_addf(argv, "--mount=type=bind,src=%s,dst=/usr/bin/mlrun-rsh,ro", program);
	local_limit(&h->w, argv);
	if (h->w.run)
		elastic_add_options(h->st, &h->w, argv);
	if (h->w.run && !h->w.warning)
		add_host(h, argv);
	return 0;
}

static int write_down(void *of)
{
	struct hold *h = of;

	return worker_tell(h->st, &h->w, h->event, NULL);
}

static void tell_up(void *of, pid_t pid)
{
	struct hold *h = of;

	h->w.pid = pid;
	h->w.address = address_of(&h->w);
	h->w.ready = time(NULL);
	h->event = WORKER_UP;
	supervisor_write(&h->sup);
}

/* Without a command the input is a pipe that this process holds open. */
static int start(struct hold *h, struct mlr_error *err)
{
	auto_strv struct strv argv = STRV_INIT;
	auto_free char *program = work_program();
	auto_close int input = -1;
	struct child c = { .argv = &argv, .fds = { -1, 1, 2 }, .n = 3, .mortal = 1 };
	int pair[2];

	if (h->w.command.n == 0) {
		if (pipe2(pair, O_CLOEXEC) < 0)
			return mlr_fail_errno(err, "make a pipe");
		c.fds[0] = input = pair[0];
		h->input = pair[1];
	}
	if (chdir(h->w.directory) < 0)
		return mlr_fail_errno(err, "enter '%s'", h->w.directory);
	if (h->w.warning)
		work_batch()->on_all_nodes(&h->w, &argv);
	strv_add_words(&argv, program, "exec");
	TRY(add_options(h, program, &argv, err));
	add_command(&h->w, &argv);
	c.program = argv.v[0];
	TRY(supervisor_start(&h->sup, &c, err));
	/* With several nodes the process is srun's; the containers are not below this one. */
	if (h->w.warning)
		tell_up(h, h->sup.pid = h->sup.child);
	return 0;
}

/* --- the run of an elastic worker ---------------------------------------------------------- */

/* Keep a coordinator. Returns the milliseconds until it is to be looked after; -1: it runs. */
static int64_t keep(struct hold *h)
{
	int64_t left = h->kept + AGAIN_MS - mlr_now_ms();
	pid_t pid;

	if (!h->w.run || h->keeper > 0)
		return -1;
	if (h->kept && left > 0)
		return left;
	h->kept = mlr_now_ms();
	pid = elastic_keep(h->st, &h->w);
	h->keeper = pid > 0 ? pid : 0;
	return pid > 0 ? -1 : AGAIN_MS;
}

static void reaped(void *of, pid_t pid, int status)
{
	struct hold *h = of;

	if (pid == h->keeper)
		h->keeper = 0;
}

/* --- its end ------------------------------------------------------------------------------- */

static void begin_end(struct hold *h, const char *why)
{
	h->w.why = xstrdup(why);
	if (h->keeper > 0) {
		kill(h->keeper, SIGKILL);
		spawn_wait(h->keeper);
	}
	h->keeper = 0;
	close(take_fd(&h->input));
}

/* End the command; further signals change nothing. */
static void end(struct hold *h, const char *why)
{
	pid_t child = h->sup.child;

	if (h->w.why)
		return;
	begin_end(h, why);
	if (!h->w.warning) {
		supervisor_end(&h->sup, -child, SIGTERM, h->w.run ? STEP_MS : GRACE_MS);
		return;
	}
	/* Warn srun alone: it passes the signal on, and has helpers that do not know it. */
	h->sup.term_ms = GRACE_MS;
	supervisor_end(&h->sup, child, (int)h->w.warning, h->w.grace * 1000);
}

static void order(void *of, const struct signalfd_siginfo *info)
{
	end(of, "signal");
}

static int64_t due(void *of)
{
	struct hold *h = of;
	int64_t left = h->end_at - mlr_now_ms(), ms = -1;

	if (h->w.why)
		return -1;
	if (h->w.deadline && left <= 0) {
		end(h, "deadline");
		return -1;
	}
	if (h->w.deadline)
		ms = left;
	supervisor_sooner(&ms, keep(h));
	return ms;
}

/* Slurm sends a signal to all processes of a job, one after another: if one ended the child, this
 * process's own comes at once. A run's command may heed it and end with 0. */
static const char *why_ended(const struct hold *h)
{
	int ms = WIFSIGNALED(h->sup.status) || h->w.run ? OWN_SIGNAL_MS : 0;
	struct timespec wait = { 0, ms * 1000000L };
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGHUP);
	return sigtimedwait(&ends, NULL, &wait) > 0 ? "signal" : "exit";
}

static void ended(void *of, int status)
{
	struct hold *h = of;

	/* Others went on without a command whose job was suspended: it comes back to them. */
	if (!h->w.why && status != 0 && h->w.run && elastic_comes_back(h->st, &h->w) &&
		start(h, NULL) == 0)
		return;
	if (!h->w.why)
		begin_end(h, why_ended(h));
	h->w.exit_status = status;
	h->sup.over = 1;
}

static void tell_end(struct hold *h)
{
	h->w.ended = time(NULL);
	h->event = WORKER_END;
	supervisor_write(&h->sup);
}

/* --- the supervisor ------------------------------------------------------------------------- */

static void hold_done(struct hold *h)
{
	worker_done(&h->w);
	fd_close(&h->input);
	supervisor_done(&h->sup);
}

static int begin(struct hold *h, struct mlr_error *err)
{
	struct utsname host;

	TRY(supervisor_begin(&h->sup, strcmp(h->w.system, "local") == 0, err));
	uname(&host);
	h->w.process = xstrdup(h->sup.process);
	h->w.node = xstrdup(host.nodename);
	h->end_at = mlr_now_ms() + h->w.deadline * 1000 - mlr_epoch_ms();
	TRY(worker_tell(h->st, &h->w, WORKER_HOLD, err));
	supervisor_tell(&h->sup, SUPERVISOR_HOLDS, 0, NULL);
	if (h->w.run && elastic_is_over(h->st, &h->w)) {
		h->w.why = xstrdup("signal");
		h->w.exit_status = 0;
		h->sup.over = 1;
		return 0;
	}
	return start(h, err);
}

int work_hold(struct store *st, const char *key, int *status, struct mlr_error *err)
{
	static const struct supervisor_kind kind = { tell_up, ended, due, order, reaped,
		write_down };
	auto_call(hold_done) struct hold h = {
		.sup = SUPERVISOR_INIT, .st = st, .w = WORKER_INIT, .input = -1
	};
	int r;

	h.sup.kind = &kind;
	h.sup.of = &h;
	TRY(worker_read(st, key, &h.w, err));
	r = begin(&h, err);
	if (r < 0) {
		h.w.exit_status = 125;
		worker_set(&h.w.why, "exit");
		tell_end(&h);
		supervisor_tell(&h.sup, SUPERVISOR_ERROR, err->code, err->text);
		if (h.w.run)
			elastic_ended(st, &h.w, 125, 0);
		return r;
	}
	supervisor_run(&h.sup);
	*status = h.w.exit_status;
	if (h.w.run && strcmp(h.w.why, "exit") == 0)
		elastic_ended(st, &h.w, *status, (mlr_now_ms() - h.sup.begun) / 1000);
	else if (h.w.run && h.sup.begun && strcmp(h.w.why, "signal") == 0)
		elastic_follow(st, &h.w);
	tell_end(&h);
	return 0;
}
