#include "pull/files.h"

#include "layer/archive.h"

#include <archive.h>
#include <archive_entry.h>

#define LINKS_MAX 8 /* docker's links take one step */

struct member {
	char *name;   /* cleaned */
	char *target; /* cleaned, for a link; else NULL */
	uint64_t offset, size;
	size_t number; /* its index in the archive: the last of a name wins, as with tar */
};

struct files {
	int fd;             /* the directory, or the plain archive */
	int is_dir, is_cut; /* is_cut: the archive lacks its end mark */
	struct member *v;   /* an archive's members, n of them, sorted by name */
	size_t n, names;
};

void files_part_done(struct files_part *p)
{
	fd_close(&p->fd);
	*p = (struct files_part)FILES_PART_INIT;
}

void files_free(struct files *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++) {
		free(f->v[i].name);
		free(f->v[i].target);
	}
	free(f->v);
	fd_close(&f->fd);
	free(f);
}

/* A path relative to a directory in the archive ("" for its top) without "." and ".."; NULL if it
 * leads outside. To free(). */
static char *clean(const char *dir, const char *path)
{
	auto_free char *whole = *path == '/' ? xstrdup(path) : xasprintf("%s/%s", dir, path);
	char *out = xmalloc(strlen(whole) + 1);
	size_t len = 0;

	for (char *s = whole; *s;) {
		size_t n = strcspn(s, "/");

		if (n == 2 && s[0] == '.' && s[1] == '.') {
			if (len == 0) {
				free(out);
				return NULL;
			}
			while (len > 0 && out[--len] != '/')
				;
		} else if (n > 0 && !(n == 1 && s[0] == '.')) {
			if (len > 0)
				out[len++] = '/';
			memcpy(out + len, s, n);
			len += n;
		}
		s += n + (s[n] == '/');
	}
	out[len] = '\0';
	return out;
}

static char *clean_link(const char *name, const char *target)
{
	const char *slash = strrchr(name, '/');
	auto_free char *dir = xstrndup(name, slash ? (size_t)(slash - name) : 0);

	return clean(dir, target);
}

/* Remember a member that may be needed: a plain file, or a link to one. */
static int add(struct files *f, struct archive *a, struct archive_entry *e, struct mlr_error *err)
{
	const char *path = archive_entry_pathname(e), *hard = archive_entry_hardlink(e),
		   *soft = archive_entry_symlink(e);
	auto_free char *name = path ? clean("", path) : NULL, *target = NULL;
	int is_file = archive_entry_filetype(e) == AE_IFREG && archive_entry_sparse_count(e) == 0;

	if (!name || (!hard && !soft && !is_file))
		return 0;
	if (hard || soft) {
		target = hard ? clean("", hard) : clean_link(name, soft);
		if (!target)
			return 0;
	}
	f->names += strlen(name) + (target ? strlen(target) : 0);
	if (f->n == FILES_MEMBERS_MAX || f->names > FILES_NAMES_MAX)
		return mlr_fail(err, EFBIG, "more than %d files, which no archive of an image has",
			FILES_MEMBERS_MAX);
	if ((f->n & (f->n - 1)) == 0)
		f->v = xreallocarray(f->v, f->n ? 2 * f->n : 1, sizeof(*f->v));
	f->v[f->n] = (struct member){ take_ptr(&name), take_ptr(&target),
		(uint64_t)archive_filter_bytes(a, 0), (uint64_t)archive_entry_size(e), f->n };
	f->n++;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	return r ? r : x->number < y->number ? -1 : 1;
}

static int damaged(const struct files *f, struct archive *a, struct mlr_error *err)
{
	const char *why = archive_error_string(a);

	mlr_fail(err, EPROTO, "read the archive: %s", why ? why : "it is damaged");
	if (!f || f->n > 0)
		return -EPROTO;
	return mlr_hint(err,
		"expected an image's archive or a tar of a root directory; mlrun exec -v brings a file into a container");
}

/*
 * libarchive's next header, after the first member. An archive ends with two blocks of zeros
 * (POSIX, pax), and all writers write them. GNU tar accepts one, as this does. libarchive accepts
 * none: then its position is the last member's end.
 */
static int next_header(struct archive *a, struct archive_entry **e, int *is_cut)
{
	int r = archive_read_data_skip(a);
	int64_t end = archive_filter_bytes(a, 0);

	if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
		return r;
	r = archive_read_next_header(a, e);
	*is_cut = r == ARCHIVE_EOF && archive_filter_bytes(a, 0) == end;
	return r;
}

/* Read all members; if f is NULL, only look for the end mark. */
static int read_members(struct files *f, struct archive *a, const struct plain_options *opt,
	int *is_cut, struct mlr_error *err)
{
	struct archive_entry *e;
	int r = archive_read_next_header(a, &e);

	*is_cut = r == ARCHIVE_EOF && archive_filter_bytes(a, 0) == 0;
	while (r == ARCHIVE_OK || r == ARCHIVE_WARN) {
		TRY(f ? add(f, a, e, err) : 0);
		if (opt->cancelled && opt->cancelled(opt->cancelled_ctx))
			return mlr_fail(err, ECANCELED, "interrupted");
		r = next_header(a, &e, is_cut);
	}
	if (r == ARCHIVE_EOF)
		return 0;
	return damaged(f, a, err);
}

static int read_archive(struct files *f, int fd, const struct plain_options *opt, int *is_cut,
	struct mlr_error *err)
{
	auto_call(layer_archive_reader_cleanup) struct archive *a = archive_read_new();

	if (!a)
		return mlr_fail(err, ENOMEM, "read the archive: out of memory");
	if (lseek(fd, 0, SEEK_SET) < 0)
		return mlr_fail_errno(err, "seek in the archive");
	archive_read_support_format_tar(a);
	if (archive_read_open_fd(a, fd, 64 << 10) != ARCHIVE_OK)
		return damaged(f, a, err);
	return read_members(f, a, opt, is_cut, err);
}

int files_check_end(int fd, const struct plain_options *opt, struct mlr_error *err)
{
	int is_cut, r = read_archive(NULL, fd, opt, &is_cut, err);

	if (r < 0 || !is_cut)
		return r;
	mlr_fail(err, EPROTO,
		"the tar is cut short: no end-of-archive mark follows its last member");
	return mlr_hint(err,
		"copy it again; where its writer left the mark out, "
		"head -c 1024 /dev/zero >>FILE adds it");
}

int files_open_fd(
	int fd, const struct plain_options *opt, struct files **ret, struct mlr_error *err)
{
	auto_call(files_cleanup) struct files *f = xcalloc(1, sizeof(*f));
	struct stat st;
	int r;

	f->fd = -1;
	if (fstat(fd, &st) < 0)
		return mlr_fail_errno(err, "stat");
	f->is_dir = S_ISDIR(st.st_mode);
	if (f->is_dir) {
		f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		if (f->fd < 0)
			return mlr_fail_errno(err, "duplicate a descriptor");
	} else {
		f->fd = r = plain_open(fd, opt, err);
		if (r >= 0)
			r = read_archive(f, f->fd, opt, &f->is_cut, err);
		TRY(r);
		sort_all(f->v, f->n, by_name);
	}
	*ret = take_ptr(&f);
	return 0;
}

/* The last member of that name, or NULL. */
static const struct member *lookup(const struct files *f, const char *name)
{
	size_t low = 0, high = f->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(f->v[mid].name, name) <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low > 0 && strcmp(f->v[low - 1].name, name) == 0 ? &f->v[low - 1] : NULL;
}

static int find_member(
	struct files *f, const char *name, struct files_part *ret, struct mlr_error *err)
{
	auto_free char *cleaned = clean("", name);
	const struct member *m = cleaned ? lookup(f, cleaned) : NULL;
	struct stat st;

	for (int i = 0; m && m->target; i++) {
		if (i == LINKS_MAX)
			return mlr_fail(err, EPROTO, "'%s': too many links", name);
		m = lookup(f, m->target);
	}
	if (!m)
		return mlr_fail(err, ENOENT, "no file '%s' in the archive%s", name,
			f->is_cut ? ", which is cut short" : "");
	if (fstat(f->fd, &st) < 0)
		return mlr_fail_errno(err, "stat the archive");
	if (m->offset > (uint64_t)st.st_size || m->size > (uint64_t)st.st_size - m->offset)
		return mlr_fail(err, EPROTO, "'%s': the archive ends before it does", name);
	ret->fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 3);
	if (ret->fd < 0)
		return mlr_fail_errno(err, "duplicate a descriptor");
	ret->offset = m->offset;
	ret->size = m->size;
	return 0;
}

/* Open without waiting, in case it is a fifo. */
static int find_file(
	struct files *f, const char *name, struct files_part *ret, struct mlr_error *err)
{
	auto_close int fd = file_open_in_root(f->fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	struct stat st;

	if (fd < 0)
		return mlr_result(err, fd, "open '%s'", name);
	if (fstat(fd, &st) < 0)
		return mlr_fail_errno(err, "stat '%s'", name);
	if (!S_ISREG(st.st_mode))
		return mlr_fail(err, EPROTO, "'%s' is not a file", name);
	*ret = (struct files_part){ take_fd(&fd), 0, (uint64_t)st.st_size };
	return 0;
}

int files_find(struct files *f, const char *name, struct files_part *ret, struct mlr_error *err)
{
	return f->is_dir ? find_file(f, name, ret, err) : find_member(f, name, ret, err);
}

int files_part_read(const struct files_part *p, uint64_t at, void *buf, size_t len)
{
	char *to = buf;

	while (len > 0) {
		ssize_t n = TEMP_FAILURE_RETRY(pread(p->fd, to, len, (off_t)(p->offset + at)));

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		to += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

int files_read(struct files *f, const char *name, size_t max, char **ret, size_t *len,
	struct mlr_error *err)
{
	auto_call(files_part_done) struct files_part p = FILES_PART_INIT;
	auto_free char *buf = NULL;

	TRY(files_find(f, name, &p, err));
	if (p.size > max)
		return mlr_fail(err, EFBIG, "'%s': %llu bytes, the limit is %zu", name,
			(unsigned long long)p.size, max);
	buf = malloc((size_t)p.size + 1);
	if (!buf)
		return mlr_fail(err, ENOMEM, "'%s': out of memory", name);
	TRY(mlr_result(err, files_part_read(&p, 0, buf, (size_t)p.size), "read '%s'", name));
	buf[p.size] = '\0';
	*ret = take_ptr(&buf);
	if (len)
		*len = (size_t)p.size;
	return 0;
}
