#include "layer/unpack.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "layer/path.h"
#include "layer/stream.h"
#include "layer/writer.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/* One layer being unpacked. */
struct unpacking {
	struct layer_stream *stream;
	struct archive *archive;
	struct layer_writer writer;
	const struct layer_limits *limits;
	struct layer_result *result;
	uint64_t file_bytes;      /* sizes of the files so far, holes included */
	uint64_t set_ids, xattrs; /* dropped */
	int stream_failed;        /* then this is why, whatever libarchive makes of it: */
	struct mlr_error stream_err;
};

static void unpacking_done(struct unpacking *u)
{
	archive_read_free(u->archive);
	layer_stream_close(u->stream);
	layer_writer_done(&u->writer);
}

static ssize_t on_read(struct archive *a, void *ctx, const void **buf)
{
	struct unpacking *u = ctx;
	ssize_t n = layer_stream_next(u->stream, buf, &u->stream_err);

	if (n < 0) {
		u->stream_failed = 1;
		archive_set_error(a, (int)-n, "%s", u->stream_err.text);
		return ARCHIVE_FATAL;
	}
	return n;
}

/* What libarchive could not read, told by who knows best. */
static int archive_failed(const struct unpacking *u, struct mlr_error *err)
{
	const char *why = archive_error_string(u->archive);

	if (u->stream_failed) {
		if (err)
			*err = u->stream_err;
		return -u->stream_err.code;
	}
	if (archive_errno(u->archive) == ENOMEM)
		return mlr_fail(err, ENOMEM, "read the tar: %s", why ? why : "out of memory");
	return mlr_fail(err, EPROTO, "broken tar: %s", why ? why : "unknown reason");
}

static int open_archive(struct unpacking *u, struct mlr_error *err)
{
	u->archive = archive_read_new();
	if (!u->archive)
		return mlr_fail(err, ENOMEM, "no memory to read a tar with");
	/* "empty" is for a stream without a byte, which some tools write for an empty layer. */
	if (archive_read_support_format_tar(u->archive) != ARCHIVE_OK ||
		archive_read_support_format_empty(u->archive) != ARCHIVE_OK ||
		archive_read_open(u->archive, u, NULL, on_read, NULL) != ARCHIVE_OK)
		return archive_failed(u, err);
	return 0;
}

/* Keep user.* but for those that overlayfs would obey; security.* and trusted.* are not ours to
 * give. */
static void set_xattrs(struct unpacking *u, int fd, struct archive_entry *e)
{
	const char *name;
	const void *value;
	size_t size;

	archive_entry_xattr_reset(e);
	while (archive_entry_xattr_next(e, &name, &value, &size) == ARCHIVE_OK) {
		if (!name || strncmp(name, "user.", 5) != 0 ||
			strncmp(name, "user.overlay.", 13) == 0) {
			u->xattrs++;
			continue;
		}
		if (fsetxattr(fd, name, value, size, 0) < 0)
			mlr_debug("layer: xattr '%s' of '%s': %s, ignoring", name,
				archive_entry_pathname(e), strerror(errno));
	}
}

static int write_at(int fd, const char *buf, size_t len, int64_t offset)
{
	while (len > 0) {
		ssize_t n = pwrite(fd, buf, len, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		buf += n;
		len -= (size_t)n;
		offset += n;
	}
	return 0;
}

/* The data of one file; what a sparse one leaves out stays a hole. */
static int write_data(struct unpacking *u, int fd, int64_t size, struct mlr_error *err)
{
	int64_t offset, end = 0;
	const void *buf;
	size_t len;
	int r;

	while ((r = archive_read_data_block(u->archive, &buf, &len, &offset)) == ARCHIVE_OK) {
		if (offset < 0 || offset + (int64_t)len > size)
			return mlr_fail(err, EPROTO, "data beyond its size");
		r = write_at(fd, buf, len, offset);
		if (r < 0)
			return mlr_fail(
				err, -r, "write at byte %lld: %s", (long long)offset, strerror(-r));
		end = offset + (int64_t)len;
	}
	if (r != ARCHIVE_EOF)
		return archive_failed(u, err);
	if (end < size && ftruncate(fd, size) < 0)
		return mlr_fail_errno(err, "extend to %lld bytes", (long long)size);
	return 0;
}

static int put_file(struct unpacking *u, const struct layer_member *m, struct archive_entry *e,
	struct mlr_error *err)
{
	auto_close int fd = -1;
	int64_t size = archive_entry_size(e);
	int r;

	if (size < 0)
		return mlr_fail(err, EPROTO, "a negative size");
	if ((uint64_t)size > u->limits->bytes - u->file_bytes)
		return mlr_fail(err, EFBIG, "its files are larger than the %llu bytes allowed",
			(unsigned long long)u->limits->bytes);
	u->file_bytes += (uint64_t)size;

	fd = layer_writer_file(&u->writer, m, err);
	if (fd < 0)
		return fd;
	r = write_data(u, fd, size, err);
	if (r < 0)
		return r;
	set_xattrs(u, fd, e);
	return layer_writer_file_end(fd, m, err);
}

static int put_dir(struct unpacking *u, const struct layer_member *m, struct archive_entry *e,
	struct mlr_error *err)
{
	auto_close int fd = layer_writer_dir(&u->writer, m, err);

	if (fd < 0)
		return fd;
	set_xattrs(u, fd, e);
	return 0;
}

static int put_link(
	struct unpacking *u, const struct layer_member *m, const char *to, struct mlr_error *err)
{
	char target[PATH_MAX];
	int r = layer_path_clean(to, target, err);

	if (r < 0) {
		mlr_wrap(err, "hard link to '%.200s'", to);
		return r;
	}
	return layer_writer_link(&u->writer, m, target, err);
}

/*
 * The names that are marks (image-spec, layer.md, "Whiteouts"): 1 when it was one. AUFS's own
 * ".wh..wh.plnk", ".wh..wh.aufs" and what lies below them mean nothing here.
 */
static int put_mark(struct unpacking *u, const char *path, struct mlr_error *err)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	int r;

	if (strcmp(name, ".wh..wh..opq") == 0)
		r = layer_writer_opaque(&u->writer, path, err);
	else if (strncmp(path, ".wh..wh.", 8) == 0 || strstr(path, "/.wh..wh."))
		r = 0;
	else if (strncmp(name, ".wh.", 4) == 0)
		r = layer_writer_whiteout(&u->writer, path, err);
	else
		return 0;
	return r < 0 ? r : 1;
}

static int put_member(struct unpacking *u, const struct layer_member *m, struct archive_entry *e,
	struct mlr_error *err)
{
	const char *hard = archive_entry_hardlink(e);
	int r = put_mark(u, m->path, err);

	if (r != 0)
		return r < 0 ? r : 0;
	if (hard)
		return put_link(u, m, hard, err);
	switch (archive_entry_filetype(e)) {
	case AE_IFREG: return put_file(u, m, e, err);
	case AE_IFDIR: return put_dir(u, m, e, err);
	case AE_IFLNK: return layer_writer_symlink(&u->writer, m, archive_entry_symlink(e), err);
	case AE_IFIFO: return layer_writer_fifo(&u->writer, m, err);
	case AE_IFCHR:
	case AE_IFBLK:
		u->result->devices_skipped++;
		mlr_debug("layer: device '%s' skipped", m->path);
		return 0;
	default: return mlr_fail(err, EPROTO, "a kind of member that tar does not know");
	}
}

static int put_entry(struct unpacking *u, struct archive_entry *e, struct mlr_error *err)
{
	const char *name = archive_entry_pathname(e);
	mode_t perm = archive_entry_perm(e);
	char path[PATH_MAX];
	struct layer_member m = {
		.path = path,
		.mode = perm & 01777,
		.mtime = { archive_entry_mtime(e), archive_entry_mtime_nsec(e) },
	};
	int r;

	if (++u->result->entries > u->limits->entries)
		return mlr_fail(err, EFBIG, "more than the %llu members allowed",
			(unsigned long long)u->limits->entries);
	if (perm & (S_ISUID | S_ISGID))
		u->set_ids++;
	r = layer_path_clean(name, path, err);
	if (r == 0)
		r = put_member(u, &m, e, err);
	if (r < 0 && !u->stream_failed)
		mlr_wrap(err, "'%.300s'", name ? name : "");
	return r;
}

static int put_entries(struct unpacking *u, struct mlr_error *err)
{
	struct archive_entry *e;
	int r;

	while ((r = archive_read_next_header(u->archive, &e)) == ARCHIVE_OK || r == ARCHIVE_WARN) {
		/* Mostly "can't be converted": then the name has come through byte for byte, as it
		 * should. */
		if (r == ARCHIVE_WARN)
			mlr_debug("layer: %s", archive_error_string(u->archive));
		r = put_entry(u, e, err);
		if (r < 0)
			return r;
	}
	return r == ARCHIVE_EOF ? 0 : archive_failed(u, err);
}

/* libarchive stops at the end-of-archive mark; the diff ID covers what comes after it, too. */
static int drain(struct unpacking *u, struct mlr_error *err)
{
	const void *buf;
	ssize_t n;

	while ((n = layer_stream_next(u->stream, &buf, err)) > 0)
		;
	return (int)n;
}

static int unpack(struct unpacking *u, struct mlr_error *err)
{
	struct layer_result *res = u->result;
	int r = open_archive(u, err);

	if (r == 0)
		r = put_entries(u, err);
	if (r == 0)
		r = drain(u, err);
	if (r == 0)
		r = layer_writer_finish(&u->writer, err);
	if (r < 0)
		return r;

	strcpy(res->diff_id, "sha256:");
	layer_stream_digest(u->stream, res->diff_id + strlen("sha256:"));
	res->bytes = layer_stream_bytes(u->stream);
	layer_dirs_list(&u->writer.dirs, &res->implicit, &res->hiding);
	mlr_debug(
		"layer: %llu members, %llu bytes; dropped %llu set-ids, %llu xattrs, %llu devices",
		(unsigned long long)res->entries, (unsigned long long)res->bytes,
		(unsigned long long)u->set_ids, (unsigned long long)u->xattrs,
		(unsigned long long)res->devices_skipped);
	return 0;
}

void layer_result_done(struct layer_result *r)
{
	strv_done(&r->implicit);
	strv_done(&r->hiding);
	memset(r, 0, sizeof(*r));
}

int layer_unpack_limited(layer_read_fn read, void *ctx, enum layer_compression comp, int tree_fd,
	const struct layer_limits *limits, struct layer_result *ret, struct mlr_error *err)
{
	struct layer_result res = LAYER_RESULT_INIT;
	auto_call(unpacking_done) struct unpacking u = { .limits = limits, .result = &res };
	locale_t plain, old;
	int r;

	layer_writer_init(&u.writer, tree_fd, limits->dir_memory);
	/* The top, too, is used without having been named, until it is. */
	r = layer_dirs_imply(&u.writer.dirs, "", err);
	if (r == 0)
		r = layer_stream_open(read, ctx, comp, limits, &u.stream, err);
	if (r < 0)
		return r;

	/* In the C locale libarchive converts no names: bytes in, bytes out. */
	plain = newlocale(LC_CTYPE_MASK, "C", (locale_t)0);
	old = uselocale(plain);
	r = unpack(&u, err);
	uselocale(old);
	if (plain)
		freelocale(plain);
	if (r < 0) {
		layer_result_done(&res);
		return r;
	}
	*ret = res;
	return 0;
}

int layer_unpack(layer_read_fn read, void *ctx, enum layer_compression comp, int tree_fd,
	struct layer_result *ret, struct mlr_error *err)
{
	static const struct layer_limits limits = LAYER_LIMITS_DEFAULT;

	return layer_unpack_limited(read, ctx, comp, tree_fd, &limits, ret, err);
}
