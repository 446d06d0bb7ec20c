#include "config.h"

#include "cli/save.h"

#include "cli/cli.h"

#include "base/spawn.h"
#include "job/job.h"
#include "runtime/supervise.h"
#include "store/container.h"

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

void cli_save_give_up(void)
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

int cli_save_begin(struct cli_exec *x, struct mlr_error *err)
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
