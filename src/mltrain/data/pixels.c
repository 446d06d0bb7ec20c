#include "data/pixels.h"

#include <math.h>

void pixels_done(struct pixels *p)
{
	free(p->data);
	p->data = NULL;
}

int pixels_check(uint64_t height, uint64_t width, struct mlr_error *err)
{
	if (!height || !width)
		return mlr_fail(err, EPROTO, "it has no pixels");
	if (height > IMAGE_SIDE_MAX || width > IMAGE_SIDE_MAX || height * width > IMAGE_PIXELS_MAX)
		return mlr_fail(err, EFBIG,
			"%llux%llu pixels are more than %zu, or than %d in a row or column",
			(unsigned long long)height, (unsigned long long)width, IMAGE_PIXELS_MAX,
			IMAGE_SIDE_MAX);
	return 0;
}

/* --- scaling ----------------------------------------------------------------- */

/* The source pixels of one result pixel, along one side. */
struct tap {
	uint32_t first, n;
	float *weight; /* [n] */
};

struct taps {
	struct tap *tap; /* [count] */
	float *weights;
};

static void taps_done(struct taps *t)
{
	free(t->tap);
	free(t->weights);
}

/* Weights for the mean of [a, b); the pixels at its ends count in part. */
static void average(struct tap *t, double a, double b, uint32_t from)
{
	t->first = (uint32_t)a;
	t->n = 0;
	for (uint32_t i = t->first; i < from && (double)i < b; i++) {
		double low = i > a ? i : a, high = i + 1.0 < b ? i + 1.0 : b;

		t->weight[t->n++] = (float)((high - low) / (b - a));
	}
}

/* Weights of the two pixels whose centres enclose that of [a, b). */
static void interpolate(struct tap *t, double a, double b, uint32_t from)
{
	double centre = (a + b) / 2 - 0.5, low = floor(centre);
	float f = (float)(centre - low);

	t->first = low < 0 ? 0 : (uint32_t)low;
	t->n = low < 0 || t->first + 1 >= from ? 1 : 2;
	t->weight[0] = t->n == 1 ? 1 : 1 - f;
	t->weight[1] = f;
}

/* Scale the part [at, at + len) of a side of `from` pixels to `to` pixels. */
static int make_taps(
	struct taps *t, uint32_t from, double at, double len, uint32_t to, struct mlr_error *err)
{
	size_t most = (size_t)(len / to) + 3;

	t->tap = calloc(to, sizeof(*t->tap));
	t->weights = calloc((size_t)to * most, sizeof(*t->weights));
	if (!t->tap || !t->weights)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for scaling",
			(size_t)to * (sizeof(*t->tap) + most * sizeof(float)));
	if (len == to)
		at = floor(at);
	for (uint32_t j = 0; j < to; j++) {
		double a = at + j * len / to, b = at + (j + 1) * len / to;

		t->tap[j].weight = t->weights + j * most;
		if (len >= to)
			average(&t->tap[j], a, b, from);
		else
			interpolate(&t->tap[j], a, b, from);
	}
	return 0;
}

/* Scale one row of p into [width][channels]. */
static void fit_row(
	const struct pixels *p, uint32_t y, const struct tap *taps, uint32_t width, float *to)
{
	uint32_t c = p->size.channels;
	const uint8_t *row = p->data + (size_t)y * p->size.width * c;

	for (uint32_t x = 0; x < width; x++)
		for (uint32_t k = 0; k < c; k++) {
			const uint8_t *from = row + (size_t)taps[x].first * c + k;
			float sum = 0;

			for (uint32_t i = 0; i < taps[x].n; i++)
				sum += taps[x].weight[i] * from[(size_t)i * c];
			to[(size_t)x * c + k] = sum;
		}
}

/* Add up n weighted rows of floats, and round to bytes. */
static void fit_column(const struct tap *t, const float *rows, size_t n, uint8_t *to)
{
	for (size_t x = 0; x < n; x++) {
		float sum = 0.5f;

		for (uint32_t i = 0; i < t->n; i++)
			sum += t->weight[i] * rows[i * n + x];
		to[x] = sum >= 255 ? 255 : (uint8_t)sum;
	}
}

/* Scale the needed rows horizontally, then all vertically. */
static int scale(const struct pixels *p, const struct tap *down, const struct tap *across,
	struct pixels *ret, struct mlr_error *err)
{
	uint32_t h = ret->size.height, w = ret->size.width, c = p->size.channels;
	uint32_t top = down[0].first, end = down[h - 1].first + down[h - 1].n;
	size_t n = (size_t)w * c, bytes = (end - top) * n * sizeof(float);
	auto_free float *rows = malloc(bytes);

	if (!rows)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for scaling", bytes);
	for (uint32_t y = top; y < end; y++)
		fit_row(p, y, across, w, rows + (y - top) * n);
	for (uint32_t y = 0; y < h; y++)
		fit_column(&down[y], rows + (down[y].first - top) * n, n, ret->data + y * n);
	return 0;
}

int pixels_fit(const struct pixels *p, uint32_t height, uint32_t width, struct pixels *ret,
	struct mlr_error *err)
{
	auto_call(taps_done) struct taps down = { NULL, NULL }, across = { NULL, NULL };
	auto_call(pixels_done) struct pixels q = { { p->size.channels, height, width },
		p->orientation, NULL };
	double h = p->size.height, w = p->size.width, part_h = h, part_w = w;
	size_t bytes = (size_t)height * width * p->size.channels;

	if (w * height > h * width)
		part_w = h * width / height;
	else
		part_h = w * height / width;
	q.data = malloc(bytes);
	if (!q.data)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for an image", bytes);
	TRY(make_taps(&down, p->size.height, (h - part_h) / 2, part_h, height, err));
	TRY(make_taps(&across, p->size.width, (w - part_w) / 2, part_w, width, err));
	TRY(scale(p, down.tap, across.tap, &q, err));
	*ret = q;
	q.data = NULL;
	return 0;
}

/* --- turning ----------------------------------------------------------------- */

/* Find the stored pixel that is shown at (y, x) (CIPA DC-008, "Orientation"). */
static const uint8_t *lies_at(const struct pixels *p, uint32_t y, uint32_t x)
{
	uint32_t h = p->size.height, w = p->size.width, from_y = y, from_x = x;

	if (pixels_lie_across(p->orientation)) {
		from_y = x;
		from_x = y;
	}
	switch (p->orientation) {
	case 2:
	case 8:
		from_x = w - 1 - from_x;
		break;
	case 3:
	case 7:
		from_x = w - 1 - from_x;
		from_y = h - 1 - from_y;
		break;
	case 4:
	case 6:
		from_y = h - 1 - from_y;
		break;
	default:
		break;
	}
	return p->data + ((size_t)from_y * w + from_x) * p->size.channels;
}

void pixels_to_planes(const struct pixels *p, const struct image_size *want, uint8_t *ret)
{
	size_t plane = (size_t)want->height * want->width, i = 0;

	for (uint32_t y = 0; y < want->height; y++)
		for (uint32_t x = 0; x < want->width; x++, i++) {
			const uint8_t *v = lies_at(p, y, x);

			if (want->channels == p->size.channels)
				for (uint32_t c = 0; c < want->channels; c++)
					ret[c * plane + i] = v[c];
			else if (want->channels == 1)
				ret[i] = (uint8_t)((299 * v[0] + 587 * v[1] + 114 * v[2] + 500) /
					1000);
			else
				for (uint32_t c = 0; c < 3; c++)
					ret[c * plane + i] = v[0];
		}
}

/* --- EXIF (CIPA DC-008; TIFF 6.0 for the format) ------------------------------ */

#define TAG_ORIENTATION 0x0112
#define TYPE_SHORT      3

struct tiff {
	const uint8_t *bytes;
	size_t len;
	int big_endian;
};

static uint32_t get16(const struct tiff *t, size_t at)
{
	const uint8_t *p = t->bytes + at;

	return t->big_endian ? (uint32_t)p[0] << 8 | p[1] : (uint32_t)p[1] << 8 | p[0];
}

static uint32_t get32(const struct tiff *t, size_t at)
{
	uint32_t a = get16(t, at), b = get16(t, at + 2);

	return t->big_endian ? a << 16 | b : b << 16 | a;
}

/* The first directory's entries of 12 bytes: tag, type, count, value. */
static int look_through(const struct tiff *t)
{
	size_t at = get32(t, 4);
	uint32_t entries;

	if (at > t->len || t->len - at < 2)
		return 1;
	entries = get16(t, at);
	at += 2;
	for (uint32_t i = 0; i < entries && t->len - at >= 12; i++, at += 12)
		if (get16(t, at) == TAG_ORIENTATION && get16(t, at + 2) == TYPE_SHORT &&
			get32(t, at + 4) == 1) {
			uint32_t v = get16(t, at + 8);

			return v >= 1 && v <= 8 ? (int)v : 1;
		}
	return 1;
}

int pixels_orientation(const uint8_t *segment, size_t len)
{
	struct tiff t = { NULL, 0, 0 };

	if (len < 6 + 8 || memcmp(segment, "Exif\0\0", 6) != 0)
		return 1;
	t.bytes = segment + 6;
	t.len = len - 6;
	if (memcmp(t.bytes, "MM\0*", 4) == 0)
		t.big_endian = 1;
	else if (memcmp(t.bytes, "II*\0", 4) != 0)
		return 1;
	return look_through(&t);
}
