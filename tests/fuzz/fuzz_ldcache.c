/* An image's linker cache: what is printed of it must be read as the same again. */
#include "base/cleanup.h"
#include "gpu/inject/ldcache.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static int same_entry(const struct gpu_ldcache_entry *a, const struct gpu_ldcache_entry *b)
{
	/* Without a subdirectory all of hwcap counts; with one, its index is the file's own. */
	uint64_t index = a->hwcaps ? 0xffffffff : 0;

	return same_text(a->name, b->name) && same_text(a->path, b->path) &&
		same_text(a->hwcaps, b->hwcaps) && a->flags == b->flags &&
		a->osversion == b->osversion && (a->hwcap & ~index) == (b->hwcap & ~index);
}

static int has(const struct gpu_ldcache *c, const struct gpu_ldcache_entry *e)
{
	for (size_t i = 0; i < c->n; i++)
		if (same_entry(&c->v[i], e))
			return 1;
	return 0;
}

/* ld.so's order of names is none where a number in them is above INT_MAX, as its differences
 * overflow. */
static int is_ordered(const struct gpu_ldcache *c)
{
	for (size_t i = 0; i < c->n; i++) {
		const char *s = c->v[i].name;
		size_t digits;

		for (; *s; s += digits ? digits : 1) {
			digits = strspn(s, "0123456789");
			if (digits > 9)
				return 0;
		}
	}
	return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_call(gpu_ldcache_done) struct gpu_ldcache first = { 0 }, second = { 0 }, third = { 0 };
	auto_free char *once = NULL, *twice = NULL;
	size_t once_len, twice_len;
	int ordered;

	if (gpu_ldcache_parse(data, size, &first, NULL) < 0)
		return 0;
	once_len = gpu_ldcache_print(&first, &once);
	if (gpu_ldcache_parse(once, once_len, &second, NULL) < 0 || second.n != first.n)
		abort();
	/* Sorted by the first printing, so that the second keeps the order. */
	twice_len = gpu_ldcache_print(&second, &twice);
	if (gpu_ldcache_parse(twice, twice_len, &third, NULL) < 0 || third.n != second.n)
		abort();
	ordered = is_ordered(&second);
	for (size_t i = 0; i < second.n; i++)
		if (ordered ? !same_entry(&second.v[i], &third.v[i]) : !has(&third, &second.v[i]))
			abort();
	for (size_t i = 0; i < first.n; i++)
		if (!has(&second, &first.v[i]))
			abort();
	return 0;
}
