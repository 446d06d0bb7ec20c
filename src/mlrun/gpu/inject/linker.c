/*
 * ld.so(8) searches LD_LIBRARY_PATH, /etc/ld.so.cache and its own directories; musl's linker
 * searches LD_LIBRARY_PATH and the directories of /etc/ld-musl-<arch>.path. The files go into the
 * image's own directories, so the plan has them before all mounts, when no link of the image can
 * lead to the host.
 */
#include "gpu/inject/linker.h"

#include "gpu/inject/ldcache.h"

#include <sys/utsname.h>

#define CACHE     "/etc/ld.so.cache"
#define CACHE_MAX (16u << 20) /* bytes; an image with 10,000 libraries has one of 1 MiB */
#define CONF_DIR  "/etc/ld.so.conf.d"
#define CONF_FILE CONF_DIR "/00-mlrun.conf"
#define MUSL_MAX  (64u << 10)
#define MUSL_DIRS "/lib\n/usr/local/lib\n/usr/lib\n" /* the default in ldso/dynlink.c */
#define TOLD_MAX  3                                  /* names that a remark lists */

/* The directories of the plan's libraries, without repetitions. */
static void list_directories(const struct plan *p, struct strv *ret)
{
	for (size_t i = 0; i < p->n_libraries; i++) {
		const char *path = p->libraries[i].path;
		auto_free char *dir = path_dir(path);

		if (!strv_has(ret, dir))
			strv_add(ret, dir);
	}
}

/* The same as text, with end after each. */
static char *directories(const struct plan *p, char end)
{
	auto_strv struct strv dirs = STRV_INIT;
	char *all = xstrdup("");

	list_directories(p, &dirs);
	for (size_t i = 0; i < dirs.n; i++) {
		char *longer = xasprintf("%s%s%c", all, dirs.v[i], end);

		set_ptr(&all, longer);
	}
	return all;
}

/* Whose the plan's libraries are: the GPU driver's, unless all are MPI's. */
static enum plan_origin origin_of(const struct plan *p)
{
	for (size_t i = 0; i < p->n_libraries; i++)
		if (p->libraries[i].origin != PLAN_FROM_MPI)
			return PLAN_FROM_GPU;
	return PLAN_FROM_MPI;
}

static void by_variable(struct plan *p, const char *because)
{
	auto_free char *dirs = directories(p, ':'), *value = NULL;
	const char *old = plan_env_get(p, "LD_LIBRARY_PATH");
	size_t len = strlen(dirs) - 1;

	dirs[len] = '\0';
	value = old && *old ? xasprintf("%s:%s", dirs, old) : xstrdup(dirs);
	/* Unless it is already so, perhaps for another reason. */
	if (!old || strncmp(old, dirs, len) != 0 || (old[len] && old[len] != ':'))
		plan_env_set(p, "LD_LIBRARY_PATH", value, origin_of(p));
	plan_remark_add(p, origin_of(p), "libraries are found by LD_LIBRARY_PATH: %s", because);
}

/* Does a mount hide path? A file put there would not be read. */
static int is_covered(const struct plan *p, const char *path)
{
	for (size_t i = 0; i < p->n_mounts; i++)
		if (plan_kind_covers(p->mounts[i].kind) && path_below(path, p->mounts[i].target))
			return 1;
	return 0;
}

/* By name and bits: a library hides others with the same ones. */
static int compare(const void *a, const void *b)
{
	const struct plan_library *x = *(const struct plan_library *const *)a,
				  *y = *(const struct plan_library *const *)b;
	int r = strcmp(x->name, y->name);

	return r ? r : x->bits - y->bits;
}

/* The plan's libraries, sorted for searching. */
static const struct plan_library **sorted(const struct plan *p)
{
	const struct plan_library **v = xcalloc(p->n_libraries, sizeof(*v));

	for (size_t i = 0; i < p->n_libraries; i++)
		v[i] = &p->libraries[i];
	qsort(v, p->n_libraries, sizeof(*v), compare);
	return v;
}

static int is_ours(
	const struct plan *p, const struct plan_library **v, const struct gpu_ldcache_entry *e)
{
	static const int bits[] = { 64, 32 };

	for (size_t i = 0; i < ARRAY_LEN(bits); i++) {
		const struct plan_library key = { .name = e->name, .bits = bits[i] }, *at = &key;

		if (bsearch(&at, v, p->n_libraries, sizeof(*v), compare) &&
			gpu_ldcache_fits(e, bits[i]))
			return 1;
	}
	return 0;
}

/* Remove entries from the image's cache that have the names of ours, and remark on them. */
static void drop_stale(struct plan *p, struct gpu_ldcache *c)
{
	const struct plan_library **v = sorted(p);
	auto_free char *marks = xcalloc(c->n + 1, 1), *told = NULL;
	auto_strv struct strv paths = STRV_INIT;

	for (size_t i = 0; i < c->n; i++)
		if (is_ours(p, v, &c->v[i])) {
			marks[i] = 1;
			strv_addf(&paths, "'%s'", c->v[i].path);
		}
	free(v);
	gpu_ldcache_drop(c, marks);
	told = strv_join(&paths, TOLD_MAX, ", ");
	if (paths.n > 0)
		plan_remark_add(p, origin_of(p),
			"%zu of the image's own %slibrar%s not found any more: %s%s", paths.n,
			origin_of(p) == PLAN_FROM_GPU ? "driver " : "",
			paths.n == 1 ? "y is" : "ies are", told, paths.n > TOLD_MAX ? "…" : "");
}

static int read_text(
	const struct gpu_image *image, const char *path, size_t max, char **ret, size_t *len)
{
	auto_close int fd = image->open(image->ctx, path);
	auto_free char *text = NULL;
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size < 0 || (size_t)st.st_size > max)
		return -EFBIG;
	text = xmalloc((size_t)st.st_size + 1);
	n = file_read_full(fd, text, (size_t)st.st_size);
	if (n < 0)
		return (int)n;
	text[n] = '\0';
	*len = (size_t)n;
	*ret = take_ptr(&text);
	return 0;
}

/* Returns 0, also for an image without a cache, or -errno with the reason. */
static int read_cache(const struct gpu_image *image, struct gpu_ldcache *ret, struct mlr_error *err)
{
	auto_free char *data = NULL;
	size_t size = 0;
	int r = read_text(image, CACHE, CACHE_MAX, &data, &size);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return mlr_fail(err, -r, "%s", strerror(-r));
	return gpu_ldcache_parse(data, size, ret, err);
}

static int add_files(struct plan *p, const struct gpu_image *image, const char *cache, size_t size,
	struct mlr_error *err)
{
	auto_strv struct strv unused = STRV_INIT;
	auto_free char *dirs = directories(p, '\n');
	size_t first = p->n_mounts;
	int r = plan_file_add(p, cache, size, CACHE, origin_of(p), err);

	/* For an ldconfig(8) run inside. */
	if (r == 0 && image->list(image->ctx, CONF_DIR, &unused) == 0 && !is_covered(p, CONF_FILE))
		r = plan_file_add(p, dirs, strlen(dirs), CONF_FILE, origin_of(p), err);
	plan_mounts_first(p, first);
	return r;
}

/* In a named container its own cache, made by its ldconfig(8), lies above the image's. */
static int is_kept(const struct plan *p, const char *path)
{
	auto_free char *own = p->kept ? xasprintf("%s/upper%s", p->kept, path) : NULL;
	struct stat st;

	return own && lstat(own, &st) == 0;
}

static int link_glibc(
	const struct gpu_image *image, struct plan *p, char **because, struct mlr_error *err)
{
	auto_call(gpu_ldcache_done) struct gpu_ldcache c = { 0 };
	struct mlr_error why = MLR_ERROR_INIT;
	auto_free char *bytes = NULL;
	size_t size;

	if (read_cache(image, &c, &why) < 0) {
		*because = xasprintf("the image's '" CACHE "' cannot be read: %s", why.text);
		return 0;
	}
	drop_stale(p, &c);
	for (size_t i = 0; i < p->n_libraries; i++)
		gpu_ldcache_add(
			&c, p->libraries[i].name, p->libraries[i].path, p->libraries[i].bits);
	size = gpu_ldcache_print(&c, &bytes);
	if (is_kept(p, CACHE))
		*because = xstrdup("the container has a linker cache of its own");
	else if (is_covered(p, CACHE))
		*because = xstrdup("a mount covers '" CACHE "'");
	return add_files(p, image, bytes, size, err);
}

static int link_musl(
	const struct gpu_image *image, struct plan *p, char **because, struct mlr_error *err)
{
	auto_free char *path = NULL, *old = NULL, *text = NULL, *dirs = directories(p, '\n');
	size_t unused = 0, first = p->n_mounts;
	struct utsname u;
	int r;

	uname(&u);
	path = xasprintf("/etc/ld-musl-%s.path", u.machine);
	r = read_text(image, path, MUSL_MAX, &old, &unused);
	if (r < 0 && r != -ENOENT) {
		*because = xasprintf("the image's '%s' cannot be read: %s", path, strerror(-r));
		return 0;
	}
	text = r == 0 && strncmp(old, dirs, strlen(dirs)) == 0
		? xstrdup(old)
		: xasprintf("%s%s", dirs, r == 0 ? old : MUSL_DIRS);
	strv_add(&p->notes,
		"the image's C library is musl, and the GPU driver's libraries need glibc: programs that load them fail "
		"without gcompat (apk add gcompat); use an image with glibc");
	if (is_kept(p, path) || is_covered(p, path))
		*because = xstrdup("the container's list of directories is not the image's");
	r = plan_file_add(p, text, strlen(text), path, PLAN_FROM_GPU, err);
	plan_mounts_first(p, first);
	return r;
}

/*
 * LD_LIBRARY_PATH is searched before the cache. If it leads to a driver in the image, as in images
 * with CUDA's forward compatibility, put our directories first.
 */
static void mend_variable(const struct gpu_image *image, struct plan *p)
{
	auto_strv struct strv ours = STRV_INIT;
	auto_free char *copy = NULL;
	const char *value = plan_env_get(p, "LD_LIBRARY_PATH");
	char *save = NULL;

	list_directories(p, &ours);
	copy = value ? xstrdup(value) : NULL;
	for (char *dir = copy ? strtok_r(copy, ":", &save) : NULL; dir;
		dir = strtok_r(NULL, ":", &save)) {
		auto_free char *clean = path_clean(dir), *path = NULL, *because = NULL;

		if (clean && strv_has(&ours, clean))
			return;
		if (!clean)
			continue;
		path = xasprintf("%s/libcuda.so.1", clean);
		if (is_covered(p, path) || gpu_image_has(image, path) < 0)
			continue;
		because = xasprintf("it would lead to the image's own '%s' else", path);
		by_variable(p, because);
		return;
	}
}

static int has_driver(const struct plan *p)
{
	for (size_t i = 0; i < p->n_libraries; i++)
		if (strcmp(p->libraries[i].name, "libcuda.so.1") == 0)
			return 1;
	return 0;
}

/* Remark on a user's mount that hides our directory from the command. */
static void tell_hidden(struct plan *p)
{
	const struct plan_mount *top = NULL;

	for (size_t i = 0; i < p->n_mounts; i++)
		if (plan_kind_covers(p->mounts[i].kind) &&
			path_below(p->libraries[0].path, p->mounts[i].target))
			top = &p->mounts[i];
	if (top && top->origin != PLAN_FROM_GPU && top->origin != PLAN_FROM_CDI &&
		top->origin != PLAN_FROM_MPI)
		strv_addf(&p->notes, "the mount on '%s' hides %s libraries in '%.*s'", top->target,
			origin_of(p) == PLAN_FROM_GPU ? "the GPU driver's" : "the machine's MPI",
			(int)(strrchr(p->libraries[0].path, '/') - p->libraries[0].path),
			p->libraries[0].path);
}

void gpu_link_expect(const struct gpu_image *image)
{
	gpu_libc_expect(image);
	image->expect(image->ctx, GPU_LOOK_OPEN, CACHE);
	image->expect(image->ctx, GPU_LOOK_LIST, CONF_DIR);
}

/* Add the image's linker cache with the plan's libraries, or musl's list of directories; because
 * gets the reason why files do not suffice. */
static int link_files(const struct gpu_image *image, enum gpu_libc libc, struct plan *p,
	char **because, struct mlr_error *err)
{
	switch (libc) {
	case GPU_LIBC_GLIBC:
		return link_glibc(image, p, because, err);
	case GPU_LIBC_MUSL:
		return link_musl(image, p, because, err);
	case GPU_LIBC_NONE:
		*because = xstrdup("the image has no known C library");
		return 0;
	case GPU_LIBC_UNKNOWN:
		break;
	}
	*because = xstrdup("the image's linker cache cannot be read");
	return 0;
}

int gpu_link(const struct gpu_image *image, struct plan *p, struct mlr_error *err)
{
	auto_call(gpu_image_libc_done) struct gpu_image_libc l = GPU_IMAGE_LIBC_INIT;
	auto_free char *because = NULL;
	int r;

	if (p->n_libraries == 0)
		return 0;
	tell_hidden(p);
	gpu_libc_find(image, &l);
	if (l.path && has_driver(p))
		mend_variable(image, p);
	r = link_files(image, l.kind, p, &because, err);
	if (because)
		by_variable(p, because);
	return r;
}
