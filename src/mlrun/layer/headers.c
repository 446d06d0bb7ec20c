#include "layer/record.h"

#include <archive.h>
#include <archive_entry.h>

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
