#include "rootfs/lookup.h"

#include "layer/path.h"
#include "squashfs/looker.h"

#define MAX_LINKS 40 /* the kernel's own limit, path_resolution(7) */

/* A file, or a directory as the overlay merges it: the trees that have it, topmost first. */
struct merged {
	int *fds; /* O_PATH */
	size_t n;
};

static void merged_done(struct merged *m)
{
	for (size_t i = 0; i < m->n; i++)
		close(m->fds[i]);
	free(m->fds);
	*m = (struct merged){ NULL, 0 };
}

static void merged_take(struct merged *m, int fd)
{
	*xadd(m->fds, m->n) = fd;
}

static int open_root(const struct plan *p, struct merged *ret, struct mlr_error *err)
{
	if (p->kept) {
		auto_free char *upper = xasprintf("%s/upper", p->kept);
		int fd = open(upper, O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (fd >= 0) /* missing before the container's first start */
			merged_take(ret, fd);
	}
	for (size_t i = 0; i < p->lowers.n; i++) {
		int fd = open(p->lowers.v[i], O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0)
			return mlr_fail_errno(err, "open '%s'", p->lowers.v[i]);
		merged_take(ret, fd);
	}
	return 0;
}

/* An unreadable directory counts as not opaque: it hides nothing that this user could see. */
static int is_opaque(int parent, const char *name)
{
	auto_close int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 && layer_opaque_is(fd);
}

/* Look up a name in the merged directory. Returns 0 with ret empty if it is absent. */
static int step(const struct merged *dir, const char *name, struct merged *ret, struct stat *st)
{
	for (size_t i = 0; i < dir->n; i++) {
		struct stat one;
		int fd = openat(dir->fds[i], name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
			continue;
		if (fd < 0)
			return -errno;
		if (fstat(fd, &one) < 0 || layer_whiteout_is(&one) ||
			(ret->n > 0 && !S_ISDIR(one.st_mode))) {
			close(fd);
			return 0;
		}
		if (ret->n == 0)
			*st = one;
		merged_take(ret, fd);
		if (!S_ISDIR(one.st_mode) || is_opaque(dir->fds[i], name))
			return 0;
	}
	return 0;
}

/* The path to continue with when the link fd is followed before rest, to free(). The link lies in
 * the directory done, which ends with a slash. */
static char *follow(int fd, const char *done, size_t done_len, const char *rest)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(fd, "", text, sizeof(text) - 1);

	if (n <= 0)
		return NULL;
	text[n] = '\0';
	if (text[0] == '/')
		return xasprintf("%s/%s", text, rest);
	return xasprintf("%.*s/%s/%s", (int)done_len, done, text, rest);
}

/* Where a path leads. */
struct found {
	struct merged at; /* empty: the image has no such thing */
	struct stat st;
	char *path; /* its path without links */
};

static void found_done(struct found *f)
{
	merged_done(&f->at);
	free(f->path);
}

/* The state of a path's resolution. */
struct walk {
	const struct plan *p;
	int follow, links;
};

static int find(struct walk *w, const char *path, struct found *ret, struct mlr_error *err);

/* Walk one component of a clean path after the other; a link starts over with its target. */
static int walk(struct walk *w, const char *path, struct found *ret, struct mlr_error *err)
{
	for (const char *s = path; *s;) {
		size_t len = strcspn(s, "/");
		auto_free char *name = xstrndup(s, len);
		auto_call(merged_done) struct merged next = { NULL, 0 };
		const char *rest = s + len + strspn(s + len, "/");

		if (len == 0) { /* before the first */
			s = rest;
			continue;
		}
		TRY(mlr_result(
			err, step(&ret->at, name, &next, &ret->st), "'%s' in the image", path));
		if (next.n > 0 && S_ISLNK(ret->st.st_mode) && (w->follow || *rest)) {
			auto_free char *to = follow(next.fds[0], path, (size_t)(s - path), rest);

			if (!to || w->links++ >= MAX_LINKS)
				return mlr_fail(
					err, ELOOP, "'%s' in the image: %s", path, strerror(ELOOP));
			merged_done(&ret->at);
			return find(w, to, ret, err);
		}
		merged_done(&ret->at);
		ret->at = next;
		next = (struct merged){ NULL, 0 };
		if (ret->at.n == 0)
			break;
		s = rest;
	}
	ret->path = xstrdup(path);
	return 0;
}

/* ".." removes the component before it in the text, whether it is a link or not. */
static int find(struct walk *w, const char *path, struct found *ret, struct mlr_error *err)
{
	auto_free char *clean = path_clean(path);
	int r = open_root(w->p, &ret->at, err);

	ret->st = (struct stat){ .st_mode = S_IFDIR };
	return r < 0 ? r : walk(w, clean, ret, err);
}

int rootfs_lookup(const struct plan *p, const char *path, struct mlr_error *err)
{
	auto_call(found_done) struct found f = { 0 };
	struct walk w = { p, 1, 0 };

	if (p->squashfs)
		return mlr_fail(err, ENOTSUP,
			"'%s' in the image: a squashfs file cannot be looked into", path);
	TRY(find(&w, path, &f, err));
	if (f.at.n == 0)
		return mlr_fail(err, ENOENT, "'%s' in the image: %s", path, strerror(ENOENT));
	return fcntl(f.at.fds[0], F_DUPFD_CLOEXEC, 0);
}

/* Append the names of one tree that the trees above it neither have nor hide; seen gets all the
 * names and whiteouts of this tree. */
static void add_new(int fd, const struct strv *known, struct strv *seen, struct strv *ret)
{
	auto_dir DIR *d = file_open_dir(fd, ".", 0);

	for (struct dirent *e; (e = file_next(d));) {
		struct stat st;

		if (strv_has_sorted(known, e->d_name))
			continue;
		if (seen)
			strv_add(seen, e->d_name);
		if (e->d_type != DT_CHR ||
			fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			!layer_whiteout_is(&st))
			strv_add(ret, e->d_name);
	}
}

static void add_entries(const struct merged *dir, struct strv *ret)
{
	auto_strv struct strv known = STRV_INIT;

	for (size_t i = 0; i < dir->n; i++) {
		auto_strv struct strv seen = STRV_INIT;
		int is_last = i + 1 == dir->n;

		add_new(dir->fds[i], &known, is_last ? NULL : &seen, ret);
		for (size_t k = 0; k < seen.n; k++)
			strv_take(&known, take_ptr(&seen.v[k]));
		seen.n = 0;
		strv_sort(&known);
	}
}

static size_t count_entries(const struct merged *dir)
{
	auto_strv struct strv names = STRV_INIT;

	add_entries(dir, &names);
	return names.n;
}

/* Ask about a path in a squashfs file; it gets a clean path, as the walk here does. */
static int ask(const struct plan *p, enum look_what what, const char *path, struct look_answer *ret,
	int *fd)
{
	auto_free char *clean = path_clean(path);

	return looker_ask(p->squashfs, p->part ? p->part : "", what, clean, ret, fd);
}

static void tell(const struct found *f, struct plan_seen *ret)
{
	char text[PATH_MAX];
	ssize_t n;

	if (f->at.n == 0)
		ret->there = PLAN_THERE_NOTHING;
	else if (S_ISREG(f->st.st_mode))
		ret->there = PLAN_THERE_FILE;
	else if (S_ISDIR(f->st.st_mode)) {
		ret->there = PLAN_THERE_DIRECTORY;
		ret->entries = count_entries(&f->at);
	} else if (S_ISLNK(f->st.st_mode)) {
		ret->there = PLAN_THERE_LINK;
		n = readlinkat(f->at.fds[0], "", text, sizeof(text));
		ret->link = n > 0 ? xstrndup(text, (size_t)n) : NULL;
	} else
		ret->there = PLAN_THERE_OTHER;
}

static void look_into_squashfs(
	const struct plan *p, const char *path, int follow_last, struct plan_seen *ret)
{
	struct look_answer a;
	int r = ask(p, follow_last ? LOOK_PLACE : LOOK_ITSELF, path, &a, NULL);

	if (r == -ENOENT)
		ret->there = PLAN_THERE_NOTHING;
	else if (r == 0 && S_ISREG(a.mode))
		ret->there = PLAN_THERE_FILE;
	else if (r == 0 && S_ISDIR(a.mode))
		ret->there = PLAN_THERE_DIRECTORY;
	else if (r == 0 && S_ISLNK(a.mode))
		ret->there = PLAN_THERE_LINK;
	else if (r == 0)
		ret->there = PLAN_THERE_OTHER;
	else
		return;
	ret->entries = r == 0 ? a.entries : 0;
	ret->link = r == 0 && S_ISLNK(a.mode) ? xstrdup(a.target) : NULL;
	ret->path = *a.path ? xstrdup(a.path) : NULL;
}

void rootfs_look(const struct plan *p, const char *path, int follow_last, struct plan_seen *ret)
{
	auto_call(found_done) struct found f = { 0 };
	struct walk w = { p, follow_last, 0 };

	if (p->squashfs) {
		look_into_squashfs(p, path, follow_last, ret);
		return;
	}
	if (find(&w, path, &f, NULL) < 0)
		return;
	tell(&f, ret);
	ret->path = take_ptr(&f.path);
}

static void expect(const struct plan *p, enum look_what what, const char *path)
{
	auto_free char *clean = path_clean(path);

	if (p->squashfs)
		looker_expect(p->squashfs, p->part ? p->part : "", what, clean);
}

void rootfs_expect_open(const struct plan *p, const char *path)
{
	expect(p, LOOK_ABOUT, path);
}

void rootfs_expect_list(const struct plan *p, const char *path)
{
	expect(p, LOOK_NAMES, path);
}

void rootfs_look_done(void)
{
	looker_done();
}

/* Turn a failure in a squashfs file into a message. */
static int fail_to_ask(const struct plan *p, const char *path, int r, struct mlr_error *err)
{
	if (r == -ENOTSUP)
		return mlr_fail(err, ENOTSUP,
			"'%s' in the image: this mlrun cannot look into squashfs files", path);
	if (r == -EPROTO)
		return mlr_fail(err, EPROTO, "'%s' is not a squashfs image", p->squashfs);
	return mlr_result(err, r, "'%s' in the image", path);
}

static int open_file(
	const struct plan *p, const char *path, enum look_what what, struct mlr_error *err)
{
	struct look_answer a;
	struct stat st;
	char self[32];
	int fd = -1, r;

	if (p->squashfs) {
		r = ask(p, what, path, &a, &fd);
		return r < 0 ? fail_to_ask(p, path, r, err) : fd;
	}

	auto_close int place = rootfs_lookup(p, path, err);

	if (place < 0)
		return place;
	/* Opening a fifo would block; opening a device could have any effect. */
	if (fstat(place, &st) < 0 || !S_ISREG(st.st_mode))
		return mlr_fail(err, ENOENT, "'%s' in the image is not a regular file", path);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", place);
	fd = open(self, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? mlr_fail_errno(err, "open '%s' in the image", path) : fd;
}

int rootfs_open(const struct plan *p, const char *path)
{
	return open_file(p, path, LOOK_ABOUT, NULL);
}

int rootfs_has(const struct plan *p, const char *path)
{
	struct look_answer a;
	struct stat st;
	int r;

	if (p->squashfs) {
		r = ask(p, LOOK_PLACE, path, &a, NULL);
		return r < 0 ? r : S_ISREG(a.mode) ? 0 : -ENOENT;
	}

	auto_close int place = rootfs_lookup(p, path, NULL);

	if (place < 0)
		return place;
	return fstat(place, &st) == 0 && S_ISREG(st.st_mode) ? 0 : -ENOENT;
}

static int list_squashfs(const struct plan *p, const char *path, struct strv *ret)
{
	auto_free char *text = NULL;
	auto_close int fd = -1;
	struct look_answer a;
	size_t size;
	int r;

	TRY(ask(p, LOOK_NAMES, path, &a, &fd));
	text = xmalloc(LOOK_NAMES_MAX + 1);
	r = (int)file_read_full(fd, text, LOOK_NAMES_MAX);
	TRY(r);
	size = (size_t)r;
	text[size] = '\0';
	for (const char *s = text; s < text + size; s += strlen(s) + 1)
		strv_add(ret, s);
	return 0;
}

int rootfs_list(const struct plan *p, const char *path, struct strv *ret)
{
	auto_call(found_done) struct found f = { 0 };
	struct walk w = { p, 1, 0 };

	if (p->squashfs)
		return list_squashfs(p, path, ret);
	TRY(find(&w, path, &f, NULL));
	if (f.at.n == 0)
		return -ENOENT;
	if (!S_ISDIR(f.st.st_mode))
		return -ENOTDIR;
	add_entries(&f.at, ret);
	return 0;
}

int rootfs_read(
	const struct plan *p, const char *path, size_t max, char **ret, struct mlr_error *err)
{
	auto_close int fd = open_file(p, path, LOOK_FILE, err);
	char self[32];

	if (fd < 0)
		return fd;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return file_read(AT_FDCWD, self, max, ret, NULL, err);
}
