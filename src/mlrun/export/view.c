#include "export/view.h"

#include "base/base.h"
#include "layer/entry.h"
#include "layer/unpack.h"
#include "runtime/runtime.h"

#include <archive.h>
#include <sys/prctl.h>

struct view {
	pid_t pid;
	int tar;    /* the pipe to read from */
	int failed; /* another, for a failure: a struct mlr_error */
};

/* --- in the process ----------------------------------------------------------------------- */

struct reading {
	const struct view_file *files;
	size_t n;
	int out;
	struct layer_entry_target to;
};

static int check(void *ctx, int result, struct mlr_error *err)
{
	const struct reading *k = ctx;
	const char *why = archive_error_string(k->to.archive);

	return result >= ARCHIVE_WARN
		? 0
		: mlr_fail(err, EIO, "write a tar: %s", why ? why : "unknown");
}

static la_ssize_t drain(struct archive *a, void *ctx, const void *buf, size_t len)
{
	const struct reading *k = ctx;

	if (file_write_all(k->out, buf, len) < 0)
		_exit(0); /* nobody reads any more */
	return (la_ssize_t)len;
}

static void start_tar(struct reading *k)
{
	struct archive *a = k->to.archive = archive_write_new();

	k->to.links = archive_entry_linkresolver_new();
	if (!a || !k->to.links)
		mlr_oom();
	archive_entry_linkresolver_set_strategy(k->to.links, ARCHIVE_FORMAT_TAR_PAX_RESTRICTED);
	archive_write_set_format_pax_restricted(a);
	archive_write_add_filter_none(a);
	archive_write_set_bytes_in_last_block(a, 1);
	archive_write_open(a, k, NULL, drain, NULL);
}

/* Put one name; fd is its descriptor if it is a file or directory. */
static int put(struct reading *k, int dir, const char *name, const char *path,
	const struct stat *st, int fd, struct mlr_error *err)
{
	auto_call(layer_entry_free) struct archive_entry *e = layer_entry_new();
	int r = layer_entry_describe(e, dir, name, *path ? path : ".", st);

	if (r < 0)
		return mlr_fail(err, -r, "read link '/%s': %s", path, strerror(-r));
	archive_entry_set_uid(e, 0);
	archive_entry_set_gid(e, 0);
	return layer_entry_put(&k->to, e, path, fd, err);
}

/* Recursion is at most LAYER_DEPTH_MAX deep. */
static int put_tree(struct reading *k, int dir, const char *name, const char *path, int depth,
	struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT;
	auto_close int fd = -1;
	struct stat st;
	int r;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return mlr_fail_errno(err, "look at '/%s'", path);
	if (S_ISSOCK(st.st_mode) || S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
		return 0;
	if (depth > LAYER_DEPTH_MAX)
		return mlr_fail(
			err, EFBIG, "'/%s': directories deeper than %d", path, LAYER_DEPTH_MAX);
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) {
		fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			return mlr_fail_errno(err, "open '/%s'", path);
	}
	r = put(k, dir, name, path, &st, fd, err);
	if (r < 0 || !S_ISDIR(st.st_mode))
		return r;
	r = file_list(fd, ".", 0, &names);
	if (r < 0)
		return mlr_fail(err, -r, "list '/%s': %s", path, strerror(-r));
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		auto_free char *below = xasprintf("%s%s%s", path, *path ? "/" : "", names.v[i]);

		r = put_tree(k, fd, names.v[i], below, depth + 1, err);
	}
	return r;
}

/* Later members of a name win. */
static int put_files(struct reading *k, struct mlr_error *err)
{
	for (size_t i = 0; i < k->n; i++) {
		auto_call(layer_entry_free) struct archive_entry *e = layer_entry_new();
		size_t size = strlen(k->files[i].text);

		archive_entry_set_pathname(e, k->files[i].path);
		archive_entry_set_filetype(e, AE_IFREG);
		archive_entry_set_perm(e, 0644);
		archive_entry_set_mtime(e, 0, 0);
		archive_entry_set_size(e, (la_int64_t)size);
		TRY(check(k, archive_write_header(k->to.archive, e), err));
		TRY(check(k, (int)archive_write_data(k->to.archive, k->files[i].text, size), err));
	}
	return 0;
}

/* The root is mounted, and this process has all capabilities over the image's files. */
static int read_root(void *ctx, int root, struct mlr_error *err)
{
	struct reading *k = ctx;
	int r;

	start_tar(k);
	r = put_tree(k, root, ".", "", 0, err);
	if (r == 0)
		r = put_files(k, err);
	if (r == 0)
		r = check(k, archive_write_close(k->to.archive), err);
	return r < 0 ? r : (_exit(0), 0);
}

static int never(void *ctx, struct mlr_error *err)
{
	return mlr_fail(err, EINVAL, "the root was not read");
}

__attribute__((noreturn)) static void process(const struct plan *p, struct reading *k, int failed)
{
	const struct runtime_stops stops = { read_root, never, k };
	struct mlr_error err = MLR_ERROR_INIT;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	k->to.buf = xmalloc(LAYER_ENTRY_BUFFER);
	k->to.check = check;
	k->to.ctx = k;
	if (runtime_enter_stopping(p, &stops, &err) == 0)
		never(NULL, &err);
	(void)file_write_all(failed, &err, sizeof(err));
	_exit(1);
}

/* --- outside ------------------------------------------------------------------------------ */

int view_open(const struct plan *p, const struct view_file *files, size_t n, struct view **ret,
	struct mlr_error *err)
{
	struct reading k = { .files = files, .n = n };
	int tar[2], failed[2];
	pid_t pid;

	if (pipe2(tar, O_CLOEXEC) < 0)
		return mlr_fail_errno(err, "make a pipe");
	if (pipe2(failed, O_CLOEXEC) < 0) {
		close(tar[0]);
		close(tar[1]);
		return mlr_fail_errno(err, "make a pipe");
	}
	pid = fork();
	if (pid == 0) {
		close(tar[0]);
		close(failed[0]);
		k.out = tar[1];
		process(p, &k, failed[1]);
	}
	close(tar[1]);
	close(failed[1]);
	if (pid < 0) {
		close(tar[0]);
		close(failed[0]);
		return mlr_fail_errno(err, "start a process");
	}
	*ret = xmalloc(sizeof(**ret));
	**ret = (struct view){ pid, tar[0], failed[0] };
	return 0;
}

/* The tar has ended: because all was read? */
static int check_end(struct view *v, struct mlr_error *err)
{
	struct mlr_error its;
	int status = 0;

	if (file_read_full(v->failed, &its, sizeof(its)) == (ssize_t)sizeof(its)) {
		if (err)
			*err = its;
		return -its.code;
	}
	while (waitpid(v->pid, &status, 0) < 0 && errno == EINTR)
		;
	v->pid = 0;
	return status == 0 ? 0 : mlr_fail(err, EIO, "the process that read the root was killed");
}

ssize_t view_read(void *view, void *buf, size_t len, struct mlr_error *err)
{
	struct view *v = view;
	ssize_t n;

	do
		n = read(v->tar, buf, len);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return mlr_fail_errno(err, "read from a pipe");
	return n > 0 || !v->pid ? n : check_end(v, err);
}

void view_free(struct view *v)
{
	if (!v)
		return;
	close(v->tar);
	close(v->failed);
	if (v->pid > 0) {
		kill(v->pid, SIGKILL);
		while (waitpid(v->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	free(v);
}
