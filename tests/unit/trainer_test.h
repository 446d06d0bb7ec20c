/*
 * What the trainer's unit tests share: made-up numbers, files and data sets.
 */
#ifndef TRAINER_TEST_H
#define TRAINER_TEST_H

#include "unit.h"
#include "data/dataset.h"
#include "tensor/rng.h"

#include <math.h>

static char test_dir[64];

__attribute__((unused)) static int make_test_dir(void **state)
{
	strcpy(test_dir, "/tmp/mlt-test.XXXXXX");
	return mkdtemp(test_dir) ? 0 : -1;
}

__attribute__((unused)) static int drop_test_dir(void **state)
{
	return file_remove_tree(AT_FDCWD, test_dir, NULL);
}

/* The path of a file in the test's directory; valid until called four more times. */
__attribute__((unused)) static const char *in_test_dir(const char *name)
{
	static char paths[4][256];
	static int next;
	char *p = paths[next++ % 4];

	snprintf(p, sizeof(paths[0]), "%s/%s", test_dir, name);
	return p;
}

__attribute__((unused)) static void write_file(const char *name, const void *buf, size_t len)
{
	assert_int_equal(file_replace(AT_FDCWD, in_test_dir(name), buf, len, 0644, NULL), 0);
}

/* n numbers in [-1, 1) */
__attribute__((unused)) static float *random_floats(uint64_t seed, size_t n)
{
	float *v = xcalloc(n ? n : 1, sizeof(*v));
	struct rng rng;

	rng_init(&rng, seed, RNG_TEST, 0);
	for (size_t i = 0; i < n; i++)
		v[i] = (float)(2 * rng_uniform(&rng) - 1);
	return v;
}

/* || a - b || / || b || */
__attribute__((unused)) static double distance(const float *a, const float *b, size_t n)
{
	double d = 0, s = 0;

	for (size_t i = 0; i < n; i++) {
		d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
		s += (double)b[i] * b[i];
	}
	return s > 0 ? sqrt(d / s) : sqrt(d);
}

/* Images of noise with one bright spot, whose place is the class. */
__attribute__((unused)) static struct image_set make_images(
	uint64_t seed, uint32_t count, uint32_t size, int classes)
{
	struct image_set s = { count, xcalloc(count, (size_t)size * size),
		xcalloc(count, sizeof(uint16_t)) };
	struct rng rng;

	rng_init(&rng, seed, RNG_TEST, 1);
	for (uint32_t i = 0; i < count; i++) {
		uint8_t *image = s.images + (size_t)i * size * size;

		s.labels[i] = (uint16_t)rng_below(&rng, (uint32_t)classes);
		for (uint32_t k = 0; k < size * size; k++)
			image[k] = (uint8_t)rng_below(&rng, 64);
		image[(uint32_t)s.labels[i] * size * size / (uint32_t)classes] = 255;
	}
	return s;
}

__attribute__((unused)) static struct dataset make_dataset(
	uint32_t train, uint32_t test, uint32_t size, int classes)
{
	return (struct dataset){ .dir = xstrdup("made-up"),
		.channels = 1,
		.height = size,
		.width = size,
		.classes = classes,
		.norm = { { 127.5f }, { 255 } },
		.train = make_images(1, train, size, classes),
		.test = make_images(2, test, size, classes) };
}

#endif
