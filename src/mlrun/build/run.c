/* RUN: a command in a container of the state, whose changes become a layer. */
#include "build/parts.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/path.h"
#include "base/random.h"
#include "exec/exec.h"
#include "recipe/run_mount.h"
#include "rootfs/commit.h"
#include "runtime/runtime.h"
#include "store/cache.h"
#include "store/container.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONTAINER_SIZE 32
#define TAIL_SIZE      (8u << 10) /* bytes of output that a failure shows with -q */

struct running {
	struct build *b;
	struct state *s;
	const struct instruction *in;
	struct exec_options exec;
	struct strv argv;
	struct strv keys;       /* what the mounts contribute to the cache's key */
	struct strv temps;      /* files to remove */
	int locks[16], n_locks; /* of caches */
	char container[CONTAINER_SIZE];
	int64_t uid, gid; /* of USER */
	int output;       /* of the command, with -q; -1: ours */
};

static void running_done(struct running *r)
{
	strv_done(&r->exec.volumes);
	strv_done(&r->exec.tmpfs);
	strv_done(&r->exec.env);
	strv_done(&r->exec.devices);
	strv_done(&r->argv);
	strv_done(&r->keys);
	for (size_t i = 0; i < r->temps.n; i++)
		unlink(r->temps.v[i]);
	strv_done(&r->temps);
	for (int i = 0; i < r->n_locks; i++)
		close(r->locks[i]);
	if (r->output >= 0)
		close(r->output);
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

		free(text);
		text = more;
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
	if (ret->n == 0) {
		strv_add(ret, "/bin/sh");
		strv_add(ret, "-c");
	}
}

static void set_command(struct running *r)
{
	if (r->in->is_json) {
		for (size_t i = 0; i < r->in->args.n; i++)
			strv_add(&r->argv, r->in->args.v[i]);
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

/* --- what the site gives ------------------------------------------------------ */

/* The machine's CA certificates; NULL if there are none at the usual places. */
static const char *find_ca(const struct config *c)
{
	static const char *const places[] = { "/etc/ssl/certs/ca-certificates.crt",
		"/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem" };
	const struct config_value *v = c ? config_get(c, "build", "ca") : NULL;
	const char *own = getenv("SSL_CERT_FILE");

	if (v)
		return v->value;
	if (own && access(own, R_OK) == 0)
		return own;
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (access(places[i], R_OK) == 0)
			return places[i];
	return NULL;
}

/* Let programs find the certificates: at a site with a CA of its own they could fetch nothing
 * otherwise. A variable that the image sets stays. */
static void add_ca(struct running *r)
{
	static const char *const names[] = { "SSL_CERT_FILE", "CURL_CA_BUNDLE",
		"REQUESTS_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS" };
	static const char place[] = "/run/mlrun/ca-certificates.crt";
	const char *ca = find_ca(r->b->o->config);

	if (!ca)
		return;
	strv_addf(&r->exec.volumes, "%s:%s:ro", ca, place);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (!scope_get(&r->s->scope, names[i]))
			strv_addf(&r->exec.env, "%s=%s", names[i], place);
}

/* "SRC:DST:ro,optional": the flag exists only in the configuration; the volume is left out if SRC
 * is missing. */
static void add_volume(struct running *r, const char *text)
{
	auto_free char *copy = xstrdup(text);
	char *rest = copy, *src = strsep(&rest, ":"), *dst = strsep(&rest, ":"), *flag;
	auto_strv struct strv flags = STRV_INIT;
	auto_free char *joined = NULL;
	int is_optional = 0;

	while (rest && (flag = strsep(&rest, ",")))
		if (strcmp(flag, "optional") == 0)
			is_optional = 1;
		else
			strv_add(&flags, flag);
	if (is_optional && access(src, F_OK) < 0)
		return;
	joined = strv_join(&flags, flags.n, ",");
	strv_addf(&r->exec.volumes, "%s:%s%s%s", src, dst ? dst : src, *joined ? ":" : "", joined);
}

/* The [build] section: volumes and variables, which are in neither the layer nor the key. */
static void add_configured(struct running *r)
{
	const struct config *c = r->b->o->config;

	for (size_t i = 0; c && i < c->n; i++) {
		const struct config_value *v = &c->v[i];

		if (strcmp(v->section, "build") != 0)
			continue;
		if (strcmp(v->key, "volume") == 0)
			add_volume(r, v->value);
		else if (strcmp(v->key, "env") == 0)
			strv_add(&r->exec.env, v->value);
	}
}

/* --- mounts ------------------------------------------------------------------ */

/* What is mounted decides on the result. */
static int hash_source(struct running *r, const struct copy_source *src, const char *path,
	const char *key, struct mlr_error *err)
{
	struct copy c = { .source = *src, .mode = -1, .cancel = r->b->o->cancel };
	const struct copy_wish w = { .pattern = path, .to = "/", .to_is_directory = 1 };
	char hex[HASH_HEX_SIZE];
	int e;

	if (key) {
		strv_addf(&r->keys, "%s %s", key, path);
		return 0;
	}
	e = copy_add(&c, &w, err);
	if (e >= 0)
		e = copy_hash(&c, hex, err);
	copy_done(&c);
	if (e == 0)
		strv_add(&r->keys, hex);
	return e < 0 ? e : 0;
}

static int mount_bind(struct running *r, const struct run_mount *m, struct mlr_error *err)
{
	struct copy_source src = { .fd = -1 };
	auto_free char *key = NULL;
	auto_close int fd = -1;
	char self[32], path[4096];
	ssize_t n;
	int e = build_source(r->b, m->from, &src, &key, err);

	if (e < 0)
		return e;
	e = hash_source(r, &src, m->source ? m->source : ".", key, err);
	fd = file_open_in_root(src.fd, m->source ? m->source : ".", O_PATH, 0);
	close(src.fd);
	if (e < 0)
		return e;
	if (fd < 0)
		return mlr_fail(err, -fd, "'%s' in %s: %s", m->source ? m->source : ".", src.what,
			strerror(-fd));
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	n = readlink(self, path, sizeof(path) - 1);
	if (n < 0)
		return mlr_fail_errno(err, "find '%s'", m->source);
	path[n] = '\0';
	strv_addf(&r->exec.volumes, "%s:%s:%s", path, m->target, m->read_only ? "ro" : "O");
	return 0;
}

static int lock_cache(
	struct running *r, const struct run_mount *m, const char *path, struct mlr_error *err)
{
	int fd;

	if (m->sharing == RUN_MOUNT_SHARED || r->n_locks == (int)ARRAY_LEN(r->locks))
		return 0;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return mlr_fail_errno(err, "open '%s'", path);
	r->locks[r->n_locks++] = fd;
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return mlr_fail_errno(err, "lock '%s'", path);
	return 0;
}

/* A cache is a directory of the store that outlives builds. It changes no key. */
static int mount_cache(struct running *r, const struct run_mount *m, struct mlr_error *err)
{
	auto_free char *path = NULL;
	int e = store_cache_mount(r->b->o->st, m->id ? m->id : m->target, &path, err);

	if (e == 0 && m->mode >= 0 && chmod(path, (mode_t)m->mode & 0777) < 0)
		e = mlr_fail_errno(err, "set the mode of '%s'", path);
	if (e == 0)
		e = lock_cache(r, m, path, err);
	if (e < 0)
		return e;
	strv_addf(&r->exec.volumes, "%s:%s:%s", path, m->target, m->read_only ? "ro" : "rw");
	return 0;
}

/* "id=ID[,src=FILE|,env=NAME]" of --secret. 1 if it is the one; file and env may remain NULL. */
static int is_secret(const char *spec, const char *id, char **file, char **env)
{
	auto_free char *copy = xstrdup(spec);
	char *rest = copy, *part;
	int is_it = 0;

	while ((part = strsep(&rest, ","))) {
		const char *value = strchr(part, '=');

		if (!value)
			continue;
		value++;
		if (strncmp(part, "id=", 3) == 0)
			is_it = strcmp(value, id) == 0;
		else if (strncmp(part, "src=", 4) == 0 || strncmp(part, "source=", 7) == 0)
			*file = xstrdup(value);
		else if (strncmp(part, "env=", 4) == 0)
			*env = xstrdup(value);
	}
	return is_it;
}

#define SECRET_MAX (512u << 10) /* bytes */

/* The value, to free(); NULL if nobody gives it. */
static int read_secret(const struct build *b, const char *id, char **ret, struct mlr_error *err)
{
	for (size_t i = 0; b->o->secrets && i < b->o->secrets->n; i++) {
		auto_free char *file = NULL, *env = NULL;
		const char *value;

		if (!is_secret(b->o->secrets->v[i], id, &file, &env))
			continue;
		if (file)
			return file_read(AT_FDCWD, file, SECRET_MAX, ret, NULL, err);
		value = getenv(env ? env : id);
		if (!value)
			return mlr_fail(err, ENOENT, "secret '%s': no variable '%s' is set", id,
				env ? env : id);
		*ret = xstrdup(value);
		return 0;
	}
	return 0;
}

/* Write it to a file in memory that nobody else may read. */
static int write_secret(struct running *r, const struct run_mount *m, const char *value,
	char **path, struct mlr_error *err)
{
	auto_free char *name = xstrdup("/dev/shm/mlrun-secret-XXXXXX");
	auto_close int fd = mkostemp(name, O_CLOEXEC);
	int e;

	if (fd < 0)
		return mlr_fail_errno(err, "create '%s'", name);
	strv_add(&r->temps, name);
	e = file_write_all(fd, value, strlen(value));
	if (e < 0 || fchmod(fd, m->mode >= 0 ? (mode_t)m->mode & 0777 : 0400) < 0)
		return mlr_fail(err, e < 0 ? -e : errno, "write '%s'", name);
	*path = take_ptr(&name);
	return 0;
}

static int mount_secret(struct running *r, const struct run_mount *m, struct mlr_error *err)
{
	const char *id = m->id ? m->id
		: m->source    ? m->source
		: m->target    ? path_base(m->target)
			       : m->env;
	auto_free char *value = NULL, *path = NULL, *target = NULL;
	int e = read_secret(r->b, id, &value, err);

	if (e < 0)
		return e;
	if (!value && m->required) {
		mlr_fail(err, ENOENT, "the secret '%s' is required", id);
		return mlr_hint(err, "--secret id=%s,src=FILE gives it", id);
	}
	if (!value)
		return 0;
	if (m->env)
		strv_addf(&r->exec.env, "%s=%s", m->env, value);
	if (m->env && !m->target)
		return 0;
	e = write_secret(r, m, value, &path, err);
	target = m->target ? xstrdup(m->target) : xasprintf("/run/secrets/%s", id);
	if (e == 0)
		strv_addf(&r->exec.volumes, "%s:%s:ro", path, target);
	memset(value, 0, strlen(value));
	return e;
}

static int mount_ssh(struct running *r, const struct run_mount *m, struct mlr_error *err)
{
	const char *target = m->target ? m->target : "/run/buildkit/ssh_agent.0";

	if (!r->b->o->ssh && m->required) {
		mlr_fail(err, ENOENT, "an SSH agent is required");
		return mlr_hint(err, "--ssh default passes on the one of SSH_AUTH_SOCK");
	}
	if (!r->b->o->ssh)
		return 0;
	strv_addf(&r->exec.volumes, "%s:%s", r->b->o->ssh, target);
	strv_addf(&r->exec.env, "SSH_AUTH_SOCK=%s", target);
	return 0;
}

static int add_mount(struct running *r, struct run_mount *m, struct mlr_error *err)
{
	if (m->target && *m->target != '/') {
		char *absolute = xasprintf("%s/%s", r->exec.workdir, m->target);

		free(m->target);
		m->target = absolute;
	}
	switch (m->type) {
	case RUN_MOUNT_BIND:
		return mount_bind(r, m, err);
	case RUN_MOUNT_CACHE:
		return mount_cache(r, m, err);
	case RUN_MOUNT_SECRET:
		return mount_secret(r, m, err);
	case RUN_MOUNT_SSH:
		return mount_ssh(r, m, err);
	default:
		break;
	}
	if (m->size)
		strv_addf(&r->exec.tmpfs, "%s:size=%llu,mode=1777", m->target,
			(unsigned long long)m->size);
	else
		strv_addf(&r->exec.tmpfs, "%s:mode=1777", m->target);
	return 0;
}

static int add_flags(struct running *r, struct mlr_error *err)
{
	const struct expand e = scope_expand(&r->s->scope, r->b->o->recipe->escape);

	for (size_t i = 0; i < r->in->flags.n; i++) {
		const char *flag = r->in->flags.v[i];
		auto_call(run_mount_done) struct run_mount m = RUN_MOUNT_INIT;
		int x = 0;

		if (strncmp(flag, "--mount=", 8) == 0) {
			x = run_mount_parse(flag + 8, &e, &m, err);
			if (x == 0)
				x = add_mount(r, &m, err);
		} else if (strncmp(flag, "--device=", 9) == 0) {
			strv_addf(&r->exec.devices, "%.*s", (int)strcspn(flag + 9, ","), flag + 9);
		}
		if (x < 0)
			return mlr_wrap(err, "RUN %s", flag);
	}
	return 0;
}

/* --- the container ------------------------------------------------------------ */

/* In the child: become the command. */
static void become(struct running *r)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct plan p = { 0 };
	int e;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a build that is killed leaves nothing running */
	if (r->output >= 0) {
		dup2(r->output, STDOUT_FILENO);
		dup2(r->output, STDERR_FILENO);
	} else {
		dup2(STDERR_FILENO, STDOUT_FILENO);
	}
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	e = exec_plan(&r->exec, 1, &p, &err);
	if (e == 0)
		e = runtime_enter(&p, &err);
	if (e == 0)
		e = runtime_exec(&p, &err);
	mlr_log_error(&err);
	_exit(e == -ENOENT ? 127 : 126);
}

/* Start the command and wait. Returns its status as a shell has it. */
static int run_command(struct running *r, int is_shell, struct mlr_error *err)
{
	auto_close int null = is_shell ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return mlr_fail_errno(err, "start a process");
	if (pid == 0) {
		if (null >= 0)
			dup2(null, STDIN_FILENO);
		become(r);
	}
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return mlr_fail_errno(err, "wait for a process");
		if (r->b->o->cancel && __atomic_load_n(r->b->o->cancel, __ATOMIC_RELAXED))
			kill(pid, SIGTERM);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* With -q, show the end of what the command printed. */
static void show_tail(const struct running *r)
{
	auto_free char *buf = xmalloc(TAIL_SIZE + 1);
	off_t end = r->output < 0 ? 0 : lseek(r->output, 0, SEEK_END);
	off_t from = end > (off_t)TAIL_SIZE ? end - (off_t)TAIL_SIZE : 0;
	ssize_t n = end > 0 ? pread(r->output, buf, TAIL_SIZE, from) : 0;

	if (n > 0)
		(void)!write(STDERR_FILENO, buf, (size_t)n);
}

/* A shell in the container of the failed command, with what that has written. */
static void open_shell(struct running *r)
{
	if (r->output >= 0)
		close(r->output);
	r->output = -1;
	strv_done(&r->argv);
	strv_add(&r->argv, "/bin/sh");
	r->exec.command = strv_argv(&r->argv);
	mlr_info("the command failed: this is a shell in its container; exit ends the build");
	(void)run_command(r, 1, NULL);
}

static int failed(struct running *r, int status, struct mlr_error *err)
{
	show_tail(r);
	mlr_fail(err, ECHILD, "RUN ended with status %d: %.300s", status, r->argv.v[r->argv.n - 1]);
	mlr_hint(err, "a shell at that point: mlrun shell --fakeroot --store '%s' %s",
		store_path(r->b->o->st), r->s->manifest);
	if (r->b->o->shell_on_failure)
		open_shell(r);
	return -ECHILD;
}

static int keep(struct running *r, struct mlr_error *err)
{
	const struct rootfs_writing how = { .uid = (uint32_t)r->uid,
		.gid = (uint32_t)r->gid,
		.newest = r->b->o->epoch,
		.cancel = r->b->o->cancel };
	struct rootfs_written w = { .diff_id = "" };
	int e = rootfs_commit_layer(
		r->b->o->st, r->container, &r->s->parsed.diff_ids, &how, &w, err);

	strv_done(&w.omitted);
	return e < 0 ? e : build_add_layer(r->b, r->s, r->in, w.diff_id, w.bytes, err);
}

static int in_container(struct running *r, struct mlr_error *err)
{
	auto_call(store_container_done) struct store_container c = { 0 };
	struct store *st = r->b->o->st;
	int made, status;
	int e = store_container_open(
		st, r->container, r->s->manifest, r->s->manifest, &c, &made, err);

	if (e < 0)
		return e;
	status = run_command(r, 0, err);
	if (status == 0)
		status = keep(r, err);
	else if (status > 0)
		status = failed(r, status, err);
	store_container_leave(st, r->container);
	e = store_container_remove(st, r->container, 1, status < 0 ? NULL : err);
	return status < 0 ? status : e;
}

static int prepare(struct running *r, struct mlr_error *err)
{
	const char *network = instruction_flag(r->in, "--network");
	struct exec_options *x = &r->exec;
	char random[RANDOM_HEX_SIZE];
	int e;

	if (!network || strcmp(network, "default") == 0)
		network = r->b->o->network;
	set_command(r);
	x->workdir = r->s->parsed.working_dir && *r->s->parsed.working_dir
		? r->s->parsed.working_dir
		: "/";
	add_ca(r);
	add_configured(r);
	set_env(r);
	e = add_flags(r, err);
	if (e < 0)
		return e;
	random_hex(random);
	snprintf(r->container, sizeof(r->container), "build-%s", random);
	x->store = store_path(r->b->o->st);
	x->command = strv_argv(&r->argv);
	x->entrypoint = "";
	x->write = r->container;
	x->gpu = "none";
	x->mpi = EXEC_MPI_NONE;
	x->home = EXEC_NO;
	x->apart = x->init = 1;
	x->no_network = network && strcmp(network, "none") == 0;
	x->user = r->s->parsed.user && *r->s->parsed.user &&
			strcmp(r->s->parsed.user, "root") != 0 &&
			strcmp(r->s->parsed.user, "0") != 0
		? r->s->parsed.user
		: NULL;
	x->fakeroot = !x->user;
	return 0;
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

/* New files belong to the image's USER. */
static int find_user(struct running *r, struct mlr_error *err)
{
	auto_call(plan_done) struct plan p = { 0 };
	int e = r->exec.user ? state_plan(r->s, r->b->o->st, &p, err) : 0;

	if (e == 0 && r->exec.user)
		e = build_ids(&p, r->exec.user, &r->uid, &r->gid, err);
	return e < 0 ? mlr_wrap(err, "USER %s", r->exec.user) : 0;
}

int build_run_step(
	struct build *b, struct state *s, const struct instruction *in, struct mlr_error *err)
{
	auto_call(running_done) struct running r = { .b = b, .s = s, .in = in, .output = -1 };
	int e = prepare(&r, err);

	if (e < 0)
		return e;
	mix(&r);
	e = build_cached(b, s, in, err);
	if (e != 0)
		return e < 0 ? e : 0;
	if (b->o->is_quiet)
		r.output = memfd_create("mlrun-build", MFD_CLOEXEC);
	e = find_user(&r, err);
	if (e == 0)
		e = state_image(s, b->o->st, err);
	if (e < 0)
		return e;
	r.exec.image = s->manifest;
	return in_container(&r, err);
}
