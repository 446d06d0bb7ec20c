#include "rootfs/lookup.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"
#include "layer/whiteout.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LINKS 40 /* as the kernel's own limit, path_resolution(7) */

/* One directory as the overlay merges it, or one file: the trees that have it, topmost first. */
struct merged {
	int *fds; /* O_PATH */
	size_t n;
};

static void merged_done(struct merged *m)
{
	for (size_t i = 0; i < m->n; i++)
		close(m->fds[i]);
	free(m->fds);
	*m = (struct merged){ NULL, 0 };
}

static void merged_take(struct merged *m, int fd)
{
	m->fds = xreallocarray(m->fds, m->n + 1, sizeof(*m->fds));
	m->fds[m->n++] = fd;
}

static int open_root(const struct plan *p, struct merged *ret, struct mlr_error *err)
{
	for (size_t i = 0; i < p->lowers.n; i++) {
		int fd = open(p->lowers.v[i], O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0)
			return mlr_fail_errno(err, "open '%s'", p->lowers.v[i]);
		merged_take(ret, fd);
	}
	return 0;
}

/* Nobody may look into a directory: then it hides nothing that this user could see. */
static int is_opaque(int parent, const char *name)
{
	auto_close int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 && layer_opaque_is(fd);
}

/* What the merged directory has of this name. Returns 0 with nothing in ret when it has none. */
static int step(const struct merged *dir, const char *name, struct merged *ret, struct stat *st)
{
	for (size_t i = 0; i < dir->n; i++) {
		struct stat one;
		int fd = openat(dir->fds[i], name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
			continue;
		if (fd < 0)
			return -errno;
		if (fstat(fd, &one) < 0 || layer_whiteout_is(&one) ||
			(ret->n > 0 && !S_ISDIR(one.st_mode))) {
			close(fd);
			return 0;
		}
		if (ret->n == 0)
			*st = one;
		merged_take(ret, fd);
		if (!S_ISDIR(one.st_mode) || is_opaque(dir->fds[i], name))
			return 0;
	}
	return 0;
}

/* The path that remains when the link fd, found in the directory done (which ends with a slash), is
 * followed before rest. To free(). */
static char *follow(int fd, const char *done, size_t done_len, const char *rest)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(fd, "", text, sizeof(text) - 1);

	if (n <= 0)
		return NULL;
	text[n] = '\0';
	if (text[0] == '/')
		return xasprintf("%s/%s", text, rest);
	return xasprintf("%.*s/%s/%s", (int)done_len, done, text, rest);
}

static int find(const struct plan *p, const char *path, int links, struct mlr_error *err);

/* One component of a path without ".." after the other; a link begins anew with what it says. */
static int walk(
	const struct plan *p, const char *path, int links, struct merged *at, struct mlr_error *err)
{
	for (const char *s = path; *s;) {
		size_t len = strcspn(s, "/");
		auto_free char *name = xstrndup(s, len);
		auto_call(merged_done) struct merged next = { NULL, 0 };
		const char *rest = s + len + strspn(s + len, "/");
		struct stat st;
		int r;

		if (len == 0 || strcmp(name, ".") == 0) {
			s = rest;
			continue;
		}
		r = step(at, name, &next, &st);
		if (r < 0 || next.n == 0)
			return mlr_fail(err, r < 0 ? -r : ENOENT, "'%s' in the image: %s", path,
				strerror(r < 0 ? -r : ENOENT));
		if (S_ISLNK(st.st_mode)) {
			auto_free char *to = follow(next.fds[0], path, (size_t)(s - path), rest);

			if (!to || links >= MAX_LINKS)
				return mlr_fail(
					err, ELOOP, "'%s' in the image: %s", path, strerror(ELOOP));
			return find(p, to, links + 1, err);
		}
		merged_done(at);
		*at = next;
		next = (struct merged){ NULL, 0 };
		s = rest;
	}
	return fcntl(at->fds[0], F_DUPFD_CLOEXEC, 0);
}

/* Resolve "a/../b" by its text first: what is left holds no "..", and links were followed before.
 */
static char *without_dotdot(const char *path)
{
	char *out = xmalloc(strlen(path) + 2), *end = out;

	for (const char *s = path; *s;) {
		size_t len = strcspn(s, "/");

		if (len == 2 && s[0] == '.' && s[1] == '.') {
			while (end > out && *--end != '/')
				;
		} else if (len > 0 && !(len == 1 && *s == '.')) {
			*end++ = '/';
			end = mempcpy(end, s, len);
		}
		s += len + strspn(s + len, "/");
	}
	*end = '\0';
	return out;
}

static int find(const struct plan *p, const char *path, int links, struct mlr_error *err)
{
	auto_free char *clean = without_dotdot(path);
	auto_call(merged_done) struct merged root = { NULL, 0 };
	int r = open_root(p, &root, err);

	return r < 0 ? r : walk(p, clean, links, &root, err);
}

int rootfs_lookup(const struct plan *p, const char *path, struct mlr_error *err)
{
	if (p->squashfs)
		return mlr_fail(err, ENOTSUP,
			"'%s' in the image: a squashfs file cannot be looked into", path);
	if (p->lowers.n == 0)
		return mlr_fail(err, ENOENT, "'%s' in the image: %s", path, strerror(ENOENT));
	return find(p, path, 0, err);
}

int rootfs_read(
	const struct plan *p, const char *path, size_t max, char **ret, struct mlr_error *err)
{
	auto_close int fd = rootfs_lookup(p, path, err);
	struct stat st;
	char self[32];

	if (fd < 0)
		return fd;
	/* A fifo would block, a device do anything. */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return mlr_fail(err, ENOENT, "'%s' in the image is no regular file", path);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return file_read(AT_FDCWD, self, max, ret, NULL, err);
}
