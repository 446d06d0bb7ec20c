/*
 * Reads folders of pictures, one directory for each class, as a data set: lists them, divides them
 * into training and test images, and decodes them into memory if they fit.
 *
 *   train/CLASS/IMAGE and test/CLASS/IMAGE (or val/), or CLASS/IMAGE alone
 *
 * Classes are the directories' names, sorted by byte; names that begin with a dot are ignored.
 * Images are files whose names end in .png, .jpg or .jpeg in either case, and links to such files.
 * Links to directories and directories within classes are ignored.
 *
 * Without test/ and val/, a share of each class is for testing: the images whose names have the
 * smallest SHA-256. So the same images are chosen in every run, even after others are added.
 */
#include "data/dataset.h"

#include "base/escape.h"
#include "data/image.h"
#include "data/loader.h"
#include "tensor/rng.h"

#include <math.h>

#define MEMORY_MAX  ((size_t)2 << 30)
#define TEST_SHARE  0.2
#define CLASSES_MAX 65535 /* a label is 16 bits */

/* Counts ignored entries, for one message. */
struct skipped {
	uint64_t count;
	char first[768]; /* path below the directory, for messages */
};

enum kind { A_FILE, A_DIRECTORY, A_LINK_TO_ONE, NEITHER };

/* Return dir/part, or dir if part is "", to free(). */
static char *dir_of(const char *dir, const char *part)
{
	return *part ? xasprintf("%s/%s", dir, part) : xstrdup(dir);
}

/* Return the type of an entry. Most file systems give it without stat(2). */
static enum kind kind_of(int dirfd, const char *name, unsigned char type)
{
	struct stat st;

	if (type == DT_REG)
		return A_FILE;
	if (type == DT_DIR)
		return A_DIRECTORY;
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return NEITHER;
	if (S_ISREG(st.st_mode))
		return A_FILE;
	if (S_ISDIR(st.st_mode))
		return A_DIRECTORY;
	if (!S_ISLNK(st.st_mode) || fstatat(dirfd, name, &st, 0) < 0)
		return NEITHER;
	return S_ISREG(st.st_mode) ? A_FILE : S_ISDIR(st.st_mode) ? A_LINK_TO_ONE : NEITHER;
}

static int is_image_name(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot &&
		(strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 ||
			strcasecmp(dot, ".jpeg") == 0);
}

static void skip(struct skipped *s, const char *part, const char *class, const char *name)
{
	char path[sizeof(s->first)];

	if (s->count++ > 0)
		return;
	snprintf(path, sizeof(path), "%s%s%s%s%s", part, *part ? "/" : "", class, *class ? "/" : "",
		name);
	escape_text(path, s->first, sizeof(s->first));
}

/* Which entries a listing keeps. */
enum wanted { DIRECTORIES, IMAGES };

/* List the wanted names in dir/part/class, sorted. */
static int list(const char *dir, const char *part, const char *class, enum wanted wanted,
	struct strv *ret, struct skipped *skipped, struct mlr_error *err)
{
	auto_free char *above = dir_of(dir, part), *path = dir_of(above, class);
	auto_strv struct strv l = STRV_INIT;
	auto_dir DIR *d = opendir(path);
	struct dirent *e;

	if (!d)
		return mlr_fail_errno(err, "open directory '%s'", path);
	for (errno = 0; (e = readdir(d)); errno = 0) {
		enum kind k;

		if (e->d_name[0] == '.')
			continue;
		k = kind_of(dirfd(d), e->d_name, e->d_type);
		if (wanted == DIRECTORIES ? k == A_DIRECTORY
					  : k == A_FILE && is_image_name(e->d_name)) {
			strv_add(&l, e->d_name);
		} else {
			skip(skipped, part, class, e->d_name);
		}
	}
	if (errno)
		return mlr_fail_errno(err, "read directory '%s'", path);
	strv_sort(&l);
	*ret = take_struct(&l, STRV_INIT);
	return 0;
}

/* Does the directory exist? Returns 1, 0, or -EINVAL for a link to one, which is not followed. */
static int has_directory(const char *dir, const char *part, struct mlr_error *err)
{
	auto_free char *path = dir_of(dir, part);

	switch (kind_of(AT_FDCWD, path, DT_UNKNOWN)) {
	case A_DIRECTORY:
		return 1;
	case A_LINK_TO_ONE:
		mlr_fail(err, EINVAL, "'%s' is a link to a directory, which is not followed", path);
		return mlr_hint(err, "move the directory here, or mount it here (mount --bind)");
	default:
		return 0;
	}
}

static int has_image(const char *dir, const char *class)
{
	auto_free char *path = dir_of(dir, class);
	auto_dir DIR *d = opendir(path);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' && is_image_name(e->d_name) &&
			kind_of(dirfd(d), e->d_name, e->d_type) == A_FILE)
			return 1;
	return 0;
}

/* Does a directory in dir contain an image? */
static int looks_like_one(const char *dir)
{
	auto_dir DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' && kind_of(dirfd(d), e->d_name, e->d_type) == A_DIRECTORY &&
			has_image(dir, e->d_name))
			return 1;
	return 0;
}

/* List the classes of a part, sorted. Returns 0, -ENOENT without any, -EFBIG, -EINVAL for a name
 * with control characters, or what opendir(3) gives. */
static int list_classes(const char *dir, const char *part, struct strv *ret,
	struct skipped *skipped, struct mlr_error *err)
{
	auto_free char *path = dir_of(dir, part);
	auto_strv struct strv l = STRV_INIT;

	TRY(list(dir, part, "", DIRECTORIES, &l, skipped, err));
	if (!l.n) {
		mlr_fail(err, ENOENT, "'%s' has no directories", path);
		return mlr_hint(err, "there has to be one for each class, with its images in it");
	}
	if (l.n > CLASSES_MAX)
		return mlr_fail(err, EFBIG, "'%s' has %zu directories; %d classes are the most",
			path, l.n, CLASSES_MAX);
	for (size_t i = 0; i < l.n; i++)
		for (const char *c = l.v[i]; *c; c++)
			if ((unsigned char)*c < ' ' || *c == 0x7f)
				return mlr_fail(err, EINVAL,
					"'%s': the class '%s' has a control character in its name",
					path, l.v[i]);
	*ret = take_struct(&l, STRV_INIT);
	return 0;
}

/* Make room for n more files. */
static int make_room(struct image_set *set, size_t n, struct mlr_error *err)
{
	size_t all = set->count + n;
	void *files, *labels;

	if (all > UINT32_MAX)
		return mlr_fail(err, EFBIG, "more than %u images", UINT32_MAX);
	files = realloc(set->files, all * sizeof(*set->files));
	if (files)
		set->files = files;
	labels = realloc(set->labels, all * sizeof(*set->labels));
	if (labels)
		set->labels = labels;
	if (!files || !labels)
		return mlr_fail(
			err, ENOMEM, "%zu bytes of memory for names", all * sizeof(*set->files));
	return 0;
}

/* Append a class's images to set, sorted by name: files and labels. Returns 0, also if the class
 * has no directory in this part; -EFBIG, or an error of opendir(3). */
static int add_class(const char *dir, const char *part, const char *name, int label,
	struct image_set *set, struct skipped *skipped, struct mlr_error *err)
{
	auto_strv struct strv l = STRV_INIT;
	auto_free char *within = dir_of(part, name);
	int r;

	if (!*part) {
		free(within);
		within = xstrdup(name);
	}
	r = has_directory(dir, within, err);
	if (r <= 0)
		return r;
	r = list(dir, part, name, IMAGES, &l, skipped, err);
	if (r < 0 || !l.n)
		return r;
	TRY(make_room(set, l.n, err));
	for (size_t i = 0; i < l.n; i++) {
		set->files[set->count].path = xasprintf("%s/%s", within, l.v[i]);
		set->labels[set->count++] = (uint16_t)label;
	}
	return 0;
}

/* --- the parts ----------------------------------------------------------------- */

/* The directories of the two parts; test NULL: a share of train. */
struct layout {
	const char *train, *test;
};

static int find_layout(const char *dir, struct layout *ret, struct mlr_error *err)
{
	static const char *const parts[] = { "train", "test", "val" };
	int has[ARRAY_LEN(parts)];

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		has[i] = has_directory(dir, parts[i], err);
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
	struct skipped *skipped, struct mlr_error *err)
{
	auto_strv struct strv l = STRV_INIT;
	int k = 0;

	TRY(list_classes(d->dir, at->test, &l, skipped, err));
	for (size_t i = 0; i < l.n; i++) {
		while (k < d->classes && strcmp(d->names[k], l.v[i]) < 0)
			k++;
		if (k == d->classes || strcmp(d->names[k], l.v[i]) != 0)
			return mlr_fail(err, EPROTO,
				"'%s/%s' has the class '%s' but '%s/%s' has not", d->dir, at->test,
				l.v[i], d->dir, at->train);
	}
	return 0;
}

/* --- the share for testing ----------------------------------------------------- */

struct drawn {
	char hash[HASH_HEX_SIZE];
	uint32_t file;
};

static int by_hash(const void *a, const void *b)
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
	qsort(draw, n, sizeof(*draw), by_hash);
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

static int walk(struct dataset *d, const char *part, struct image_set *set, struct skipped *skipped,
	struct mlr_error *err)
{
	for (int c = 0; c < d->classes; c++) {
		uint32_t was = set->count;

		TRY(add_class(d->dir, part, d->names[c], c, set, skipped, err));
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

	if ((!size.channels || !size.height || !size.width) && image_probe(path, &size, err) < 0)
		return mlr_hint(err, LOADER_HINT);
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

/* Decode a set into memory if it fits into the rest of the limit. An image a thread is ahead. */
static int decode_set(
	struct dataset *d, struct image_set *set, int threads, size_t *left, struct mlr_error *err)
{
	size_t one = (size_t)d->channels * d->height * d->width, bytes = one * set->count, at = 0;
	struct loader_options o = { .rows = 1, .ahead = 1, .threads = threads > 0 ? threads : 1 };
	auto_call(loader_close) struct loader *l = NULL;
	auto_free uint8_t *images = NULL;
	struct batch b;
	int n;

	if (set->count > *left / one || !set->count)
		return 0;
	images = malloc(bytes);
	if (!images)
		return mlr_fail(
			err, ENOMEM, "%zu bytes of memory for the images of '%s'", bytes, d->dir);
	*left -= bytes;
	if (set->count > 1)
		o.ahead = (uint32_t)o.threads < set->count / 2 ? o.threads : (int)(set->count / 2);
	TRY(loader_open(set, d, &o, &l, err));
	loader_start_range(l, 0, set->count);
	for (; (n = loader_take(l, 1, &b, err)) > 0; at += one)
		memcpy(images + at, b.images, one);
	if (n < 0)
		return n;
	set->images = take_ptr(&images);
	dataset_files_free(set->files, set->count);
	set->files = NULL;
	return 0;
}

static int walk_parts(struct dataset *d, enum dataset_part part, const struct layout *at,
	double share, struct skipped *skipped, struct mlr_error *err)
{
	struct strv classes = STRV_INIT;

	TRY(list_classes(d->dir, at->train, &classes, skipped, err));
	d->names = classes.v;
	d->classes = (int)classes.n;
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
	struct skipped skipped = { 0, "" };
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
	return has_directory(dir, "train", NULL) != 0 || looks_like_one(dir);
}

const struct format dataset_folders = {
	"folders of PNG and JPEG (train/CLASS/IMAGE and test/CLASS/IMAGE, or CLASS/IMAGE)",
	is_there, read_dir
};
