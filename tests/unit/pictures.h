/*
 * Pictures that tests make: PNG of any colour type and depth, JPEG of any colour space.
 */
#ifndef PICTURES_H
#define PICTURES_H

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

struct bytes {
	uint8_t *data; /* to free() */
	size_t len;
};

struct png_kind {
	int type, depth; /* PNG_COLOR_TYPE_… */
	int interlaced;
	const png_color *palette;
	int colours;
	const png_byte *alphas; /* of the palette's first entries */
	int n_alphas;
};

static void take_png(png_structp png, png_bytep data, size_t len)
{
	struct bytes *b = png_get_io_ptr(png);

	b->data = realloc(b->data, b->len + len);
	memcpy(b->data + b->len, data, len);
	b->len += len;
}

static void no_flush(png_structp png)
{
}

/* rows: as PNG packs them, `stride` bytes each. */
__attribute__((unused)) static struct bytes make_png(
	const struct png_kind *k, int h, int w, const void *rows, size_t stride)
{
	png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
	png_infop info = png_create_info_struct(png);
	struct bytes b = { NULL, 0 };
	int passes;

	png_set_write_fn(png, &b, take_png, no_flush);
	png_set_IHDR(png, info, (png_uint_32)w, (png_uint_32)h, k->depth, k->type,
		k->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE,
		PNG_FILTER_TYPE_BASE);
	if (k->palette)
		png_set_PLTE(png, info, k->palette, k->colours);
	if (k->alphas)
		png_set_tRNS(png, info, k->alphas, k->n_alphas, NULL);
	png_write_info(png, info);
	passes = png_set_interlace_handling(png);
	for (int p = 0; p < passes; p++)
		for (int y = 0; y < h; y++)
			png_write_row(png, (png_const_bytep)rows + (size_t)y * stride);
	png_write_end(png, info);
	png_destroy_write_struct(&png, &info);
	return b;
}

/* Grey (channels 1) or RGB, 8 bits, [h][w][channels]. */
__attribute__((unused)) static struct bytes make_plain_png(
	int channels, int h, int w, const uint8_t *pixels)
{
	const struct png_kind k = { channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, 8 };

	return make_png(&k, h, w, pixels, (size_t)(channels * w));
}

struct jpeg_kind {
	J_COLOR_SPACE in, stored; /* JCS_GRAYSCALE, JCS_RGB … */
	int channels, progressive;
	int adobe;           /* 0: no mark of Adobe's */
	const uint8_t *exif; /* an APP1 segment's contents, or NULL */
	size_t exif_len;
};

__attribute__((unused)) static struct bytes make_jpeg(
	const struct jpeg_kind *k, int h, int w, const uint8_t *pixels)
{
	struct jpeg_compress_struct j;
	struct jpeg_error_mgr errors;
	struct bytes b = { NULL, 0 };
	unsigned long len = 0;

	j.err = jpeg_std_error(&errors);
	jpeg_create_compress(&j);
	jpeg_mem_dest(&j, &b.data, &len);
	j.image_width = (JDIMENSION)w;
	j.image_height = (JDIMENSION)h;
	j.input_components = k->channels;
	j.in_color_space = k->in;
	jpeg_set_defaults(&j);
	jpeg_set_colorspace(&j, k->stored);
	jpeg_set_quality(&j, 100, TRUE);
	for (int c = 0; c < j.num_components; c++)
		j.comp_info[c].h_samp_factor = j.comp_info[c].v_samp_factor = 1;
	j.write_Adobe_marker = k->adobe;
	if (k->progressive)
		jpeg_simple_progression(&j);
	jpeg_start_compress(&j, TRUE);
	if (k->exif)
		jpeg_write_marker(&j, JPEG_APP0 + 1, k->exif, (unsigned)k->exif_len);
	while (j.next_scanline < j.image_height) {
		JSAMPROW row[1] = { (
			JSAMPROW)(pixels + j.next_scanline * (size_t)(w * k->channels)) };

		jpeg_write_scanlines(&j, row, 1);
	}
	jpeg_finish_compress(&j);
	jpeg_destroy_compress(&j);
	b.len = len;
	return b;
}

#endif
