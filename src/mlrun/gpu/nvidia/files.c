#include "gpu/nvidia/nvidia.h"

#include "gpu/nvidia/table.h"

/* A root to search: the driver's own, if it has one, and the machine's. */
struct root {
	const struct gpu_dir *dir;
	const char *path; /* "" or "/run/nvidia/driver" */
};

static struct gpu_file *add_file(struct gpu_machine *m, enum gpu_file_kind kind, unsigned caps,
	const struct root *r, const char *path, char *target)
{
	struct gpu_file *f = gpu_machine_add_file(m);

	f->kind = kind;
	f->caps = caps;
	f->path = xasprintf("%s%s", r->path, path);
	f->target = target;
	return f;
}

/* Add the regular file that path leads to. Takes target. Returns whether there is one. */
static int add_regular(struct gpu_machine *m, enum gpu_file_kind kind, unsigned caps,
	const struct root *r, const char *path, char *target)
{
	auto_free char *to = target;
	struct stat st;
	auto_free char *real = gpu_dir_resolve(r->dir, path, &st);

	if (!real || !S_ISREG(st.st_mode))
		return 0;
	add_file(m, kind, caps, r, real, take_ptr(&to));
	return 1;
}

/*
 * Programs are searched in the usual directories, so that a start costs the same for everybody. The
 * caller's PATH counts only if none of these has nvidia-smi.
 */
static const char *const program_dirs[] = { "/usr/bin", "/bin", "/usr/sbin", "/sbin",
	"/usr/local/bin", "/usr/local/nvidia/bin", "/usr/lib/wsl/lib", "/run/current-system/sw/bin",
	"/opt/bin" };

static void add_program_dir(const struct root *r, const char *dir, struct strv *dirs)
{
	struct stat st;
	auto_free char *real = gpu_dir_resolve(r->dir, dir, &st);

	if (real && S_ISDIR(st.st_mode) && !strv_has(dirs, real))
		strv_take(dirs, take_ptr(&real));
}

static int find_program(struct gpu_machine *m, const struct root *r, const struct strv *dirs,
	const struct gpu_program_row *row)
{
	for (size_t i = 0; i < dirs->n; i++) {
		auto_free char *path = xasprintf("%s/%s", dirs->v[i], row->name);

		if (add_regular(m, GPU_PROGRAM, row->caps, r, path,
			    xasprintf("/usr/bin/%s", row->name)))
			return 1;
	}
	return 0;
}

static void add_path(const struct root *r, struct strv *dirs)
{
	const char *value = getenv("PATH");
	auto_free char *list = xstrdup(value ? value : "");
	char *rest = NULL;

	for (char *dir = strtok_r(list, ":", &rest); dir; dir = strtok_r(NULL, ":", &rest))
		if (*dir == '/')
			add_program_dir(r, dir, dirs);
}

/* List the directories to search for programs; PATH's too if no usual one has nvidia-smi. */
static void list_program_dirs(const struct root *r, struct strv *dirs)
{
	for (size_t i = 0; i < ARRAY_LEN(program_dirs); i++)
		add_program_dir(r, program_dirs[i], dirs);
	for (size_t i = 0; i < dirs->n; i++) {
		auto_free char *path = xasprintf("%s/nvidia-smi", dirs->v[i]);
		auto_free char *real = gpu_dir_resolve(r->dir, path, NULL);

		if (real)
			return;
	}
	if (r->dir->is_machine)
		add_path(r, dirs);
}

static void find_programs(struct gpu_machine *m, const struct root *r, unsigned caps)
{
	auto_strv struct strv dirs = STRV_INIT;

	list_program_dirs(r, &dirs);
	for (const struct gpu_program_row *row = gpu_programs; row->name; row++)
		if ((row->caps & caps) && !find_program(m, r, &dirs, row))
			strv_add(&m->missing, row->name);
}

/*
 * Firmware of the GPU's own processor, gsp*.bin. The driver's libraries load it when the kernel
 * does not, from the kernel's firmware paths (drivers/base/firmware_loader/main.c); the container
 * has it at the same path.
 */
static int add_firmware(struct gpu_machine *m, const struct root *r, const char *dir)
{
	auto_free char *path = xasprintf("%s/nvidia/%s", dir, m->driver_text);
	auto_strv struct strv names = STRV_INIT;
	int found = 0;

	if (gpu_dir_list(r->dir, path, &names) < 0)
		return 0;
	for (size_t i = 0; i < names.n; i++) {
		const char *name = names.v[i], *end = strrchr(name, '.');
		auto_free char *file = xasprintf("%s/%s", path, name);

		if (strncmp(name, "gsp", 3) == 0 && end && strcmp(end, ".bin") == 0)
			found |= add_regular(m, GPU_FIRMWARE, 0, r, file, xstrdup(file));
	}
	return found;
}

/* Read one line of a kernel file, to free(); NULL when empty or missing. */
static char *read_line(const struct gpu_dir *d, const char *path)
{
	auto_free char *text = gpu_dir_read(d, path);

	if (text)
		text[strcspn(text, "\n")] = '\0';
	return text && *text ? take_ptr(&text) : NULL;
}

static void find_firmware(
	struct gpu_machine *m, const struct gpu_dir *machine, const struct root *r)
{
	auto_free char *custom = read_line(machine, "/sys/module/firmware_class/parameters/path");
	auto_free char *release = read_line(machine, "/proc/sys/kernel/osrelease");
	const struct root here = { machine, "" };
	auto_strv struct strv dirs = STRV_INIT;

	if (!m->driver_text)
		return;
	/* The kernel's setting is a path of the machine, even if the driver has its own root. */
	if (custom && *custom == '/' && add_firmware(m, &here, custom))
		return;
	if (release && !strchr(release, '/'))
		strv_addf(&dirs, "/lib/firmware/updates/%s", release);
	strv_add(&dirs, "/lib/firmware/updates");
	if (release && !strchr(release, '/'))
		strv_addf(&dirs, "/lib/firmware/%s", release);
	strv_add(&dirs, "/lib/firmware");
	for (size_t i = 0; i < dirs.n; i++)
		if (add_firmware(m, r, dirs.v[i]))
			return;
}

/* Can the caller use the socket? A closed one counts as missing: programs that do without it would
 * fail with it. */
static int is_usable(const struct gpu_dir *d, const char *path, int how)
{
	auto_close int fd = file_open_in_root(d->fd, path, O_PATH, 0);
	char name[32];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return fd >= 0 && access(name, how) == 0;
}

/* In a fake tree a regular file also stands for a socket. */
static int add_socket(struct gpu_machine *m, const struct root *r, const char *path, unsigned caps)
{
	struct stat st;
	auto_free char *real = gpu_dir_resolve(r->dir, path, &st);

	if (!real || !(S_ISSOCK(st.st_mode) || (S_ISREG(st.st_mode) && !r->dir->is_machine)) ||
		!is_usable(r->dir, real, R_OK | W_OK))
		return 0;
	add_file(m, GPU_SOCKET, caps, r, real, xstrdup(path));
	return 1;
}

static void find_sockets(struct gpu_machine *m, const struct root *roots, size_t n)
{
	static const char *const dirs[] = { "/run", "/var/run" };

	for (const struct gpu_socket_row *row = gpu_sockets; row->name; row++) {
		int found = 0;

		for (size_t i = 0; i < n && !found; i++)
			for (size_t k = 0; k < ARRAY_LEN(dirs) && !found; k++) {
				auto_free char *path = xasprintf("%s/%s", dirs[k], row->name);

				found = add_socket(m, &roots[i], path, row->caps);
			}
	}
}

/* The directory of a running CUDA multi-process service. */
static void find_mps(struct gpu_machine *m, const struct gpu_dir *machine)
{
	const char *dir = getenv("CUDA_MPS_PIPE_DIRECTORY"),
		   *path = dir && *dir == '/' ? dir : "/tmp/nvidia-mps";
	const struct root r = { machine, "" };
	struct stat st;
	auto_free char *real = gpu_dir_resolve(machine, path, &st);

	if (real && S_ISDIR(st.st_mode) && is_usable(machine, real, R_OK | X_OK))
		add_file(m, GPU_SOCKET, GPU_COMPUTE | GPU_VIDEO, &r, real, xstrdup(path));
}

/* "/etc" and the directories of XDG_DATA_DIRS (XDG Base Directory Specification). */
static void list_data_dirs(const struct gpu_dir *machine, struct strv *dirs)
{
	const char *value = machine->is_machine ? getenv("XDG_DATA_DIRS") : NULL;
	auto_free char *list = xstrdup(value && *value ? value : "/usr/local/share:/usr/share");
	char *rest = NULL;

	strv_add(dirs, "/etc");
	for (char *dir = strtok_r(list, ":", &rest); dir; dir = strtok_r(NULL, ":", &rest))
		if (*dir == '/' && !strv_has(dirs, dir))
			strv_add(dirs, dir);
}

/* The configuration of graphics is useless without the driver's graphics libraries. */
static int has_graphics(const struct gpu_machine *m)
{
	for (size_t i = 0; i < m->n_files; i++)
		if (m->files[i].kind == GPU_LIBRARY && (m->files[i].caps & GPU_GRAPHICS) &&
			!(m->files[i].caps & GPU_COMPUTE))
			return 1;
	return 0;
}

static void find_data(
	struct gpu_machine *m, const struct gpu_dir *machine, const struct root *r, unsigned caps)
{
	auto_strv struct strv dirs = STRV_INIT;

	if (!has_graphics(m))
		caps &= GPU_COMPUTE | GPU_VIDEO;
	list_data_dirs(machine, &dirs);
	for (const struct gpu_data_row *row = gpu_data; row->name; row++)
		for (size_t i = 0; i < dirs.n && (row->caps & caps); i++) {
			auto_free char *path = xasprintf("%s/%s", dirs.v[i], row->name);

			if (add_regular(m, GPU_DATA, row->caps, r, path,
				    xasprintf("%s/%s", row->to, row->name)))
				break;
		}
}

/* The X server's modules, under their own paths; the second is opened by a name without version. */
static void find_x_modules(struct gpu_machine *m, const struct root *r)
{
	static const char *const dirs[] = { "/usr/lib64/xorg/modules", "/usr/lib/xorg/modules",
		"/usr/lib/nvidia/xorg" };

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		auto_free char *driver = xasprintf("%s/drivers/nvidia_drv.so", dirs[i]);
		auto_free char *glx = xasprintf(
			"%s/extensions/libglxserver_nvidia.so.%s", dirs[i], m->driver_text);
		auto_free char *plain = xasprintf("%s/extensions/libglxserver_nvidia.so", dirs[i]);

		add_regular(m, GPU_DATA, GPU_DISPLAY, r, driver, xstrdup(driver));
		if (add_regular(m, GPU_DATA, GPU_DISPLAY, r, glx, xstrdup(glx)))
			add_regular(m, GPU_DATA, GPU_DISPLAY, r, glx, take_ptr(&plain));
	}
}

static int find_nvidia(const struct gpu_dir *d, struct gpu_machine *m, int with_files,
	unsigned caps, struct mlr_error *err)
{
	auto_call(gpu_places_done) struct gpu_places p = GPU_PLACES_INIT;
	struct root roots[2] = { { d, "" }, { d, "" } };
	size_t n = 1;

	TRY(mlr_result(err, gpu_places_find(d, m, &p), "the driver's libraries"));
	m->driver_root = xstrdup(p.root);
	if (!with_files || !m->driver_text)
		return 0;
	if (*p.root) {
		roots[0] = (struct root){ &p.dir, p.root };
		n = 2;
	}
	gpu_driver_libraries_find(&p, caps, m);
	find_programs(m, &roots[0], caps);
	find_firmware(m, d, &roots[0]);
	find_sockets(m, roots, n);
	find_mps(m, d);
	find_data(m, d, &roots[0], caps);
	if ((caps & GPU_DISPLAY) && has_graphics(m))
		find_x_modules(m, &roots[0]);
	return 0;
}

static void find_wsl(const struct gpu_dir *d, struct gpu_machine *m, unsigned caps)
{
	const struct root r = { d, "" };

	gpu_wsl_libraries_find(d, caps, m);
	find_programs(m, &r, caps);
}

int gpu_files_find(const struct gpu_dir *d, int with_files, unsigned caps, struct gpu_machine *m,
	struct mlr_error *err)
{
	gpu_driver_find(d, m);
	switch (m->driver) {
	case GPU_DRIVER_NVIDIA:
		return find_nvidia(d, m, with_files, caps, err);
	case GPU_DRIVER_WSL:
		if (with_files)
			find_wsl(d, m, caps);
		break;
	case GPU_DRIVER_NONE:
	case GPU_DRIVER_TEGRA:
		break;
	}
	return 0;
}
