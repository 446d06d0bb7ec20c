/* Reads folders of pictures as a data set: divides them into training and test images, and decodes
 * them into memory if they fit. */
#include "data/format.h"

#include "base/base.h"
#include "data/folder.h"
#include "data/image.h"
#include "data/loader.h"
#include "tensor/rng.h"

#include <math.h>

#define MEMORY_MAX ((size_t)2 << 30)
#define TEST_SHARE 0.2
#define ROWS       64 /* of a batch that is decoded */
#define AHEAD      4

/* The directories of the two parts; test NULL: a share of train. */
struct layout {
	const char *train, *test;
};

static int find_layout(const char *dir, struct layout *ret, struct mlr_error *err)
{
	static const char *const parts[] = { "train", "test", "val" };
	int has[ARRAY_LEN(parts)];

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		has[i] = folder_has(dir, parts[i], err);
		if (has[i] < 0)
			return has[i];
	}
	*ret = (struct layout){ "", NULL };
	if (has[0])
		*ret = (struct layout){ "train", has[1] ? "test" : has[2] ? "val" : NULL };
	return 0;
}

/* A class that only the test part has would never be learnt. */
static int check_test_classes(const struct dataset *d, const struct layout *at,
	struct folder_skipped *skipped, struct mlr_error *err)
{
	char **names = NULL;
	int n = 0, r;

	r = folder_classes(d->dir, at->test, &names, &n, skipped, err);
	for (int i = 0, k = 0; r == 0 && i < n; i++) {
		while (k < d->classes && strcmp(d->names[k], names[i]) < 0)
			k++;
		if (k == d->classes || strcmp(d->names[k], names[i]) != 0)
			r = mlr_fail(err, EPROTO, "'%s/%s' has the class '%s' but '%s/%s' has not",
				d->dir, at->test, names[i], d->dir, at->train);
	}
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
	return r;
}

/* --- the share for testing ----------------------------------------------------- */

struct drawn {
	char hash[HASH_HEX_SIZE];
	uint32_t file;
};

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct drawn *)a)->hash, ((const struct drawn *)b)->hash);
}

/* Mark the test share of the files from..to-1, which are one class. */
static void mark_share(const struct image_set *all, const char *part, uint32_t from, uint32_t to,
	double share, uint8_t *for_test)
{
	uint32_t n = to - from, take = (uint32_t)llround(share * n);
	auto_free struct drawn *draw = xcalloc(n + 1, sizeof(*draw));

	if (take == n && take)
		take--;
	for (uint32_t i = 0; i < n; i++) {
		/* its name with its class, without the directories above */
		hash_name(all->files[from + i].path + (*part ? strlen(part) + 1 : 0), draw[i].hash);
		draw[i].file = from + i;
	}
	qsort(draw, n, sizeof(*draw), compare);
	for (uint32_t i = 0; i < take; i++)
		for_test[draw[i].file] = 1;
}

/* Move the marked files from one set to another. */
static void move_marked(struct image_set *from, const uint8_t *marked, struct image_set *to)
{
	uint32_t keep = 0;

	to->files = xcalloc(from->count + 1, sizeof(*to->files));
	to->labels = xcalloc(from->count + 1, sizeof(*to->labels));
	for (uint32_t i = 0; i < from->count; i++) {
		struct image_set *s = marked[i] ? to : from;
		uint32_t k = marked[i] ? to->count++ : keep++;

		s->labels[k] = from->labels[i];
		s->files[k] = from->files[i];
	}
	from->count = keep;
}

static void split(struct dataset *d, const char *part, double share)
{
	auto_free uint8_t *for_test = xcalloc(d->train.count + 1, 1);

	for (uint32_t from = 0, to; from < d->train.count; from = to) {
		for (to = from;
			to < d->train.count && d->train.labels[to] == d->train.labels[from];)
			to++;
		mark_share(&d->train, part, from, to, share, for_test);
	}
	move_marked(&d->train, for_test, &d->test);
}

/* Shuffle: files are sorted by class, but the validation images must have all classes. */
static void mix(struct image_set *set, uint64_t seed)
{
	struct rng rng;

	rng_init(&rng, seed, RNG_SPLIT, 0);
	for (uint32_t i = set->count; i > 1; i--) {
		uint32_t j = rng_below(&rng, i);
		struct image_file file = set->files[i - 1];
		uint16_t label = set->labels[i - 1];

		set->files[i - 1] = set->files[j];
		set->labels[i - 1] = set->labels[j];
		set->files[j] = file;
		set->labels[j] = label;
	}
}

/* --- the pictures ------------------------------------------------------------ */

static int walk(struct dataset *d, const char *part, struct image_set *set,
	struct folder_skipped *skipped, struct mlr_error *err)
{
	for (int c = 0; c < d->classes; c++) {
		uint32_t was = set->count;

		TRY(folder_class(d->dir, part, d->names[c], c, set, skipped, err));
		if (set->count == was && set == &d->train)
			return mlr_fail(err, EPROTO,
				"'%s%s%s/%s' has no images (.png, .jpg, .jpeg)", d->dir,
				*part ? "/" : "", part, d->names[c]);
	}
	return 0;
}

static int choose_size(struct dataset *d, const struct dataset_wish *wish,
	const struct image_set *first, struct mlr_error *err)
{
	auto_free char *path = xasprintf("%s/%s", d->dir, first->files[0].path);
	struct image_size size = { wish->channels, wish->height, wish->width };

	if (!size.channels || !size.height || !size.width)
		TRY(image_probe(path, &size, err));
	d->channels = wish->channels ? wish->channels : size.channels;
	d->height = wish->height ? wish->height : size.height;
	d->width = wish->width ? wish->width : size.width;
	if (d->channels != 1 && d->channels != 3)
		return mlr_fail(err, EINVAL,
			"images of %u channels were asked for; pictures have 1 (grey) or 3",
			d->channels);
	if (d->height > IMAGE_SIDE_MAX || d->width > IMAGE_SIDE_MAX ||
		(size_t)d->height * d->width > IMAGE_PIXELS_MAX)
		return mlr_fail(err, EFBIG, "images of %ux%u were asked for, which are too large",
			d->height, d->width);
	return 0;
}

/* Decode a set into memory if it fits into the rest of the limit. */
static int decode_set(
	struct dataset *d, struct image_set *set, int threads, size_t *left, struct mlr_error *err)
{
	const struct loader_options o = { ROWS, AHEAD, threads > 0 ? threads : 1 };
	size_t one = (size_t)d->channels * d->height * d->width, bytes = one * set->count, at = 0;
	auto_call(loader_close) struct loader *l = NULL;
	auto_free uint8_t *images = NULL;
	struct batch b[AHEAD];
	int n;

	if (set->count > *left / one || !set->count)
		return 0;
	images = malloc(bytes);
	if (!images)
		return mlr_fail(
			err, ENOMEM, "%zu bytes of memory for the images of '%s'", bytes, d->dir);
	*left -= bytes;
	TRY(loader_open(set, d, &o, &l, err));
	loader_start_range(l, 0, set->count);
	while ((n = loader_take(l, AHEAD, b, err)) > 0)
		for (int i = 0; i < n; at += one * (size_t)b[i++].rows)
			memcpy(images + at, b[i].images, one * (size_t)b[i].rows);
	if (n < 0)
		return n;
	set->images = take_ptr(&images);
	folder_files_free(set->files, set->count);
	set->files = NULL;
	return 0;
}

static int walk_parts(struct dataset *d, enum dataset_part part, const struct layout *at,
	double share, struct folder_skipped *skipped, struct mlr_error *err)
{
	TRY(folder_classes(d->dir, at->train, &d->names, &d->classes, skipped, err));
	if (at->test)
		TRY(check_test_classes(d, at, skipped, err));
	if (part == DATASET_ALL || !at->test)
		TRY(walk(d, at->train, &d->train, skipped, err));
	if (at->test)
		TRY(walk(d, at->test, &d->test, skipped, err));
	else
		split(d, at->train, share);
	if (!d->test.count)
		return mlr_fail(
			err, EPROTO, "'%s' has too few images to keep some for testing", d->dir);
	return 0;
}

static int read_dir(struct dataset *d, enum dataset_part part, const struct dataset_wish *wish,
	struct mlr_error *err)
{
	double share = wish->test_share > 0 && wish->test_share < 1 ? wish->test_share : TEST_SHARE;
	size_t left = wish->memory_max ? wish->memory_max : MEMORY_MAX;
	struct folder_skipped skipped = { 0, "" };
	struct layout at;

	d->format = "folders";
	TRY(find_layout(d->dir, &at, err));
	TRY(walk_parts(d, part, &at, share, &skipped, err));
	if (skipped.count)
		mlr_warning("'%s': skipped %llu files that are not PNG or JPEG, such as '%s'",
			d->dir, (unsigned long long)skipped.count, skipped.first);
	TRY(choose_size(d, wish, d->train.count ? &d->train : &d->test, err));
	if (part == DATASET_TEST)
		dataset_set_done(&d->train);
	mix(&d->train, wish->seed);
	TRY(decode_set(d, &d->train, wish->threads, &left, err));
	return decode_set(d, &d->test, wish->threads, &left, err);
}

static int is_there(const char *dir)
{
	return folder_has(dir, "train", NULL) != 0 || folder_looks_like_one(dir);
}

const struct format format_folders = {
	"folders of PNG and JPEG (train/CLASS/IMAGE and test/CLASS/IMAGE, or CLASS/IMAGE)",
	is_there, read_dir
};
