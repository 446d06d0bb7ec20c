#include "layer/tar.h"

#include "base/file_owner.h"
#include "layer/archive.h"
#include "layer/path.h"
#include "layer/stream.h"

#include <archive.h>
#include <archive_entry.h>

/* The state of reading one layer. */
struct reading {
	struct layer_stream *stream;
	struct archive *archive;
	const struct layer_limits *limits;
	const struct layer_sink *sink;
	void *ctx;
	struct layer_result *result;
	uint64_t file_bytes; /* sizes of the files so far, holes included */
	uint64_t set_ids, xattrs_dropped;
	struct layer_xattr *xattrs; /* of the current member; room for n_room */
	size_t n_room;
	int stream_failed; /* 1: stream_err is the reason, whatever libarchive reports */
	struct mlr_error stream_err;

	int in_header; /* libarchive is reading headers, from this position on */
	uint64_t header_start;

	/* For sink->raw: positions in the tar. */
	const unsigned char *chunk;
	uint64_t chunk_start, chunk_end; /* the chunk that libarchive got last */
	uint64_t told;                   /* raw() or data() got everything up to here */
};

static void reading_done(struct reading *r)
{
	archive_read_free(r->archive);
	layer_stream_close(r->stream);
	free(r->xattrs);
}

/* Pass the rest of the current chunk, up to a position of the tar, to raw(). */
static int tell_raw(struct reading *r, uint64_t to, struct mlr_error *err)
{
	uint64_t from = r->told;

	if (to > r->chunk_end)
		to = r->chunk_end;
	if (!r->sink->raw || to <= from)
		return 0;
	r->told = to;
	return r->sink->raw(r->ctx, r->chunk + (from - r->chunk_start), (size_t)(to - from), err);
}

/*
 * Give libarchive the next chunk of the tar. It asks for one only when it has used or copied the
 * last one, and the sink learns of a verbatim file before its data are read: so what raw() did not
 * get yet is not file data.
 */
static ssize_t next_chunk(struct reading *r, const void **buf, struct mlr_error *err)
{
	ssize_t n;

	TRY(tell_raw(r, r->chunk_end, err));
	n = layer_stream_next(r->stream, buf, err);
	if (n > 0) {
		r->chunk = *buf;
		r->chunk_start = r->chunk_end;
		r->chunk_end += (uint64_t)n;
	}
	return n;
}

/* Limit a member's headers, since libarchive keeps them in memory, a sparse file's map as a list.
 */
static int check_header(struct reading *r, struct mlr_error *err)
{
	if (r->in_header && r->chunk_end - r->header_start > LAYER_HEADER_MAX)
		return mlr_fail(err, EFBIG,
			"a member with more than %u bytes of headers or map of holes",
			LAYER_HEADER_MAX);
	return 0;
}

static ssize_t on_read(struct archive *a, void *ctx, const void **buf)
{
	struct reading *r = ctx;
	ssize_t n = check_header(r, &r->stream_err);

	if (n == 0)
		n = next_chunk(r, buf, &r->stream_err);
	if (n < 0) {
		r->stream_failed = 1;
		archive_set_error(a, (int)-n, "%s", r->stream_err.text);
		return ARCHIVE_FATAL;
	}
	return n;
}

/* Find the reason why libarchive could not read on. */
static int archive_failed(const struct reading *r, struct mlr_error *err)
{
	const char *why = archive_error_string(r->archive);

	if (r->stream_failed) {
		if (err)
			*err = r->stream_err;
		return -r->stream_err.code;
	}
	if (archive_errno(r->archive) == ENOMEM)
		return mlr_fail(err, ENOMEM, "read the tar: %s", why ? why : "out of memory");
	return mlr_fail(err, EPROTO, "broken tar: %s", why ? why : "unknown reason");
}

static int open_archive(struct reading *r, struct mlr_error *err)
{
	r->archive = archive_read_new();
	if (!r->archive)
		return mlr_fail(err, ENOMEM, "no memory to read a tar with");
	/* "empty" accepts a stream without a byte, which some tools write for an empty layer. */
	if (archive_read_support_format_tar(r->archive) != ARCHIVE_OK ||
		archive_read_support_format_empty(r->archive) != ARCHIVE_OK ||
		archive_read_open(r->archive, r, NULL, on_read, NULL) != ARCHIVE_OK)
		return archive_failed(r, err);
	return 0;
}

static void collect_xattrs(struct reading *r, struct layer_member *m, struct archive_entry *e)
{
	size_t n = (size_t)archive_entry_xattr_reset(e);
	struct layer_xattr x;

	if (n > r->n_room) {
		r->xattrs = xreallocarray(r->xattrs, n, sizeof(*r->xattrs));
		r->n_room = n;
	}
	m->xattrs = r->xattrs;
	while (archive_entry_xattr_next(e, &x.name, &x.value, &x.size) == ARCHIVE_OK) {
		x.name = x.name ? file_owner_kept_name(x.name) : NULL;
		if (x.name)
			r->xattrs[m->n_xattrs++] = x;
		else
			r->xattrs_dropped++;
	}
}

static int read_data(struct reading *r, const struct layer_member *m, struct mlr_error *err)
{
	int64_t offset, end = 0;
	const void *buf;
	size_t len;
	int s;

	while ((s = archive_read_data_block(r->archive, &buf, &len, &offset)) == ARCHIVE_OK) {
		if (offset < end)
			return mlr_fail(err, EPROTO, "data out of order");
		if (len > m->size || (uint64_t)offset > m->size - len)
			return mlr_fail(err, EPROTO, "data beyond its size");
		if (len == 0)
			continue;
		TRY(r->sink->data(r->ctx, buf, len, (uint64_t)offset, err));
		end = offset + (int64_t)len;
	}
	if (s != ARCHIVE_EOF)
		return archive_failed(r, err);
	return 0;
}

static int read_file(
	struct reading *r, struct layer_member *m, struct archive_entry *e, struct mlr_error *err)
{
	int64_t size = archive_entry_size(e);
	int s;

	if (size < 0)
		return mlr_fail(err, EPROTO, "a negative size");
	if ((uint64_t)size > r->limits->bytes - r->file_bytes)
		return mlr_fail(err, EFBIG, "its files are larger than the %llu bytes allowed",
			(unsigned long long)r->limits->bytes);
	r->file_bytes += (uint64_t)size;
	m->size = (uint64_t)size;
	m->verbatim = archive_entry_sparse_count(e) == 0;
	if (m->verbatim && r->sink->raw)
		r->told += m->size;
	collect_xattrs(r, m, e);

	s = r->sink->file(r->ctx, m, err);
	if (s < 0 || !r->sink->data)
		return s;
	s = read_data(r, m, err);
	return s < 0 ? s : r->sink->file_end(r->ctx, m, err);
}

static int tell(
	struct reading *r, struct layer_member *m, enum layer_kind kind, struct mlr_error *err)
{
	m->kind = kind;
	return r->sink->name(r->ctx, m, err);
}

static int read_link(
	struct reading *r, struct layer_member *m, const char *to, struct mlr_error *err)
{
	char target[PATH_MAX];
	int s = layer_path_clean(to, target, err);

	if (s < 0)
		return mlr_wrap(err, "hard link to '%.200s'", to);
	m->target = target;
	return tell(r, m, LAYER_LINK, err);
}

static int read_whiteout(
	struct reading *r, struct layer_member *m, const char *name, struct mlr_error *err)
{
	char hidden[PATH_MAX];
	size_t dir = (size_t)(name - m->path);

	name += strlen(".wh.");
	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return mlr_fail(err, EPROTO, "a whiteout of no name");
	memcpy(hidden, m->path, dir);
	strcpy(hidden + dir, name);
	m->path = hidden;
	return tell(r, m, LAYER_WHITEOUT, err);
}

static int read_opaque(
	struct reading *r, struct layer_member *m, const char *name, struct mlr_error *err)
{
	char dir[PATH_MAX];
	size_t len = name > m->path ? (size_t)(name - m->path) - 1 : 0;

	memcpy(dir, m->path, len);
	dir[len] = '\0';
	m->path = dir;
	return tell(r, m, LAYER_OPAQUE, err);
}

/*
 * Handle whiteouts (image-spec, layer.md, "Whiteouts"); returns 1 if it was one. AUFS's own
 * ".wh..wh.plnk" and ".wh..wh.aufs", and names below them, are ignored.
 */
static int read_mark(struct reading *r, struct layer_member *m, struct mlr_error *err)
{
	const char *path = m->path, *name = path_base(path);
	int s;

	if (strcmp(name, ".wh..wh..opq") == 0)
		s = read_opaque(r, m, name, err);
	else if (strncmp(path, ".wh..wh.", 8) == 0 || strstr(path, "/.wh..wh."))
		s = 0;
	else if (strncmp(name, ".wh.", 4) == 0)
		s = read_whiteout(r, m, name, err);
	else
		return 0;
	return s < 0 ? s : 1;
}

static int read_member(
	struct reading *r, struct layer_member *m, struct archive_entry *e, struct mlr_error *err)
{
	const char *hard = archive_entry_hardlink(e);
	int s = read_mark(r, m, err);

	if (s != 0)
		return s < 0 ? s : 0;
	if (hard)
		return read_link(r, m, hard, err);
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return read_file(r, m, e, err);
	case AE_IFDIR:
		collect_xattrs(r, m, e);
		return tell(r, m, LAYER_DIR, err);
	case AE_IFLNK:
		m->target = archive_entry_symlink(e);
		if (m->target && strlen(m->target) >= PATH_MAX)
			return mlr_fail(err, EPROTO,
				"a symlink to a name of %zu bytes, where %d are the most",
				strlen(m->target), PATH_MAX - 1);
		return tell(r, m, LAYER_SYMLINK, err);
	case AE_IFIFO:
		return tell(r, m, LAYER_FIFO, err);
	case AE_IFCHR:
	case AE_IFBLK:
		r->result->devices_skipped++;
		mlr_debug("layer: device '%s' skipped", m->path);
		return 0;
	default:
		return mlr_fail(err, EPROTO, "a kind of member that tar does not know");
	}
}

static int read_entry(struct reading *r, struct archive_entry *e, struct mlr_error *err)
{
	const char *name = archive_entry_pathname(e);
	mode_t perm = archive_entry_perm(e);
	char path[PATH_MAX];
	struct layer_member m = {
		.path = path,
		.mode = perm & 01777,
		.set_ids = perm & (S_ISUID | S_ISGID),
		.uid = archive_entry_uid(e),
		.gid = archive_entry_gid(e),
		.mtime = { archive_entry_mtime(e), archive_entry_mtime_nsec(e) },
	};
	int s;

	if (++r->result->entries > r->limits->entries)
		return mlr_fail(err, EFBIG, "more than the %llu members allowed",
			(unsigned long long)r->limits->entries);
	if (perm & (S_ISUID | S_ISGID))
		r->set_ids++;
	s = layer_path_clean(name, path, err);
	if (s == 0)
		s = read_member(r, &m, e, err);
	if (s < 0 && !r->stream_failed)
		mlr_wrap(err, "'%.300s'", name ? name : "");
	return s;
}

/* Skip the rest of a member's data, and read the next headers. */
static int next_entry(struct reading *r, struct archive_entry **e)
{
	int s = archive_read_data_skip(r->archive);

	if (s != ARCHIVE_OK && s != ARCHIVE_WARN)
		return ARCHIVE_FATAL;
	r->header_start = (uint64_t)archive_filter_bytes(r->archive, 0);
	r->in_header = 1;
	s = archive_read_next_header(r->archive, e);
	r->in_header = 0;
	return s;
}

static int read_entries(struct reading *r, struct mlr_error *err)
{
	struct archive_entry *e;
	int s;

	r->in_header = 1;
	s = archive_read_next_header(r->archive, &e);
	r->in_header = 0;
	while (s == ARCHIVE_OK || s == ARCHIVE_WARN) {
		/* Mostly "can't be converted": then the name is unchanged, as it should be. */
		if (s == ARCHIVE_WARN)
			mlr_debug("layer: %s", archive_error_string(r->archive));
		TRY(tell_raw(r, (uint64_t)archive_filter_bytes(r->archive, 0), err));
		TRY(read_entry(r, e, err));
		s = next_entry(r, &e);
	}
	return s == ARCHIVE_EOF ? 0 : archive_failed(r, err);
}

/* Read to the end of the stream: libarchive stops at the end-of-archive mark, but the diff ID
 * covers everything. */
static int drain(struct reading *r, struct mlr_error *err)
{
	const void *buf;
	ssize_t n;

	while ((n = next_chunk(r, &buf, err)) > 0)
		;
	return (int)n;
}

static int read_all(struct reading *r, struct mlr_error *err)
{
	struct layer_result *res = r->result;

	TRY(open_archive(r, err));
	TRY(read_entries(r, err));
	TRY(drain(r, err));
	strcpy(res->diff_id, "sha256:");
	layer_stream_digest(r->stream, res->diff_id + strlen("sha256:"));
	res->bytes = layer_stream_bytes(r->stream);
	mlr_debug(
		"layer: %llu members, %llu bytes; dropped %llu set-ids, %llu xattrs, %llu devices",
		(unsigned long long)res->entries, (unsigned long long)res->bytes,
		(unsigned long long)r->set_ids, (unsigned long long)r->xattrs_dropped,
		(unsigned long long)res->devices_skipped);
	return 0;
}

int layer_tar_read(layer_read_fn read, void *read_ctx, enum oci_compression comp,
	const struct layer_limits *limits, const struct layer_sink *sink, void *sink_ctx,
	struct layer_result *ret, struct mlr_error *err)
{
	struct layer_result res = { 0 };
	auto_call(reading_done) struct reading r = {
		.limits = limits, .sink = sink, .ctx = sink_ctx, .result = &res
	};
	struct layer_locale plain = { 0 };
	int s = layer_stream_open(read, read_ctx, comp, limits, &r.stream, err);

	if (s < 0)
		return s;

	layer_locale_begin(&plain, "C");
	s = read_all(&r, err);
	layer_locale_end(&plain);
	if (s < 0)
		return s;
	*ret = res;
	return 0;
}

static int on_header(void *ctx, struct archive_entry *e, struct mlr_error *err)
{
	return read_entry(ctx, e, err);
}

int layer_tar_headers(
	int record_fd, const struct layer_sink *sink, void *sink_ctx, struct mlr_error *err)
{
	static const struct layer_limits limits = LAYER_LIMITS_DEFAULT;
	struct layer_result res = { 0 };
	auto_call(reading_done) struct reading r = {
		.limits = &limits, .sink = sink, .ctx = sink_ctx, .result = &res
	};
	struct layer_locale plain = { 0 };
	int s;

	layer_locale_begin(&plain, "C");
	s = layer_headers(record_fd, on_header, &r, err);
	layer_locale_end(&plain);
	return s;
}
