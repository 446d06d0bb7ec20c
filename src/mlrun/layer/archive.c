#include "layer/archive.h"

#include "layer/entry.h"
#include "layer/path.h"

struct layer_archive {
	struct layer_entry_target tar;
	layer_write_fn write;
	void *to;
	struct mlr_error why; /* the error of a failed write */
	int failed;           /* its -errno */
	int ended;            /* ignore further output: it is no part of the tar */
	struct layer_locale utf8;
};

/* Always report success to libarchive: it leaks an archive's memory if writing fails. */
static la_ssize_t drain(struct archive *ar, void *ctx, const void *buf, size_t len)
{
	struct layer_archive *a = ctx;

	if (a->failed == 0 && !a->ended)
		a->failed = a->write(a->to, buf, len, &a->why);
	return (la_ssize_t)len;
}

/* Call it after each call of libarchive's, with its result. */
static int check(void *ctx, int r, struct mlr_error *err)
{
	const struct layer_archive *a = ctx;
	const char *why = archive_error_string(a->tar.archive);

	if (a->failed < 0 && err)
		*err = a->why;
	if (a->failed < 0)
		return a->failed;
	return r < ARCHIVE_WARN ? mlr_fail(err, EIO, "%s", why ? why : "write an archive") : 0;
}

void layer_locale_begin(struct layer_locale *l, const char *name)
{
	l->own = newlocale(LC_CTYPE_MASK, name, (locale_t)0);
	if (l->own)
		l->was = uselocale(l->own);
}

void layer_locale_end(struct layer_locale *l)
{
	if (!l->own)
		return;
	uselocale(l->was);
	freelocale(l->own);
	l->own = (locale_t)0;
}

static int start(struct layer_archive *a, struct mlr_error *err)
{
	struct archive *ar = a->tar.archive;

	archive_write_set_format_pax_restricted(ar);
	archive_write_add_filter_none(ar);
	archive_write_set_bytes_per_block(ar, LAYER_ENTRY_BUFFER);
	archive_write_set_bytes_in_last_block(ar, 1);
	archive_entry_linkresolver_set_strategy(a->tar.links, archive_format(ar));
	return check(a, archive_write_open(ar, a, NULL, drain, NULL), err);
}

int layer_archive_open(
	layer_write_fn write, void *to, struct layer_archive **ret, struct mlr_error *err)
{
	struct layer_archive *a = xcalloc(1, sizeof(*a));
	int r;

	*a = (struct layer_archive){ .write = write, .to = to };
	a->tar = (struct layer_entry_target){ .archive = archive_write_new(),
		.links = archive_entry_linkresolver_new(),
		.buf = xmalloc(LAYER_ENTRY_BUFFER),
		.check = check,
		.ctx = a };
	if (!a->tar.archive || !a->tar.links)
		mlr_oom();
	layer_locale_begin(&a->utf8, "C.UTF-8");
	r = start(a, err);
	if (r < 0)
		return layer_archive_close(a, r, err);
	*ret = a;
	return 0;
}

int layer_archive_put(struct layer_archive *a, struct archive_entry *e, const char *path, int fd,
	struct mlr_error *err)
{
	return layer_entry_put(&a->tar, e, path, fd, err);
}

int layer_archive_put_plain(struct layer_archive *a, struct archive_entry *e, const char *path,
	int fd, struct mlr_error *err)
{
	return layer_entry_put_plain(&a->tar, e, path, fd, err);
}

int layer_archive_put_bytes(struct layer_archive *a, struct archive_entry *e, const void *buf,
	size_t len, struct mlr_error *err)
{
	archive_entry_set_size(e, (la_int64_t)len);
	TRY(check(a, archive_write_header(a->tar.archive, e), err));
	if (len == 0)
		return 0;
	return check(a,
		archive_write_data(a->tar.archive, buf, len) == (la_ssize_t)len ? ARCHIVE_OK
										: ARCHIVE_FATAL,
		err);
}

int layer_archive_put_mark(struct layer_archive *a, const char *path, struct mlr_error *err)
{
	auto_call(layer_entry_free) struct archive_entry *e = layer_entry_new();

	archive_entry_set_pathname(e, path);
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_perm(e, 0);
	archive_entry_set_mtime(e, 0, 0);
	return layer_archive_put_bytes(a, e, NULL, 0, err);
}

/* --- another tar ------------------------------------------------------------- */

/* Enable filters by name: "all" would start external programs. */
struct archive *layer_archive_reader(int fd)
{
	struct archive *in = archive_read_new();

	if (!in)
		mlr_oom();
	archive_read_support_filter_gzip(in);
	archive_read_support_filter_bzip2(in);
	archive_read_support_filter_xz(in);
	archive_read_support_filter_zstd(in);
	archive_read_support_format_tar(in);
	if (lseek(fd, 0, SEEK_SET) < 0 ||
		archive_read_open_fd(in, fd, LAYER_ENTRY_BUFFER) != ARCHIVE_OK) {
		archive_read_free(in);
		return NULL;
	}
	return in;
}

int layer_archive_is_tar(int fd)
{
	auto_call(layer_archive_reader_cleanup) struct archive *in = layer_archive_reader(fd);
	struct archive_entry *e;

	return in && archive_read_next_header(in, &e) == ARCHIVE_OK;
}

static int copy_data(
	struct layer_archive *a, struct archive *in, const int *cancel, struct mlr_error *err)
{
	for (;;) {
		la_ssize_t n = archive_read_data(in, a->tar.buf, LAYER_ENTRY_BUFFER);

		if (cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED))
			return mlr_fail(err, ECANCELED, "interrupted");
		if (n < 0)
			return mlr_fail(err, EPROTO, "%s", archive_error_string(in));
		if (n == 0)
			return 0;
		TRY(check(a,
			archive_write_data(a->tar.archive, a->tar.buf, (size_t)n) == n
				? ARCHIVE_OK
				: ARCHIVE_FATAL,
			err));
	}
}

static int clean_name(const char *prefix, const char *name, char **ret, struct mlr_error *err)
{
	char path[PATH_MAX];
	int r = layer_path_clean(name, path, err);

	if (r < 0)
		return mlr_wrap(err, "'%.300s'", name ? name : "");
	*ret = xasprintf("%s%s%s", prefix, *prefix && *path ? "/" : "", path);
	return 0;
}

static void keep_xattrs(struct archive_entry *e)
{
	struct archive_entry *copy = archive_entry_clone(e);
	const char *name;
	const void *value;
	size_t size;

	archive_entry_xattr_clear(e);
	archive_entry_xattr_reset(copy);
	while (archive_entry_xattr_next(copy, &name, &value, &size) == ARCHIVE_OK)
		if (strncmp(name, "user.", 5) == 0 || strcmp(name, "security.capability") == 0)
			archive_entry_xattr_add_entry(e, name, value, size);
	archive_entry_free(copy);
	archive_entry_acl_clear(e);
	archive_entry_copy_mac_metadata(e, NULL, 0);
	archive_entry_sparse_clear(e);
	archive_entry_set_fflags(e, 0, 0);
}

static void settle(struct archive_entry *e, const struct layer_archive_merge *how)
{
	if (how->uid >= 0)
		archive_entry_set_uid(e, how->uid);
	if (how->gid >= 0)
		archive_entry_set_gid(e, how->gid);
	archive_entry_set_uname(e, NULL);
	archive_entry_set_gname(e, NULL);
	if (how->newest && archive_entry_mtime(e) > how->newest)
		archive_entry_set_mtime(e, how->newest, 0);
	archive_entry_unset_atime(e);
	archive_entry_unset_ctime(e);
	archive_entry_unset_birthtime(e);
	keep_xattrs(e);
}

static int merge_member(struct layer_archive *a, struct archive *in, struct archive_entry *e,
	const struct layer_archive_merge *how, struct mlr_error *err)
{
	auto_free char *name = NULL, *link = NULL;
	mode_t type = archive_entry_filetype(e);
	int r = clean_name(how->prefix, archive_entry_pathname(e), &name, err);

	if (r == 0 && archive_entry_hardlink(e))
		r = clean_name(how->prefix, archive_entry_hardlink(e), &link, err);
	if (r < 0 || !*name || type == AE_IFCHR || type == AE_IFBLK || type == AE_IFSOCK)
		return r;
	archive_entry_set_pathname(e, name);
	if (link)
		archive_entry_set_hardlink(e, link);
	settle(e, how);
	r = check(a, archive_write_header(a->tar.archive, e), err);
	return r == 0 && !link && type == AE_IFREG ? copy_data(a, in, how->cancel, err) : r;
}

int layer_archive_merge(struct layer_archive *a, int fd, const struct layer_archive_merge *how,
	struct mlr_error *err)
{
	auto_call(layer_archive_reader_cleanup) struct archive *in = layer_archive_reader(fd);
	struct archive_entry *e;
	int s;

	if (!in)
		return mlr_fail(err, EPROTO, "this is not a tar");
	while ((s = archive_read_next_header(in, &e)) == ARCHIVE_OK)
		TRY(merge_member(a, in, e, how, err));
	return s == ARCHIVE_EOF ? 0 : mlr_fail(err, EPROTO, "%s", archive_error_string(in));
}

int layer_archive_close(struct layer_archive *a, int failed, struct mlr_error *err)
{
	int r = failed;

	a->ended = r < 0;
	if (r == 0)
		r = check(a, archive_write_close(a->tar.archive), err);
	archive_write_free(a->tar.archive);
	archive_entry_linkresolver_free(a->tar.links);
	layer_locale_end(&a->utf8);
	free(a->tar.buf);
	free(a);
	return r;
}

/* --- a record's headers ------------------------------------------------------------ */

/* Reads the tar from the record, with zeros in place of file data. */
struct headers {
	struct record_reader record;
	struct record_stretch stretch;
	uint64_t left; /* of the current stretch */
	struct archive *tar;
	struct mlr_error err;
};

static void headers_done(struct headers *h)
{
	archive_read_free(h->tar);
	record_reader_done(&h->record);
}

/* Advance to a stretch with bytes left. Returns 1, 0 at the end of the tar, or -errno. */
static int advance(struct headers *h)
{
	int r = 0;

	while (r == 0 && h->left == 0) {
		r = record_next(&h->record, &h->stretch, &h->err);
		if (r == 0 && h->stretch.kind == 'E')
			return 0;
		if (r == 0 && h->stretch.kind == 'D')
			r = record_pass_over(&h->record, h->stretch.size, &h->err);
		else
			h->left = h->stretch.size;
	}
	return r < 0 ? r : 1;
}

static la_ssize_t on_read(struct archive *a, void *ctx, const void **buf)
{
	static const uint8_t zeros[16 << 10];
	struct headers *h = ctx;
	const uint8_t *some = zeros;
	ssize_t n = advance(h);

	if (n > 0 && h->stretch.kind == 'R')
		n = record_take_some(&h->record, h->left, &some, &h->err);
	else if (n > 0)
		n = h->left < sizeof(zeros) ? (ssize_t)h->left : (ssize_t)sizeof(zeros);
	if (n < 0) {
		archive_set_error(a, (int)-n, "%s", h->err.text);
		return ARCHIVE_FATAL;
	}
	h->left -= (uint64_t)n;
	*buf = some;
	return n;
}

static la_int64_t on_skip(struct archive *a, void *ctx, la_int64_t want)
{
	struct headers *h = ctx;
	uint64_t n;

	if (advance(h) <= 0 || h->stretch.kind != 'F') /* on_read() reports the error */
		return 0;
	n = (uint64_t)want < h->left ? (uint64_t)want : h->left;
	h->left -= n;
	return (la_int64_t)n;
}

static int failed(const struct headers *h, struct mlr_error *err)
{
	const char *why = archive_error_string(h->tar);

	if (h->err.code && err)
		*err = h->err;
	return h->err.code ? -h->err.code
			   : mlr_fail(err, EPROTO, "broken tar: %s", why ? why : "unknown reason");
}

static int open_tar(struct headers *h, struct mlr_error *err)
{
	h->tar = archive_read_new();
	if (!h->tar)
		return mlr_fail(err, ENOMEM, "no memory to read a tar with");
	archive_read_support_format_tar(h->tar);
	archive_read_support_format_empty(h->tar);
	return archive_read_open2(h->tar, h, NULL, on_read, on_skip, NULL) == ARCHIVE_OK
		? 0
		: failed(h, err);
}

int layer_headers(int record_fd, layer_header_fn fn, void *ctx, struct mlr_error *err)
{
	auto_call(headers_done) struct headers h = { .tar = NULL };
	struct archive_entry *e;
	int s;

	TRY(record_reader_init(&h.record, record_fd, err));
	TRY(record_take_magic(&h.record, err));
	TRY(open_tar(&h, err));
	while ((s = archive_read_next_header(h.tar, &e)) != ARCHIVE_EOF)
		TRY(s == ARCHIVE_OK || s == ARCHIVE_WARN ? fn(ctx, e, err) : failed(&h, err));
	return 0;
}
