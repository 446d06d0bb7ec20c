#include "cdi/hook.h"

#include "gpu/elf.h"
#include "gpu/inject/compat.h"
#include "gpu/nvidia/nvidia.h"

/*
 * Adds the links that hooks of CDI files request, and the libraries in mounted directories, to a
 * plan.
 */

/* internal/discover/ldconfig.go */
static int is_library(const char *name)
{
	const char *so = strstr(name, ".so");

	return strncmp(name, "lib", 3) == 0 && so > name + 3 && (!so[3] || so[3] == '.');
}

/* The topmost entry that covers path. */
static const struct plan_mount *top_at(const struct plan *p, const char *path)
{
	const struct plan_mount *top = NULL;

	for (size_t i = 0; i < p->n_mounts; i++)
		if (plan_kind_covers(p->mounts[i].kind) && path_below(path, p->mounts[i].target))
			top = &p->mounts[i];
	return top;
}

/* Does path lie in a directory bound from the host, where nothing is created? */
static int is_on_host(struct cdi_job *job, const struct plan_mount *on, const char *path)
{
	auto_free char *host =
		on && on->source ? xasprintf("%s%s", on->source, path + strlen(on->target)) : NULL;
	struct stat st;

	if (!host || on->kind == PLAN_TMPFS)
		return 0;
	if (lstat(host, &st) < 0)
		plan_remark_add(job->p, PLAN_FROM_CDI,
			"cannot make the link '%s' in the host's '%s'", path, on->source);
	return 1;
}

/*
 * Add a symbolic link to text at the container's path where.
 *
 * In a directory bound from the host nothing is created; a remark names a link that is missing.
 * Returns 0, or the failure of plan_mount_add().
 */
static int cdi_link_add(struct cdi_job *job, const char *text, const char *where)
{
	auto_free char *absolute = xasprintf("/%s", where), *path = path_clean(absolute);

	strv_add_words(&job->links, path, text);
	if (is_on_host(job, top_at(job->p, path), path) ||
		cdi_is_planned(job->p, PLAN_SYMLINK, text, path))
		return 0;
	return plan_mount_add(
		job->p, PLAN_SYMLINK, text, path, PLAN_REPLACE, PLAN_FROM_CDI, job->err);
}

static int has_link(const struct cdi_job *job, const char *path)
{
	for (size_t i = 0; i < job->links.n; i += 2)
		if (strcmp(job->links.v[i], path) == 0)
			return 1;
	return 0;
}

/* Does the entry mount a host's library directly in folder? */
static int is_library_in(const struct plan_mount *m, const char *folder)
{
	auto_free char *dir = path_dir(m->target);

	return m->kind == PLAN_BIND && m->origin == PLAN_FROM_CDI && strcmp(dir, folder) == 0 &&
		is_library(path_base(m->target));
}

/* Add the link from a library's SONAME to its file, as ldconfig(8) would. */
static int add_soname_link(struct cdi_job *job, const struct plan_mount *m)
{
	auto_call(gpu_elf_done) struct gpu_elf elf = { 0 };
	auto_close int fd = open(m->source, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	/* Copies: adding moves the entries. */
	auto_free char *dir = path_dir(m->target), *name = xstrdup(path_base(m->target)),
		       *path = NULL;

	if (fd < 0 || gpu_elf_read(fd, &elf) < 0 || !elf.soname || strchr(elf.soname, '/') ||
		strcmp(elf.soname, name) == 0)
		return 0;
	path = xasprintf("%s/%s", dir, elf.soname);
	return has_link(job, path) ? 0 : cdi_link_add(job, name, path);
}

/* Add links by SONAME to the libraries mounted directly in folder, a clean path. */
static int cdi_soname_links_add(struct cdi_job *job, const char *folder)
{
	for (size_t i = 0; i < job->p->n_mounts; i++)
		if (is_library_in(&job->p->mounts[i], folder))
			TRY(add_soname_link(job, &job->p->mounts[i]));
	return 0;
}

/* Add a host's library, mounted at path, to the linker's cache. */
static void add_library(struct cdi_job *job, const char *source, const char *path)
{
	auto_call(gpu_elf_done) struct gpu_elf elf = { 0 };
	auto_close int fd = open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd >= 0 && gpu_elf_read(fd, &elf) == 0)
		plan_library_add(job->p, elf.soname ? elf.soname : path_base(path), path, elf.bits,
			PLAN_FROM_CDI);
}

/* Add the libraries in folder, which a mounted directory contains. */
static void add_libraries_below(struct cdi_job *job, const struct plan_mount *m, const char *folder)
{
	auto_free char *host = xasprintf("%s%s", m->source, folder + strlen(m->target));
	auto_call(gpu_dir_close) struct gpu_dir dir = GPU_DIR_INIT;
	auto_strv struct strv names = STRV_INIT;

	if (gpu_dir_open(host, &dir) < 0 || gpu_dir_list(&dir, "/", &names) < 0)
		return;
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *source = xasprintf("%s/%s", host, names.v[i]);
		auto_free char *path = xasprintf("%s/%s", folder, names.v[i]);

		if (is_library(names.v[i]))
			add_library(job, source, path);
	}
}

/* Find one of the plan's libraries by its file name or SONAME; NULL. */
static const struct plan_library *find_library(const struct plan *p, const char *name)
{
	for (size_t i = 0; i < p->n_libraries; i++)
		if (strcmp(path_base(p->libraries[i].path), name) == 0 ||
			strcmp(p->libraries[i].name, name) == 0)
			return &p->libraries[i];
	return NULL;
}

static void add_links(struct cdi_job *job, const char *folder)
{
	for (size_t i = 0; i < job->links.n; i += 2) {
		auto_free char *dir = path_dir(job->links.v[i]);
		const struct plan_library *l = strcmp(dir, folder) == 0
			? find_library(job->p, path_base(job->links.v[i + 1]))
			: NULL;

		if (l) {
			/* A copy: adding may move l. */
			auto_free char *path = xstrdup(l->path);

			plan_library_add(
				job->p, path_base(job->links.v[i]), path, l->bits, PLAN_FROM_CDI);
		}
	}
}

/* Add the libraries in a mounted folder, or mounted in it, and the links to them, to the linker's
 * cache. */
static void cdi_libraries_add(struct cdi_job *job, const char *folder)
{
	for (size_t i = 0; i < job->p->n_mounts; i++) {
		const struct plan_mount *m = &job->p->mounts[i];

		if (is_library_in(m, folder))
			add_library(job, m->source, m->target);
		else if (m->kind == PLAN_BIND && m->origin == PLAN_FROM_CDI &&
			path_below(folder, m->target))
			add_libraries_below(job, m, folder);
	}
	add_links(job, folder);
}

#define PROC_DIR "/proc/driver/nvidia"
#define PROFILE  "/etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf"

/* A hook's name and its options; each takes a value. */
struct known {
	const char *name;
	const char *options[5];
	int (*plan)(struct cdi_job *job, const struct known *k, const struct cdi_hook *h);
};

/* The index of the argument that names the hook; 0: an unknown program. */
static size_t find_name(const struct cdi_hook *h)
{
	static const struct {
		const char *program;
		const char *before[3]; /* words between the program and the hook's name */
	} programs[] = {
		{ "nvidia-cdi-hook", { NULL } },
		{ "nvidia-ctk", { "hook", NULL } },
		{ "mlrun", { "gpu", "hook", NULL } },
	};

	for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
		size_t word = 0, at = 1;

		if (strcmp(path_base(h->path), programs[i].program) != 0)
			continue;
		for (; at < h->args.n; at++) {
			if (h->args.v[at][0] == '-') /* --debug, --quiet */
				continue;
			if (!programs[i].before[word])
				return at;
			if (strcmp(h->args.v[at], programs[i].before[word++]) != 0)
				return 0;
		}
	}
	return 0;
}

/* If arg is the option name, with one dash or two, return what follows it: "=VALUE" or "". */
static const char *option(const char *arg, const char *name)
{
	size_t len = strlen(name);

	if (*arg != '-')
		return NULL;
	arg += arg[1] == '-' ? 2 : 1;
	if (strncmp(arg, name, len) != 0 || (arg[len] && arg[len] != '='))
		return NULL;
	return arg + len;
}

/* The values of an option; commas separate them too. */
static void values(const struct cdi_hook *h, const char *name, struct strv *ret)
{
	for (size_t i = find_name(h) + 1; i < h->args.n; i++) {
		const char *at = option(h->args.v[i], name), *end;

		if (!at)
			continue;
		at = *at ? at + 1 : h->args.v[i + 1] ? h->args.v[++i] : "";
		for (; *at; at = *end ? end + 1 : end) {
			end = at + strcspn(at, ",");
			if (end > at)
				strv_take(ret, xstrndup(at, (size_t)(end - at)));
		}
	}
}

static int create_symlinks(struct cdi_job *job, const struct known *k, const struct cdi_hook *h)
{
	auto_strv struct strv links = STRV_INIT;

	values(h, k->options[0], &links);
	for (size_t i = 0; i < links.n; i++) {
		char *colons = strstr(links.v[i], "::");

		if (!colons || colons == links.v[i] || !colons[2] || strstr(colons + 2, "::"))
			return mlr_fail(job->err, EPROTO,
				"hook create-symlinks: '%s' is not of the form TEXT::PATH",
				links.v[i]);
		*colons = '\0';
		TRY(cdi_link_add(job, links.v[i], colons + 2));
	}
	return 0;
}

/* The hook's folders as clean paths. */
static int folders_of(
	struct cdi_job *job, const struct known *k, const struct cdi_hook *h, struct strv *ret)
{
	auto_strv struct strv folders = STRV_INIT;

	values(h, k->options[0], &folders);
	for (size_t i = 0; i < folders.n; i++) {
		char *folder = path_clean(folders.v[i]);

		if (!folder)
			return mlr_fail(job->err, EPROTO, "hook %s: '%s' is not an absolute path",
				k->name, folders.v[i]);
		strv_take(ret, folder);
	}
	return 0;
}

static int create_soname_links(struct cdi_job *job, const struct known *k, const struct cdi_hook *h)
{
	auto_strv struct strv folders = STRV_INIT;

	TRY(folders_of(job, k, h, &folders));
	for (size_t i = 0; i < folders.n; i++)
		TRY(cdi_soname_links_add(job, folders.v[i]));
	return 0;
}

static int update_ldcache(struct cdi_job *job, const struct known *k, const struct cdi_hook *h)
{
	auto_strv struct strv folders = STRV_INIT;

	TRY(folders_of(job, k, h, &folders));
	for (size_t i = 0; i < folders.n; i++)
		cdi_libraries_add(job, folders.v[i]);
	return 0;
}

static void version_option(const struct cdi_hook *h, const char *name, struct gpu_version *ret)
{
	auto_strv struct strv v = STRV_INIT;

	values(h, name, &v);
	if (v.n)
		gpu_version_parse(v.v[v.n - 1], ret);
}

/* Put a newer library of the image in place of the driver's, under its SONAME and under every
 * link's name that leads to it. */
static void add_compat_library(struct cdi_job *job, const char *dir, const char *name)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);
	auto_call(gpu_elf_done) struct gpu_elf elf = { 0 };
	auto_close int fd = job->image->open(job->image->ctx, path);
	const char *soname;

	if (fd < 0 || gpu_elf_read(fd, &elf) < 0)
		return;
	soname = elf.soname ? elf.soname : name;
	plan_library_add(job->p, soname, path, elf.bits, PLAN_FROM_CDI);
	for (size_t i = 0; i < job->links.n; i += 2)
		if (strcmp(job->links.v[i + 1], soname) == 0)
			plan_library_add(
				job->p, path_base(job->links.v[i]), path, elf.bits, PLAN_FROM_CDI);
}

static int enable_cuda_compat(struct cdi_job *job, const struct known *k, const struct cdi_hook *h)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	auto_call(gpu_compat_done) struct gpu_compat c = { 0 };
	auto_strv struct strv dirs = STRV_INIT;
	char text[GPU_VERSION_TEXT];

	values(h, k->options[2], &dirs);
	version_option(h, k->options[0], &m.driver_version);
	version_option(h, k->options[1], &m.cuda);
	if (!job->image ||
		(!gpu_version_is_known(&m.driver_version) && !gpu_version_is_known(&m.cuda)))
		return 0;
	if (dirs.n && strcmp(dirs.v[0], "/usr/local/cuda/compat") != 0) {
		plan_remark_add(job->p, PLAN_FROM_CDI,
			"ignored CUDA's newer libraries in the image's '%s'", dirs.v[0]);
		return 0;
	}
	m.driver = GPU_DRIVER_NVIDIA;
	m.driver_text = xstrdup(gpu_version_print(&m.driver_version, text));
	if (!gpu_version_is_known(&m.cuda))
		m.cuda = gpu_driver_cuda(&m.driver_version);
	if (gpu_compat_read(job->image, &m, &c) < 0)
		return 0;
	if (c.why)
		plan_remark_add(job->p, PLAN_FROM_CDI, "%s", c.why);
	for (size_t i = 0; c.use && i < c.libraries.n; i++)
		add_compat_library(job, c.dir, c.libraries.v[i]);
	return 0;
}

/* Replace params: a tmpfs covers the directory, and the driver's other files are bound into it. */
static int put_params(struct cdi_job *job, const char *text)
{
	auto_strv struct strv names = STRV_INIT;
	/* With a fake tree the real /proc may lack the directory, and none can be created there. */
	const char *at = access(PROC_DIR, F_OK) == 0 ? PROC_DIR : "/proc/driver";
	int r = plan_mount_add(job->p, PLAN_TMPFS, NULL, at, PLAN_NOSUID | PLAN_NODEV | PLAN_NOEXEC,
		PLAN_FROM_CDI, job->err);

	gpu_dir_list(&job->root, PROC_DIR, &names);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		auto_free char *target = xasprintf(PROC_DIR "/%s", names.v[i]);
		auto_free char *source = xasprintf("%s%s", job->root_path, target);

		if (strcmp(names.v[i], "params") != 0)
			r = plan_mount_add(
				job->p, PLAN_BIND, source, target, 0, PLAN_FROM_CDI, job->err);
	}
	if (r == 0)
		r = plan_file_add(
			job->p, text, strlen(text), PROC_DIR "/params", PLAN_FROM_CDI, job->err);
	return r < 0 ? r : plan_mount_add(job->p, PLAN_SEAL, NULL, at, 0, PLAN_FROM_CDI, job->err);
}

/* The driver's libraries would call mknod(2), and complain that it fails. */
static int keep_nodes(struct cdi_job *job, const struct known *k, const struct cdi_hook *h)
{
	static const char wanted[] = "ModifyDeviceFiles: 1";
	auto_free char *text = gpu_dir_read(&job->root, PROC_DIR "/params");
	char *at = text ? strstr(text, wanted) : NULL;

	if (!at || (at > text && at[-1] != '\n') ||
		cdi_is_planned(job->p, PLAN_FILE, NULL, PROC_DIR "/params"))
		return 0;
	at[sizeof(wanted) - 2] = '0';
	return put_params(job, text);
}

static int write_profile(struct cdi_job *job, const struct known *k, const struct cdi_hook *h)
{
	auto_free char *text = NULL;
	uint64_t mask = 0;

	for (size_t i = 0; i < job->p->n_mounts; i++) {
		const struct plan_mount *m = &job->p->mounts[i];
		const char *digits =
			strncmp(m->target, "/dev/nvidia", 11) == 0 ? m->target + 11 : "";
		char *end;
		unsigned long minor = strtoul(digits, &end, 10);

		if (*digits >= '0' && *digits <= '9' && !*end && minor < 64 &&
			m->origin == PLAN_FROM_CDI)
			mask |= (uint64_t)1 << minor;
	}
	if (!mask || cdi_is_planned(job->p, PLAN_FILE, NULL, PROFILE))
		return 0;
	text = xasprintf(
		"{\"profiles\":[{\"name\":\"_container_\",\"settings\":[\"EGLVisibleDGPUDevices\",0x%llx]}],"
		"\"rules\":[{\"pattern\":[],\"profile\":\"_container_\"}]}",
		(unsigned long long)mask);
	return plan_file_add(job->p, text, strlen(text), PROFILE, PLAN_FROM_CDI, job->err);
}

static int leave_modes(struct cdi_job *job, const struct known *k, const struct cdi_hook *h)
{
	plan_remark_add(job->p, PLAN_FROM_CDI, "ignored the hook chmod: modes stay as they are");
	return 0;
}

static const struct known known[] = {
	{ "create-symlinks", { "link", "container-spec" }, create_symlinks },
	{ "create-soname-symlinks", { "folder", "ldconfig-path", "container-spec" },
		create_soname_links },
	{ "update-ldcache", { "folder", "ldconfig-path", "container-spec" }, update_ldcache },
	{ "enable-cuda-compat",
		{ "host-driver-version", "host-cuda-version", "cuda-compat-container-root",
			"container-spec" },
		enable_cuda_compat },
	{ "disable-device-node-modification", { "container-spec" }, keep_nodes },
	{ "update-application-profile", { "container-spec" }, write_profile },
	{ "chmod", { "mode", "path", "container-spec" }, leave_modes },
};

static const struct known *find(const struct cdi_hook *h)
{
	size_t at = find_name(h);

	for (size_t i = 0; at && i < ARRAY_LEN(known); i++)
		if (strcmp(h->args.v[at], known[i].name) == 0)
			return &known[i];
	return NULL;
}

/* Refuse unknown options: ignoring one could silently change the result. */
static int check_options(const struct cdi_hook *h, const struct known *k, struct mlr_error *err)
{
	for (size_t i = find_name(h) + 1; i < h->args.n; i++) {
		const char *value = NULL;

		for (size_t o = 0; !value && o < ARRAY_LEN(k->options) && k->options[o]; o++)
			value = option(h->args.v[i], k->options[o]);
		if (!value)
			return mlr_fail(err, ENOTSUP, "hook %s: unknown option '%s'", k->name,
				h->args.v[i]);
		i += !*value;
	}
	return 0;
}

int cdi_hook_check(const struct cdi_hook *h, struct mlr_error *err)
{
	const struct known *k = find(h);
	auto_strv struct strv words = STRV_INIT;
	auto_free char *line = NULL;

	if (k)
		return check_options(h, k, err);
	strv_add(&words, h->path);
	for (size_t i = 1; i < h->args.n && i < 4; i++)
		strv_add(&words, h->args.v[i]);
	line = strv_join(&words, words.n, " ");
	mlr_fail(err, ENOTSUP, "it runs the hook '%s', but a user's container runs none", line);
	return mlr_hint(err,
		"mlrun imitates only NVIDIA's hooks; ask the vendor for a file without this one");
}

int cdi_hook_plan(struct cdi_job *job, const struct cdi_hook *h)
{
	const struct known *k = find(h);

	return k->plan(job, k, h);
}
