#include "exec/exec.h"

#include "exec/parts.h"
#include "exec/users_mounts.h"
#include "cdi/cdi.h"
#include "gpu/gpu.h"
#include "job/job.h"
#include "mpi/mpi.h"
#include "rootfs/kept.h"
#include "rootfs/lookup.h"
#include "rootfs/rootfs.h"
#include "runtime/masks.h"
#include "store/container.h"

#define HOSTS_MAX  (16u << 20) /* bytes */
#define SCRIPT_MAX (1u << 20)

/*
 * The default mounts. Host files that a site may lack are optional. Files in the image's own
 * directories come first, before a host directory exists that a link of the image could lead to.
 */
static const struct {
	enum plan_kind kind;
	const char *source, *target;
	unsigned flags;
} default_mounts[] = {
	{ PLAN_COPY, "/etc/resolv.conf", "/etc/resolv.conf", PLAN_OPTIONAL },
	{ PLAN_COPY, "/etc/hosts", "/etc/hosts", PLAN_OPTIONAL },
	{ PLAN_COPY, "/etc/localtime", "/etc/localtime", PLAN_OPTIONAL },
	{ PLAN_BIND, "/proc", "/proc", 0 },
	{ PLAN_BIND, "/sys", "/sys", PLAN_OPTIONAL },
	{ PLAN_TMPFS, NULL, "/dev", 0 },
	{ PLAN_BIND, "/dev", "/dev", 0 },
	{ PLAN_BIND, "/dev/null", "/dev/null", 0 },
	{ PLAN_BIND, "/dev/zero", "/dev/zero", 0 },
	{ PLAN_BIND, "/dev/full", "/dev/full", PLAN_OPTIONAL },
	{ PLAN_BIND, "/dev/random", "/dev/random", 0 },
	{ PLAN_BIND, "/dev/urandom", "/dev/urandom", 0 },
	{ PLAN_BIND, "/dev/tty", "/dev/tty", PLAN_OPTIONAL },
	{ PLAN_BIND, "/dev/shm", "/dev/shm", PLAN_OPTIONAL },
	{ PLAN_BIND, "/dev/mqueue", "/dev/mqueue", PLAN_OPTIONAL },
	{ PLAN_SYMLINK, "pts/ptmx", "/dev/ptmx", 0 },
	{ PLAN_SYMLINK, "/proc/self/fd", "/dev/fd", 0 },
	{ PLAN_SYMLINK, "/proc/self/fd/0", "/dev/stdin", 0 },
	{ PLAN_SYMLINK, "/proc/self/fd/1", "/dev/stdout", 0 },
	{ PLAN_SYMLINK, "/proc/self/fd/2", "/dev/stderr", 0 },
	{ PLAN_BIND, "/tmp", "/tmp", 0 },
	{ PLAN_BIND, "/var/tmp", "/var/tmp", PLAN_OPTIONAL },
};

/*
 * Mount pseudo-terminals: the host's if its /dev/pts/ptmx can be opened. systemd closes it, and
 * /dev/ptmx works only beside its own devpts. In that case, and in a build, where nobody may read
 * what the caller types at the host's, the container has its own devpts; the
 * caller's terminal, missing there, becomes /dev/console, where ttyname(3) finds it.
 */
static int plan_terminals(const struct exec_options *o, struct plan *p, struct mlr_error *err)
{
	const char *tty = NULL;
	int r;

	if (exec_is_without(o, "/dev/pts"))
		return 0;
	if (!o->apart && access("/dev/pts/ptmx", R_OK | W_OK) == 0)
		return exec_dialect_of(o)->hosts_dev
			? 0
			: plan_mount_add(
				  p, PLAN_BIND, "/dev/pts", "/dev/pts", 0, PLAN_FROM_DEFAULT, err);
	for (int fd = 0; fd <= 2 && !tty; fd++)
		tty = ttyname(fd);
	r = plan_mount_add(p, PLAN_DEVPTS, NULL, "/dev/pts", 0, PLAN_FROM_DEFAULT, err);
	if (r == 0 && tty)
		r = plan_mount_add(
			p, PLAN_BIND, tty, "/dev/console", PLAN_OPTIONAL, PLAN_FROM_DEFAULT, err);
	return r;
}

/* The kind of a default mount if the container has namespaces of its own. */
static enum plan_kind kind_of(const struct exec_options *o, enum plan_kind kind, const char *target)
{
	if (o->ipc && strcmp(target, "/dev/shm") == 0)
		return PLAN_TMPFS;
	if (o->ipc && strcmp(target, "/dev/mqueue") == 0)
		return PLAN_MQUEUE;
	if (o->no_network && strcmp(target, "/sys") == 0)
		return PLAN_SYSFS;
	/* The host's would show other pids. */
	if ((o->pid || o->init) && strcmp(target, "/proc") == 0)
		return PLAN_PROC;
	return kind;
}

/* Write the host's /etc/hosts with the container's name, which programs look up to find their
 * address. */
static int plan_hosts(struct plan *p, struct mlr_error *err)
{
	auto_free char *host = NULL, *text = NULL;

	if (file_read(AT_FDCWD, "/etc/hosts", HOSTS_MAX, &host, NULL, NULL) < 0)
		host = xstrdup("127.0.0.1\tlocalhost\n");
	text = xasprintf("%s%s127.0.1.1\t%s\n", host,
		*host && host[strlen(host) - 1] != '\n' ? "\n" : "", p->hostname);
	return plan_file_add(p, text, strlen(text), "/etc/hosts", PLAN_FROM_DEFAULT, err);
}

int exec_is_without(const struct exec_options *o, const char *target)
{
	for (size_t i = 0; i < o->without.n; i++)
		if (path_below(target, o->without.v[i]))
			return 1;
	return 0;
}

/* Is this default mount not for this container? The host's whole /dev takes the place of single
 * devices. */
static int is_left_out(const struct exec_options *o, enum plan_kind kind, const char *target)
{
	static const char *const names[] = { "/etc/localtime", "/tmp" };
	const struct dialect *d = exec_dialect_of(o);

	if (exec_is_without(o, target))
		return 1;
	if (d->hosts_dev && path_below(target, "/dev") && access(target, F_OK) < 0)
		return 1;
	if (kind == kind_of(o, kind, target) && path_below(target, "/dev"))
		return d->hosts_dev != (kind == PLAN_BIND && strcmp(target, "/dev") == 0);
	if (strcmp(target, "/var/tmp") == 0)
		return !d->var_tmp;
	for (size_t i = 0; o->apart && i < ARRAY_LEN(names); i++)
		if (strcmp(target, names[i]) == 0)
			return 1;
	return 0;
}

static int plan_default(
	const struct exec_options *o, size_t i, struct plan *p, struct mlr_error *err)
{
	const char *target = default_mounts[i].target;
	enum plan_kind kind = kind_of(o, default_mounts[i].kind, target);
	int made = kind != default_mounts[i].kind;

	if (is_left_out(o, default_mounts[i].kind, target))
		return 0;
	if (p->hostname && strcmp(target, "/etc/hosts") == 0)
		return plan_hosts(p, err);
	TRY(plan_mount_add(p, kind, made ? NULL : default_mounts[i].source, target,
		made ? 0 : default_mounts[i].flags, PLAN_FROM_DEFAULT, err));
	if (made && kind == PLAN_TMPFS)
		p->mounts[p->n_mounts - 1].options = xstrdup("mode=1777");
	/* Control groups that are delegated to the caller are no business of a recipe's. */
	if (o->apart && strcmp(target, "/sys") == 0)
		p->mounts[p->n_mounts - 1].flags |= PLAN_READONLY;
	return 0;
}

static int plan_defaults(const struct exec_options *o, struct plan *p, struct mlr_error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(default_mounts); i++) {
		TRY(plan_default(o, i, p, err));
		/* Before a host directory exists that a link of the image could lead to. */
		TRY(strcmp(default_mounts[i].target, "/sys") == 0 ? masks_plan(p, err) : 0);
	}
	return plan_terminals(o, p, err);
}

/* Combine Entrypoint and Cmd like docker-run(1): the user's entrypoint or command replaces the
 * image's Cmd. */
static int plan_command(const struct exec_options *o, const struct oci_config *c, struct plan *p,
	struct mlr_error *err)
{
	int own = o->command && *o->command;
	int is_script = o->script && rootfs_has(p, o->script) == 0;

	p->argv_origin = own || o->entrypoint ? PLAN_FROM_USER : PLAN_FROM_IMAGE;
	if (o->script && !is_script && c->entrypoint.n == 0 && c->cmd.n == 0)
		strv_add(&p->argv, "/bin/sh");
	if (is_script) {
		auto_free char *text = NULL;

		/* One that names no program to read it is sh's. */
		if (rootfs_read(p, o->script, SCRIPT_MAX, &text, NULL) == 0 &&
			isprint((unsigned char)*text) && strncmp(text, "#!", 2) != 0)
			strv_add(&p->argv, "/bin/sh");
		strv_add(&p->argv, o->script);
	} else if (o->entrypoint) {
		if (*o->entrypoint)
			strv_add(&p->argv, o->entrypoint);
	} else if (c->entrypoint.n != 1 ||
		*c->entrypoint.v[0]) { /* [""] is no entrypoint, as in Docker */
		strv_add_all(&p->argv, &c->entrypoint);
	}
	if (own)
		for (char *const *s = o->command; *s; s++)
			strv_add(&p->argv, *s);
	else if (!o->entrypoint && !is_script)
		strv_add_all(&p->argv, &c->cmd);

	if (p->argv.n == 0 || !*p->argv.v[0]) {
		mlr_fail(err, EINVAL, "no command was given and the image names none");
		return mlr_hint(err, "mlrun exec %s COMMAND", o->image);
	}
	return 0;
}

/* PMI-1 and PMI-2 use an inherited socket. Only the launcher's variable counts: one in the image
 * would name an unrelated descriptor of the caller. */
static void plan_pmi_fd(struct plan *p)
{
	const char *text = plan_env_get(p, "PMI_FD");
	char *end;
	long fd;
	int flags;

	if (!text || plan_env_origin(p, "PMI_FD") == PLAN_FROM_IMAGE)
		return;
	fd = strtol(text, &end, 10);
	if (!*text || *end || fd <= 2 || fd >= 1 << 20)
		return;
	/* A closed one belongs to another job whose environment was passed on. One with
	 * close-on-exec was not inherited, but is mlrun's own. */
	flags = fcntl((int)fd, F_GETFD);
	if (flags >= 0 && !(flags & FD_CLOEXEC))
		plan_keep_fd(p, (int)fd);
}

/* Decide which processes share a container. A PID namespace ends with its first process, so nobody
 * joins one unasked. */
static void plan_share(const struct exec_options *o, struct plan *p)
{
	if (o->join_tag)
		p->share = xasprintf("tag %s", o->join_tag);
	else if (!p->share && o->mpi != EXEC_MPI_NONE && !(p->namespaces & PLAN_NS_PID))
		p->share = job_step(environ);
	p->enters_any = exec_dialect_of(o)->enters_kept && p->kept;
	p->commands = exec_dialect_of(o)->enters_kept ? getcwd(NULL, 0) : NULL;
	mpi_plan(environ, p);
	if (o->mpi != EXEC_MPI_NONE)
		mpi_world_plan(environ, p);
}

/* A user's empty directory over /tmp would hide the caller's directory in it. */
static int plan_caller_dir_again(struct plan *p, struct mlr_error *err)
{
	const struct plan_mount *top = NULL;

	for (size_t i = 0; i < p->n_mounts; i++)
		if (path_below(p->workdir, p->mounts[i].target))
			top = &p->mounts[i];
	if (p->workdir_origin != PLAN_FROM_CALLER || !top || top->kind != PLAN_TMPFS ||
		top->origin != PLAN_FROM_USER || strcmp(top->target, p->workdir) == 0)
		return 0;
	return plan_mount_add(p, PLAN_BIND, p->workdir, p->workdir, 0, PLAN_FROM_DEFAULT, err);
}

static int open_in_image(void *ctx, const char *path)
{
	return rootfs_open(ctx, path);
}

static int has_in_image(void *ctx, const char *path)
{
	return rootfs_has(ctx, path);
}

static void expect_in_image(void *ctx, enum gpu_look what, const char *path)
{
	if (what == GPU_LOOK_OPEN)
		rootfs_expect_open(ctx, path);
	else
		rootfs_expect_list(ctx, path);
}

static int list_in_image(void *ctx, const char *path, struct strv *ret)
{
	return rootfs_list(ctx, path, ret);
}

/* Does --device name the GPUs? Then --gpu must not add them again, or others. */
static int are_gpus_named(const struct exec_options *o, const struct strv *cdi, struct plan *p)
{
	if (o->gpu && (!o->gpu_origin || o->gpu_origin == PLAN_FROM_USER))
		return 0;
	for (size_t i = 0; i < cdi->n; i++)
		if (cdi_is_gpu(cdi->v[i])) {
			plan_remark_add(p, PLAN_FROM_CDI,
				"--device %s says which GPUs there are; --gpu adds to them",
				cdi->v[i]);
			return 1;
		}
	return 0;
}

struct gpu_image exec_gpu_image(struct plan *p)
{
	return (struct gpu_image){ .open = open_in_image,
		.list = list_in_image,
		.has = has_in_image,
		.expect = expect_in_image,
		.ctx = p };
}

static int plan_gpus(const struct exec_options *o, const struct strv *env,
	const struct gpu_image *image, struct plan *p, struct mlr_error *err)
{
	int is_wish = exec_dialect_of(o)->gpu_is_wish;
	const struct gpu_request q = { .word = o->gpu,
		.origin = is_wish ? PLAN_FROM_DEFAULT : o->gpu_origin,
		.caller = environ,
		.image_env = env,
		.image = image,
		.plan_cdi = cdi_plan };
	auto_strv struct strv cdi = STRV_INIT;
	size_t before = p->n_mounts;
	int r;

	device_cdi_names(&o->devices, &cdi);
	TRY(are_gpus_named(o, &cdi, p) ? 0 : gpu_plan(&q, p, err));
	if (is_wish && o->gpu && strcmp(o->gpu, "none") != 0 && p->n_mounts == before)
		strv_add(&p->notes, "this machine or job has no GPU: the command starts without");
	r = cdi_plan(&cdi, image, p, err);
	return r < 0 ? (mlr_wrap(err, "--device"), r) : 0;
}

/* The machine's MPI; a step of a build gets nothing of the machine's. */
static int plan_hosts_mpi(const struct exec_options *o, const struct gpu_image *image,
	struct plan *p, struct mlr_error *err)
{
	const struct mpi_host_request q = { .level = o->mpi_level,
		.config = o->config,
		.env = environ,
		.image = image,
		.is_wish = o->mpi_is_wish };

	return o->mpi == EXEC_MPI_HOST && !o->apart ? mpi_host_plan(&q, p, err) : 0;
}

/* The mounts of configuration and options. They are read before the image is searched for, so that
 * errors appear before an image is fetched for an hour. */
struct asked_mounts {
	struct plan configured, users; /* mounts only */
};

static void asked_mounts_done(struct asked_mounts *m)
{
	plan_done(&m->configured);
	plan_done(&m->users);
}

static int plan_rest(const struct exec_options *o, const struct oci_config *c,
	struct asked_mounts *m, struct plan *p, struct mlr_error *err)
{
	auto_free char *home = caller_home();
	const struct gpu_image image = exec_gpu_image(p);
	int image_home = 0;

	if (o->user)
		TRY(user_plan(o->user, p, &image_home, err));
	TRY(plan_defaults(o, p, err));
	TRY(caller_plan_home(o, home, image_home, p, err));
	plan_share(o, p);
	TRY(environment_plan(o, environ, &c->env, p, err));
	TRY(plan_gpus(o, &c->env, &image, p, err));
	TRY(plan_hosts_mpi(o, &image, p, err));
	plan_mounts_move(&m->configured, p);
	TRY(caller_plan_workdir(o, c, home, &m->users, p, err));
	plan_mounts_move(&m->users, p);
	TRY(plan_caller_dir_again(p, err));
	TRY(p->root == PLAN_ROOT_ITSELF ? in_place_plan(p, err) : 0);
	caller_keep_workdir(o, p);
	if (p->root != PLAN_ROOT_ITSELF) /* it would get a directory for them */
		TRY(certificates_plan(o, p, err));
	environment_drop_unmounted(p);
	mpi_data_plan(environ, p);
	plan_pmi_fd(p);
	TRY(plan_command(o, c, p, err));
	return gpu_link(&image, p, err);
}

/* Refuse contradicting options and invalid values. */
static int check_options(const struct exec_options *o, struct mlr_error *err)
{
	auto_free char *workdir = o->workdir ? path_clean(o->workdir) : NULL;

	if (o->workdir && *o->workdir && !workdir)
		return mlr_fail(err, EINVAL,
			"-w '%s': expected an absolute path inside the container", o->workdir);
	if (o->write && o->read_only)
		return mlr_fail(err, EINVAL, "--write and --read-only exclude each other");
	/* As from an unset variable: unrelated jobs would meet. */
	if (o->join_tag && !*o->join_tag)
		return mlr_fail(err, EINVAL, "--join-tag: the word is empty");
	if ((o->until_job_ends || o->write_if) && !o->write)
		return mlr_fail(err, EINVAL, "%s is about the container of --write",
			o->write_if ? "--write-if" : "--until-job-ends");
	if (o->write && o->join_tag)
		return mlr_fail(err, EINVAL,
			"--write and --join-tag exclude each other: all on this node that name a "
			"container are in it anyway");
	return o->write && *o->write ? store_container_name_check(o->write, err) : 0;
}

static int check_cdi(const struct exec_options *o, struct mlr_error *err)
{
	auto_strv struct strv cdi = STRV_INIT;
	int r;

	device_cdi_names(&o->devices, &cdi);
	r = cdi_check(&cdi, err);
	return r < 0 ? (mlr_wrap(err, "--device"), r) : 0;
}

static int fetch_image(const struct exec_options *o, struct mlr_error *err)
{
	TRY(check_cdi(o, err));
	return o->fetch(o);
}

static int plan_kept(const struct exec_options *o, int lease, struct plan *p,
	struct store_facts *facts, struct mlr_error *err)
{
	char job[JOB_NAME_SIZE] = "";
	auto_free char *step = job_step(environ);
	struct rootfs_kept_wish wish = {
		.name = o->write, .step = step, .how = o->write_if, .can_hold = exec_store_keeps
	};

	if (o->until_job_ends || o->write_is_passing)
		job_name(job);
	if (o->until_job_ends && !*job) {
		mlr_fail(err, EINVAL, "--until-job-ends works only inside a Slurm job");
		return mlr_hint(err,
			"inside sbatch, salloc or srun; without it, mlrun containers rm "
			"removes the container");
	}
	wish.job = *job || o->write_is_passing || exec_dialect_of(o)->enters_kept ? job : NULL;
	return rootfs_kept_plan(o->store, o->config, o->image, &wish, lease, p, facts, err);
}

static int plan_root(const struct exec_options *o, int lease, struct plan *p,
	struct store_facts *facts, struct mlr_error *err)
{
	return o->write ? plan_kept(o, lease, p, facts, err)
			: rootfs_plan(o->store, o->config, o->image, lease, p, facts, err);
}

/* Find the image's root; fetch an image that no store has. */
static int find_root(const struct exec_options *o, int lease, struct plan *p,
	struct store_facts *facts, struct mlr_error *err)
{
	int always = o->fetch && o->pull == EXEC_PULL_ALWAYS;
	int r = always ? fetch_image(o, err) : 0;

	if (r == 0)
		r = plan_root(o, lease, p, facts, err);
	/* A partly found root belongs to a damaged image: do not add its layers twice. */
	if (r != -ENOENT || always || !o->fetch || p->lowers.n || p->squashfs)
		return r;
	r = fetch_image(o, err);
	if (r != 0)
		return r;
	free(p->image);
	return plan_root(o, lease, p, facts, err);
}

/* Add a directory of --overlay: it is seen above the image and earlier ones, or written to. */
static int plan_overlay(const char *text, struct plan *p, struct mlr_error *err)
{
	int is_read = path_ends(text, ":ro");
	auto_free char *name = xstrndup(text, strlen(text) - (is_read ? 3 : 0));
	auto_free char *path = realpath(name, NULL),
		       *upper = xasprintf("%s/upper", path ? path : "");
	struct stat st;

	if (!path) {
		mlr_fail_errno(err, "--overlay '%s'", name);
		return mlr_hint(err, "it takes a directory, which is written to: mkdir %s", name);
	}
	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
		mlr_fail(err, ENOTDIR, "--overlay '%s' is not a directory", name);
		return mlr_hint(
			err, "debugfs -R 'rdump / DIR' %s makes one of an ext3 image", name);
	}
	if (is_read) {
		strv_add(&p->lowers, access(upper, F_OK) == 0 ? upper : path);
		for (size_t i = p->lowers.n - 1; i > 0; i--) {
			char *above = p->lowers.v[i];

			p->lowers.v[i] = p->lowers.v[i - 1];
			p->lowers.v[i - 1] = above;
		}
		return 0;
	}
	if (p->kept) {
		mlr_fail(err, EINVAL, "--overlay '%s': one is written to already", name);
		return mlr_hint(err, "--overlay %s:ro adds what is in it", name);
	}
	p->kept = take_ptr(&path);
	p->root = PLAN_ROOT_KEPT;
	return 0;
}

/* Have what is written kept in the user's directory, or in the image itself. */
static int plan_writes(const struct exec_options *o, struct plan *p, struct mlr_error *err)
{
	if (o->in_place && (p->squashfs || p->lowers.n != 1 || access(p->lowers.v[0], W_OK) < 0)) {
		mlr_fail(err, EROFS, "only a plain directory of yours can be written to");
		return mlr_hint(err, "apptainer build --sandbox DIR %s makes one",
			p->squashfs ? p->squashfs : "IMAGE");
	}
	if (o->in_place)
		p->root = PLAN_ROOT_ITSELF;
	for (size_t i = 0; i < o->overlays.n; i++)
		TRY(plan_overlay(o->overlays.v[i], p, err));
	return 0;
}

static int plan_image(
	const struct exec_options *o, int lease, struct plan *p, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts facts = { 0 };
	auto_call(asked_mounts_done) struct asked_mounts m = { 0 };
	auto_strv struct strv scripts = STRV_INIT;
	struct exec_options with_labels = *o;
	int r;

	p->root = o->read_only ? PLAN_ROOT_READ_ONLY : PLAN_ROOT_MEMORY;
	caller_identity(p, o->fakeroot);
	r = confinement_plan(o, p, err);
	if (r == 0)
		r = defaults_volumes(o->config, &m.configured, err);
	if (r == 0)
		r = users_mounts_plan(o, &m.users, err);
	if (r == 0)
		r = find_root(o, lease, p, &facts, err);
	if (r == 0)
		r = architecture_check("/", p, err);
	if (r == 0)
		r = plan_writes(o, p, err);
	if (r != 0)
		return r;
	labels_read(&facts.config.labels, &with_labels, p);
	if (!o->apart)
		scripts_read(p, &facts.config, &scripts);
	TRY(plan_rest(&with_labels, &facts.config, &m, p, err));
	scripts_plan(o, &scripts, p);
	return 0;
}

static int plan_joined(const struct exec_options *o, struct plan *p, struct mlr_error *err)
{
	auto_strv struct strv scripts = STRV_INIT;

	TRY(join_plan(o, p, &scripts, err));
	TRY(confinement_plan(o, p, err));
	scripts_plan(o, &scripts, p);
	return 0;
}

int exec_plan(const struct exec_options *o, int lease, struct plan *p, struct mlr_error *err)
{
	int r;

	r = check_options(o, err);
	if (r == 0)
		r = confinement_fds(o, p, err);
	if (r == 0)
		r = o->join ? plan_joined(o, p, err) : plan_image(o, lease, p, err);
	if (r >= 0)
		return r;
	return o->join ? mlr_wrap(err, "exec --join %ld", (long)o->join)
		       : mlr_wrap(err, "exec '%s'", o->image);
}
