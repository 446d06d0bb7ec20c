#include "pull/plain.h"

#include "layer/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <poll.h>

#define CHUNK   (256u << 10)
#define TICK_MS 100

/* A source of compressed bytes: a range of a file, or a pipe read in order. */
struct input {
	int fd;
	int in_order;
	uint64_t offset, left; /* unused with in_order */
	const struct plain_options *opt;
	unsigned char head[8]; /* the first bytes of a pipe, read to detect its type */
	size_t head_len;
	char buf[CHUNK];
};

static int is_cancelled(const struct input *in)
{
	return in->opt->cancelled && in->opt->cancelled(in->opt->cancelled_ctx);
}

/* read(2) of a pipe that may stay silent for long. */
static ssize_t read_pipe(const struct input *in, void *buf, size_t len)
{
	struct pollfd p = { in->fd, POLLIN, 0 };

	while (poll(&p, 1, TICK_MS) <= 0 || p.revents == 0) {
		if (is_cancelled(in)) {
			errno = ECANCELED;
			return -1;
		}
	}
	return read(in->fd, buf, len);
}

static ssize_t take(struct input *in, void *buf, size_t len)
{
	ssize_t n;

	if (in->head_len > 0) {
		n = (ssize_t)in->head_len;
		memcpy(buf, in->head, in->head_len);
		in->head_len = 0;
		return n;
	}
	if (!in->in_order && len > in->left)
		len = (size_t)in->left;
	if (len == 0)
		return 0;
	n = TEMP_FAILURE_RETRY(in->in_order ? read_pipe(in, buf, len)
					    : pread(in->fd, buf, len, (off_t)in->offset));
	if (n > 0) {
		in->offset += (uint64_t)n;
		in->left -= in->in_order ? 0 : (uint64_t)n;
	}
	return n;
}

static la_ssize_t feed(struct archive *a, void *ctx, const void **buf)
{
	struct input *in = ctx;
	ssize_t n = take(in, in->buf, sizeof(in->buf));

	if (n < 0) {
		archive_set_error(a, errno, "read: %s", strerror(errno));
		return -1;
	}
	*buf = in->buf;
	return n;
}

int plain_is_compressed(const void *buf, size_t len)
{
	static const struct {
		const char *magic;
		size_t len;
	} known[] = { { "\x1f\x8b", 2 }, { "\x28\xb5\x2f\xfd", 4 },
		{ "\xfd"
		  "7zXZ",
			5 },
		{ "BZh", 3 } };

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (len >= known[i].len && memcmp(buf, known[i].magic, known[i].len) == 0)
			return 1;
	return 0;
}

static int fail(struct archive *a, struct mlr_error *err)
{
	const char *why = archive_error_string(a);

	if (archive_errno(a) == ECANCELED)
		return mlr_fail(err, ECANCELED, "interrupted");
	if (archive_errno(a) == ENOMEM)
		return mlr_fail(err, ENOMEM, "decompress: out of memory");
	return mlr_fail(err, EBADMSG, "decompress: %s", why ? why : "the stream is damaged");
}

static int check_limits(const struct input *in, uint64_t out, struct mlr_error *err)
{
	if (out > PLAIN_BYTES_MAX)
		return mlr_fail(err, EFBIG, "decompresses to more than %llu bytes",
			(unsigned long long)PLAIN_BYTES_MAX);
	return is_cancelled(in) ? mlr_fail(err, ECANCELED, "interrupted") : 0;
}

static int fail_read(struct mlr_error *err)
{
	return errno == ECANCELED ? mlr_fail(err, ECANCELED, "interrupted")
				  : mlr_fail_errno(err, "read");
}

/* Enable filters by name: "all" would start external programs. */
static int open_filters(struct archive *a, struct input *in, struct mlr_error *err)
{
	struct archive_entry *e;
	int r;

	if (archive_read_support_filter_gzip(a) != ARCHIVE_OK ||
		archive_read_support_filter_zstd(a) != ARCHIVE_OK ||
		archive_read_support_filter_xz(a) != ARCHIVE_OK ||
		archive_read_support_filter_bzip2(a) != ARCHIVE_OK ||
		archive_read_support_format_raw(a) != ARCHIVE_OK)
		return mlr_fail(err, ENOTSUP, "this libarchive lacks a decompressor: %s",
			archive_error_string(a));
	r = archive_read_open(a, in, NULL, feed, NULL);
	if (r == ARCHIVE_OK)
		r = archive_read_next_header(a, &e);
	return r == ARCHIVE_OK ? 0 : fail(a, err);
}

static int run(struct input *in, plain_sink_fn sink, void *ctx, struct mlr_error *err)
{
	auto_call(layer_archive_reader_cleanup) struct archive *a = archive_read_new();
	auto_free char *buf = malloc(CHUNK);
	uint64_t out = 0;
	int r;

	if (!a || !buf)
		return mlr_fail(err, ENOMEM, "decompress: out of memory");
	r = open_filters(a, in, err);
	while (r == 0) {
		la_ssize_t n = archive_read_data(a, buf, CHUNK);

		if (n < 0)
			return fail(a, err);
		if (n == 0)
			return 0;
		out += (uint64_t)n;
		r = check_limits(in, out, err);
		if (r == 0)
			r = sink(ctx, buf, (size_t)n, err);
	}
	return r;
}

/* Copy bytes that are not compressed. */
static int copy(struct input *in, plain_sink_fn sink, void *ctx, struct mlr_error *err)
{
	uint64_t out = 0;

	for (;;) {
		ssize_t n = take(in, in->buf, sizeof(in->buf));
		int r;

		if (n < 0)
			return fail_read(err);
		if (n == 0)
			return 0;
		out += (uint64_t)n;
		r = check_limits(in, out, err);
		if (r == 0)
			r = sink(ctx, in->buf, (size_t)n, err);
		TRY(r);
	}
}

/* Peek at the first bytes. */
static int look(struct input *in, struct mlr_error *err)
{
	size_t n = 0;

	while (n < sizeof(in->head)) {
		size_t want = sizeof(in->head) - n;
		ssize_t got = TEMP_FAILURE_RETRY(in->in_order
				? read_pipe(in, in->head + n, want)
				: pread(in->fd, in->head + n,
					  in->left - n < want ? in->left - n : want,
					  (off_t)(in->offset + n)));

		if (got < 0)
			return fail_read(err);
		if (got == 0)
			break;
		n += (size_t)got;
	}
	in->head_len = in->in_order ? n : 0;
	return plain_is_compressed(in->head, n);
}

static int stream(struct input *in, plain_sink_fn sink, void *ctx, struct mlr_error *err)
{
	int r = look(in, err);

	TRY(r);
	return r ? run(in, sink, ctx, err) : copy(in, sink, ctx, err);
}

int plain_stream(int fd, uint64_t offset, uint64_t size, const struct plain_options *opt,
	plain_sink_fn sink, void *ctx, struct mlr_error *err)
{
	auto_free struct input *in = malloc(sizeof(*in));

	if (!in)
		return mlr_fail(err, ENOMEM, "read: out of memory");
	*in = (struct input){ .fd = fd, .offset = offset, .left = size, .opt = opt };
	return stream(in, sink, ctx, err);
}

static int write_out(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	return mlr_result(err, file_write_all(*(int *)ctx, buf, len), "write a temporary file");
}

int plain_open(int fd, const struct plain_options *opt, struct mlr_error *err)
{
	auto_free struct input *in = malloc(sizeof(*in));
	auto_close int out = -1;
	struct stat st;
	int r;

	if (!in)
		return mlr_fail(err, ENOMEM, "read: out of memory");
	if (fstat(fd, &st) < 0)
		return mlr_fail_errno(err, "stat");
	if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
		return mlr_fail(err, EINVAL, "it is a device, not a file");
	*in = (struct input){
		.fd = fd, .in_order = !S_ISREG(st.st_mode), .left = (uint64_t)st.st_size, .opt = opt
	};
	r = look(in, err);
	TRY(r);
	if (r == 0 && S_ISREG(st.st_mode)) {
		out = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		if (out < 0)
			return mlr_fail_errno(err, "duplicate a descriptor");
		return take_fd(&out);
	}
	out = temp_open(opt->tmp_fd, err);
	if (out < 0)
		return out;
	r = r ? run(in, write_out, &out, err) : copy(in, write_out, &out, err);
	return r < 0 ? r : take_fd(&out);
}
