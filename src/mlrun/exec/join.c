#include "exec/parts.h"

#include "runtime/running.h"

#define ENVIRON_MAX (8u << 20) /* bytes; the kernel's own limit is a quarter of the stack's */

/* Refuse options that only a new container can have. */
static int refuse_options(const struct exec_options *o, struct mlr_error *err)
{
	const struct {
		const char *name;
		int given;
	} options[] = {
		{ "-v", o->volumes.n > 0 },
		{ "--mount", o->mounts.n > 0 },
		{ "--tmpfs", o->tmpfs.n > 0 },
		{ "--device", o->devices.n > 0 },
		{ "--gpu", o->gpu && !o->gpu_origin },
		{ "--user", o->user != NULL },
		{ "--hostname", o->hostname != NULL },
		{ "--write", o->write != NULL },
		{ "--join-tag", o->join_tag != NULL },
		{ "--entrypoint", o->entrypoint && *o->entrypoint },
		{ "--home", o->home == EXEC_YES && !o->home_origin },
		{ "--clearenv", o->clearenv && !exec_dialect_of(o)->begins_anew },
		{ "--read-only", o->read_only },
		{ "--fakeroot", o->fakeroot },
		{ "--pid", o->pid },
		{ "--init", o->init },
		{ "--ipc", o->ipc },
		{ "--net", o->no_network },
	};

	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		if (options[i].given)
			return mlr_fail(err, EINVAL,
				"%s: the container exists already; "
				"only options of the command are allowed: -w, -e, --ulimit and the like",
				options[i].name);
	return 0;
}

/* Read a file of /proc/PID. */
static int read_text(int dir, const char *name, char **ret, size_t *len, struct mlr_error *err)
{
	int r = file_read(dir, name, ENVIRON_MAX, ret, len, err);

	return r == -EACCES || r == -EPERM ? mlr_fail(err, EPERM, "it may not be looked at") : r;
}

/* Read "0 1000 1": the id inside, the id outside, their number. */
static int read_map(
	int dir, const char *name, unsigned *inside, unsigned *outside, struct mlr_error *err)
{
	auto_free char *text = NULL;

	TRY(read_text(dir, name, &text, NULL, err));
	if (sscanf(text, "%u %u", inside, outside) != 2)
		return mlr_fail(err, EPROTO, "its '%s' maps no id", name);
	return 0;
}

/* Does the process have any capability, as a fake root's have? */
static int has_capabilities(int dir)
{
	auto_free char *text = NULL;
	const char *line;

	if (file_read(dir, "status", 1 << 16, &text, NULL, NULL) < 0)
		return 0;
	line = strstr(text, "\nCapPrm:");
	return line && strtoull(line + 8, NULL, 16) != 0;
}

static int read_identity(int dir, struct plan *p, struct mlr_error *err)
{
	int r = read_map(dir, "uid_map", &p->id.uid, &p->id.host_uid, err);

	p->id.is_fake_root = r == 0 && p->id.uid == 0 && has_capabilities(dir);
	return r < 0 ? r : read_map(dir, "gid_map", &p->id.gid, &p->id.host_gid, err);
}

/* As the process sees it: the link's text starts at its own root. */
static int read_workdir(int dir, struct plan *p, struct mlr_error *err)
{
	char path[PATH_MAX];
	ssize_t n = readlinkat(dir, "cwd", path, sizeof(path) - 1);

	if (n < 0)
		return mlr_fail_errno(err, "its working directory");
	path[n] = '\0';
	/* A removed one reads "/work (deleted)". */
	p->workdir = xstrdup(path[0] == '/' && faccessat(dir, "cwd/.", F_OK, 0) == 0 ? path : "/");
	p->workdir_origin = PLAN_FROM_JOINED;
	return 0;
}

/* Programs that change their title overwrite what /proc shows, as redis does. */
static int read_environment(int dir, const char *file, struct strv *ret, struct mlr_error *err)
{
	auto_free char *text = NULL;
	size_t len = 0;
	int r = file ? file_read(AT_FDCWD, file, ENVIRON_MAX, &text, &len, NULL) : -ENOENT;

	if (r < 0)
		r = read_text(dir, "environ", &text, &len, err);

	for (size_t at = 0; r == 0 && at < len; at += strlen(text + at) + 1)
		strv_add(ret, text + at);
	return r;
}

/* Do Slurm's variables of the process name this step, "7.0"? */
static int is_of_step(pid_t pid, const char *step)
{
	auto_free char *path = xasprintf("/proc/%ld", (long)pid), *its = NULL;
	auto_close int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_strv struct strv env = STRV_INIT;
	const char *job, *number;

	if (dir < 0 || read_environment(dir, NULL, &env, NULL) < 0)
		return 0;
	job = strv_env_get(strv_argv(&env), "SLURM_JOB_ID");
	number = strv_env_get(strv_argv(&env), "SLURM_STEP_ID");
	its = job && number ? xasprintf("%s.%s", job, number) : NULL;
	return its && strcmp(its, step) == 0;
}

int exec_find_step(const char *step, pid_t *ret, struct mlr_error *err)
{
	auto_call(running_list_done) struct running_list l = { 0 };

	TRY(running_find(&l, err));
	for (size_t i = 0; i < l.n; i++)
		if (is_of_step(l.v[i].pid, step)) {
			*ret = l.v[i].pid;
			return 0;
		}
	mlr_fail(err, ESRCH, "no container of step %s runs on this node", step);
	return mlr_hint(err, "mlrun ps lists this node's containers, squeue --steps the steps");
}

/* Find out what a command that begins anew has of the image and of the caller. Of a process whose
 * root may not be looked at, all stays as it is. */
static void begin_anew(int dir, const struct exec_options *o, const struct strv *env,
	struct plan *p, struct strv *scripts)
{
	auto_close int root = openat(dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC), there = -1;
	auto_free char *cwd = o->workdir && *o->workdir ? path_clean(o->workdir) : getcwd(NULL, 0);
	const char *home = strv_env_get(strv_argv(env), "HOME");

	if (root < 0)
		return;
	there = cwd ? file_open_in_root(root, cwd, O_PATH | O_DIRECTORY, 0) : -1;
	set_ptr(&p->workdir, there >= 0 ? take_ptr(&cwd) : xstrdup(home ? home : "/"));
	p->workdir_origin = PLAN_FROM_CALLER;
	scripts_read_root(root, scripts);
}

static int read_process(const struct exec_options *o, struct plan *p, struct strv *env,
	struct strv *scripts, struct mlr_error *err)
{
	pid_t pid = o->join;
	auto_close int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), dir = -1;
	auto_call(container_done) struct container c = { 0 };
	char name[24];
	int r;

	if (proc < 0)
		return mlr_fail_errno(err, "open '/proc'");
	/* Open the directory first: then everything is of one process, even if its pid is
	 * reused. */
	snprintf(name, sizeof(name), "%ld", (long)pid);
	dir = openat(proc, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = dir < 0 ? -ESRCH : container_look(proc, pid, &c);
	if (r == 0 && container_is_foreign(&c))
		r = -EPERM;
	if (r < 0)
		return container_refuse(pid, r, err);
	p->image = take_ptr(&c.image);
	r = read_identity(dir, p, err);
	if (r == 0)
		r = read_environment(dir, o->join_env, env, err);
	if (r == 0)
		r = read_workdir(dir, p, err);
	if (r == 0 && exec_dialect_of(o)->begins_anew)
		begin_anew(dir, o, env, p, scripts);
	return r < 0 ? mlr_wrap(err, "process %ld", (long)pid) : 0;
}

int join_plan(
	const struct exec_options *o, struct plan *p, struct strv *scripts, struct mlr_error *err)
{
	auto_strv struct strv env = STRV_INIT;

	TRY(refuse_options(o, err));
	if (!o->command || !*o->command)
		return mlr_fail(err, EINVAL, "no command was given");
	TRY(read_process(o, p, &env, scripts, err));
	p->join = o->join;
	if (o->workdir && *o->workdir && !exec_dialect_of(o)->begins_anew) {
		free(p->workdir);
		p->workdir = path_clean(o->workdir);
		p->workdir_origin = PLAN_FROM_USER;
	}
	for (char *const *s = o->command; *s; s++)
		strv_add(&p->argv, *s);
	p->argv_origin = PLAN_FROM_USER;
	TRY(environment_plan_joined(o, environ, &env, p, err));
	/* Scripts add to it, and may have done so for the process. */
	if (scripts->n > 1 && plan_env_origin(p, "PATH") == PLAN_FROM_JOINED)
		plan_env_set(p, "PATH", OCI_DEFAULT_PATH, PLAN_FROM_DEFAULT);
	return 0;
}
