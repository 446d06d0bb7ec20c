/*
 * mlrun gpu hook: the hooks of the CDI files that `mlrun gpu cdi` writes for other runtimes (OCI
 * runtime-spec, config.md, "POSIX-platform Hooks"): createContainer hooks, run in the container's
 * mount namespace before its root becomes "/" (hook_root.h).
 */
#include "cli/cli.h"
#include "cli/hook_root.h"
#include "cli/options.h"

#include "base/base.h"
#include "cdi/links.h"
#include "gpu/elf.h"
#include "gpu/inject/compat.h"
#include "gpu/nvidia/nvidia.h"
#include "gpu/inject/linker.h"
#include "plan/plan.h"
#include "runtime/bind.h"

#include <sys/mount.h>
#include <sys/utsname.h>

#define PARAMS_MAX (64u << 10)

struct args {
	struct strv links, folders;
	const char *driver; /* the host's version */
};

/* --- create-symlinks -------------------------------------------------------- */

static int is_there(int dir, const char *name, const char *text)
{
	char now[PATH_MAX];
	ssize_t n = readlinkat(dir, name, now, sizeof(now) - 1);

	if (n < 0)
		return 0;
	now[n] = '\0';
	return strcmp(now, text) == 0;
}

/* Create a link beside the old one and rename it, so that there is always a link. */
static int put_link(int root, const char *text, const char *path, struct mlr_error *err)
{
	const char *name = NULL;
	auto_close int dir = hook_root_place(root, path, &name, err);
	auto_free char *temp = NULL;

	if (dir < 0)
		return dir;
	if (is_there(dir, name, text))
		return 0;
	temp = xasprintf(".%s.mlrun%ld", name, (long)getpid());
	if (symlinkat(text, dir, temp) < 0)
		return mlr_fail_errno(err, "make the link '%s' in the container", path);
	if (renameat(dir, temp, dir, name) == 0)
		return 0;

	int code = errno;

	unlinkat(dir, temp, 0);
	/* A library is mounted there. */
	return code == EBUSY ? 0
			     : mlr_fail(err, code, "make the link '%s' in the container: %s", path,
				       strerror(code));
}

static int create_symlinks(int root, const struct args *a, struct mlr_error *err)
{
	for (size_t i = 0; i < a->links.n; i++) {
		const char *colons = strstr(a->links.v[i], "::");
		auto_free char *text = NULL, *absolute = NULL, *path = NULL;
		int r;

		if (!colons || colons == a->links.v[i] || !colons[2])
			return mlr_fail(
				err, EINVAL, "'%s' is not of the form TEXT::PATH", a->links.v[i]);
		text = xstrndup(a->links.v[i], (size_t)(colons - a->links.v[i]));
		absolute = xasprintf("/%s", colons + 2);
		path = path_clean(absolute);
		r = put_link(root, text, path, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* --- update-ldcache, enable-cuda-compat -------------------------------------- */

/* Add a library by the name that ldconfig(8) would use: its SONAME, or the name of a link
 * "libcuda.so". */
static void add_library(const struct gpu_image *image, const char *path, struct plan *p)
{
	auto_call(gpu_elf_done) struct gpu_elf elf = GPU_ELF_INIT;
	auto_close int fd = image->open(image->ctx, path);
	const char *name = path_base(path);
	size_t len = strlen(name);

	if (fd < 0 || gpu_elf_read(fd, &elf) < 0)
		return;
	if (elf.soname && !strchr(elf.soname, '/') && strcmp(name + len - 3, ".so") != 0)
		name = elf.soname;
	plan_library_add(p, name, path, elf.bits, PLAN_FROM_CDI);
}

/* Add the libraries that a runtime mounted in a folder, and the links to them; the image's own are
 * already in its cache. For a repeated name the last path counts: a link's. */
static void add_folder(int root, const struct gpu_image *image, const char *folder, struct plan *p)
{
	auto_strv struct strv names = STRV_INIT;

	if (image->list(image->ctx, folder, &names) < 0)
		return;
	strv_sort(&names);
	for (size_t i = names.n; i-- > 0;) {
		auto_free char *path = xasprintf("%s/%s", folder, names.v[i]);

		if (cdi_is_library(names.v[i]) && hook_root_is_mounted(root, path))
			add_library(image, path, p);
	}
}

/* Write the files that make the linker find the plan's libraries, as in mlrun's own containers. */
static int put_linker_files(
	int root, const struct gpu_image *image, struct plan *p, struct mlr_error *err)
{
	auto_call(gpu_image_libc_done) struct gpu_image_libc libc = GPU_IMAGE_LIBC_INIT;
	auto_free char *because = NULL;
	int r;

	gpu_libc_find(image, &libc);
	if (p->n_libraries == 0 || (libc.kind != GPU_LIBC_GLIBC && libc.kind != GPU_LIBC_MUSL))
		return 0;
	r = gpu_link_files(image, libc.kind, p, &because, err);
	if (because)
		return mlr_fail(err, EPROTO, "%s", because);
	for (size_t i = 0; r == 0 && i < p->n_mounts; i++)
		r = hook_root_put(
			root, p->mounts[i].target, p->mounts[i].text, p->mounts[i].text_size, err);
	return r;
}

static int update_ldcache(int root, const struct args *a, struct mlr_error *err)
{
	const struct gpu_image image = {
		.open = hook_root_open_file, .list = hook_root_list, .ctx = &root
	};
	auto_call(plan_done) struct plan p;

	plan_init(&p);
	for (size_t i = 0; i < a->folders.n; i++) {
		if (a->folders.v[i][0] != '/')
			return mlr_fail(
				err, EINVAL, "'%s' is not an absolute path", a->folders.v[i]);
		add_folder(root, &image, a->folders.v[i], &p);
	}
	return put_linker_files(root, &image, &p, err);
}

/* After update-ldcache: put the image's newer libraries in place of the driver's. */
static int enable_compat(int root, const struct args *a, struct mlr_error *err)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	auto_call(gpu_compat_done) struct gpu_compat c = GPU_COMPAT_INIT;
	const struct gpu_image image = {
		.open = hook_root_open_file, .list = hook_root_list, .ctx = &root
	};
	auto_call(plan_done) struct plan p;

	plan_init(&p);
	if (!a->driver || !gpu_driver_is_version(a->driver))
		return mlr_fail(
			err, EINVAL, "invalid driver version '%s'", a->driver ? a->driver : "");
	gpu_driver_set_version(&m, a->driver);
	gpu_compat_read(&image, &m, &c);
	for (size_t i = 0; c.use && i < c.libraries.n; i++) {
		auto_free char *path = xasprintf("%s/%s", c.dir, c.libraries.v[i]);

		add_library(&image, path, &p);
	}
	return put_linker_files(root, &image, &p, err);
}

/* --- disable-device-node-modification -------------------------------------- */

#define PROC_DIR "/proc/driver/nvidia"
#define PARAMS   PROC_DIR "/params"

/* The driver's parameters with one changed, to free(); NULL: nothing to change. */
static char *changed_params(int root)
{
	static const char wanted[] = "ModifyDeviceFiles: 1";
	auto_close int fd = hook_root_open_file(&root, PARAMS);
	auto_free char *text = fd < 0 ? NULL : xcalloc(1, PARAMS_MAX + 1);
	char *at = text && file_read_full(fd, text, PARAMS_MAX) > 0 ? strstr(text, wanted) : NULL;

	if (!at)
		return NULL;
	at[sizeof(wanted) - 2] = '0';
	return take_ptr(&text);
}

/* Make a mount of one file in memory, in a tmpfs that covers dir meanwhile. Returns a descriptor
 * for bind_put(). */
static int file_in_memory(int root, const char *dir, const char *text, struct mlr_error *err)
{
	auto_close int below = file_open_in_root(root, dir, O_PATH | O_DIRECTORY, 0), top = -1,
		       file = -1, taken = -1;
	char place[32];

	snprintf(place, sizeof(place), "/proc/self/fd/%d", below);
	if (below < 0 ||
		mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
			"mode=0755,size=128k") < 0)
		return mlr_fail(err, below < 0 ? -below : errno,
			"mount a tmpfs in the container: %s", strerror(below < 0 ? -below : errno));
	top = file_open_in_root(root, dir, O_PATH | O_DIRECTORY, 0);
	file = top < 0 ? -1 : openat(top, "file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (file >= 0 && file_write_all(file, text, strlen(text)) == 0)
		taken = bind_take(
			top, "file", PLAN_READONLY | PLAN_NOSUID | PLAN_NODEV | PLAN_NOEXEC);
	snprintf(place, sizeof(place), "/proc/self/fd/%d", top);
	umount2(place, MNT_DETACH);
	return taken < 0 ? mlr_fail(err, EIO, "make a file in memory in the container")
			 : take_fd(&taken);
}

/* The driver's libraries would call mknod(2) and chmod(2). The directory's other files stay. */
static int keep_nodes(int root, const struct args *a, struct mlr_error *err)
{
	auto_free char *text = changed_params(root);
	auto_close int file = -1, target = -1;
	int r;

	(void)a;
	if (!text)
		return 0;
	file = file_in_memory(root, PROC_DIR, text, err);
	if (file < 0)
		return file;
	target = file_open_in_root(root, PARAMS, O_PATH, 0);
	r = target < 0
		? target
		: bind_put(file, target, PLAN_READONLY | PLAN_NOSUID | PLAN_NODEV | PLAN_NOEXEC);
	return r < 0 ? mlr_fail(err, -r, "mount on '" PARAMS "' in the container: %s", strerror(-r))
		     : 0;
}

/* --- the command ------------------------------------------------------------ */

static const struct option_row link_options[] = {
	{ "link", 0, "TEXT::PATH", 0, "make a link at PATH in the container", 0,
		OPT(struct args, links) },
	{ 0 },
};

static const struct option_row folder_options[] = {
	{ "folder", 0, "DIR", 0, "let the linker find the libraries in DIR of the container", 0,
		OPT(struct args, folders) },
	{ 0 },
};

static const struct option_row compat_options[] = {
	{ "host-driver-version", 0, "VERSION", 0, "version of this machine's driver", 0,
		OPT(struct args, driver) },
	{ 0 },
};

static const struct hook {
	const char *name;
	int (*run)(int root, const struct args *a, struct mlr_error *err);
	struct cli_syntax syntax;
} hooks[] = {
	{ "create-symlinks", create_symlinks,
		{ .s.options = link_options,
			.no_store = 1,
			.s.doc = "Make links in a container." } },
	{ "update-ldcache", update_ldcache,
		{ .s.options = folder_options,
			.no_store = 1,
			.s.doc = "Let a container's linker find libraries." } },
	{ "enable-cuda-compat", enable_compat,
		{ .s.options = compat_options,
			.no_store = 1,
			.s.doc =
				"Let a container's linker find CUDA libraries of its own that are newer "
				"than the driver." } },
	{ "disable-device-node-modification", keep_nodes,
		{ .no_store = 1, .s.doc = "Keep NVIDIA's libraries from making nodes." } },
};

static int run_hook(const struct hook *h, int argc, char **argv)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct args a = { STRV_INIT, STRV_INIT, NULL };
	auto_close int root = -1;
	int r;

	cli_options_parse(argc, argv, &h->syntax, &a);
	umask(022);
	root = hook_root_open(&err);
	r = root < 0 ? root : h->run(root, &a, &err);
	strv_done(&a.links);
	strv_done(&a.folders);
	if (r == 0)
		return 0;
	return cli_fail_at(&err, "gpu hook %s", h->name);
}

int cmd_gpu_hook(int argc, char **argv)
{
	struct mlr_error err = MLR_ERROR_INIT;

	for (size_t i = 0; argc > 1 && i < ARRAY_LEN(hooks); i++)
		if (strcmp(argv[1], hooks[i].name) == 0)
			return run_hook(&hooks[i], argc - 1, argv + 1);
	mlr_fail(&err, EINVAL,
		"gpu hook: create-symlinks, update-ldcache, enable-cuda-compat or "
		"expected disable-device-node-modification");
	return cli_fail(&err);
}
