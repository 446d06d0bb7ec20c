#include "data/dataset.h"

#include "base/home.h"
#include "data/loader.h"

#include <math.h>

static int is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The names that `mltrain fetch` knows, too. */
static int is_known(const char *name)
{
	static const char *const known[] = { "mnist", "fashion-mnist", "cifar-10", "cifar-100" };

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(name, known[i]) == 0)
			return 1;
	return 0;
}

/* The default directory of fetch; "" for a user without a home directory. */
static char *in_home(const char *name)
{
	auto_free char *data = home_xdg_dir("XDG_DATA_HOME", ".local/share", NULL);

	return data ? xasprintf("%s/datasets/%s", data, name) : xstrdup("");
}

/* Return the nth place to search for a name; NULL after the last. */
static char *place(const char *name, int n)
{
	switch (n) {
	case 0:
		return xasprintf("/usr/share/datasets/%s", name);
	case 1:
		return xstrdup(name);
	case 2:
		return xasprintf("data/%s", name);
	case 3:
		return in_home(name);
	case 4:
		return xasprintf("/usr/local/share/datasets/%s", name);
	default:
		return NULL;
	}
}

static int not_found(const char *name, struct mlr_error *err)
{
	auto_free char *home = in_home(name);

	mlr_fail(err, ENOENT,
		"data set '%s' was not found in /usr/share/datasets/%s, ./%s, ./data/%s, %s%s"
		"/usr/local/share/datasets/%s",
		name, name, name, name, home, *home ? " or " : "or ", name);
	if (is_known(name))
		return mlr_hint(err, "`mltrain fetch %s` brings it where there is the internet%s",
			name,
			strcmp(name, "fashion-mnist") == 0
				? ", apt-get install dataset-fashion-mnist on Debian"
				: "; --data takes the directory that holds its files, too");
	return mlr_hint(err,
		"give --data the directory that holds its files; `mltrain fetch mnist` brings that one "
		"where there is the internet, Debian's package dataset-fashion-mnist brings --data "
		"fashion-mnist");
}

static int not_a_directory(const char *name, struct mlr_error *err)
{
	mlr_fail(err, ENOTDIR, "data set '%s' is a file", name);
	return mlr_hint(err, "--data takes the directory that holds the data set's files");
}

/*
 * Find the directory of --data. It may be a path. A bare name that is not a directory is searched
 * for in Debian's /usr/share/datasets/NAME, then ./NAME, ./data/NAME, $XDG_DATA_HOME/datasets/NAME
 * and /usr/local/share/datasets/NAME. The names that fetch knows are always searched for, so that a
 * stray file of that name does no harm.
 *
 * Returns 0 and a string to free(), -ENOENT naming the places and the package to install, or
 * -ENOTDIR for a file.
 */
static int find_dir(const char *name, char **ret, struct mlr_error *err)
{
	int bare = !strchr(name, '/');
	struct stat st;

	if (!bare || (!is_known(name) && is_dir(name))) {
		if (is_dir(name)) {
			*ret = xstrdup(name);
			return 0;
		}
		if (stat(name, &st) == 0)
			return not_a_directory(name, err);
		mlr_fail(err, ENOENT, "data directory '%s' is not there", name);
		return mlr_hint(
			err, "Debian's package dataset-fashion-mnist brings --data fashion-mnist");
	}
	for (int n = 0;; n++) {
		auto_free char *p = place(name, n);

		if (!p)
			return !is_known(name) && stat(name, &st) == 0 ? not_a_directory(name, err)
								       : not_found(name, err);
		if (is_dir(p)) {
			*ret = take_ptr(&p);
			return 0;
		}
	}
}

int dataset_has_file(const char *dir, const char *name)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Folders come last: any file named like a picture identifies them. */
static const struct format *const formats[] = { &dataset_idx, &dataset_cifar, &dataset_folders };

/* The directories in the archives of CIFAR. */
static const char *const below[] = { "cifar-10-batches-bin", "cifar-100-binary" };

static const struct format *format_of(const char *dir)
{
	for (size_t i = 0; i < ARRAY_LEN(formats); i++)
		if (formats[i]->is_there(dir))
			return formats[i];
	return NULL;
}

/* Find the format of d->dir, or of a directory below it, which d->dir then becomes. */
static const struct format *detect(struct dataset *d)
{
	const struct format *here = format_of(d->dir);

	if (here && here != &dataset_folders)
		return here;
	for (size_t i = 0; i < ARRAY_LEN(below); i++) {
		auto_free char *sub = xasprintf("%s/%s", d->dir, below[i]);

		if (is_dir(sub) && format_of(sub)) {
			free(d->dir);
			d->dir = take_ptr(&sub);
			return format_of(d->dir);
		}
	}
	return here;
}

static int not_detected(const char *dir, struct mlr_error *err)
{
	mlr_fail(err, ENOENT, "'%s' holds no data set that is known; looked for were: %s; %s; %s",
		dir, formats[0]->looks_for, formats[1]->looks_for, formats[2]->looks_for);
	return mlr_hint(err,
		"`mltrain fetch mnist` brings one where there is the internet, Debian's package "
		"dataset-fashion-mnist brings --data fashion-mnist");
}

int dataset_load(const char *name, enum dataset_part part, const struct dataset_wish *wish,
	struct dataset *ret, struct mlr_error *err)
{
	static const struct dataset_wish none;
	auto_call(dataset_done) struct dataset d = { 0 };
	const struct format *format;

	TRY(find_dir(name, &d.dir, err));
	format = detect(&d);
	if (!format && access(d.dir, R_OK | X_OK) < 0)
		return mlr_fail_errno(err, "read data directory '%s'", d.dir);
	if (!format)
		return not_detected(d.dir, err);
	TRY(format->read(&d, part, wish ? wish : &none, err));

	for (int c = 0; c < IMAGE_CHANNELS_MAX; c++) {
		d.norm.mean[c] = 127.5f;
		d.norm.scale[c] = 255;
	}
	*ret = take_struct(&d, { 0 });
	return 0;
}

const char *dataset_class(const struct dataset *d, int label, char buf[12])
{
	if (d->names && label < d->classes)
		return d->names[label];
	snprintf(buf, 12, "%d", label);
	return buf;
}

void dataset_files_free(struct image_file *files, uint32_t count)
{
	for (uint32_t i = 0; files && i < count; i++)
		free(files[i].path);
	free(files);
}

void dataset_set_done(struct image_set *set)
{
	free(set->images);
	free(set->labels);
	dataset_files_free(set->files, set->count);
	*set = (struct image_set){ 0 };
}

void dataset_done(struct dataset *d)
{
	free(d->dir);
	for (int i = 0; d->names && i < d->classes; i++)
		free(d->names[i]);
	free(d->names);
	dataset_set_done(&d->train);
	dataset_set_done(&d->test);
	*d = (struct dataset){ 0 };
}

#define NAMED_MAX 5 /* classes that a notice names */

/* "3, 7 and 4 more" of the classes without images. */
static char *list_empty(const struct dataset *d, const uint32_t *count, int empty)
{
	auto_free char *text = xstrdup("");
	int n = 0;

	for (int k = 0; k < d->classes && n < NAMED_MAX; k++) {
		auto_free char *before = text;
		auto_free char *number = d->names ? NULL : xasprintf("%d", k);

		text = count[k]
			? xstrdup(before)
			: xasprintf("%s%s%s", before, n ? ", " : "", number ? number : d->names[k]);
		n += !count[k];
	}
	return empty > n ? xasprintf("%s and %d more", text, empty - n) : take_ptr(&text);
}

int dataset_check_classes(const struct dataset *d, char **notice, struct mlr_error *err)
{
	auto_free uint32_t *count = xcalloc((size_t)d->classes + 1, sizeof(*count));
	auto_free char *list = NULL;
	uint32_t last = 0;
	int used = 0;

	*notice = NULL;
	for (uint32_t i = 0; i < d->train.count; i++) {
		used += !count[d->train.labels[i]]++;
		if (d->train.labels[i] == d->classes - 1)
			last = i;
	}
	if (d->classes > 10 * used) {
		mlr_fail(err, EPROTO,
			"'%s': labels go up to %d, but only %d classes have training images",
			d->dir, d->classes - 1, used);
		return mlr_hint(err,
			"is a label damaged? training image %u, counted from 0, has the highest",
			last);
	}
	if (used == 1)
		*notice = xasprintf(
			"all training images are of one class, so there is nothing to tell apart");
	if (used <= 1 || used == d->classes)
		return 0;
	list = list_empty(d, count, d->classes - used);
	*notice = xasprintf("%d of %d classes %s no training image: %s", d->classes - used,
		d->classes, d->classes - used == 1 ? "has" : "have", list);
	return 0;
}

/* --- the distribution of its bytes ------------------------------------------- */

#define ROWS  64
#define AHEAD 4

/* Counts of each byte value in each channel, which give exact sums. */
typedef uint64_t histogram[IMAGE_CHANNELS_MAX][256];

static void count_batch(const struct batch *b, uint32_t channels, size_t plane, histogram seen)
{
	for (int i = 0; i < b->rows; i++) {
		size_t which = b->index ? b->index[i] : (size_t)i;

		for (uint32_t c = 0; c < channels; c++) {
			const uint8_t *p = b->images + (which * channels + c) * plane;

			for (size_t k = 0; k < plane; k++)
				seen[c][p[k]]++;
		}
	}
}

static void moments(const uint64_t seen[256], float *mean, float *deviation)
{
	double n = 0, sum = 0, squares = 0, m;

	for (int v = 0; v < 256; v++) {
		n += (double)seen[v];
		sum += (double)seen[v] * v;
	}
	m = sum / n;
	for (int v = 0; v < 256; v++)
		squares += (double)seen[v] * (v - m) * (v - m);
	*mean = (float)m;
	*deviation = squares > 0 ? (float)sqrt(squares / n) : 1;
}

int dataset_measure(const struct dataset *d, uint32_t first, int threads, struct image_norm *ret,
	struct mlr_error *err)
{
	const struct loader_options o = { ROWS, AHEAD, threads > 0 ? threads : 1 };
	auto_call(loader_close) struct loader *l = NULL;
	struct image_norm norm = d->norm;
	histogram seen = { { 0 } };
	struct batch b[AHEAD];
	int r;

	if (first >= d->train.count)
		return mlr_fail(err, EINVAL, "'%s' has no training images to measure", d->dir);
	TRY(loader_open(&d->train, d, &o, &l, err));
	loader_start_range(l, first, d->train.count - first);
	while ((r = loader_take(l, AHEAD, b, err)) > 0)
		for (int i = 0; i < r; i++)
			count_batch(&b[i], d->channels, (size_t)d->height * d->width, seen);
	if (r < 0)
		return r;
	for (uint32_t c = 0; c < d->channels; c++)
		moments(seen[c], &norm.mean[c], &norm.scale[c]);
	*ret = norm;
	return 0;
}
