#include "layer/record.h"

#include "layer/unpack.h"

#define BUFFER_SIZE (128u << 10)

/*
 * Reads a layer's record (layer/record.h), which may come from a stranger: as bytes, and by
 * stretches. An invalid record is -EPROTO.
 */

#define WINDOW_LOG 23 /* larger than the writer's, and still little memory */

int record_reader_init(struct record_reader *r, int fd, struct mlr_error *err)
{
	memset(r, 0, sizeof(*r));
	r->fd = fd;
	r->in = xmalloc(BUFFER_SIZE);
	r->out = xmalloc(BUFFER_SIZE);
	r->input.src = r->in;
	r->ctx = ZSTD_createDCtx();
	if (!r->ctx)
		return mlr_fail(err, ENOMEM, "no memory to decompress the layer's record with");
	ZSTD_DCtx_setParameter(r->ctx, ZSTD_d_windowLogMax, WINDOW_LOG);
	return 0;
}

void record_reader_done(struct record_reader *r)
{
	ZSTD_freeDCtx(r->ctx);
	free(r->in);
	free(r->out);
	memset(r, 0, sizeof(*r));
}

/* Go back to the beginning. */
static void record_reader_rewind(struct record_reader *r)
{
	ZSTD_DCtx_reset(r->ctx, ZSTD_reset_session_only);
	r->at = 0;
	r->input.pos = r->input.size = 0;
	r->taken = r->filled = 0;
	r->position = 0;
	r->frame_ended = 0;
}

static int read_more(struct record_reader *r, struct mlr_error *err)
{
	ssize_t n;

	n = TEMP_FAILURE_RETRY(pread(r->fd, r->in, BUFFER_SIZE, r->at));
	if (n < 0)
		return mlr_fail_errno(err, "read the layer's record");
	if (n == 0)
		return mlr_fail(err, EPROTO, "the layer's record is cut short");
	r->at += n;
	r->input.size = (size_t)n;
	r->input.pos = 0;
	return 0;
}

/* Refill out. Returns 1, or 0 at the end of the frame. */
static int refill(struct record_reader *r, struct mlr_error *err)
{
	ZSTD_outBuffer to = { r->out, BUFFER_SIZE, 0 };

	while (to.pos == 0 && !r->frame_ended) {
		size_t left = ZSTD_decompressStream(r->ctx, &to, &r->input);

		if (ZSTD_isError(left))
			return mlr_fail(err, EPROTO, "the layer's record is damaged: %s",
				ZSTD_getErrorName(left));
		r->frame_ended = left == 0;
		if (to.pos == 0 && !r->frame_ended)
			TRY(read_more(r, err));
	}
	r->taken = 0;
	r->filled = to.pos;
	return to.pos > 0;
}

ssize_t record_take_some(
	struct record_reader *r, uint64_t max, const uint8_t **ret, struct mlr_error *err)
{
	int e = r->taken < r->filled ? 1 : refill(r, err);
	size_t n;

	TRY(e);
	if (e == 0)
		return mlr_fail(err, EPROTO, "the layer's record ends too early");
	n = r->filled - r->taken < max ? r->filled - r->taken : (size_t)max;
	*ret = r->out + r->taken;
	r->taken += n;
	r->position += n;
	return (ssize_t)n;
}

/* Take the next len bytes. */
static int record_take(struct record_reader *r, void *buf, size_t len, struct mlr_error *err)
{
	const uint8_t *some = NULL;
	uint8_t *to = buf;

	while (len > 0) {
		ssize_t n = record_take_some(r, len, &some, err);

		if (n < 0)
			return (int)n;
		memcpy(to, some, (size_t)n);
		to += n;
		len -= (size_t)n;
	}
	return 0;
}

int record_pass_over(struct record_reader *r, uint64_t len, struct mlr_error *err)
{
	const uint8_t *some;

	while (len > 0) {
		ssize_t n = record_take_some(r, len, &some, err);

		if (n < 0)
			return (int)n;
		len -= (uint64_t)n;
	}
	return 0;
}

static int take_varint(struct record_reader *r, uint64_t *ret, struct mlr_error *err)
{
	uint64_t v = 0;
	uint8_t b = 0;

	for (int shift = 0; shift < 63; shift += 7) {
		TRY(record_take(r, &b, 1, err));
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80)) {
			*ret = v;
			return 0;
		}
	}
	return mlr_fail(err, EPROTO, "the layer's record has a number too large");
}

static int take_path(struct record_reader *r, char path[PATH_MAX], struct mlr_error *err)
{
	uint64_t len;

	TRY(take_varint(r, &len, err));
	if (len == 0 || len >= PATH_MAX)
		return mlr_fail(err, EPROTO, "the layer's record has a path of %llu bytes",
			(unsigned long long)len);
	TRY(record_take(r, path, (size_t)len, err));
	path[len] = '\0';
	if (strlen(path) != len)
		return mlr_fail(err, EPROTO, "the layer's record has a path with a NUL in it");
	return 0;
}

int record_next(struct record_reader *r, struct record_stretch *s, struct mlr_error *err)
{
	TRY(record_take(r, &s->kind, 1, err));
	if (!strchr("RFDE", s->kind ? s->kind : '?'))
		return mlr_fail(err, EPROTO,
			"the layer's record has a stretch of unknown kind 0x%02x",
			(unsigned char)s->kind);
	TRY(take_varint(r, &s->size, err));
	return s->kind == 'F' || s->kind == 'D' ? take_path(r, s->path, err) : 0;
}

int record_take_magic(struct record_reader *r, struct mlr_error *err)
{
	char magic[sizeof(LAYER_RECORD_MAGIC) - 1];

	TRY(record_take(r, magic, sizeof(magic), err));
	return memcmp(magic, LAYER_RECORD_MAGIC, sizeof(magic)) == 0
		? 0
		: mlr_fail(err, EPROTO, "not a layer's record");
}

static int record_take_end(struct record_reader *r, struct mlr_error *err)
{
	int e = r->taken < r->filled ? 1 : refill(r, err);
	char byte;

	TRY(e);
	if (e > 0 || r->input.pos < r->input.size || pread(r->fd, &byte, 1, r->at) > 0)
		return mlr_fail(err, EPROTO, "the layer's record goes on after its end");
	return 0;
}

#define KEPT_MEMORY (64u << 20) /* half for the list of 'D's, half for the bytes of small ones */
#define KEPT_INLINE (64u << 10) /* a larger 'D' is not small */

struct kept {
	char *path;
	uint8_t *bytes; /* NULL: read them again, at position */
	uint64_t files; /* number of 'F's before it */
	uint64_t position, size;
};

struct rebuilding {
	int tree;
	layer_write_fn write;
	void *ctx;
	struct hash *hash;
	uint64_t bytes, files;
	struct record_reader main, aside; /* aside reads 'D's */
	struct kept *kept;
	size_t n_kept, room;
	size_t memory, inline_bytes;
	uint64_t passed; /* by aside */
	uint8_t *buf;    /* BUFFER_SIZE */
};

static void kept_done(struct kept *k)
{
	free(k->path);
	free(k->bytes);
}

static void rebuilding_done(struct rebuilding *b)
{
	free_all(b->kept, b->n_kept, kept_done);
	free(b->buf);
	hash_free(b->hash);
	record_reader_done(&b->main);
	record_reader_done(&b->aside);
}

static int by_path_and_place(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;
	int r = strcmp(x->path, y->path);

	if (r != 0)
		return r;
	if (x->files != y->files)
		return x->files < y->files ? -1 : 1;
	return x->position < y->position ? -1 : x->position > y->position;
}

/* A record has the limits of a layer. */
static int check_size(uint64_t *sum, uint64_t more, struct mlr_error *err)
{
	static const struct layer_limits limits = LAYER_LIMITS_DEFAULT;

	if (more > limits.bytes - *sum)
		return mlr_fail(err, EFBIG,
			"the layer's record is of more than the %llu bytes allowed",
			(unsigned long long)limits.bytes);
	*sum += more;
	return 0;
}

/* Take a 'D'. The bytes of small ones are remembered, since finding them again takes a read of the
 * record. */
static int take_kept(struct rebuilding *b, struct kept *k, struct mlr_error *err)
{
	if (k->size > KEPT_INLINE || k->size > KEPT_MEMORY / 2 - b->inline_bytes)
		return record_pass_over(&b->main, k->size, err);
	b->inline_bytes += (size_t)k->size;
	k->bytes = xmalloc((size_t)k->size + 1);
	return record_take(&b->main, k->bytes, (size_t)k->size, err);
}

static int add_kept(struct rebuilding *b, const struct record_stretch *s, struct mlr_error *err)
{
	b->memory += sizeof(*b->kept) * 2 + strlen(s->path) + 32;
	if (b->memory > KEPT_MEMORY / 2)
		return mlr_fail(err, EFBIG,
			"the layer's record has more replaced files than %u bytes of memory hold",
			KEPT_MEMORY / 2);
	if (b->n_kept == b->room) {
		b->room = b->room ? 2 * b->room : 64;
		b->kept = xreallocarray(b->kept, b->room, sizeof(*b->kept));
	}
	b->kept[b->n_kept++] =
		(struct kept){ xstrdup(s->path), NULL, b->files, b->main.position, s->size };
	return take_kept(b, &b->kept[b->n_kept - 1], err);
}

/* The first reading: find the 'D's. */
static int survey(struct rebuilding *b, struct mlr_error *err)
{
	struct record_reader *r = &b->main;
	uint64_t tar = 0, kept = 0;
	int e = record_take_magic(r, err);
	struct record_stretch s = { .kind = 0 };

	while (e == 0) {
		e = record_next(r, &s, err);
		if (e < 0 || s.kind == 'E')
			break;
		e = check_size(s.kind == 'D' ? &kept : &tar, s.size, err);
		if (e < 0)
			return e;
		b->files += s.kind == 'F';
		if (s.kind == 'D')
			e = add_kept(b, &s, err);
		else if (s.kind == 'R')
			e = record_pass_over(r, s.size, err);
	}
	if (e == 0)
		e = record_take_end(r, err);
	sort_all(b->kept, b->n_kept, by_path_and_place);
	b->files = 0;
	record_reader_rewind(r);
	return e;
}

/* Find the first 'D' of this path after the current 'F', which is not yet counted. */
static const struct kept *find_kept(const struct rebuilding *b, const char *path)
{
	size_t from = 0, to = b->n_kept;

	while (from < to) {
		size_t mid = from + (to - from) / 2;
		int r = strcmp(b->kept[mid].path, path);

		if (r < 0 || (r == 0 && b->kept[mid].files <= b->files))
			from = mid + 1;
		else
			to = mid;
	}
	if (from < b->n_kept && strcmp(b->kept[from].path, path) == 0)
		return &b->kept[from];
	return NULL;
}

static int give(struct rebuilding *b, const void *buf, size_t len, struct mlr_error *err)
{
	b->bytes += len;
	hash_update(b->hash, buf, len);
	return b->write ? b->write(b->ctx, buf, len, err) : 0;
}

static int give_from(
	struct rebuilding *b, struct record_reader *r, uint64_t len, struct mlr_error *err)
{
	const uint8_t *some = NULL;

	while (len > 0) {
		ssize_t n = record_take_some(r, len, &some, err);

		TRY(n < 0 ? (int)n : give(b, some, (size_t)n, err));
		len -= (uint64_t)n;
	}
	return 0;
}

static int give_kept(struct rebuilding *b, const struct kept *k, const struct record_stretch *s,
	struct mlr_error *err)
{
	if (k->size != s->size)
		return mlr_fail(err, EPROTO, "the layer's record gives '%s' two sizes", s->path);
	if (k->bytes)
		return give(b, k->bytes, (size_t)k->size, err);
	if (!b->aside.ctx)
		TRY(record_reader_init(&b->aside, b->main.fd, err));
	if (k->position < b->aside.position)
		record_reader_rewind(&b->aside);
	/* Reading back too often could take for ever. */
	TRY(check_size(&b->passed, k->position - b->aside.position, err));
	TRY(record_pass_over(&b->aside, k->position - b->aside.position, err));
	return give_from(b, &b->aside, k->size, err);
}

static int open_file(
	const struct rebuilding *b, const struct record_stretch *s, struct mlr_error *err)
{
	/* A FIFO would block open(2). */
	auto_close int fd = file_open_beneath(b->tree, s->path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
	struct stat sb;

	if (fd == -EACCES || fd == -EPERM || fd == -EMFILE || fd == -ENFILE || fd == -ENOSYS)
		return mlr_result(err, fd, "read '%s' of the layer's tree", s->path);
	if (fd < 0)
		return mlr_fail(err, EBADMSG, "'%s' of the layer's tree: %s", s->path,
			fd == -EXDEV || fd == -ELOOP ? "it is reached through a symlink"
						     : strerror(-fd));
	if (fstat(fd, &sb) < 0)
		return mlr_fail_errno(err, "look at '%s' of the layer's tree", s->path);
	if (!S_ISREG(sb.st_mode))
		return mlr_fail(err, EBADMSG,
			"'%s' of the layer's tree is no longer a regular file", s->path);
	if ((uint64_t)sb.st_size != s->size)
		return mlr_fail(err, EBADMSG, "'%s' of the layer's tree has %llu bytes, not %llu",
			s->path, (unsigned long long)sb.st_size, (unsigned long long)s->size);
	return take_fd(&fd);
}

static int give_file(struct rebuilding *b, const struct record_stretch *s, struct mlr_error *err)
{
	const struct kept *k = find_kept(b, s->path);
	auto_close int fd = -1;
	uint64_t left = s->size;

	b->files++;
	if (k)
		return give_kept(b, k, s, err);
	TRY(fd = open_file(b, s, err));
	while (left > 0) {
		ssize_t n = file_read_full(fd, b->buf, left < BUFFER_SIZE ? left : BUFFER_SIZE);

		if (n <= 0)
			return mlr_fail(err, n < 0 ? (int)-n : EBADMSG,
				"read '%s' of the layer's tree: %s", s->path,
				n < 0 ? strerror((int)-n) : "it has become shorter");
		TRY(give(b, b->buf, (size_t)n, err));
		left -= (uint64_t)n;
	}
	return 0;
}

/* The second reading: write the tar. */
static int rebuild(struct rebuilding *b, struct mlr_error *err)
{
	struct record_reader *r = &b->main;
	struct record_stretch s = { .kind = 0 };

	TRY(record_take_magic(r, err));
	for (;;) {
		TRY(record_next(r, &s, err));
		if (s.kind == 'E')
			break;
		TRY(s.kind == 'R'               ? give_from(b, r, s.size, err)
				: s.kind == 'F' ? give_file(b, &s, err)
						: record_pass_over(r, s.size, err));
	}
	if (s.size != b->bytes)
		return mlr_fail(err, EPROTO, "the layer's record makes %llu bytes, and says %llu",
			(unsigned long long)b->bytes, (unsigned long long)s.size);
	return 0;
}

int layer_rebuild(int record_fd, int tree_fd, layer_write_fn write, void *ctx,
	char diff_id[8 + HASH_HEX_SIZE], uint64_t *bytes, struct mlr_error *err)
{
	auto_call(rebuilding_done) struct rebuilding b = {
		.tree = tree_fd, .write = write, .ctx = ctx
	};

	b.hash = hash_new();
	b.buf = xmalloc(BUFFER_SIZE);
	TRY(record_reader_init(&b.main, record_fd, err));
	TRY(survey(&b, err));
	TRY(rebuild(&b, err));
	strcpy(diff_id, "sha256:");
	hash_final(b.hash, diff_id + strlen("sha256:"));
	*bytes = b.bytes;
	return 0;
}

int layer_rebuild_check(int record_fd, int tree_fd, struct mlr_error *err)
{
	auto_call(rebuilding_done) struct rebuilding b = { .tree = tree_fd };
	struct record_stretch s = { .kind = 0 };

	TRY(record_reader_init(&b.main, record_fd, err));
	TRY(survey(&b, err));
	TRY(record_take_magic(&b.main, err));
	for (;;) {
		TRY(record_next(&b.main, &s, err));
		if (s.kind == 'E')
			return 0;
		if (s.kind != 'F') {
			TRY(record_pass_over(&b.main, s.size, err));
			continue;
		}
		if (!find_kept(&b, s.path)) {
			auto_close int fd = open_file(&b, &s, err);

			if (fd < 0)
				return fd;
		}
		b.files++;
	}
}
