#include "base/walk.h"

#include "base/base.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#define LINKS_MAX 40 /* path_resolution(7) */

/* The directories from the top to the current one, so that ".." does not use the disk, where other
 * processes may move directories. */
struct walk {
	int *fds;
	size_t n;
	char *rest; /* still to resolve */
	int links;
};

static void walk_done(struct walk *w)
{
	for (size_t i = 0; i < w->n; i++)
		close(w->fds[i]);
	free(w->fds);
	free(w->rest);
}

static void push(struct walk *w, int fd)
{
	*xadd(w->fds, w->n) = fd;
}

static void pop_to(struct walk *w, size_t n)
{
	while (w->n > n)
		close(w->fds[--w->n]);
}

/* Take the next component off, or NULL at the end. last: only slashes follow; is_dir: there are
 * some. */
static char *next(struct walk *w, int *last, int *is_dir)
{
	const char *s = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(s, "/");
	const char *after = s + len;
	char *name = len ? xstrndup(s, len) : NULL;

	*is_dir = *after == '/';
	after += strspn(after, "/");
	*last = *after == '\0';
	memmove(w->rest, after, strlen(after) + 1);
	return name;
}

/* Put the link's target in front of the rest. */
static int follow(struct walk *w, int link, int is_dir, enum walk_how how)
{
	auto_free char *old = w->rest;
	char text[PATH_MAX];
	struct statfs fs;
	ssize_t n;

	w->rest = NULL;
	if (how == WALK_BENEATH || ++w->links > LINKS_MAX)
		return -ELOOP;
	if (fstatfs(link, &fs) == 0 && (unsigned long)fs.f_type == PROC_SUPER_MAGIC)
		return -ELOOP;
	n = readlinkat(link, "", text, sizeof(text) - 1);
	if (n <= 0)
		return n < 0 ? -errno : -ENOENT;
	text[n] = '\0';
	if (text[0] == '/')
		pop_to(w, 1);
	w->rest = xasprintf("%s/%s", text, old);
	if (!*old && !is_dir) /* "link" is not "link/" */
		w->rest[strlen(w->rest) - 1] = '\0';
	return 0;
}

static int is_link(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISLNK(st.st_mode);
}

/* Open the last component, in its directory. It was not a link when it was checked. */
static int open_last(const struct walk *w, const char *name, int flags, int is_dir)
{
	auto_close int fd = openat(w->fds[w->n - 1], name,
		(flags & ~O_CREAT) | O_NOFOLLOW | O_CLOEXEC | (is_dir ? O_DIRECTORY : 0));

	if (fd < 0)
		return -errno;
	if ((flags & O_PATH) && !(flags & O_NOFOLLOW) && is_link(fd))
		return -ELOOP;
	return take_fd(&fd);
}

/* Resolve one component. Returns 1 if *ret is the end, 0 if there is more, or -errno. */
static int step(struct walk *w, int flags, enum walk_how how, int *ret)
{
	int last, is_dir;
	auto_free char *name = next(w, &last, &is_dir);
	auto_close int fd = -1;

	if (!name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		if (name && name[1] == '.' && w->n == 1 && how == WALK_BENEATH)
			return -EXDEV;
		if (name && name[1] == '.' && w->n > 1)
			pop_to(w, w->n - 1);
		if (name && !last)
			return 0;
		*ret = open_last(w, ".", flags, 1);
		return *ret < 0 ? *ret : 1;
	}
	fd = openat(w->fds[w->n - 1], name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (is_link(fd) && !(last && !is_dir && (flags & O_NOFOLLOW)))
		return follow(w, fd, is_dir, how);
	if (last) {
		*ret = open_last(w, name, flags, is_dir);
		return *ret < 0 ? *ret : 1;
	}
	push(w, take_fd(&fd));
	return 0;
}

int walk_open(int dirfd, const char *path, int flags, enum walk_how how)
{
	auto_call(walk_done) struct walk w = { .rest = xstrdup(path) };
	int fd, r = 0;

	if (!*path)
		return -ENOENT;
	if (how == WALK_BENEATH && *path == '/')
		return -EXDEV;
	fd = openat(dirfd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	push(&w, fd);
	fd = -1;
	while (r == 0)
		r = step(&w, flags, how, &fd);
	return r < 0 ? r : fd;
}
