#include "store/tighten.h"

#include "base/base.h"
#include "base/tighten.h"
#include "store/facts.h"
#include "store/format.h"
#include "store/handle.h"
#include "store/open_dirs.h"

struct seen {
	size_t n;
	struct strv open; /* as in the note */
	char *foreign;    /* a file of another user */
	uid_t uid;
	uid_t owner;
};

static void seen_done(struct seen *s)
{
	strv_done(&s->open);
	free(s->foreign);
}

static void see(void *ctx, const char *path, const struct stat *st)
{
	struct seen *s = ctx;

	s->n++;
	if (S_ISDIR(st->st_mode) && (st->st_mode & S_IWOTH) && s->open.n < STORE_OPEN_MAX)
		strv_addf(&s->open, "%o %s", (unsigned)st->st_mode & 01777, path);
	if (st->st_uid == s->owner || s->foreign)
		return;
	s->foreign = xstrdup(path);
	s->uid = st->st_uid;
}

/* Write a tree's note of open directories; an earlier one, of a repair that was interrupted, stays.
 */
static int note_open(
	struct store *st, const char *path, const struct strv *open, struct mlr_error *err)
{
	auto_free char *note = xasprintf("%s/" STORE_OPEN_NOTE, path), *text = NULL;
	size_t len = 0;

	if (open->n == 0 || strncmp(path, "layers/", 7) != 0 ||
		faccessat(store_fd(st), note, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	for (size_t i = 0; i < open->n; i++) {
		size_t n = strlen(open->v[i]) + 1;

		text = xreallocarray(text, len + n, 1);
		memcpy(text + len, open->v[i], n);
		len += n;
	}
	return file_replace(store_fd(st), note, text, len, 0644, err);
}

int store_tighten(struct store *st, const char *path, struct mlr_error *err)
{
	auto_call(seen_done) struct seen seen = { .owner = geteuid() };
	auto_free char *tree = xasprintf("%s/tree", path), *listing = xasprintf("%s/listing", path);
	int fd = store_fd(st), r = tighten_find(fd, tree, see, &seen, err);

	if (r == 0)
		r = note_open(st, path, &seen.open, err);
	if (r < 0 || seen.n == 0)
		return r == -ENOENT ? 0 : r;
	/* The listing contains the old modes; without it nothing is checked. */
	if (store_is_tight(st) == 0 && unlinkat(fd, listing, 0) < 0 && errno != ENOENT)
		return mlr_fail_errno(err, "remove '%s/%s'", store_path(st), listing);
	if (seen.foreign)
		mlr_warning(
			"'%s/%s/%s' belongs to user %ld, who could write there: mlrun store verify --repair",
			store_path(st), tree, seen.foreign, (long)seen.uid);
	r = tighten_tree(fd, tree, NULL, NULL, err);
	return r < 0 ? mlr_wrap(err, "'%s/%s'", store_path(st), tree) : 0;
}

static int each(struct store *st, const char *dir, size_t rest,
	int (*fn)(struct store *st, const char *path, struct mlr_error *err), struct mlr_error *err)
{
	auto_dir DIR *d = file_open_dir(store_fd(st), dir, 0);
	struct dirent *e;
	int r = 0;

	if (!d && errno == ENOENT) /* an older format lacks this part */
		return 0;
	if (!d)
		return mlr_fail_errno(err, "open '%s/%s'", store_path(st), dir);
	while (r == 0 && (e = readdir(d))) {
		auto_free char *path = xasprintf("%s/%s", dir, e->d_name);

		if (strspn(e->d_name, "0123456789abcdef") == 64 && strlen(e->d_name) == 64 + rest)
			r = fn(st, path, err);
	}
	return r;
}

/* Damaged facts are left to store verify. */
static int renew_facts(struct store *st, const char *path, struct mlr_error *err)
{
	auto_free char *manifest = xasprintf("sha256:%.64s", strchr(path, '/') + 1);

	if (store_facts_renew(st, manifest, NULL) < 0)
		mlr_debug("store: '%s' stays as it is", path);
	return 0;
}

int store_tighten_all(struct store *st, struct mlr_error *err)
{
	static const char *const kinds[] = { "layers", "cover", "dir" };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(kinds); i++)
		r = each(st, kinds[i], 0, store_tighten, err);
	return r < 0 ? r : each(st, "facts", strlen(".json"), renew_facts, err);
}

int store_is_tight(const struct store *st)
{
	return st->format >= STORE_FORMAT;
}
