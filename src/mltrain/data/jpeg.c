/* Reads JPEG with libjpeg-turbo (libjpeg.txt, "Error handling", "Special considerations"). */
#include "data/pixels.h"

#include <setjmp.h>

#include <jpeglib.h>
#include <jerror.h>

#define MEMORY_MAX (1L << 30) /* libjpeg's own: the coefficients of a progressive file */

/* Everything that must survive a longjmp(3), which local variables may not. */
struct decoder {
	struct jpeg_decompress_struct j;
	struct jpeg_error_mgr errors;
	struct jpeg_progress_mgr progress;
	jmp_buf back;
	int code;
	char text[JMSG_LENGTH_MAX];
	const void *bytes;
	size_t len;
	const struct image_size *want;
	struct pixels out;
	uint8_t *cmyk; /* a row */
};

static void decoder_done(struct decoder *d)
{
	jpeg_destroy_decompress(&d->j);
	pixels_done(&d->out);
	free(d->cmyk);
}

__attribute__((noreturn)) static void give_up(struct decoder *d, int code, const char *text)
{
	d->code = code;
	snprintf(d->text, sizeof(d->text), "%s", text);
	longjmp(d->back, 1);
}

__attribute__((noreturn)) static void on_error(j_common_ptr j)
{
	char text[JMSG_LENGTH_MAX];

	j->err->format_message(j, text);
	give_up(j->client_data, j->err->msg_code == JERR_OUT_OF_MEMORY ? ENOMEM : EPROTO, text);
}

/* Extra bytes between two segments are common and harmless; a premature end is an error. */
static void on_message(j_common_ptr j, int level)
{
	if (level < 0 && (j->err->msg_code == JWRN_JPEG_EOF || j->err->msg_code == JWRN_HIT_MARKER))
		on_error(j);
}

static void on_progress(j_common_ptr j)
{
	struct decoder *d = j->client_data;

	if (d->j.input_scan_number > IMAGE_SCANS_MAX)
		give_up(d, EFBIG, "more scans than any picture needs");
}

static int orientation(const struct decoder *d)
{
	for (jpeg_saved_marker_ptr m = d->j.marker_list; m; m = m->next) {
		int o = m->marker == JPEG_APP0 + 1 ? pixels_orientation(m->data, m->data_length)
						   : 1;

		if (o != 1)
			return o;
	}
	return 1;
}

static void read_header(struct decoder *d)
{
	struct mlr_error err = MLR_ERROR_INIT;

	jpeg_create_decompress(&d->j);
	d->j.client_data = d;
	d->j.mem->max_memory_to_use = MEMORY_MAX;
	d->progress.progress_monitor = on_progress;
	d->j.progress = &d->progress;
	jpeg_mem_src(&d->j, d->bytes, d->len);
	jpeg_save_markers(&d->j, JPEG_APP0 + 1, 0xffff);
	jpeg_read_header(&d->j, TRUE);
	if (pixels_check(d->j.image_height, d->j.image_width, &err) < 0)
		give_up(d, err.code, err.text);
	d->out.orientation = orientation(d);
	d->out.size = (struct image_size){ d->j.jpeg_color_space == JCS_GRAYSCALE ? 1 : 3,
		d->j.image_height, d->j.image_width };
}

static void choose_scale(struct decoder *d)
{
	int across = pixels_lie_across(d->out.orientation);
	uint32_t h = across ? d->want->width : d->want->height;
	uint32_t w = across ? d->want->height : d->want->width;

	d->j.scale_num = 1;
	d->j.scale_denom = 1;
	while (d->j.scale_denom < 8 && d->j.image_height / (2 * d->j.scale_denom) >= h &&
		d->j.image_width / (2 * d->j.scale_denom) >= w)
		d->j.scale_denom *= 2;
}

/* Adobe's programs, which leave a marker, invert inks: 255 is no ink. */
static void cmyk_to_rgb(const struct decoder *d, const uint8_t *from, uint8_t *to)
{
	int flip = d->j.saw_Adobe_marker ? 0 : 255;

	for (size_t x = 0; x < d->j.output_width; x++, from += 4, to += 3)
		for (int c = 0; c < 3; c++)
			to[c] = (uint8_t)(((from[c] ^ flip) * (from[3] ^ flip) + 127) / 255);
}

static void read_rows(struct decoder *d)
{
	size_t row = (size_t)d->out.size.width * d->out.size.channels;

	while (d->j.output_scanline < d->j.output_height) {
		uint8_t *to = d->out.data + d->j.output_scanline * row;
		JSAMPROW rows[1] = { d->cmyk ? d->cmyk : to };

		jpeg_read_scanlines(&d->j, rows, 1);
		if (d->cmyk)
			cmyk_to_rgb(d, d->cmyk, to);
	}
}

static void decode(struct decoder *d)
{
	int ink = d->j.jpeg_color_space == JCS_CMYK || d->j.jpeg_color_space == JCS_YCCK;

	choose_scale(d);
	d->j.out_color_space = ink ? JCS_CMYK : d->out.size.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
	jpeg_start_decompress(&d->j);
	d->out.size.height = d->j.output_height;
	d->out.size.width = d->j.output_width;
	d->out.data = malloc((size_t)d->out.size.height * d->out.size.width * d->out.size.channels);
	if (ink)
		d->cmyk = malloc((size_t)d->out.size.width * 4);
	if (!d->out.data || (ink && !d->cmyk))
		give_up(d, ENOMEM, "no memory for the image");
	read_rows(d);
	jpeg_finish_decompress(&d->j);
}

int pixels_read_jpeg(const void *bytes, size_t len, const struct image_size *want,
	struct pixels *ret, struct mlr_error *err)
{
	auto_call(decoder_done) struct decoder d = { .bytes = bytes, .len = len, .want = want };

	d.j.err = jpeg_std_error(&d.errors);
	d.j.client_data = &d;
	d.errors.error_exit = on_error;
	d.errors.emit_message = on_message;
	if (setjmp(d.back)) /* NOLINT: libjpeg's only way to fail */
		return mlr_fail(
			err, d.code, "%s%s", d.code == EPROTO ? "damaged JPEG: " : "", d.text);
	read_header(&d);
	if (want)
		decode(&d);
	*ret = d.out;
	d.out.data = NULL;
	return 0;
}
