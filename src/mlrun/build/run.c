/* RUN: a command in a container of the state, whose changes become a layer. */
#include "build/run.h"

#include "base/proc.h"
#include "base/spawn.h"
#include "rootfs/commit.h"
#include "runtime/runtime.h"
#include "store/container.h"

#include <jansson.h>
#include <poll.h>
#include <sys/prctl.h>

#define POLL_MS       500 /* a signal may come just before poll(2) */
#define POLL_SHORT_MS 20  /* nothing but poll's time limit tells of an end */

/* --- what commands print ----------------------------------------------------------- */

#define LINE_SIZE (4u << 10) /* longer lines are printed in pieces */
#define TAIL_SIZE (8u << 10) /* bytes that a failure shows */
#define PIPE_SIZE (1 << 20)

/* Make the pipe; label is copied, NULL: print bytes as they come, or with is_quiet nothing. Returns
 * the end to write to, the caller's, or -errno. */
static int open_output(struct run_output *o, const char *label, int is_quiet, struct mlr_error *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return mlr_fail_errno(err, "make a pipe");
	/* The command need not wait while files are copied for another stage; best effort. */
	fcntl(ends[1], F_SETPIPE_SZ, PIPE_SIZE);
	*o = (struct run_output){ .fd = ends[0],
		.label = label && !is_quiet ? xstrdup(label) : NULL,
		.is_plain = !label && !is_quiet,
		.line = xmalloc(LINE_SIZE),
		.tail = xmalloc(TAIL_SIZE) };
	return ends[1];
}

static void output_done(struct run_output *o)
{
	fd_close(&o->fd);
	free(o->label);
	free(o->line);
	free(o->tail);
	*o = (struct run_output){ .fd = -1 };
}

/* Nothing more comes; the tail stays. */
static void close_output(struct run_output *o)
{
	fd_close(&o->fd);
	o->fd = -1;
}

/* Print a line by one write(2), so that lines of several commands do not mix. */
static void print_line(struct run_output *o)
{
	if (o->label && o->n_line > 0) {
		auto_free char *text = xasprintf("%s | %.*s\n", o->label, (int)o->n_line, o->line);

		(void)!write(STDERR_FILENO, text, strlen(text));
	}
	o->n_line = 0;
}

static void add_byte(struct run_output *o, char c)
{
	if (c != '\n')
		o->line[o->n_line++] = c ? c : ' ';
	else if (o->n_line == 0 && !o->is_cut)
		o->line[o->n_line++] = ' '; /* an empty line stays one */
	o->is_cut = c != '\n' && o->n_line == LINE_SIZE;
	if (c == '\n' || o->is_cut)
		print_line(o);
}

static void add_tail(struct run_output *o, const char *buf, size_t n)
{
	size_t keep = n < TAIL_SIZE ? TAIL_SIZE - n : 0, drop;

	if (n > TAIL_SIZE) {
		buf += n - TAIL_SIZE;
		n = TAIL_SIZE;
	}
	drop = o->n_tail > keep ? o->n_tail - keep : 0;
	memmove(o->tail, o->tail + drop, o->n_tail - drop);
	o->n_tail -= drop;
	memcpy(o->tail + o->n_tail, buf, n);
	o->n_tail += n;
}

/* Read and print what is there. Returns 1, or 0 at the end. */
static int read_output(struct run_output *o)
{
	char buf[LINE_SIZE];
	ssize_t n = read(o->fd, buf, sizeof(buf));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 1;
	if (n <= 0) {
		print_line(o);
		return 0;
	}
	if (o->is_plain) {
		(void)file_write_all(STDERR_FILENO, buf, (size_t)n);
		return 1;
	}
	add_tail(o, buf, (size_t)n);
	for (ssize_t i = 0; i < n; i++)
		add_byte(o, buf[i]);
	return 1;
}

/* Print the end of it, unless all was printed. */
static void show_output(const struct run_output *o)
{
	if (o->n_tail > 0)
		(void)!write(STDERR_FILENO, o->tail, o->n_tail);
}

/* Take what it prints; after its end, all of it: the pipe's end is that of all its processes. */
static void take_output(struct running *r, int is_over)
{
	int more = r->output.fd >= 0;

	while (more && (more = read_output(&r->output)) && is_over)
		;
	if (!more)
		close_output(&r->output);
}

void run_free(struct running *r)
{
	if (!r)
		return;
	if (r->pid > 0) { /* given up */
		kill(r->pid, SIGKILL);
		spawn_wait(r->pid);
		take_output(r, 1); /* the container's processes end after their supervisor */
		store_container_leave(r->b->containers, r->container);
		store_container_remove(r->b->containers, r->container, 1, NULL);
	}
	strv_done(&r->exec.volumes);
	strv_done(&r->exec.tmpfs);
	strv_done(&r->exec.env);
	strv_done(&r->exec.devices);
	strv_done(&r->argv);
	strv_done(&r->keys);
	for (size_t i = 0; i < r->n_shown; i++) {
		fd_close(&r->shown[i].source.fd);
		copy_done(&r->shown[i]);
	}
	free(r->shown);
	plan_done(&r->mounts);
	strv_done(&r->to_lock);
	run_unlock(r);
	output_done(&r->output);
	fd_close(&r->watch);
	free(r);
}

/* --- the command ------------------------------------------------------------ */

/* A here-document that is the whole command is a script for the shell; else the shell reads what is
 * written. */
static char *script(const struct instruction *in)
{
	struct heredoc h = { 0 };
	auto_free char *text = xstrdup(in->args.v[0]);
	int is_script =
		in->n_heredocs == 1 && !strpbrk(text, " \t\n;&|") && instruction_heredoc(text, &h);

	instruction_heredoc_done(&h);
	if (is_script)
		return xstrdup(in->heredocs[0].content);
	for (size_t i = 0; i < in->n_heredocs; i++) {
		char *more =
			xasprintf("%s\n%s%s", text, in->heredocs[i].content, in->heredocs[i].name);

		set_ptr(&text, more);
	}
	return take_ptr(&text);
}

static void read_shell(const struct state *s, struct strv *ret)
{
	json_auto_t *root = json_loads(s->config, 0, NULL);
	json_t *shell = json_object_get(json_object_get(root, "config"), "Shell"), *v;
	size_t i;

	json_array_foreach(shell, i, v)
		if (json_is_string(v))
			strv_add(ret, json_string_value(v));
	if (ret->n == 0)
		strv_add_words(ret, "/bin/sh", "-c");
}

static void set_command(struct running *r)
{
	if (r->in->is_json) {
		strv_add_all(&r->argv, &r->in->args);
		return;
	}
	read_shell(r->s, &r->argv);
	strv_take(&r->argv, script(r->in));
}

/* ARG's variables, and the proxies that were given. */
static void set_env(struct running *r)
{
	const struct strv *given = r->b->o->args;

	for (size_t i = 0; given && i < given->n; i++) {
		auto_free char *name = xstrndup(given->v[i], strcspn(given->v[i], "="));

		if (scope_is_proxy(name))
			strv_add(&r->exec.env, given->v[i]);
	}
	for (size_t i = 0; i < r->s->scope.args.n; i++) {
		const char *text = r->s->scope.args.v[i];
		auto_free char *name = xstrndup(text, strcspn(text, "="));

		if (!strv_env_get(strv_argv(&r->s->scope.env), name))
			strv_add(&r->exec.env, text);
	}
}

/* --- the container ------------------------------------------------------------ */

/* In the child: become the command. It prints to out, and neither reads nor writes the caller's
 * terminal; out -1: it is a shell on that terminal. */
static void become(struct running *r, int out)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct plan p = { 0 };
	int e;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a build that is killed leaves nothing running */
	if (out >= 0 && (setsid() < 0 || dup2(out, STDERR_FILENO) < 0))
		_exit(126);
	proc_leave_keyring();
	dup2(STDERR_FILENO, STDOUT_FILENO);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	if (r->b->containers != r->b->o->st)
		setenv("MLRUN_STORES", store_path(r->b->o->st), 1); /* has the image */
	e = exec_plan(&r->exec, 1, &p, &err);
	if (e == 0)
		e = runtime_enter(&p, &err);
	if (e == 0)
		e = runtime_exec(&p, &err);
	mlr_log_error(&err);
	_exit(e == -ENOENT ? 127 : 126);
}

static int start_command(struct running *r, int out, struct mlr_error *err)
{
	auto_close int null = out < 0 ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
	pid_t pid = fork();

	if (pid < 0)
		return mlr_fail_errno(err, "start a process");
	if (pid == 0) {
		if (null >= 0)
			dup2(null, STDIN_FILENO);
		become(r, out);
	}
	r->pid = pid;
	fd_close(&r->watch);
	r->watch = proc_pidfd(pid); /* Linux 5.3 */
	return 0;
}

/* Stop the commands if the build is to stop. */
static void stop_if_cancelled(struct running *const *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (build_is_cancelled(v[i]->b))
			kill(v[i]->pid, SIGTERM);
}

/* Has it ended? Returns 1 and its status, 0, or -errno. */
static int has_ended(struct running *r, int *ret, struct mlr_error *err)
{
	int status;
	pid_t got = waitpid(r->pid, &status, WNOHANG);

	if (got < 0 && errno != EINTR)
		return mlr_fail_errno(err, "wait for a process");
	if (got != r->pid)
		return 0;
	r->pid = 0;
	*ret = spawn_exit(status);
	return 1;
}

int run_wait(struct running *const *v, size_t n, size_t *ret, int *status, struct mlr_error *err)
{
	auto_free struct pollfd *p = xcalloc(2 * n, sizeof(*p));
	int r = 0;

	for (size_t i = 0; i < n; i++)
		p[n + i] = (struct pollfd){ v[i]->watch, POLLIN, 0 };
	while (r == 0) {
		for (size_t i = 0; i < n; i++)
			p[i] = (struct pollfd){ v[i]->output.fd, POLLIN, 0 };
		(void)poll(p, 2 * n, v[0]->watch < 0 ? POLL_SHORT_MS : POLL_MS);
		stop_if_cancelled(v, n);
		for (size_t i = 0; i < n; i++)
			if (p[i].revents)
				take_output(v[i], 0);
		for (size_t i = 0; i < n && r == 0; i++) {
			r = has_ended(v[i], status, err);
			*ret = i;
		}
	}
	if (r > 0)
		take_output(v[*ret], 1);
	return r < 0 ? r : 0;
}

/* A shell in the container of the failed command, with what that has written. */
static void open_shell(struct running *r)
{
	int status;
	size_t i;

	strv_done(&r->argv);
	strv_add(&r->argv, "/bin/sh");
	r->exec.command = strv_argv(&r->argv);
	mlr_info("the command failed: this is a shell in its container; exit ends the build");
	if (start_command(r, -1, NULL) == 0)
		run_wait(&r, 1, &i, &status, NULL);
}

static int failed(struct running *r, int status, struct mlr_error *err)
{
	show_output(&r->output);
	if (r->in->is_section)
		mlr_fail(err, ECHILD, "%s ended with status %d", r->in->text, status);
	else
		mlr_fail(err, ECHILD, "RUN ended with status %d: %.300s", status,
			r->argv.v[r->argv.n - 1]);
	mlr_hint(err, "a shell at that point: mlrun shell --fakeroot%s%s --store '%s' %s",
		r->exec.user ? " --user " : "", r->exec.user ? r->exec.user : "",
		store_path(r->b->o->st), r->s->manifest);
	if (r->b->o->shell_on_failure && !build_is_cancelled(r->b))
		open_shell(r);
	return -ECHILD;
}

static int keep(struct running *r, struct mlr_error *err)
{
	const struct rootfs_writing how = { r->b->o->epoch, r->b->o->cancel };
	struct rootfs_written w = { .diff_id = "" };
	int e = rootfs_commit_layer(
		r->b->containers, r->container, r->b->o->st, &r->s->parsed.diff_ids, &how, &w, err);

	strv_done(&w.omitted);
	for (size_t i = 0; i < r->n_shown && e == 0; i++)
		if (copy_has_changed(&r->shown[i])) {
			build_forget_key(r->s);
			break;
		}
	return e < 0 ? e : build_add_layer(r->b, r->s, r->in, w.diff_id, w.bytes, err);
}

int run_end(struct running *r, int status, struct mlr_error *err)
{
	struct store *st = r->b->containers;
	int e;

	run_unlock(r);
	status = status == 0 ? keep(r, err) : failed(r, status, err);
	store_container_leave(st, r->container);
	e = store_container_remove(st, r->container, 1, status < 0 ? NULL : err);
	return status < 0 ? status : e;
}

int run_start(struct running *r, const char *label, int others, struct mlr_error *err)
{
	auto_call(store_container_done) struct store_container c = { 0 };
	struct store *st = r->b->containers;
	auto_close int out = -1;
	int made, e = run_lock(r, !others, err);

	if (e != 0)
		return e;
	out = open_output(&r->output, label, r->b->o->is_quiet, err);
	if (out < 0)
		return out;
	const struct store_container new = { .image = r->s->manifest, .manifest = r->s->manifest };

	TRY(store_container_open(st, r->container, &new, &c, &made, err));
	e = start_command(r, out, err);
	if (e < 0) {
		store_container_leave(st, r->container);
		store_container_remove(st, r->container, 1, NULL);
	}
	return e;
}

/* --- the instruction ---------------------------------------------------------- */

/* A definition file's section runs as root in /, and its script is only there while it runs. */
static int prepare_section(struct running *r, struct mlr_error *err)
{
	r->exec.workdir = "/";
	r->exec.user = NULL;
	strv_add_words(&r->exec.env, "APPTAINER_ROOTFS=", "SINGULARITY_ROOTFS=",
		"APPTAINER_ENVIRONMENT=/.singularity.d/env/91-environment.sh",
		"SINGULARITY_ENVIRONMENT=/.singularity.d/env/91-environment.sh");
	for (size_t i = 0; i < r->in->n_heredocs; i++) {
		const struct heredoc *h = &r->in->heredocs[i];

		strv_add(&r->keys, h->content);
		TRY(plan_file_mount(&r->mounts, h->content, strlen(h->content), 0755, h->name,
			PLAN_FROM_USER, err));
	}
	return 0;
}

static int prepare(struct running *r, struct mlr_error *err)
{
	const char *network = instruction_flag(r->in, "--network");
	struct exec_options *x = &r->exec;
	char random[RANDOM_HEX_SIZE];

	if (!network || strcmp(network, "default") == 0)
		network = r->b->o->network;
	set_command(r);
	x->workdir = r->s->parsed.working_dir && *r->s->parsed.working_dir
		? r->s->parsed.working_dir
		: "/";
	run_add_site(r);
	set_env(r);
	TRY(run_add_flags(r, err));
	random_hex(random);
	snprintf(r->container, sizeof(r->container), "build-%s", random);
	x->store = store_path(r->b->containers);
	x->command = strv_argv(&r->argv);
	x->entrypoint = "";
	x->write = r->container;
	x->gpu = "none";
	x->mpi = EXEC_MPI_NONE;
	x->home = EXEC_NO;
	x->apart = x->init = x->ipc = 1;
	x->given = &r->mounts;
	x->no_network = network && strcmp(network, "none") == 0;
	x->user = r->s->parsed.user && *r->s->parsed.user &&
			strcmp(r->s->parsed.user, "root") != 0 &&
			strcmp(r->s->parsed.user, "0") != 0
		? r->s->parsed.user
		: NULL;
	x->fakeroot = 1;
	return r->in->is_section ? prepare_section(r, err) : 0;
}

/* All that the result depends on. Proxies, caches and secrets do not count, as in BuildKit. */
static void mix(struct running *r)
{
	struct state *s = r->s;

	state_mix(s, "RUN", r->exec.workdir, r->exec.user ? r->exec.user : "",
		r->exec.no_network ? "none" : "", NULL);
	for (size_t i = 0; i < r->argv.n; i++)
		state_mix(s, "word", r->argv.v[i], NULL);
	for (size_t i = 0; i < s->parsed.env.n; i++)
		state_mix(s, "env", s->parsed.env.v[i], NULL);
	for (size_t i = 0; i < s->scope.args.n; i++)
		state_mix(s, "arg", s->scope.args.v[i], NULL);
	for (size_t i = 0; i < r->in->flags.n; i++)
		state_mix(s, "flag", r->in->flags.v[i], NULL);
	for (size_t i = 0; i < r->keys.n; i++)
		state_mix(s, "mount", r->keys.v[i], NULL);
}

/* The image has to know the USER. */
static int check_user(struct running *r, struct mlr_error *err)
{
	auto_call(plan_done) struct plan p = { 0 };
	int64_t uid, gid;
	int e;

	if (!r->exec.user)
		return 0;
	e = state_plan(r->s, r->b->o->st, &p, err);
	if (e == 0)
		e = build_ids(&p, r->exec.user, &uid, &gid, err);
	return e < 0 ? mlr_wrap(err, "USER %s", r->exec.user) : 0;
}

int run_new(struct build *b, struct state *s, const struct instruction *in, struct running **ret,
	struct mlr_error *err)
{
	auto_call(run_cleanup) struct running *r = xcalloc(1, sizeof(*r));
	int e;

	*r = (struct running){ .b = b, .s = s, .in = in, .output = { .fd = -1 }, .watch = -1 };
	TRY(prepare(r, err));
	mix(r);
	e = build_cached(b, s, in, err);
	if (e != 0)
		return e;
	TRY(check_user(r, err));
	TRY(state_image(s, b->o->st, err));
	r->exec.image = s->manifest;
	*ret = take_ptr(&r);
	return 0;
}
