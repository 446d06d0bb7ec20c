#include "data/folder.h"

#include "base/base.h"
#include "base/escape.h"

enum kind { A_FILE, A_DIRECTORY, A_LINK_TO_ONE, NEITHER };

void folder_files_free(struct image_file *files, uint32_t count)
{
	for (uint32_t i = 0; files && i < count; i++)
		free(files[i].path);
	free(files);
}

/* Return dir/part, or dir if part is "", to free(). */
static char *folder_path(const char *dir, const char *part)
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

static void skip(struct folder_skipped *s, const char *part, const char *class, const char *name)
{
	char path[sizeof(s->first)];

	if (s->count++ > 0)
		return;
	snprintf(path, sizeof(path), "%s%s%s%s%s", part, *part ? "/" : "", class, *class ? "/" : "",
		name);
	escape_text(path, s->first, sizeof(s->first));
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Which entries a listing keeps. */
enum wanted { DIRECTORIES, IMAGES };

struct list {
	char **names;
	size_t n;
};

static void list_done(struct list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->names[i]);
	free(l->names);
}

/* List the wanted names in dir/part/class, sorted. */
static int list(const char *dir, const char *part, const char *class, enum wanted wanted,
	struct list *ret, struct folder_skipped *skipped, struct mlr_error *err)
{
	auto_free char *above = folder_path(dir, part), *path = folder_path(above, class);
	auto_call(list_done) struct list l = { NULL, 0 };
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
			l.names = xgrow(l.names, l.n, sizeof(*l.names));
			l.names[l.n++] = xstrdup(e->d_name);
		} else {
			skip(skipped, part, class, e->d_name);
		}
	}
	if (errno)
		return mlr_fail_errno(err, "read directory '%s'", path);
	if (l.n)
		qsort(l.names, l.n, sizeof(*l.names), compare);
	*ret = l;
	l = (struct list){ NULL, 0 };
	return 0;
}

int folder_has(const char *dir, const char *part, struct mlr_error *err)
{
	auto_free char *path = folder_path(dir, part);

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
	auto_free char *path = folder_path(dir, class);
	auto_dir DIR *d = opendir(path);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' && is_image_name(e->d_name) &&
			kind_of(dirfd(d), e->d_name, e->d_type) == A_FILE)
			return 1;
	return 0;
}

int folder_looks_like_one(const char *dir)
{
	auto_dir DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' && kind_of(dirfd(d), e->d_name, e->d_type) == A_DIRECTORY &&
			has_image(dir, e->d_name))
			return 1;
	return 0;
}

int folder_classes(const char *dir, const char *part, char ***names, int *n,
	struct folder_skipped *skipped, struct mlr_error *err)
{
	auto_free char *path = folder_path(dir, part);
	auto_call(list_done) struct list l = { NULL, 0 };

	TRY(list(dir, part, "", DIRECTORIES, &l, skipped, err));
	if (!l.n) {
		mlr_fail(err, ENOENT, "'%s' has no directories", path);
		return mlr_hint(err, "there has to be one for each class, with its images in it");
	}
	if (l.n > FOLDER_CLASSES_MAX)
		return mlr_fail(err, EFBIG, "'%s' has %zu directories; %d classes are the most",
			path, l.n, FOLDER_CLASSES_MAX);
	for (size_t i = 0; i < l.n; i++)
		for (const char *c = l.names[i]; *c; c++)
			if ((unsigned char)*c < ' ' || *c == 0x7f)
				return mlr_fail(err, EINVAL,
					"'%s': the class '%s' has a control character in its name",
					path, l.names[i]);
	*n = (int)l.n;
	*names = take_ptr(&l.names);
	l.n = 0;
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

int folder_class(const char *dir, const char *part, const char *name, int label,
	struct image_set *set, struct folder_skipped *skipped, struct mlr_error *err)
{
	auto_call(list_done) struct list l = { NULL, 0 };
	auto_free char *within = folder_path(part, name);
	int r;

	if (!*part) {
		free(within);
		within = xstrdup(name);
	}
	r = folder_has(dir, within, err);
	if (r <= 0)
		return r;
	r = list(dir, part, name, IMAGES, &l, skipped, err);
	if (r < 0 || !l.n)
		return r;
	TRY(make_room(set, l.n, err));
	for (size_t i = 0; i < l.n; i++) {
		set->files[set->count].path = xasprintf("%s/%s", within, l.names[i]);
		set->labels[set->count++] = (uint16_t)label;
	}
	return 0;
}
