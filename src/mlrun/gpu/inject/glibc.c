/* Finds the image's C library, and the driver's files that are too new for it. */
#include "gpu/inject/linker.h"

#include "gpu/elf.h"

#include <sys/utsname.h>

void gpu_image_libc_done(struct gpu_image_libc *l)
{
	free(l->path);
	*l = (struct gpu_image_libc)GPU_IMAGE_LIBC_INIT;
}

int gpu_image_has(const struct gpu_image *image, const char *path)
{
	auto_close int fd = -1;

	if (image->has)
		return image->has(image->ctx, path);
	fd = image->open(image->ctx, path);
	return fd < 0 ? fd : 0;
}

/*
 * Look for a file and keep its path if it exists. Returns 0 or -errno.
 *
 *   fd  if not NULL, the file is opened too
 */
static int look(const struct gpu_image *image, char *take_path, enum gpu_libc kind,
	struct gpu_image_libc *ret, int *fd)
{
	auto_free char *path = take_path;

	TRY(fd ? *fd = image->open(image->ctx, path) : gpu_image_has(image, path));
	ret->kind = kind;
	ret->path = take_ptr(&path);
	return 0;
}

/* The path in Debian and Ubuntu. */
static char *multiarch_libc(const char *machine)
{
	return xasprintf("/lib/%s-linux-gnu/libc.so.6", machine);
}

static const char *machine_of(const struct gpu_image *image, const struct utsname *u)
{
	return image->processors ? image->processors : u->machine;
}

static void find(const struct gpu_image *image, struct gpu_image_libc *ret, int *fd)
{
	static const char *const places[] = { "/lib64", "/usr/lib64", "/lib", "/usr/lib" };
	struct utsname u;
	const char *machine;
	int r;

	uname(&u);
	machine = machine_of(image, &u);
	/* First: other distributions' directories may hold one of the wrong number of bits
	 * there. */
	r = look(image, multiarch_libc(machine), GPU_LIBC_GLIBC, ret, fd);
	if (r < 0 && r != -ENOTSUP)
		r = look(image, xasprintf("/lib/ld-musl-%s.so.1", machine), GPU_LIBC_MUSL, ret, fd);
	for (size_t i = 0; r < 0 && r != -ENOTSUP && i < ARRAY_LEN(places); i++)
		r = look(image, xasprintf("%s/libc.so.6", places[i]), GPU_LIBC_GLIBC, ret, fd);
	if (r < 0)
		ret->kind = r == -ENOTSUP || r == -EIO ? GPU_LIBC_UNKNOWN : GPU_LIBC_NONE;
}

void gpu_libc_find(const struct gpu_image *image, struct gpu_image_libc *ret)
{
	find(image, ret, NULL);
}

void gpu_libc_expect(const struct gpu_image *image)
{
	auto_free char *path = NULL;
	struct utsname u;

	uname(&u);
	path = multiarch_libc(machine_of(image, &u));
	image->expect(image->ctx, GPU_LOOK_OPEN, path);
}

void gpu_image_libc_read(const struct gpu_image *image, struct gpu_image_libc *ret)
{
	auto_call(gpu_elf_done) struct gpu_elf elf = { 0 };
	auto_close int fd = -1;

	find(image, ret, &fd);
	if (fd >= 0 && ret->kind == GPU_LIBC_GLIBC && gpu_elf_read(fd, &elf) == 0)
		ret->version = elf.defines;
}

/* Does the plan bind this file of the machine? The image's ROCm or newer CUDA may replace it. */
static int is_bound(const struct plan *p, const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < p->n_mounts; i++) {
		const char *source = p->mounts[i].kind == PLAN_BIND ? p->mounts[i].source : "";
		size_t n = strlen(source);

		/* gpu_root() may precede the path. */
		if (n >= len && strcmp(source + n - len, path) == 0)
			return 1;
	}
	return 0;
}

void gpu_glibc_check(const struct gpu_machine *m, const struct gpu_image_libc *l,
	const struct plan *p, struct strv *ret)
{
	char text[GPU_VERSION_TEXT];

	if (!gpu_version_is_known(&l->version))
		return;
	for (size_t i = 0; i < m->n_files; i++) {
		const struct gpu_file *f = &m->files[i];

		if (gpu_version_compare(&f->glibc, &l->version) > 0 && is_bound(p, f->path))
			strv_addf(ret, "%s (GLIBC_%s)", path_base(f->path),
				gpu_version_print(&f->glibc, text));
	}
}
