/*
 * Mounts travel to their targets as descriptors: nothing can be swapped between check and use
 * (CVE-2021-30465), and the container's own mounts may cover the sources.
 */
#include "runtime/source.h"

#include "runtime/bind.h"

#define COPY_MAX \
	(16 << 20) /* bytes of a host file that PLAN_COPY copies: /etc/hosts of a large cluster */

static int is_missing(int code)
{
	return code == ENOENT || code == ENOTDIR || code == ENODEV || code == EACCES ||
		code == ELOOP;
}

/* Returns a descriptor or -errno. */
static int open_one(const struct plan_mount *m)
{
	auto_close int fd = -1;
	struct stat st;

	if (m->kind == PLAN_BIND)
		return bind_take(AT_FDCWD, m->source, m->flags);
	fd = open(m->source,
		m->kind == PLAN_COPY ? O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY
				     : O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	/* Something else than a file: /dev/null or a directory in its place. */
	return m->kind == PLAN_COPY && !S_ISREG(st.st_mode) ? -ENODEV : take_fd(&fd);
}

/* Open an overlay's directories: what is mounted next may cover them. */
static int open_layers(const struct plan_mount *m, struct source *s, struct mlr_error *err)
{
	auto_free char *copy = xstrdup(m->options);
	auto_strv struct strv words = STRV_INIT;
	char *rest = copy, *word;

	while ((word = strsep(&rest, ","))) {
		auto_strv struct strv dirs = STRV_INIT;
		auto_free char *numbers = NULL;
		char *value = strstr(word, "dir=/"), *dir; /* lowerdir, upperdir, workdir */
		size_t key = value ? (size_t)(value - word) + strlen("dir=") : strlen(word);

		value = value ? word + key : NULL;
		while ((dir = strsep(&value, ":"))) {
			int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

			if (fd < 0)
				return mlr_fail_errno(err, "open '%s' to mount an overlay", dir);
			stack_take(&s->dirs, fd);
			strv_addf(&dirs, "%d", fd);
		}
		numbers = strv_join(&dirs, dirs.n, ":");
		strv_addf(&words, "%.*s%s", (int)key, word, numbers);
	}
	s->layers = strv_join(&words, words.n, ",");
	return 0;
}

static int source_open(const struct plan_mount *m, struct source *s, struct mlr_error *err)
{
	struct stat st;

	s->is_dir = m->kind != PLAN_BIND && m->kind != PLAN_FILE;
	if (m->kind != PLAN_COPY && m->kind != PLAN_OVERLAY && m->kind != PLAN_BIND)
		return 0;
	s->fd = open_one(m);
	if (s->fd < 0) {
		if (!(m->flags & PLAN_OPTIONAL) || !is_missing(-s->fd))
			return mlr_fail(err, -s->fd, "open '%s' to mount it: %s", m->source,
				strerror(-s->fd));
		s->fd = -1;
		mlr_debug("'%s' is missing, omitted", m->source);
		s->absent = 1;
		return 0;
	}
	if (m->kind == PLAN_OVERLAY && m->options)
		TRY(open_layers(m, s, err));
	if (m->kind != PLAN_BIND && !m->ino)
		return 0;
	if (fstat(s->fd, &st) < 0)
		return mlr_fail_errno(err, "'%s'", m->source);
	if (m->ino && (st.st_ino != m->ino || st.st_dev != m->dev))
		return mlr_fail(
			err, ESTALE, "'%s' was exchanged just before it was mounted", m->source);
	s->is_dir = S_ISDIR(st.st_mode);
	return 0;
}

int sources_open(const struct plan *p, struct source **ret, struct mlr_error *err)
{
	struct source *s = xcalloc(p->n_mounts, sizeof(*s));

	for (size_t i = 0; i < p->n_mounts; i++)
		s[i].fd = -1;
	for (size_t i = 0; i < p->n_mounts; i++) {
		int r = source_open(&p->mounts[i], &s[i], err);

		if (r < 0) {
			sources_close(s, p->n_mounts);
			return r;
		}
	}
	*ret = s;
	return 0;
}

void sources_close(struct source *s, size_t n)
{
	for (size_t i = 0; s && i < n; i++) {
		fd_close(&s[i].fd);
		free(s[i].layers);
		stack_done(&s[i].dirs);
	}
	free(s);
}

ssize_t source_read(
	const struct source *s, const struct plan_mount *m, char **ret, struct mlr_error *err)
{
	auto_free char *buf = NULL;
	struct stat st;
	ssize_t n;

	if (fstat(s->fd, &st) < 0 || lseek(s->fd, 0, SEEK_SET) < 0)
		return mlr_fail_errno(err, "read '%s'", m->source);
	if (st.st_size > COPY_MAX)
		return mlr_fail(err, EFBIG, "'%s' is larger than %d bytes", m->source, COPY_MAX);
	buf = xmalloc((size_t)st.st_size + 1);
	n = file_read_full(s->fd, buf, (size_t)st.st_size);
	if (n < 0)
		return mlr_result(err, (int)n, "read '%s'", m->source);
	*ret = take_ptr(&buf);
	return n;
}
