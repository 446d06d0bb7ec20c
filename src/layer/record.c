#include "layer/record.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"
#include "layer/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define BUFFER_SIZE (128u << 10)
#define WINDOW_LOG  23 /* more than the writer's, and little memory */
#define KEPT_MEMORY \
	(64u << 20) /* for what is to be known of all 'D's, small ones' bytes included */
#define KEPT_INLINE (64u << 10) /* a 'D' is small up to here, while there is memory */

/* --- the record as a stream -------------------------------------------------- */

/* One reading of a record, from its beginning. */
struct reader {
	int fd;
	off_t at; /* in the file */
	ZSTD_DCtx *ctx;
	uint8_t *in, *out; /* BUFFER_SIZE each */
	ZSTD_inBuffer input;
	size_t taken, filled; /* of out */
	uint64_t position;    /* bytes taken so far, decompressed */
	int frame_ended;
};

static int reader_init(struct reader *r, int fd, struct mlr_error *err)
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

static void reader_done(struct reader *r)
{
	ZSTD_freeDCtx(r->ctx);
	free(r->in);
	free(r->out);
	memset(r, 0, sizeof(*r));
}

static void reader_rewind(struct reader *r)
{
	ZSTD_DCtx_reset(r->ctx, ZSTD_reset_session_only);
	r->at = 0;
	r->input.pos = r->input.size = 0;
	r->taken = r->filled = 0;
	r->position = 0;
	r->frame_ended = 0;
}

static int read_more(struct reader *r, struct mlr_error *err)
{
	ssize_t n;

	do
		n = pread(r->fd, r->in, BUFFER_SIZE, r->at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return mlr_fail_errno(err, "read the layer's record");
	if (n == 0)
		return mlr_fail(err, EPROTO, "the layer's record is cut short");
	r->at += n;
	r->input.size = (size_t)n;
	r->input.pos = 0;
	return 0;
}

/* Fill out again. Returns 1, or 0 where the frame ends. */
static int refill(struct reader *r, struct mlr_error *err)
{
	ZSTD_outBuffer to = { r->out, BUFFER_SIZE, 0 };

	while (to.pos == 0 && !r->frame_ended) {
		size_t left = ZSTD_decompressStream(r->ctx, &to, &r->input);

		if (ZSTD_isError(left))
			return mlr_fail(err, EPROTO, "the layer's record is damaged: %s",
				ZSTD_getErrorName(left));
		r->frame_ended = left == 0;
		if (to.pos == 0 && !r->frame_ended) {
			int e = read_more(r, err);

			if (e < 0)
				return e;
		}
	}
	r->taken = 0;
	r->filled = to.pos;
	return to.pos > 0;
}

/* The next 1 to max bytes, in place. Returns how many. */
static ssize_t take_some(struct reader *r, uint64_t max, const uint8_t **ret, struct mlr_error *err)
{
	int e = r->taken < r->filled ? 1 : refill(r, err);
	size_t n;

	if (e == 0)
		return mlr_fail(err, EPROTO, "the layer's record ends too early");
	if (e < 0)
		return e;
	n = r->filled - r->taken < max ? r->filled - r->taken : (size_t)max;
	*ret = r->out + r->taken;
	r->taken += n;
	r->position += n;
	return (ssize_t)n;
}

static int take(struct reader *r, void *buf, size_t len, struct mlr_error *err)
{
	const uint8_t *some = NULL;
	uint8_t *to = buf;

	while (len > 0) {
		ssize_t n = take_some(r, len, &some, err);

		if (n < 0)
			return (int)n;
		memcpy(to, some, (size_t)n);
		to += n;
		len -= (size_t)n;
	}
	return 0;
}

static int pass_over(struct reader *r, uint64_t len, struct mlr_error *err)
{
	const uint8_t *some;

	while (len > 0) {
		ssize_t n = take_some(r, len, &some, err);

		if (n < 0)
			return (int)n;
		len -= (uint64_t)n;
	}
	return 0;
}

static int take_varint(struct reader *r, uint64_t *ret, struct mlr_error *err)
{
	uint64_t v = 0;
	uint8_t b = 0;

	for (int shift = 0; shift < 63; shift += 7) {
		int e = take(r, &b, 1, err);

		if (e < 0)
			return e;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80)) {
			*ret = v;
			return 0;
		}
	}
	return mlr_fail(err, EPROTO, "the layer's record has a number too large");
}

/* --- its stretches ------------------------------------------------------------ */

struct stretch {
	char kind;
	uint64_t size;
	char path[PATH_MAX]; /* of 'F' and 'D' */
};

static int take_path(struct reader *r, char path[PATH_MAX], struct mlr_error *err)
{
	uint64_t len;
	int e = take_varint(r, &len, err);

	if (e == 0 && (len == 0 || len >= PATH_MAX))
		e = mlr_fail(err, EPROTO, "the layer's record has a path of %llu bytes",
			(unsigned long long)len);
	if (e == 0)
		e = take(r, path, (size_t)len, err);
	if (e < 0)
		return e;
	path[len] = '\0';
	if (strlen(path) != len)
		return mlr_fail(err, EPROTO, "the layer's record has a path with a NUL in it");
	return 0;
}

/* The next stretch but for the bytes that R and D have. */
static int next_stretch(struct reader *r, struct stretch *s, struct mlr_error *err)
{
	int e = take(r, &s->kind, 1, err);

	if (e == 0 && !strchr("RFDE", s->kind ? s->kind : '?'))
		e = mlr_fail(err, EPROTO, "the layer's record has a stretch of unknown kind 0x%02x",
			(unsigned char)s->kind);
	if (e == 0)
		e = take_varint(r, &s->size, err);
	if (e == 0 && (s->kind == 'F' || s->kind == 'D'))
		e = take_path(r, s->path, err);
	return e;
}

static int take_magic(struct reader *r, struct mlr_error *err)
{
	char magic[sizeof(LAYER_RECORD_MAGIC) - 1];
	int e = take(r, magic, sizeof(magic), err);

	if (e == 0 && memcmp(magic, LAYER_RECORD_MAGIC, sizeof(magic)) != 0)
		e = mlr_fail(err, EPROTO, "this is no layer's record");
	return e;
}

/* Nothing may follow 'E': no byte in the frame, and none after it. */
static int take_end(struct reader *r, struct mlr_error *err)
{
	int e = r->taken < r->filled ? 1 : refill(r, err);
	char byte;

	if (e < 0)
		return e;
	if (e > 0 || r->input.pos < r->input.size || pread(r->fd, &byte, 1, r->at) > 0)
		return mlr_fail(err, EPROTO, "the layer's record goes on after its end");
	return 0;
}

/* --- what was kept of files that are gone -------------------------------------- */

struct kept {
	char *path;
	uint8_t *bytes; /* NULL: they are to be looked up at position */
	uint64_t files; /* 'F's before it */
	uint64_t position, size;
};

struct rebuilding {
	int tree;
	layer_write_fn write;
	void *ctx;
	struct hash *hash;
	uint64_t bytes, files;
	struct reader main, aside; /* aside reads 'D's */
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
	for (size_t i = 0; i < b->n_kept; i++)
		kept_done(&b->kept[i]);
	free(b->kept);
	free(b->buf);
	hash_free(b->hash);
	reader_done(&b->main);
	reader_done(&b->aside);
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

/* No record may ask for more than a layer may have. */
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

/* The bytes of a 'D': small ones are remembered, as looking up goes through the record. */
static int take_kept(struct rebuilding *b, struct kept *k, struct mlr_error *err)
{
	if (k->size > KEPT_INLINE || k->size > KEPT_MEMORY / 2 - b->inline_bytes)
		return pass_over(&b->main, k->size, err);
	b->inline_bytes += (size_t)k->size;
	k->bytes = xmalloc((size_t)k->size + 1);
	return take(&b->main, k->bytes, (size_t)k->size, err);
}

static int add_kept(struct rebuilding *b, const struct stretch *s, struct mlr_error *err)
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

/* The first time through: where the 'D's are. */
static int survey(struct rebuilding *b, struct mlr_error *err)
{
	struct reader *r = &b->main;
	uint64_t tar = 0, kept = 0;
	int e = take_magic(r, err);
	struct stretch s = { .kind = 0 };

	while (e == 0) {
		e = next_stretch(r, &s, err);
		if (e < 0 || s.kind == 'E')
			break;
		e = check_size(s.kind == 'D' ? &kept : &tar, s.size, err);
		if (e < 0)
			return e;
		b->files += s.kind == 'F';
		if (s.kind == 'D')
			e = add_kept(b, &s, err);
		else if (s.kind == 'R')
			e = pass_over(r, s.size, err);
	}
	if (e == 0)
		e = take_end(r, err);
	if (b->n_kept)
		qsort(b->kept, b->n_kept, sizeof(*b->kept), by_path_and_place);
	b->files = 0;
	reader_rewind(r);
	return e;
}

/* The first kept one of this path after the file at hand, which is not counted yet. */
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

/* --- the tar ------------------------------------------------------------------- */

static int give(struct rebuilding *b, const void *buf, size_t len, struct mlr_error *err)
{
	b->bytes += len;
	hash_update(b->hash, buf, len);
	return b->write ? b->write(b->ctx, buf, len, err) : 0;
}

static int give_from(struct rebuilding *b, struct reader *r, uint64_t len, struct mlr_error *err)
{
	const uint8_t *some = NULL;

	while (len > 0) {
		ssize_t n = take_some(r, len, &some, err);
		int e = n < 0 ? (int)n : give(b, some, (size_t)n, err);

		if (e < 0)
			return e;
		len -= (uint64_t)n;
	}
	return 0;
}

static int give_kept(
	struct rebuilding *b, const struct kept *k, const struct stretch *s, struct mlr_error *err)
{
	int e = 0;

	if (k->size != s->size)
		return mlr_fail(err, EPROTO, "the layer's record gives '%s' two sizes", s->path);
	if (k->bytes)
		return give(b, k->bytes, (size_t)k->size, err);
	if (!b->aside.ctx)
		e = reader_init(&b->aside, b->main.fd, err);
	if (e == 0 && k->position < b->aside.position)
		reader_rewind(&b->aside);
	/* Going back again and again could take for ever. */
	if (e == 0)
		e = check_size(&b->passed, k->position - b->aside.position, err);
	if (e == 0)
		e = pass_over(&b->aside, k->position - b->aside.position, err);
	return e < 0 ? e : give_from(b, &b->aside, k->size, err);
}

static int open_file(const struct rebuilding *b, const struct stretch *s, struct mlr_error *err)
{
	/* A fifo would let open(2) wait. */
	auto_close int fd = file_open_beneath(b->tree, s->path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
	struct stat sb;

	if (fd == -EACCES || fd == -EPERM || fd == -EMFILE || fd == -ENFILE || fd == -ENOSYS)
		return mlr_fail(
			err, -fd, "read '%s' of the layer's tree: %s", s->path, strerror(-fd));
	if (fd < 0)
		return mlr_fail(err, EBADMSG, "'%s' of the layer's tree: %s", s->path,
			fd == -EXDEV || fd == -ELOOP ? "it is reached through a symlink"
						     : strerror(-fd));
	if (fstat(fd, &sb) < 0)
		return mlr_fail_errno(err, "look at '%s' of the layer's tree", s->path);
	if (!S_ISREG(sb.st_mode))
		return mlr_fail(err, EBADMSG,
			"'%s' of the layer's tree is no regular file any more", s->path);
	if ((uint64_t)sb.st_size != s->size)
		return mlr_fail(err, EBADMSG, "'%s' of the layer's tree has %llu bytes, not %llu",
			s->path, (unsigned long long)sb.st_size, (unsigned long long)s->size);
	return take_fd(&fd);
}

static int give_file(struct rebuilding *b, const struct stretch *s, struct mlr_error *err)
{
	const struct kept *k = find_kept(b, s->path);
	auto_close int fd = -1;
	uint64_t left = s->size;

	b->files++;
	if (k)
		return give_kept(b, k, s, err);
	fd = open_file(b, s, err);
	if (fd < 0)
		return fd;
	while (left > 0) {
		ssize_t n = file_read_full(fd, b->buf, left < BUFFER_SIZE ? left : BUFFER_SIZE);
		int e;

		if (n <= 0)
			return mlr_fail(err, n < 0 ? (int)-n : EBADMSG,
				"read '%s' of the layer's tree: %s", s->path,
				n < 0 ? strerror((int)-n) : "it has become shorter");
		e = give(b, b->buf, (size_t)n, err);
		if (e < 0)
			return e;
		left -= (uint64_t)n;
	}
	return 0;
}

/* The second time through. */
static int rebuild(struct rebuilding *b, struct mlr_error *err)
{
	struct reader *r = &b->main;
	int e = take_magic(r, err);
	struct stretch s = { .kind = 0 };

	while (e == 0) {
		e = next_stretch(r, &s, err);
		if (e < 0 || s.kind == 'E')
			break;
		if (s.kind == 'R')
			e = give_from(b, r, s.size, err);
		else if (s.kind == 'F')
			e = give_file(b, &s, err);
		else
			e = pass_over(r, s.size, err);
	}
	if (e == 0 && s.size != b->bytes)
		e = mlr_fail(err, EPROTO, "the layer's record makes %llu bytes, and says %llu",
			(unsigned long long)b->bytes, (unsigned long long)s.size);
	return e;
}

int layer_rebuild(int record_fd, int tree_fd, layer_write_fn write, void *ctx,
	char diff_id[8 + HASH_HEX_SIZE], uint64_t *bytes, struct mlr_error *err)
{
	auto_call(rebuilding_done) struct rebuilding b = {
		.tree = tree_fd, .write = write, .ctx = ctx
	};
	int e = reader_init(&b.main, record_fd, err);

	b.hash = hash_new();
	b.buf = xmalloc(BUFFER_SIZE);
	if (e == 0)
		e = survey(&b, err);
	if (e == 0)
		e = rebuild(&b, err);
	if (e < 0)
		return e;
	strcpy(diff_id, "sha256:");
	hash_final(b.hash, diff_id + strlen("sha256:"));
	*bytes = b.bytes;
	return 0;
}
