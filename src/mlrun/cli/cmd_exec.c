/* mlrun exec: options in, the command's own exit status out. */
#include "cli/cli.h"
#include "cli/fetch.h"
#include "cli/runs.h"
#include "base/spawn.h"
#include "plan/explain.h"
#include "rootfs/lookup.h"
#include "runtime/accounts.h"
#include "runtime/privileges.h"
#include "runtime/runtime.h"
#include "config.h"
#include "job/job.h"
#include "runtime/supervise.h"
#include "store/container.h"

/* --- --save: the container's root becomes a file when its last command has ended --- */

#if HAVE_SQUASHFS
#define CAN_WRITE 1
#else
#define CAN_WRITE 0
#endif

#define HOST_MAX 64 /* letters of the node's name in a container's */

/* The parent's. */
struct saving {
	const char *store;
	char *container, *file; /* the file's absolute path */
	int is_passing;         /* remove the container then */
	int news;               /* a pipe: something is written if no command was started */
};

/* The child's end of the pipe; execve(2) closes it. */
static int news_to = -1;

/* In the child, before it ends: no command was started, so that nothing is to be saved. */
static void cli_save_give_up(void)
{
	if (news_to >= 0 && write(news_to, "", 1) < 0)
		mlr_debug("the parent process has ended");
}

/* --- in the parent ------------------------------------------------------------------------ */

static int is_given_up(const struct saving *s)
{
	char c;

	return read(s->news, &c, 1) > 0;
}

/* mlrun export, in a process that has not the supervisor's signals. */
static int run_export(const struct saving *s)
{
	auto_free char *image = xasprintf("container:%s", s->container);
	auto_free char *store = s->store ? xasprintf("--store=%s", s->store) : NULL;
	char *argv[] = { (char *)"mlrun", (char *)"export", (char *)"-q",
		(char *)"--format=squashfs", image, s->file, store, NULL };
	const struct spawn spawn = { .file = "/proc/self/exe",
		.argv = argv,
		.in = SPAWN_NOTHING,
		.out = SPAWN_NOTHING,
		.flags = SPAWN_UNBLOCKS };
	pid_t pid;
	int r = spawn_start(&spawn, &pid);

	if (r < 0) {
		mlr_warning("cannot start mlrun export: %s", strerror(-r));
		return CLI_FAILED;
	}
	return spawn_wait(pid) == 0 ? 0 : CLI_FAILED;
}

static int save(const struct saving *s, struct store *st, const struct timespec *ended,
	struct mlr_error *err)
{
	auto_close int lock = -1;
	int r = store_container_save(st, s->container, ended, &lock, err);

	if (r <= 0)
		return r;
	r = run_export(s);
	if (r == 0 && s->is_passing)
		r = store_container_remove(st, s->container, 0, err);
	return r;
}

static int at_end(void *ctx)
{
	struct saving *s = ctx;
	auto_store struct store *st = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	struct timespec ended;
	int r;

	clock_gettime(CLOCK_REALTIME, &ended);
	r = store_open(s->store, 1, &st, &err);
	if (is_given_up(s)) {
		if (r == 0 && s->is_passing)
			(void)store_container_remove(st, s->container, 0, NULL);
		return 0;
	}
	if (r == 0)
		r = save(s, st, &ended, &err);
	if (r < 0) {
		mlr_wrap(&err, "--save '%s'", s->file);
		return cli_fail(&err);
	}
	return r;
}

/* --- before ------------------------------------------------------------------------------- */

static int check_options(const struct cli_exec *x, struct mlr_error *err)
{
	const struct exec_options *o = &x->exec;

	if (o->join || o->read_only)
		return mlr_fail(err, EINVAL, "--save and %s exclude each other",
			o->join ? "--join" : "--read-only");
	if (o->write && !*o->write) {
		mlr_fail(err, EINVAL, "--save: the container of --write needs a name");
		return mlr_hint(
			err, "--write=NAME; or only --save, and nothing but the file stays");
	}
	return 0;
}

/* All ranks of a step on this node are in one container; other processes have one of their own. */
static char *name_container(int *is_passing)
{
	auto_free char *step = job_step(environ);
	char host[HOST_MAX + 1] = "";

	if (gethostname(host, HOST_MAX) < 0)
		host[0] = '\0';
	*is_passing = !step;
	if (!step)
		return xasprintf("save-%ld-%s", (long)getpid(), host);
	for (char *s = step; *s; s++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-",
			    *s))
			*s = '-';
	return xasprintf("save-%.50s-%s", step, host);
}

/* Check now what would keep the file from being written after hours of work. */
static int check_file(const char *file, struct mlr_error *err)
{
	const char *slash = strrchr(file, '/');
	auto_free char *dir = xstrndup(file, (size_t)(slash - file + 1));
	struct stat st;

	if (!CAN_WRITE)
		return mlr_fail(err, ENOTSUP,
			"--save: this mlrun was built without libsquashfs and can write no squashfs file");
	if (!slash[1] || (stat(file, &st) == 0 && S_ISDIR(st.st_mode)))
		return mlr_fail(err, EISDIR, "--save: '%s' is a directory", file);
	return access(dir, W_OK | X_OK) < 0 ? mlr_fail_errno(err, "--save: directory '%s'", dir)
					    : 0;
}

static char *absolute(const char *file)
{
	auto_free char *cwd = *file == '/' ? xstrdup("") : getcwd(NULL, 0);

	return xasprintf("%s%s%s", cwd ? cwd : ".", *file == '/' ? "" : "/", file);
}

/*
 * Go on in a child process. The parent does not return: it waits, saves the container and ends as
 * the child does, or with CLI_FAILED if it cannot be saved. Of several commands in a container, the
 * last one's parent saves it. Without --write the container is one of its own, which goes
 * afterwards.
 *
 * Returns 0 in the child, -EINVAL for options that exclude --save, or why the file cannot be
 * written.
 */
static int cli_save_begin(struct cli_exec *x, struct mlr_error *err)
{
	static struct saving s;
	static struct supervise_end end = { at_end, &s, -1 };
	auto_close int proc = -1;
	int news[2], r = check_options(x, err);

	if (r < 0)
		return r;
	s = (struct saving){ .store = x->common.store, .file = absolute(x->save) };
	TRY(check_file(s.file, err));
	if (x->exec.write) {
		s.container = xstrdup(x->exec.write);
	} else {
		s.container = name_container(&s.is_passing);
		x->exec.write = s.container;
		x->exec.write_is_passing = 1;
	}
	proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0 || pipe2(news, O_CLOEXEC | O_NONBLOCK) < 0)
		return mlr_fail_errno(err, "--save");
	end.fd = s.news = news[0];
	news_to = news[1];
	r = supervise_fork(proc, 0, &end, err);
	close(news[0]);
	return r;
}

#define ACCOUNTS_MAX (1u << 20) /* bytes */

static int enter_and_exec(struct plan *p, int (*become)(struct plan *p, struct mlr_error *err))
{
	struct mlr_error err = MLR_ERROR_INIT;
	int r;

	r = runtime_enter(p, &err);
	if (r < 0)
		return cli_fail_at(&err, "exec '%s'", p->image);
	r = become ? become(p, &err) : runtime_exec(p, &err);
	if (r == -ENOENT && p->argv.v[0][0] == '-')
		mlr_hint(&err, "options stand before IMAGE: mlrun exec %s ... IMAGE COMMAND",
			p->argv.v[0]);
	cli_fail_at(&err, "exec '%s'", p->image);
	return r == -ENOENT ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE;
}

/* A start without surprises is silent. */
static void tell_notes(const struct plan *p)
{
	int speak = p->notes.n > 0 && cli_is_spokesman();

	for (size_t i = 0; i < p->notes.n; i++)
		mlr_log(speak ? MLR_INFO : MLR_DEBUG, "%s", p->notes.v[i]);
	for (size_t i = 0; i < p->n_remarks; i++)
		mlr_debug("%s", p->remarks[i].text);
}

/* --- --explain: the plan is printed ------------------------------------------- */

static void look(void *ctx, const char *path, int follow, struct plan_seen *ret)
{
	rootfs_look(ctx, path, follow, ret);
}

/* Will the image's file be replaced? If the image cannot be read: probably. */
static int is_written(const struct plan *p, const char *path,
	char *(*make)(const char *old, const struct plan_identity *id))
{
	auto_free char *old = NULL, *text = NULL;

	rootfs_read(p, path, ACCOUNTS_MAX, &old, NULL);
	text = make(old, &p->id);
	return text != NULL;
}

static int is_there(void *plan, const char *path)
{
	struct plan_seen seen = { 0 };
	int there;

	rootfs_look(plan, path, 1, &seen);
	there = seen.there != PLAN_THERE_NOTHING;
	plan_seen_done(&seen);
	return there;
}

/* Returns 0, or CLI_FAILED if writing to stdout fails. */
static int explain(struct plan *p, enum cli_explain how)
{
	struct plan_context c = { .look = look, .ctx = p, .caps = privileges_kept(p) };
	int status = 0;

	plan_env_look(p, is_there, p);
	if (!p->join && is_written(p, "/etc/passwd", accounts_passwd))
		strv_add(&c.files, "/etc/passwd");
	if (!p->join && is_written(p, "/etc/group", accounts_group))
		strv_add(&c.files, "/etc/group");
	if (how == CLI_EXPLAIN_JSON)
		status = cli_print_json(plan_json(p, &c));
	else
		plan_print(p, &c, stdout);
	strv_done(&c.files);
	return status;
}

/* --- --env-out ------------------------------------------------------------------ */

/* Write the command's variables, a NUL after each. If that fails, a later --join runs without these
 * variables. */
static void write_variables(const struct plan *p, const char *path)
{
	struct mlr_error err = MLR_ERROR_INIT;
	auto_strv struct strv env = STRV_INIT;
	auto_free char *text = NULL;
	size_t len;

	plan_env_list(p, &env);
	text = strv_join(&env, env.n, "\n");
	len = strlen(text) + 1;
	for (size_t i = 0, at = 0; i + 1 < env.n; i++) {
		at += strlen(env.v[i]);
		text[at++] = '\0';
	}
	if (file_replace(AT_FDCWD, path, text, len, 0600, &err) < 0)
		mlr_debug("%s", err.text);
}

/* --- exec ---------------------------------------------------------------------- */

static int plan_and_exec(struct cli_exec *x, int (*become)(struct plan *p, struct mlr_error *err))
{
	auto_call(config_done) struct config config = { 0 };
	auto_call(plan_done) struct plan p;
	struct mlr_error err = MLR_ERROR_INIT;
	struct exec_options *o = &x->exec;
	int status;

	plan_init(&p);
	if (config_load(&config, &err) < 0 || exec_defaults(&config, o, &err) < 0)
		return cli_fail(&err);
	if (!x->explain && !o->join && o->pull != EXEC_PULL_NEVER && cli_can_fetch(o->image))
		o->fetch = cli_fetch;
	status = exec_plan(o, !x->explain, &p, &err);
	if (status < 0)
		status = cli_fail(&err);
	if (status == 0 && x->adjust)
		x->adjust(&p);
	if (status == 0 && x->explain)
		status = explain(&p, x->explain);
	rootfs_look_done();
	if (status != 0 || x->explain)
		return status;
	tell_notes(&p);
	runs_add(x, &config, &p);
	if (x->env_out)
		write_variables(&p, x->env_out);
	return enter_and_exec(&p, become);
}

/* Have messages name the node: a job's output is of many. */
static void name_node(void)
{
	static char name[HOST_NAME_MAX + 32];
	char host[HOST_NAME_MAX + 1] = "";

	if (gethostname(host, sizeof(host) - 1) < 0)
		return;
	snprintf(name, sizeof(name), "mlrun: node '%s'", host);
	mlr_log_init(name);
}

int cli_exec_run(struct cli_exec *x, int (*become)(struct plan *p, struct mlr_error *err))
{
	struct mlr_error err = MLR_ERROR_INIT;
	int status;

	if (x->exec.as_pyxis)
		name_node();
	if (x->save && !x->explain && cli_save_begin(x, &err) < 0)
		return cli_fail(&err);
	status = plan_and_exec(x, become);
	cli_save_give_up();
	return status;
}

int cmd_exec(int argc, char **argv)
{
	struct cli_exec x = { 0 };
	int status;

	cli_exec_parse(argc, argv, "IMAGE [--] [COMMAND [ARG...]]",
		"Run a command in an image, with the caller's own rights and files.\v"
		"IMAGE is [docker://]NAME[:TAG][@DIGEST]; or oci:DIR[:REF], oci-archive:FILE[:REF], "
		"docker-archive:FILE[:REF]; or squashfs:FILE or rootfs:PATH, a plain directory. "
		"The exit status is the command's own; "
		"125: mlrun failed, 126: the command could not be executed, 127: it was not found.",
		&x);
	status = cli_exec_run(&x, NULL);
	cli_exec_done(&x);
	return status;
}
