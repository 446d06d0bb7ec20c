#include "trainer_test.h"

#include "config.h"
#include "data/pixels.h"
#include "data/image.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <zlib.h>

#if HAVE_PNG && HAVE_JPEG
#include "pictures.h"

#define PIXELS 4096

/* What reading gives, as planes; the bytes are freed. */
static void read_as(struct bytes b, uint32_t channels, uint32_t h, uint32_t w, uint8_t *ret)
{
	const struct image_size want = { channels, h, w };
	struct mlr_error err = MLR_ERROR_INIT;

	assert_true(channels * h * w <= PIXELS);
	if (image_read_bytes(b.data, b.len, &want, ret, &err) < 0)
		fail_msg("%s", err.text);
	free(b.data);
}

static void assert_size(const struct bytes *b, uint32_t channels, uint32_t height, uint32_t width)
{
	struct image_size s;

	assert_int_equal(image_probe_bytes(b->data, b->len, &s, NULL), 0);
	assert_int_equal(s.channels, channels);
	assert_int_equal(s.height, height);
	assert_int_equal(s.width, width);
}

static void assert_near(const uint8_t *got, const uint8_t *want, size_t n, int most)
{
	for (size_t i = 0; i < n; i++)
		if (abs(got[i] - want[i]) > most)
			fail_msg("byte %zu is %d where %d was expected", i, got[i], want[i]);
}

/* --- PNG --------------------------------------------------------------------- */

static void grey_png_of_every_depth_is_read(void **state)
{
	static const struct {
		int depth;
		uint8_t rows[2][4]; /* two rows of two */
		uint8_t want[4];
	} all[] = {
		{ 1, { { 0x40 }, { 0x80 } }, { 0, 255, 255, 0 } },
		{ 2, { { 0x10 }, { 0xb0 } }, { 0, 85, 170, 255 } },
		{ 4, { { 0x1f }, { 0x80 } }, { 17, 255, 136, 0 } },
		{ 8, { { 1, 2 }, { 3, 254 } }, { 1, 2, 3, 254 } },
		{ 16, { { 10, 0, 20, 0 }, { 30, 0, 0xff, 0xff } }, { 10, 20, 30, 255 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		for (int interlaced = 0; interlaced < 2; interlaced++) {
			const struct png_kind k = { PNG_COLOR_TYPE_GRAY, all[i].depth, interlaced };
			struct bytes b = make_png(&k, 2, 2, all[i].rows, 4);
			uint8_t got[PIXELS];

			assert_size(&b, 1, 2, 2);
			read_as(b, 1, 2, 2, got);
			assert_near(got, all[i].want, 4, all[i].depth == 16);
		}
}

static void colour_png_is_read_into_planes_and_becomes_grey_when_that_is_wanted(void **state)
{
	static const uint8_t rgb[2][6] = { { 255, 0, 0, 0, 255, 0 }, { 0, 0, 255, 9, 99, 199 } };
	static const uint8_t planes[] = { 255, 0, 0, 9, 0, 255, 0, 99, 0, 0, 255, 199 };
	/* 0.299 R + 0.587 G + 0.114 B */
	static const uint8_t grey[] = { 76, 150, 29, 83 };
	struct bytes b = make_plain_png(3, 2, 2, rgb[0]);
	uint8_t got[PIXELS];

	assert_size(&b, 3, 2, 2);
	read_as(b, 3, 2, 2, got);
	assert_memory_equal(got, planes, sizeof(planes));
	read_as(make_plain_png(3, 2, 2, rgb[0]), 1, 2, 2, got);
	assert_memory_equal(got, grey, sizeof(grey));
}

static void grey_becomes_colour_three_times_over(void **state)
{
	static const uint8_t grey[] = { 1, 50, 100, 255 };
	uint8_t got[PIXELS];

	read_as(make_plain_png(1, 2, 2, grey), 3, 2, 2, got);
	for (size_t c = 0; c < 3; c++)
		assert_memory_equal(got + 4 * c, grey, 4);
}

static void palettes_are_looked_up_and_what_is_transparent_lies_on_white(void **state)
{
	static const png_color palette[] = { { 10, 20, 30 }, { 200, 100, 50 }, { 7, 7, 7 } };
	static const png_byte alphas[] = { 255, 255, 0 };
	const struct png_kind k = { PNG_COLOR_TYPE_PALETTE, 2, 0, palette, 3, alphas, 3 };
	const struct png_kind ga = { PNG_COLOR_TYPE_GRAY_ALPHA, 8 };
	const struct png_kind rgba = { PNG_COLOR_TYPE_RGB_ALPHA, 8 };
	static const uint8_t grey[] = { 90, 255, 90, 0 }, colour[] = { 1, 2, 3, 255, 1, 2, 3, 0 };
	static const uint8_t packed[] = { 0x18 }; /* 0, 1, 2, 0 */
	static const uint8_t want[] = { 10, 200, 255, 10, 20, 100, 255, 20, 30, 50, 255, 30 };
	static const uint8_t want_rgba[] = { 1, 255, 2, 255, 3, 255 };
	struct bytes b = make_png(&k, 1, 4, packed, 1);
	uint8_t got[PIXELS];

	assert_size(&b, 3, 1, 4);
	read_as(b, 3, 1, 4, got);
	assert_memory_equal(got, want, sizeof(want));
	b = make_png(&ga, 1, 2, grey, 4);
	assert_size(&b, 1, 1, 2);
	read_as(b, 1, 1, 2, got);
	assert_true(got[0] == 90 && got[1] == 255);
	read_as(make_png(&rgba, 1, 2, colour, 8), 3, 1, 2, got);
	assert_memory_equal(got, want_rgba, sizeof(want_rgba));
}

/* --- JPEG -------------------------------------------------------------------- */

/* 16 x 24: four blocks of one colour each, so that JPEG keeps them nearly as they are. */
static void make_blocks(int channels, const uint8_t colours[4][4], uint8_t *ret)
{
	for (int y = 0; y < 16; y++)
		for (int x = 0; x < 24; x++)
			memcpy(ret + (y * 24 + x) * channels, colours[2 * (y >= 8) + (x >= 8)],
				(size_t)channels);
}

/* The four corners of what is read at h x w, as [4][channels]. */
static void read_corners(struct bytes b, uint32_t channels, uint32_t h, uint32_t w, uint8_t *ret)
{
	uint8_t got[PIXELS];

	read_as(b, channels, h, w, got);
	for (uint32_t i = 0; i < 4; i++)
		for (uint32_t c = 0; c < channels; c++)
			ret[i * channels + c] =
				got[c * h * w + (i / 2 ? h - 1 : 0) * w + (i % 2 ? w - 1 : 0)];
}

static void jpeg_is_read_grey_and_coloured_baseline_and_progressive(void **state)
{
	static const uint8_t greys[4][4] = { { 20 }, { 90 }, { 160 }, { 250 } };
	static const uint8_t rgb[4][4] = { { 200, 30, 30 }, { 30, 200, 30 }, { 30, 30, 200 },
		{ 250, 240, 10 } };
	static const uint8_t want[] = { 200, 30, 30, 30, 200, 30, 30, 30, 200, 250, 240, 10 };
	static const uint8_t want_grey[] = { 20, 90, 160, 250 };
	static const uint8_t mixed[] = { 81, 130, 49, 217 };
	uint8_t pixels[16 * 24 * 3], got[12];

	for (int progressive = 0; progressive < 2; progressive++) {
		const struct jpeg_kind grey = { JCS_GRAYSCALE, JCS_GRAYSCALE, 1, progressive };
		const struct jpeg_kind ycc = { JCS_RGB, JCS_YCbCr, 3, progressive };
		const struct jpeg_kind plain = { JCS_RGB, JCS_RGB, 3, progressive, 1 };
		struct bytes b;

		make_blocks(1, greys, pixels);
		b = make_jpeg(&grey, 16, 24, pixels);
		assert_size(&b, 1, 16, 24);
		read_corners(b, 1, 16, 24, got);
		assert_near(got, want_grey, 4, 2);
		make_blocks(3, rgb, pixels);
		b = make_jpeg(&ycc, 16, 24, pixels);
		assert_size(&b, 3, 16, 24);
		read_corners(b, 3, 16, 24, got);
		assert_near(got, want, 12, 4);
		read_corners(make_jpeg(&ycc, 16, 24, pixels), 1, 16, 24, got);
		assert_near(got, mixed, 4, 4);
		read_corners(make_jpeg(&plain, 16, 24, pixels), 3, 16, 24, got);
		assert_near(got, want, 12, 2);
	}
}

static void printers_inks_are_read_as_adobe_and_as_others_write_them(void **state)
{
	/* No ink; all of cyan; half of black; all of yellow and half of black. */
	static const uint8_t inks[4][4] = { { 0, 0, 0, 0 }, { 255, 0, 0, 0 }, { 0, 0, 0, 128 },
		{ 0, 0, 255, 128 } };
	static const uint8_t want[] = { 255, 255, 255, 0, 255, 255, 127, 127, 127, 127, 127, 0 };
	const struct jpeg_kind plain = { JCS_CMYK, JCS_CMYK, 4, 0, 0 };
	const struct jpeg_kind adobe = { JCS_CMYK, JCS_YCCK, 4, 0, 1 };
	uint8_t pixels[16 * 24 * 4], got[12];
	struct bytes b;

	make_blocks(4, inks, pixels);
	b = make_jpeg(&plain, 16, 24, pixels);
	assert_size(&b, 3, 16, 24);
	read_corners(b, 3, 16, 24, got);
	assert_near(got, want, 12, 4);
	for (size_t i = 0; i < sizeof(pixels); i++)
		pixels[i] = 255 - pixels[i];
	read_corners(make_jpeg(&adobe, 16, 24, pixels), 3, 16, 24, got);
	assert_near(got, want, 12, 4);
}

/* An APP1 segment with one entry. */
static struct bytes make_exif(int big_endian, int orientation)
{
	static const uint8_t big[] = { 'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1,
		0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0 };
	static const uint8_t little[] = { 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1,
		0, 0x12, 0x01, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
	struct bytes b = { malloc(sizeof(big)), sizeof(big) };

	memcpy(b.data, big_endian ? big : little, sizeof(big));
	b.data[big_endian ? 25 : 24] = (uint8_t)orientation;
	return b;
}

static void jpeg_is_turned_as_its_exif_says(void **state)
{
	static const uint8_t greys[4][4] = { { 20 }, { 90 }, { 160 }, { 250 } };
	/* Upper left, upper right, lower left, lower right as shown; by CIPA DC-008's table. */
	static const uint8_t want[8][4] = { { 20, 90, 160, 250 }, { 90, 20, 250, 160 },
		{ 250, 160, 90, 20 }, { 160, 250, 20, 90 }, { 20, 160, 90, 250 },
		{ 160, 20, 250, 90 }, { 250, 90, 160, 20 }, { 90, 250, 20, 160 } };
	uint8_t pixels[16 * 24], got[4];

	make_blocks(1, greys, pixels);
	for (int o = 1; o <= 8; o++) {
		struct bytes exif = make_exif(o % 2, o), b;
		const struct jpeg_kind k = { JCS_GRAYSCALE, JCS_GRAYSCALE, 1, 0, 0, exif.data,
			exif.len };
		uint32_t h = o < 5 ? 16 : 24, w = o < 5 ? 24 : 16;

		b = make_jpeg(&k, 16, 24, pixels);
		assert_size(&b, 1, h, w);
		read_corners(b, 1, h, w, got);
		assert_near(got, want[o - 1], 4, 2);
		/* and when it is scaled */
		read_corners(make_jpeg(&k, 16, 24, pixels), 1, h / 2, w / 2, got);
		assert_near(got, want[o - 1], 4, 2);
		free(exif.data);
	}
}

static void exif_that_makes_no_sense_turns_nothing(void **state)
{
	struct bytes b = make_exif(1, 6);

	assert_int_equal(pixels_orientation(b.data, b.len), 6);
	for (size_t n = 0; n < 26; n++) {
		auto_free uint8_t *cut = malloc(n + 1);

		memcpy(cut, b.data, n);
		assert_int_equal(pixels_orientation(cut, n), 1);
	}
	b.data[10] = 0xff; /* the directory lies far outside */
	assert_int_equal(pixels_orientation(b.data, b.len), 1);
	b.data[10] = 0;
	b.data[25] = 9;
	assert_int_equal(pixels_orientation(b.data, b.len), 1);
	b.data[25] = 6;
	b.data[14] = b.data[15] = 0xff; /* more entries than there are bytes */
	assert_int_equal(pixels_orientation(b.data, b.len), 6);
	b.data[17] = 0x13; /* none of which is the one */
	assert_int_equal(pixels_orientation(b.data, b.len), 1);
	free(b.data);
}

/* --- sizes ------------------------------------------------------------------- */

static void a_larger_picture_is_averaged_over_areas(void **state)
{
	static const uint8_t four[] = { 0, 10, 100, 200, 20, 30, 200, 100, 1, 2, 9, 9, 3, 4, 9, 9 };
	static const uint8_t two[] = { 15, 150, 3, 9 }; /* 2.5 is rounded up */
	static const uint8_t three[] = { 0, 90, 180, 0, 90, 180, 0, 90, 180 };
	static const uint8_t third[] = { 30, 150, 30, 150 }; /* (0 + 90/2) / 1.5 */
	uint8_t got[PIXELS];

	read_as(make_plain_png(1, 4, 4, four), 1, 2, 2, got);
	assert_memory_equal(got, two, 4);
	read_as(make_plain_png(1, 3, 3, three), 1, 2, 2, got);
	assert_memory_equal(got, third, 4);
	read_as(make_plain_png(1, 3, 3, three), 1, 1, 1, got);
	assert_int_equal(got[0], 90);
}

static void a_smaller_picture_is_interpolated(void **state)
{
	static const uint8_t two[] = { 0, 100, 0, 100 };
	static const uint8_t four[] = { 0, 25, 75, 100 };
	static const uint8_t one[] = { 77 };
	uint8_t got[PIXELS];

	read_as(make_plain_png(1, 2, 2, two), 1, 4, 4, got);
	for (size_t i = 0; i < 4; i++)
		assert_memory_equal(got + 4 * i, four, 4);
	read_as(make_plain_png(1, 1, 1, one), 1, 3, 5, got);
	for (size_t i = 0; i < 15; i++)
		assert_int_equal(got[i], 77);
}

static void a_picture_of_another_shape_is_cut_in_the_middle(void **state)
{
	uint8_t pixels[2 * 6], tall[6 * 2], got[PIXELS];

	for (int i = 0; i < 12; i++) {
		pixels[i] = (uint8_t)(10 * (i % 6));
		tall[i] = (uint8_t)(10 * (i / 2));
	}
	read_as(make_plain_png(1, 2, 6, pixels), 1, 2, 2, got);
	assert_true(got[0] == 20 && got[1] == 30 && got[2] == 20 && got[3] == 30);
	read_as(make_plain_png(1, 6, 2, tall), 1, 2, 2, got);
	assert_true(got[0] == 20 && got[1] == 20 && got[2] == 30 && got[3] == 30);
	read_as(make_plain_png(1, 2, 6, pixels), 1, 1, 1, got); /* scaled and cut */
	assert_int_equal(got[0], 25);
	read_as(make_plain_png(1, 2, 6, pixels), 1, 2, 3, got); /* 1.5 to the left: a whole pixel */
	assert_true(got[0] == 10 && got[1] == 20 && got[2] == 30);
}

static void a_jpeg_much_too_large_is_the_same_decoded_small(void **state)
{
	const struct jpeg_kind k = { JCS_GRAYSCALE, JCS_GRAYSCALE, 1 };
	uint8_t pixels[128 * 128], got[PIXELS], want[16 * 16];

	for (int y = 0; y < 128; y++)
		for (int x = 0; x < 128; x++)
			pixels[y * 128 + x] = (uint8_t)(y + x);
	for (int y = 0; y < 16; y++)
		for (int x = 0; x < 16; x++)
			want[y * 16 + x] = (uint8_t)(8 * (y + x) + 7);
	read_as(make_jpeg(&k, 128, 128, pixels), 1, 16, 16, got);
	assert_near(got, want, sizeof(want), 2);
}

/* --- strangers' files -------------------------------------------------------- */

static int refused(const uint8_t *data, size_t len, struct mlr_error *err)
{
	const struct image_size want = { 1, 4, 4 };
	auto_free uint8_t *exact = malloc(len ? len : 1);
	uint8_t got[16];

	memcpy(exact, data, len);
	*err = (struct mlr_error)MLR_ERROR_INIT;
	return image_read_bytes(exact, len, &want, got, err);
}

static void a_picture_that_ends_early_is_refused(void **state)
{
	static const uint8_t greys[4][4] = { { 20 }, { 90 }, { 160 }, { 250 } };
	uint8_t pixels[16 * 24];
	struct mlr_error err;

	make_blocks(1, greys, pixels);
	for (int progressive = 0; progressive < 2; progressive++) {
		const struct jpeg_kind k = { JCS_GRAYSCALE, JCS_GRAYSCALE, 1, progressive };
		struct bytes b = make_jpeg(&k, 16, 24, pixels);

		for (size_t n = 0; n < b.len; n++)
			assert_int_equal(refused(b.data, n, &err), -EPROTO);
		assert_non_null(strstr(err.text, "damaged JPEG: Premature end"));
		assert_int_equal(refused(b.data, b.len, &err), 0);
		free(b.data);
	}
	struct bytes b = make_plain_png(1, 16, 24, pixels);

	for (size_t n = 0; n < b.len - 16; n++) /* without the last chunk it is whole */
		assert_int_equal(refused(b.data, n, &err), -EPROTO);
	assert_non_null(strstr(err.text, "damaged PNG: "));
	free(b.data);
}

/* 100 texts of 4 MiB each, in 4 KiB each, behind the header. */
static struct bytes with_long_texts(struct bytes b)
{
	enum { TEXTS = 100, HEADER_END = 33, TEXT = 4 << 20, CHUNK_MAX = 8192 };
	auto_free uint8_t *text = xcalloc(TEXT, 1);
	uint8_t chunk[CHUNK_MAX] = { 0, 0, 0, 0, 'z', 'T', 'X', 't', 'c' };
	struct bytes ret = { xcalloc(b.len + (size_t)TEXTS * CHUNK_MAX, 1), HEADER_END };
	uLongf n = CHUNK_MAX - 16;
	uint32_t crc;

	memset(text, 'x', TEXT);
	assert_int_equal(compress(chunk + 11, &n, text, TEXT), Z_OK);
	n += 3; /* the keyword, its end, the method */
	chunk[2] = (uint8_t)(n >> 8);
	chunk[3] = (uint8_t)n;
	crc = (uint32_t)crc32(0, chunk + 4, (uInt)n + 4);
	for (int i = 0; i < 4; i++)
		chunk[8 + n + (uLongf)i] = (uint8_t)(crc >> (24 - 8 * i));
	memcpy(ret.data, b.data, HEADER_END);
	for (int i = 0; i < TEXTS; i++, ret.len += n + 12)
		memcpy(ret.data + ret.len, chunk, n + 12);
	memcpy(ret.data + ret.len, b.data + HEADER_END, b.len - HEADER_END);
	ret.len += b.len - HEADER_END;
	return ret;
}

static void texts_of_a_png_cost_nothing(void **state)
{
	uint8_t pixels[4 * 4] = { 0, 17 };
	struct bytes b = make_plain_png(1, 4, 4, pixels), long_one = with_long_texts(b);
	struct mlr_error err;
	struct rusage used;
	int status;
	pid_t pid;

	pid = fork(); /* whose peak is its own */
	if (pid == 0)
		_exit(refused(long_one.data, long_one.len, &err) != 0);
	assert_int_equal(wait4(pid, &status, 0, &used), pid);
	assert_int_equal(status, 0);
	assert_true(used.ru_maxrss < 200 << 10); /* KiB */
	free(long_one.data);
	free(b.data);
}

static void a_damaged_png_is_refused(void **state)
{
	uint8_t pixels[16 * 24] = { 1, 2, 3 };
	struct bytes b = make_plain_png(1, 16, 24, pixels);
	struct mlr_error err;

	b.data[b.len - 12 - 8] ^= 1; /* in the pixels: their checksum tells */
	assert_int_equal(refused(b.data, b.len, &err), -EPROTO);
	free(b.data);
}

static void put32(uint8_t *at, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* Headers alone, of the size given. */
static int png_of_size(uint32_t h, uint32_t w, struct mlr_error *err)
{
	static const uint8_t pixel[] = { 1 };
	struct bytes b = make_plain_png(1, 1, 1, pixel);
	uint32_t crc = 0xffffffff;
	int r;

	put32(b.data + 16, w);
	put32(b.data + 20, h);
	for (size_t i = 12; i < 29; i++) {
		crc ^= b.data[i];
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	put32(b.data + 29, ~crc);
	r = refused(b.data, b.len, err);
	free(b.data);
	return r;
}

static int jpeg_of_size(uint32_t h, uint32_t w, struct mlr_error *err)
{
	static const uint8_t pixel[] = { 1 };
	const struct jpeg_kind k = { JCS_GRAYSCALE, JCS_GRAYSCALE, 1 };
	struct bytes b = make_jpeg(&k, 1, 1, pixel);
	size_t i = 0;
	int r;

	while (b.data[i] != 0xff || b.data[i + 1] != 0xc0)
		i++;
	b.data[i + 5] = (uint8_t)(h >> 8);
	b.data[i + 6] = (uint8_t)h;
	b.data[i + 7] = (uint8_t)(w >> 8);
	b.data[i + 8] = (uint8_t)w;
	r = refused(b.data, b.len, err);
	free(b.data);
	return r;
}

static void a_picture_larger_than_the_ceilings_is_refused_before_it_is_decoded(void **state)
{
	struct mlr_error err;

	assert_int_equal(png_of_size(1, 32768, &err), -EFBIG);
	assert_non_null(strstr(err.text,
		"1x32768 pixels are more than 67108864, or than 32767 in a row or column"));
	assert_int_equal(png_of_size(32768, 1, &err), -EFBIG);
	assert_int_equal(png_of_size(8193, 8192, &err), -EFBIG);
	assert_int_equal(
		png_of_size(8192, 8192, &err), -EPROTO); /* the ceiling: goes on, and ends */
	assert_int_equal(png_of_size(0x7fffffff, 0x7fffffff, &err) < 0, 1);
	assert_int_equal(jpeg_of_size(1, 32768, &err), -EFBIG);
	assert_int_equal(jpeg_of_size(65000, 65000, &err), -EFBIG);
	assert_int_equal(jpeg_of_size(8192, 8193, &err), -EFBIG);
	assert_int_equal(jpeg_of_size(8192, 8192, &err), -EPROTO);
}

/* The place of the next marker of a kind after at. */
static size_t find_marker(const struct bytes *b, size_t at, uint8_t kind)
{
	while (b->data[at] != 0xff || b->data[at + 1] != kind)
		at++;
	return at;
}

static int with_scans(int times, struct mlr_error *err)
{
	const struct jpeg_kind k = { JCS_GRAYSCALE, JCS_GRAYSCALE, 1, 1 };
	uint8_t pixels[16 * 24] = { 0 };
	struct bytes b = make_jpeg(&k, 16, 24, pixels), many = { NULL, 0 };
	size_t from, to;
	int r;

	from = find_marker(&b, 2, 0xc4); /* tables and the first scan, up to the next tables */
	to = find_marker(&b, find_marker(&b, from, 0xda), 0xc4);
	many.data = malloc(b.len + (size_t)times * (to - from));
	memcpy(many.data, b.data, to);
	many.len = to;
	for (int i = 0; i < times; i++, many.len += to - from)
		memcpy(many.data + many.len, b.data + from, to - from);
	memcpy(many.data + many.len, b.data + to, b.len - to);
	many.len += b.len - to;
	r = refused(many.data, many.len, err);
	free(many.data);
	free(b.data);
	return r;
}

static void a_jpeg_of_endless_scans_is_refused(void **state)
{
	struct mlr_error err;

	assert_int_equal(with_scans(10, &err), 0);
	assert_int_equal(with_scans(120, &err), -EFBIG);
	assert_non_null(strstr(err.text, "more scans than any picture needs"));
}

static void what_cannot_be_read_is_named(void **state)
{
	const struct image_size want = { 1, 4, 4 };
	struct image_size got;
	struct mlr_error err;
	uint8_t pixels[16];

	assert_int_equal(image_read(in_test_dir("none.png"), &want, pixels, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/none.png': open it: No such file"));
	write_file("text.png", "GIF89a", 6);
	assert_int_equal(image_read(in_test_dir("text.png"), &want, pixels, &err), -EPROTO);
	assert_non_null(strstr(err.text, "/text.png': neither PNG nor JPEG"));
	write_file("empty.jpg", "", 0);
	assert_int_equal(image_probe(in_test_dir("empty.jpg"), &got, &err), -EPROTO);
	assert_non_null(strstr(err.text, "/empty.jpg': the file is empty"));
	assert_int_equal(mkfifo(in_test_dir("pipe.png"), 0600), 0);
	assert_int_equal(image_read(in_test_dir("pipe.png"), &want, pixels, &err), -EINVAL);
	assert_non_null(strstr(err.text, "not a regular file"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grey_png_of_every_depth_is_read),
		cmocka_unit_test(
			colour_png_is_read_into_planes_and_becomes_grey_when_that_is_wanted),
		cmocka_unit_test(grey_becomes_colour_three_times_over),
		cmocka_unit_test(palettes_are_looked_up_and_what_is_transparent_lies_on_white),
		cmocka_unit_test(jpeg_is_read_grey_and_coloured_baseline_and_progressive),
		cmocka_unit_test(printers_inks_are_read_as_adobe_and_as_others_write_them),
		cmocka_unit_test(jpeg_is_turned_as_its_exif_says),
		cmocka_unit_test(exif_that_makes_no_sense_turns_nothing),
		cmocka_unit_test(a_larger_picture_is_averaged_over_areas),
		cmocka_unit_test(a_smaller_picture_is_interpolated),
		cmocka_unit_test(a_picture_of_another_shape_is_cut_in_the_middle),
		cmocka_unit_test(a_jpeg_much_too_large_is_the_same_decoded_small),
		cmocka_unit_test(a_picture_that_ends_early_is_refused),
		cmocka_unit_test(a_damaged_png_is_refused),
		cmocka_unit_test(texts_of_a_png_cost_nothing),
		cmocka_unit_test(
			a_picture_larger_than_the_ceilings_is_refused_before_it_is_decoded),
		cmocka_unit_test(a_jpeg_of_endless_scans_is_refused),
		cmocka_unit_test(what_cannot_be_read_is_named),
	};

	return cmocka_run_group_tests(tests, make_test_dir, drop_test_dir);
}

#else

static void a_picture_whose_library_is_missing_names_it(void **state)
{
	static const uint8_t png[] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };
	static const uint8_t jpeg[] = { 0xff, 0xd8, 0xff };
	struct mlr_error err = MLR_ERROR_INIT;
	struct image_size got;

	if (!strstr(image_formats(), "+png")) {
		assert_int_equal(image_probe_bytes(png, sizeof(png), &got, &err), -ENOTSUP);
		assert_non_null(strstr(err.text, "built without libpng"));
	}
	if (!strstr(image_formats(), "+jpeg")) {
		assert_int_equal(image_probe_bytes(jpeg, sizeof(jpeg), &got, &err), -ENOTSUP);
		assert_non_null(strstr(err.text, "built without libjpeg"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_picture_whose_library_is_missing_names_it),
	};

	return cmocka_run_group_tests(tests, make_test_dir, drop_test_dir);
}

#endif
