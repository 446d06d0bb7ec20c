#include "gpu/root.h"

#include <sys/sysmacros.h>

#define TEXT_MAX (64u << 10) /* bytes */

int gpu_dir_open(const char *root, struct gpu_dir *ret)
{
	auto_free char *real = realpath(root, NULL);
	int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ret->fd = fd;
	ret->is_machine = real && strcmp(real, "/") == 0;
	return 0;
}

void gpu_dir_close(struct gpu_dir *d)
{
	fd_close(&d->fd);
	*d = (struct gpu_dir)GPU_DIR_INIT;
}

int gpu_root_regular(int file)
{
	auto_close int fd = file;
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? take_fd(&fd) : -ENODEV;
}

int gpu_dir_open_file(const struct gpu_dir *d, const char *path)
{
	return gpu_root_regular(
		file_open_in_root(d->fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0));
}

char *gpu_dir_read(const struct gpu_dir *d, const char *path)
{
	auto_close int fd = gpu_dir_open_file(d, path);
	auto_free char *text = fd < 0 ? NULL : xmalloc(TEXT_MAX + 1);
	ssize_t n = fd < 0 ? -1 : file_read_full(fd, text, TEXT_MAX);

	if (n < 0)
		return NULL;
	text[n] = '\0';
	return xstrdup(text);
}

char *gpu_dir_path(const struct gpu_dir *d, int fd)
{
	auto_free char *below = NULL;

	if (d->is_machine)
		return file_fd_path(fd);
	below = file_fd_below(d->fd, fd);
	return below ? xasprintf("/%s", below) : NULL;
}

/*
 * Open a path that contains no links, without a /proc look-up, which is the slowest step here. Most
 * paths are such.
 */
static int open_without_links(const struct gpu_dir *d, const char *path)
{
	const char *below = path + strspn(path, "/");

	return *below ? file_open_beneath(d->fd, below, O_PATH) : -ELOOP;
}

char *gpu_dir_resolve(const struct gpu_dir *d, const char *path, struct stat *st)
{
	auto_close int fd = open_without_links(d, path);
	int is_plain = fd >= 0;
	struct stat unused;

	if (fd == -ENOENT || fd == -ENOTDIR)
		return NULL;
	if (!is_plain)
		fd = file_open_in_root(d->fd, path, O_PATH, 0);
	if (fd < 0 || fstat(fd, st ? st : &unused) < 0)
		return NULL;
	return is_plain && *path == '/' ? path_clean(path) : gpu_dir_path(d, fd);
}

int gpu_dir_list(const struct gpu_dir *d, const char *path, struct strv *ret)
{
	auto_close int fd = file_open_in_root(d->fd, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
	auto_strv struct strv names = STRV_INIT;

	TRY(fd < 0 ? fd : file_list(fd, ".", 0, &names));
	strv_add_all(ret, &names);
	return 0;
}

char *gpu_dir_readlink(const struct gpu_dir *d, const char *path)
{
	auto_close int fd = file_open_in_root(d->fd, path, O_PATH | O_NOFOLLOW, 0);
	char text[PATH_MAX];
	ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", text, sizeof(text) - 1);

	return n < 0 ? NULL : xstrndup(text, (size_t)n);
}

int gpu_dir_node_for(const struct gpu_dir *d, const char *path, int how, struct gpu_node *ret)
{
	auto_close int fd = file_open_in_root(d->fd, path, O_PATH, 0);
	char name[32];
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISCHR(st.st_mode) && (d->is_machine || !S_ISREG(st.st_mode)))
		return -ENODEV;
	*ret = (struct gpu_node){ .path = xstrdup(path),
		.uid = st.st_uid,
		.gid = st.st_gid,
		.mode = st.st_mode & 07777 };
	if (S_ISCHR(st.st_mode)) {
		ret->major = major(st.st_rdev);
		ret->minor = minor(st.st_rdev);
	}
	/* The descriptor's link, as openat2(2) found it: no second look-up by path. */
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	if (access(name, how) < 0)
		ret->error = errno == EPERM ? EPERM : EACCES;
	return 0;
}

int gpu_dir_node(const struct gpu_dir *d, const char *path, struct gpu_node *ret)
{
	return gpu_dir_node_for(d, path, R_OK | W_OK, ret);
}
