/*
 * The log of a run: JSON lines, one record per line. One write(2) writes each whole, so several
 * threads may write and a kill truncates none. After a record that a full disk truncated, the next
 * begins on a new line, also in a later run. Every record has "event"; values not known yet are
 * null. mltrain(1) documents the keys.
 */
#include "metrics/records.h"

#include "base/follow.h"

#include <sys/file.h>

struct jsonl {
	int fd;
	char *path; /* NULL: stdout */
	int cut;    /* the last record was written in part */
	struct mlr_error failed;
};

/*
 * Check that a file is a log, and whether it ends within a line, as after a full disk.
 */
static int look(int fd, const char *path, int *cut, struct mlr_error *err)
{
	auto_close int in = -1;
	struct stat st;
	char first, last;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
		return 0;
	in = open(path, O_RDONLY | O_CLOEXEC);
	if (in < 0 || pread(in, &first, 1, 0) != 1 || pread(in, &last, 1, st.st_size - 1) != 1)
		return 0;
	if (first != '{') {
		mlr_fail(err, EEXIST, "log '%s' is there and begins with no record", path);
		return mlr_hint(err, "records are appended to a log alone: give another name");
	}
	*cut = last != '\n';
	return 0;
}

int jsonl_open(const char *path, struct jsonl **ret, struct mlr_error *err)
{
	auto_close int fd = -1;
	struct jsonl *l;
	int cut = 0;

	if (path)
		fd = follow_append(path, err);
	else
		fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return path ? mlr_wrap(err, "log") : mlr_fail_errno(err, "open log 'stdout'");
	TRY(path ? look(fd, path, &cut, err) : 0);
	/* Without locks nothing is known. */
	if (path && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		mlr_warning(
			"another run writes to log '%s' meanwhile, and no record tells whose it is",
			path);
	l = xcalloc(1, sizeof(*l));
	l->fd = take_fd(&fd);
	l->path = path ? xstrdup(path) : NULL;
	l->cut = cut;
	*ret = l;
	return 0;
}

static void fail(struct jsonl *l, int code)
{
	if (l->failed.code)
		return;
	if (l->path)
		mlr_fail(&l->failed, code, "write log '%s': %s", l->path, strerror(code));
	else
		mlr_fail(&l->failed, code, "write to stdout: %s", strerror(code));
}

void jsonl_put(struct jsonl *l, json_t *record)
{
	auto_free char *text =
		record ? json_dumps(record, JSON_COMPACT | JSON_REAL_PRECISION(10)) : NULL;
	auto_free char *line = text ? xasprintf("%s%s\n", l->cut ? "\n" : "", text) : NULL;
	int r = line ? file_write_all(l->fd, line, strlen(line)) : -EINVAL;

	json_decref(record);
	l->cut = r < 0;
	if (r < 0)
		fail(l, -r);
}

int jsonl_close(struct jsonl **l, struct mlr_error *err)
{
	struct jsonl *log = take_ptr(l);
	struct mlr_error failed = MLR_ERROR_INIT;

	if (!log)
		return 0;
	if (close(log->fd) < 0)
		fail(log, errno);
	failed = log->failed;
	free(log->path);
	free(log);
	if (!failed.code)
		return 0;
	return mlr_pass(err, failed.code, failed.text);
}
