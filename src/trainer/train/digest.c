#include "trainer/train/digest.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/memory.h"

#include <string.h>

#define DIGEST_DIGITS 16

static char *put(char *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	return to + len;
}

char *dataset_digest(const struct dataset *d)
{
	const uint32_t sizes[] = { d->channels, d->height, d->width, (uint32_t)d->classes,
		d->train.count, d->test.count };
	size_t image =
		d->train.images && d->train.count ? (size_t)d->channels * d->height * d->width : 0;
	size_t train = d->train.count * sizeof(*d->train.labels);
	size_t test = d->test.count * sizeof(*d->test.labels);
	auto_free char *all = xcalloc(1, sizeof(sizes) + image + train + test);
	char hex[HASH_HEX_SIZE], *at = all;

	at = put(at, sizes, sizeof(sizes));
	if (image)
		at = put(at, d->train.images, image);
	if (train)
		at = put(at, d->train.labels, train);
	if (test)
		at = put(at, d->test.labels, test);
	hash_short(all, (size_t)(at - all), hex);
	return xasprintf("%.*s", DIGEST_DIGITS, hex);
}
