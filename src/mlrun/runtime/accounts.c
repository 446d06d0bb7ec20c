#include "runtime/accounts.h"

#include "runtime/target.h"

#define ACCOUNTS_MAX (4u << 20) /* bytes: larger passwd or group files are not read */

/* Does this line "name:password:id:…" (len bytes) belong to name or id? */
static int line_is(const char *line, size_t len, const char *name, unsigned id, int by_name)
{
	const char *end = line + len, *c1 = memchr(line, ':', len), *c2;

	if (!c1)
		return 0;
	if (by_name && strlen(name) == (size_t)(c1 - line) &&
		memcmp(line, name, (size_t)(c1 - line)) == 0)
		return 1;
	c2 = memchr(c1 + 1, ':', (size_t)(end - c1 - 1));
	return c2 && c2 + 1 < end && c2[1] >= '0' && c2[1] <= '9' &&
		strtoul(c2 + 1, NULL, 10) == id;
}

static int has_id(const char *text, unsigned id)
{
	for (const char *s = text; s && *s;) {
		size_t len = strcspn(s, "\n");

		if (line_is(s, len, "", id, 0))
			return 1;
		s += len + (s[len] == '\n');
	}
	return 0;
}

/* Put the caller's line in front of the old lines that are not the caller's. Frees mine. */
static char *merge(char *mine, const char *old, const char *name, unsigned id)
{
	size_t room = strlen(mine) + (old ? strlen(old) : 0) + 2;
	char *out = xmalloc(room), *p = stpcpy(out, mine);

	free(mine);
	for (const char *s = old; s && *s;) {
		size_t len = strcspn(s, "\n");

		if (len > 0 && !line_is(s, len, name, id, 1)) {
			p = mempcpy(p, s, len);
			*p++ = '\n';
		}
		s += len + (s[len] == '\n');
	}
	*p = '\0';
	return out;
}

char *accounts_passwd(const char *old, const struct plan_identity *id)
{
	if (id->uid == 0 && has_id(old, 0))
		return NULL;
	return merge(xasprintf("%s:x:%u:%u:%s:%s:%s\n", id->name, (unsigned)id->uid,
			     (unsigned)id->gid, id->name, id->home, id->shell),
		old, id->name, id->uid);
}

char *accounts_group(const char *old, const struct plan_identity *id)
{
	if (has_id(old, id->gid))
		return NULL;
	return merge(
		xasprintf("%s:x:%u:\n", id->group, (unsigned)id->gid), old, id->group, id->gid);
}

/* The text of an image's file, or NULL if it is not a readable text file. The caller has opened it
 * so that a fifo does not block. */
static char *read_text(int fd)
{
	auto_free char *buf = NULL;
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > ACCOUNTS_MAX)
		return NULL;
	buf = xmalloc((size_t)st.st_size + 1);
	n = file_read_full(fd, buf, (size_t)st.st_size);
	if (n < 0)
		return NULL;
	buf[n] = '\0';
	return take_ptr(&buf);
}

/* As above, by a path that is resolved inside the root. */
static char *read_old(int root, const char *path)
{
	auto_close int fd = file_open_in_root(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);

	return fd < 0 ? NULL : read_text(fd);
}

char *accounts_read(int dir, const char *name)
{
	auto_close int fd =
		openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	return fd < 0 ? NULL : read_text(fd);
}

int accounts_is_directory(const char *path, struct mlr_error *err)
{
	mlr_fail(err, EISDIR,
		"'%s' in the image is a directory; expected a file of users or groups", path);
	return mlr_hint(err,
		"a build that mounts a file which is not there makes such an image: "
		"remove the directory and build it again");
}

const struct accounts_file accounts_files[] = {
	{ "/etc/passwd", accounts_passwd },
	{ "/etc/group", accounts_group },
};

int accounts_write(int root, const struct plan_identity *id, struct mlr_error *err)
{
	for (size_t i = 0; i < ACCOUNTS_FILES; i++) {
		const struct accounts_file *f = &accounts_files[i];
		auto_free char *old = read_old(root, f->path), *text = f->make(old, id);
		int r = text ? target_replace(root, f->path, text, strlen(text), err) : 0;

		if (r == -EISDIR)
			return accounts_is_directory(f->path, err);
		TRY(r);
	}
	return 0;
}
