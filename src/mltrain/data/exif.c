#include "data/exif.h"

#include <string.h>

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

int exif_orientation(const uint8_t *segment, size_t len)
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
