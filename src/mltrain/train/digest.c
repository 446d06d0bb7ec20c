#include "train/digest.h"

#include "base/base.h"

#define DIGEST_DIGITS 16

char *digest_dataset(const struct dataset *d)
{
	uint32_t sizes[] = { d->channels, d->height, d->width, (uint32_t)d->classes, d->train.count,
		d->test.count };
	size_t image =
		d->train.images && d->train.count ? (size_t)d->channels * d->height * d->width : 0;
	const struct iovec parts[] = { { sizes, sizeof(sizes) }, { d->train.images, image },
		{ d->train.labels, d->train.count * sizeof(*d->train.labels) },
		{ d->test.labels, d->test.count * sizeof(*d->test.labels) } };
	char hex[HASH_HEX_SIZE];

	hash_parts(parts, ARRAY_LEN(parts), hex);
	return xasprintf("%.*s", DIGEST_DIGITS, hex);
}
