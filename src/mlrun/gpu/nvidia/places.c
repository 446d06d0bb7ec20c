#include "gpu/nvidia/places.h"

#include "gpu/nvidia/nvidia.h"
#include "gpu/elf.h"
#include "gpu/inject/ldcache.h"

#if defined(__x86_64__)
#define TRIPLET    "x86_64-linux-gnu"
#define TRIPLET_32 "i386-linux-gnu"
#elif defined(__aarch64__)
#define TRIPLET    "aarch64-linux-gnu"
#define TRIPLET_32 "arm-linux-gnueabihf"
#elif defined(__powerpc64__)
#define TRIPLET    "powerpc64le-linux-gnu"
#define TRIPLET_32 "powerpc-linux-gnu"
#else
#define TRIPLET    "unknown-linux-gnu"
#define TRIPLET_32 "unknown-linux-gnu"
#endif

#define DRIVER_ROOT "/run/nvidia/driver"
#define CACHE_MAX   (16u << 20) /* bytes */

static const char *const usual[] = {
	"/usr/lib64",
	"/usr/lib/" TRIPLET "/nvidia/current",
	"/usr/lib/" TRIPLET,
	"/lib64",
	"/lib/" TRIPLET "/nvidia/current",
	"/lib/" TRIPLET,
	"/usr/lib64/nvidia",
	"/usr/X11R6/lib64",
	"/usr/local/nvidia/lib64",
	"/usr/local/nvidia/lib",
	"/run/opengl-driver/lib",
	"/usr/lib/" TRIPLET_32 "/nvidia/current",
	"/usr/lib/" TRIPLET_32,
	"/usr/lib",
	"/usr/lib32",
	"/run/opengl-driver-32/lib",
	"/usr/X11R6/lib",
};

/* A directory with any of these is one of the driver's; packages split the driver between two or
 * three. */
static const char *const anchors[] = { "libcuda.so", "libnvidia-ml.so", "libnvidia-glcore.so",
	"libnvidia-ptxjitcompiler.so", "libnvidia-eglcore.so", "libnvidia-tls.so" };

/* The first two show the driver's version. */
#define N_TELLING 2

/* Prefixes of the names by which the linker cache leads to the driver's directories. */
static const char *const prefixes[] = { "libcuda.so.", "libnvidia-", "libGLX_nvidia.",
	"libEGL_nvidia.", "libnvcuvid.", "libvdpau_nvidia." };

static void add_dir(const struct gpu_dir *d, const char *path, struct strv *dirs)
{
	struct stat st;
	/* The list is resolved. */
	auto_free char *real = strv_has(dirs, path) ? NULL : gpu_dir_resolve(d, path, &st);

	if (real && S_ISDIR(st.st_mode) && !strv_has(dirs, real))
		strv_take(dirs, take_ptr(&real));
}

static void add_parent(const struct gpu_dir *d, const char *path, struct strv *dirs)
{
	const char *slash = strrchr(path, '/');
	auto_free char *dir = slash && slash > path ? xstrndup(path, (size_t)(slash - path)) : NULL;

	if (dir)
		add_dir(d, dir, dirs);
}

/* Does the directory have the library that shows this version? It is probed, because a search must
 * be short: modules make LD_LIBRARY_PATH dozens of directories, often on a network. */
static int tells(const struct gpu_dir *d, const char *dir, const char *version)
{
	for (size_t k = 0; k < N_TELLING; k++) {
		auto_free char *path =
			xasprintf("%s/%s.%s", dir, anchors[k], version ? version : "1");
		auto_close int fd = file_open_in_root(d->fd, path, O_PATH, 0);

		if (fd >= 0)
			return 1;
	}
	return 0;
}

static void add_ld_library_path(const struct gpu_dir *d, const char *version, struct strv *dirs)
{
	const char *value = getenv("LD_LIBRARY_PATH");
	auto_free char *list = xstrdup(value ? value : "");
	char *rest = NULL;

	for (char *dir = strtok_r(list, ":;", &rest); dir; dir = strtok_r(NULL, ":;", &rest))
		if (*dir == '/' && tells(d, dir, version))
			add_dir(d, dir, dirs);
}

/* Directories of a cache's entries. Most entries share one, which is checked once. */
struct found {
	const struct gpu_dir *d;
	struct strv *dirs;
	struct strv seen;
};

static int visit(void *ctx, const struct gpu_ldcache_entry *e)
{
	struct found *f = ctx;
	const char *slash = strrchr(e->path, '/');
	size_t i = 0;

	while (i < ARRAY_LEN(prefixes) && strncmp(e->name, prefixes[i], strlen(prefixes[i])) != 0)
		i++;
	if (i == ARRAY_LEN(prefixes) || !slash)
		return 0;
	/* Debian's entry is a link into the directory with the files. */
	if (strcmp(e->name, "libcuda.so.1") == 0 || strcmp(e->name, "libnvidia-ml.so.1") == 0) {
		auto_free char *real = gpu_dir_resolve(f->d, e->path, NULL);

		if (real)
			add_parent(f->d, real, f->dirs);
	}
	for (size_t k = 0; k < f->seen.n; k++)
		if (strncmp(f->seen.v[k], e->path, (size_t)(slash - e->path)) == 0 &&
			!f->seen.v[k][slash - e->path])
			return 0;
	strv_take(&f->seen, xstrndup(e->path, (size_t)(slash - e->path)));
	add_parent(f->d, e->path, f->dirs);
	return 0;
}

static void add_cached(const struct gpu_dir *d, struct strv *dirs)
{
	auto_close int fd = gpu_dir_open_file(d, "/etc/ld.so.cache");
	struct found f = { .d = d, .dirs = dirs };
	struct stat st;
	auto_free char *data = NULL;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > CACHE_MAX)
		return;
	data = malloc((size_t)st.st_size);
	n = data ? file_read_full(fd, data, (size_t)st.st_size) : -1;
	/* On a machine with musl it is something else, or missing. */
	if (n > 0)
		gpu_ldcache_walk(data, (size_t)n, visit, &f, NULL);
	strv_done(&f.seen);
}

static void list_dirs(const struct gpu_dir *d, const char *version, struct strv *dirs)
{
	if (d->is_machine)
		add_ld_library_path(d, version, dirs);
	add_cached(d, dirs);
	for (size_t i = 0; i < ARRAY_LEN(usual); i++)
		add_dir(d, usual[i], dirs);
}

/* The version after "libcuda.so." in the name of the file that the link leads to, if it is a
 * driver's. */
static const char *suffix_of(const char *path, const char *stem)
{
	const char *base = path_base(path);
	size_t len = strlen(stem);

	if (strncmp(base, stem, len) != 0 || base[len] != '.' ||
		!gpu_driver_is_version(base + len + 1))
		return NULL;
	return base + len + 1;
}

/* The version of a directory's libcuda, to free(): from the link that programs use, else from the
 * files' names. */
static char *version_in(const struct gpu_dir *d, const char *dir, const char *stem)
{
	auto_free char *link = xasprintf("%s/%s.1", dir, stem),
		       *real = gpu_dir_resolve(d, link, NULL);
	const char *suffix = real ? suffix_of(real, stem) : NULL;
	auto_strv struct strv names = STRV_INIT;

	if (!suffix && !real && gpu_dir_list(d, dir, &names) == 0)
		for (size_t i = 0; i < names.n && !suffix; i++)
			suffix = suffix_of(names.v[i], stem);
	return suffix ? xstrdup(suffix) : NULL;
}

static void find_version(const struct gpu_dir *d, const struct strv *dirs, struct gpu_machine *m)
{
	for (size_t k = 0; k < N_TELLING; k++)
		for (size_t i = 0; i < dirs->n; i++) {
			auto_free char *version = version_in(d, dirs->v[i], anchors[k]);

			if (version) {
				gpu_driver_set_version(m, version);
				return;
			}
		}
}

/* The bits of the driver's libraries in a directory; 0 without one of this version. */
static int bits_of(const struct gpu_dir *d, const char *dir, const char *version)
{
	for (size_t i = 0; i < ARRAY_LEN(anchors); i++) {
		auto_free char *path = xasprintf("%s/%s.%s", dir, anchors[i], version);
		auto_close int fd = gpu_dir_open_file(d, path);
		auto_call(gpu_elf_done) struct gpu_elf e = { 0 };

		if (fd >= 0 && gpu_elf_read(fd, &e) == 0)
			return e.bits;
	}
	return 0;
}

static void keep_dirs(struct gpu_places *p, const struct strv *dirs, const char *version)
{
	for (size_t i = 0; i < dirs->n; i++) {
		int bits = bits_of(&p->dir, dirs->v[i], version);

		if (bits == 0)
			continue;
		*xadd(p->v, p->n) = (struct gpu_place){ xstrdup(dirs->v[i]),
			file_open_in_root(p->dir.fd, dirs->v[i], O_PATH | O_DIRECTORY, 0), bits };
	}
}

/* Nothing fits: warn with the version found, like nvidia-smi's "Driver/library version
 * mismatch". */
static void warn(const struct gpu_dir *d, const struct strv *dirs, struct gpu_machine *m)
{
	for (size_t k = 0; k < N_TELLING; k++)
		for (size_t i = 0; i < dirs->n; i++) {
			auto_free char *link = xasprintf("%s/%s.1", dirs->v[i], anchors[k]);
			auto_free char *real = gpu_dir_resolve(d, link, NULL);
			const char *other = real ? suffix_of(real, anchors[k]) : NULL;

			if (!other)
				continue;
			strv_addf(&m->warnings,
				"the kernel runs the NVIDIA driver %s, but its libraries are those of %s ('%s'): they "
				"do not match and are ignored; reboot, or reload the modules: as root, "
				"modprobe -r nvidia_uvm nvidia_drm nvidia_modeset nvidia && modprobe nvidia",
				m->driver_text, other, real);
			return;
		}
	strv_addf(&m->warnings,
		"the kernel runs the NVIDIA driver %s, but none of its libraries was found (libcuda.so.%s, "
		"libnvidia-ml.so.%s); name their directory in LD_LIBRARY_PATH",
		m->driver_text, m->driver_text, m->driver_text);
}

static void clear(struct gpu_places *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->v[i].path);
		fd_close(&p->v[i].fd);
	}
	free(p->v);
	p->v = NULL;
	p->n = 0;
	gpu_dir_close(&p->dir);
}

/* Search below one root; append what is found to dirs. */
static void find_below(struct gpu_places *p, struct gpu_machine *m, struct strv *dirs)
{
	list_dirs(&p->dir, m->driver_text, dirs);
	if (!m->driver_text)
		find_version(&p->dir, dirs, m);
	if (m->driver_text)
		keep_dirs(p, dirs, m->driver_text);
}

int gpu_places_has(const struct gpu_places *p, int bits)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].bits == bits)
			return 1;
	return 0;
}

void gpu_places_done(struct gpu_places *p)
{
	clear(p);
	*p = (struct gpu_places)GPU_PLACES_INIT;
}

int gpu_places_find(const struct gpu_dir *d, struct gpu_machine *m, struct gpu_places *ret)
{
	auto_call(gpu_places_done) struct gpu_places p = { "",
		{ fcntl(d->fd, F_DUPFD_CLOEXEC, 0), d->is_machine } };
	auto_strv struct strv dirs = STRV_INIT, below = STRV_INIT;

	if (p.dir.fd < 0)
		return -errno;
	find_below(&p, m, &dirs);
	if (!gpu_places_has(&p, 64)) {
		auto_call(gpu_places_done) struct gpu_places q = { DRIVER_ROOT,
			{ file_open_in_root(d->fd, DRIVER_ROOT, O_PATH | O_DIRECTORY, 0), 0 } };

		if (q.dir.fd >= 0)
			find_below(&q, m, &below);
		if (q.n > 0) {
			struct gpu_places other = p;

			p = q;
			q = other;
		}
	}
	if (p.n == 0 && m->driver_text)
		warn(d, &dirs, m);
	*ret = take_struct(&p, GPU_PLACES_INIT);
	return 0;
}

/* Open a file that is not a link: its path is known without asking. */
static int open_plain(const struct gpu_place *at, const char *name)
{
	return gpu_root_regular(file_open_beneath(at->fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY));
}

int gpu_place_open(
	const struct gpu_places *p, const struct gpu_place *at, const char *name, char **ret_path)
{
	auto_close int fd = open_plain(at, name);
	auto_free char *path = xasprintf("%s/%s", at->path, name), *real = NULL;

	if (fd == -ELOOP) {
		fd = gpu_dir_open_file(&p->dir, path);
		real = fd < 0 ? NULL : gpu_dir_path(&p->dir, fd);
	} else {
		real = take_ptr(&path);
	}
	if (fd < 0)
		return fd;
	if (!real)
		return -ENOENT;
	*ret_path = take_ptr(&real);
	return take_fd(&fd);
}
