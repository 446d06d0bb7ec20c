#include "data/cifar.h"

static const struct shape_of {
	const char *format, *set; /* set: the name as its authors write it */
	int labels;               /* bytes before an image */
	int classes, coarse;      /* coarse: those of the first byte if there are two */
	const char *first;        /* the file that identifies the format */
	const char *train[5], *test, *names;
} kinds[] = {
	[CIFAR_10] = { "cifar-10", "CIFAR-10", 1, 10, 0, "data_batch_1.bin",
		{ "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
			"data_batch_5.bin" },
		"test_batch.bin", "batches.meta.txt" },
	[CIFAR_100] = { "cifar-100", "CIFAR-100", 2, 100, 20, "train.bin", { "train.bin" },
		"test.bin", "fine_label_names.txt" },
};

/* Count the records of a file. */
static int count_records(
	int fd, const char *path, const struct shape_of *k, uint32_t *ret, struct mlr_error *err)
{
	size_t record = (size_t)k->labels + CIFAR_BYTES;
	struct stat st;
	uint64_t size;

	if (fstat(fd, &st) < 0)
		return mlr_fail_errno(err, "read '%s'", path);
	if (!S_ISREG(st.st_mode))
		return mlr_fail(err, EINVAL, "'%s' is not a regular file", path);
	size = (uint64_t)st.st_size;
	if (size > CIFAR_FILE_MAX)
		return mlr_fail(err, EFBIG, "'%s' has more than %zu bytes", path, CIFAR_FILE_MAX);
	if (size == 0)
		return mlr_fail(err, EPROTO, "'%s' is empty", path);
	if (size % record)
		return mlr_fail(err, EPROTO,
			"'%s' is truncated or no file of %s's: it ends within image %llu", path,
			k->set, (unsigned long long)(size / record));
	*ret = (uint32_t)(size / record);
	return 0;
}

/* Make room for count more images. */
static int make_room(struct image_set *set, uint32_t count, struct mlr_error *err)
{
	uint32_t all;
	void *p;

	if (__builtin_add_overflow(set->count, count, &all))
		return mlr_fail(err, EFBIG, "more than %u images", UINT32_MAX);
	p = realloc(set->images, all * CIFAR_BYTES);
	if (p)
		set->images = p;
	if (p && (p = realloc(set->labels, all * sizeof(*set->labels))))
		set->labels = p;
	if (!p)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory for images", all * CIFAR_BYTES);
	return 0;
}

static int check_labels(const uint8_t *label, const char *path, uint32_t image,
	const struct shape_of *k, struct mlr_error *err)
{
	int fine = k->labels - 1;

	if (fine && label[0] >= k->coarse)
		return mlr_fail(err, EPROTO,
			"'%s' is damaged or no file of %s's: image %u has the coarse label %u where "
			"%d is the highest",
			path, k->set, image, label[0], k->coarse - 1);
	if (label[fine] >= k->classes)
		return mlr_fail(err, EPROTO,
			"'%s' is damaged or no file of %s's: image %u has the label %u where %d is "
			"the highest",
			path, k->set, image, label[fine], k->classes - 1);
	return 0;
}

int cifar_read_fd(int fd, const char *path, enum cifar_kind kind, struct image_set *set,
	struct mlr_error *err)
{
	const struct shape_of *k = &kinds[kind];
	size_t record = (size_t)k->labels + CIFAR_BYTES;
	uint8_t buf[2 + CIFAR_BYTES];
	uint32_t count = 0;

	TRY(count_records(fd, path, k, &count, err));
	TRY(make_room(set, count, err));
	for (uint32_t i = 0; i < count; i++) {
		ssize_t got = file_read_full(fd, buf, record);

		if (got < 0)
			return mlr_result(err, (int)got, "read '%s'", path);
		if ((size_t)got < record)
			return mlr_fail(err, EPROTO, "'%s' became shorter while it was read", path);
		TRY(check_labels(buf, path, i, k, err));
		set->labels[set->count + i] = buf[k->labels - 1];
		memcpy(set->images + (set->count + i) * CIFAR_BYTES, buf + k->labels, CIFAR_BYTES);
	}
	set->count += count;
	return 0;
}

static int read_file(const char *dir, const char *name, enum cifar_kind kind, struct image_set *set,
	struct mlr_error *err)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 && errno == ENOENT) {
		mlr_fail(err, ENOENT, "'%s' is missing", path);
		return mlr_hint(err,
			"`mltrain fetch %s` brings the whole set, where there is the internet",
			kinds[kind].format);
	}
	if (fd < 0)
		return mlr_fail_errno(err, "open '%s'", path);
	return cifar_read_fd(fd, path, kind, set, err);
}

/* Read the classes: a name per line, in the order of the labels. The file is optional. */
static int read_names(struct dataset *d, const struct shape_of *k, struct mlr_error *err)
{
	auto_free char *path = xasprintf("%s/%s", d->dir, k->names), *text = NULL;
	char *save = NULL;
	int n = 0;

	if (!dataset_has_file(d->dir, k->names))
		return 0;
	TRY(file_read(AT_FDCWD, path, CIFAR_NAMES_MAX, &text, NULL, err));
	d->names = xcalloc((size_t)k->classes, sizeof(*d->names));
	for (char *s = strtok_r(text, "\r\n", &save); s; s = strtok_r(NULL, "\r\n", &save)) {
		if (n == k->classes)
			return mlr_fail(
				err, EPROTO, "'%s' has more than %d names", path, k->classes);
		for (const char *c = s; *c; c++)
			if ((unsigned char)*c < ' ' || *c == 0x7f)
				return mlr_fail(err, EPROTO,
					"'%s': name %d has a control character in it", path, n + 1);
		d->names[n++] = xstrdup(s);
	}
	if (n < k->classes)
		return mlr_fail(
			err, EPROTO, "'%s' has %d names where %d are needed", path, n, k->classes);
	return 0;
}

static int is_there(const char *dir)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (dataset_has_file(dir, kinds[i].first) || dataset_has_file(dir, kinds[i].test))
			return (int)i + 1;
	return 0;
}

static int read_dir(struct dataset *d, enum dataset_part part, const struct dataset_wish *wish,
	struct mlr_error *err)
{
	enum cifar_kind kind = (enum cifar_kind)(is_there(d->dir) - 1);
	const struct shape_of *k = &kinds[kind];

	d->format = k->format;
	d->channels = 3;
	d->height = d->width = CIFAR_SIDE;
	d->classes = k->classes;
	TRY(read_names(d, k, err));
	for (size_t i = 0; part == DATASET_ALL && i < ARRAY_LEN(k->train); i++)
		if (k->train[i])
			TRY(read_file(d->dir, k->train[i], kind, &d->train, err));
	return read_file(d->dir, k->test, kind, &d->test, err);
}

const struct format dataset_cifar = { "CIFAR-10's binary files (data_batch_1.bin and so on); "
				      "CIFAR-100's binary files (train.bin, test.bin)",
	is_there, read_dir };
