/* Compares squashfs images with trees of the same layers: unsquashfs unpacks the image,
 * rootfs_flatten() makes the tree. */
#include "unit.h"
#include "base/tighten.h"
#include "layer/tar.h"
#include "rootfs/flatten.h"
#include "squashfs/writer.h"
#include "store/tree.h"
#include "layers.h"

#include <dirent.h>
#include <sys/xattr.h>
#include <time.h>

#define CREATED 77 /* the time of the image */
#define LAYERS  8

static struct tar tars[LAYERS];   /* lowest first */
static size_t n_tars, read_again; /* layers that had to be read a second time */
static int dangling;              /* symlinks may lead to nothing */
static const struct layer_limits limits = LAYER_LIMITS_DEFAULT;

static int begin(void **state)
{
	n_tars = 0;
	read_again = 0;
	return setup(state);
}

static int end(void **state)
{
	strv_done(&layers);
	for (size_t i = 0; i < n_tars; i++)
		tar_done(&tars[i]);
	return teardown(state);
}

/* --- making both ---------------------------------------------------------------- */

/* The next layer up. */
static void layer(struct tar *t)
{
	tar_end(t);
	ok(layers_add(t));
	assert_true(n_tars < LAYERS);
	tars[n_tars++] = *t;
	memset(t, 0, sizeof(*t));
}

static int read_into(struct squashfs_writer *s, struct tar *t)
{
	struct layer_result res = { 0 };

	t->at = 0;
	return layer_tar_read(
		tar_read, t, OCI_PLAIN, &limits, &squashfs_writer_sink, s, &res, &err);
}

static void squashfs_writer_free_p(struct squashfs_writer **s)
{
	squashfs_writer_free(*s);
}

static int squash(int fd)
{
	auto_call(squashfs_writer_free_p) struct squashfs_writer *s = NULL;
	int r = squashfs_writer_new(fd, OCI_ZSTD, n_tars, CREATED, &s, &err);

	for (size_t i = n_tars; r == 0 && i-- > 0;) {
		r = squashfs_writer_layer(s, &err);
		if (r == 0)
			r = read_into(s, &tars[i]);
	}
	if (r == 0)
		r = squashfs_writer_apply(s, &err);
	for (size_t i = 0; r == 0 && i < n_tars; i++) {
		if (!squashfs_writer_lacks(s, i))
			continue;
		read_again++;
		r = squashfs_writer_layer_again(s, i, &err);
		if (r == 0)
			r = read_into(s, &tars[n_tars - 1 - i]);
	}
	return r == 0 ? squashfs_writer_finish(s, &err) : r;
}

static int new_image(const char *name)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	return fd;
}

static int unsquash(void)
{
	auto_free char *cmd = xasprintf("cd '%s' && unsquashfs -q -n -d out image >log 2>&1", dir);
	auto_free char *out = xasprintf("%s/out", dir);
	int fd;

	ok(file_remove_tree(AT_FDCWD, out, &err));
	assert_int_equal(system(cmd), 0);
	fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* --- comparing ------------------------------------------------------------------ */

struct walk {
	int a, b; /* tops of both trees */
	time_t begun;
	struct strv files;
	ino_t *a_ino, *b_ino; /* of files */
};

static int by_text(const void *x, const void *y)
{
	return strcmp(*(char *const *)x, *(char *const *)y);
}

static void list(int top, const char *path, struct strv *ret)
{
	int fd = openat(top, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d)
		fail_msg("cannot list '%s': %s", path, strerror(errno));
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			strv_add(ret, e->d_name);
	closedir(d);
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(char *), by_text);
}

static void same_content(const struct walk *w, const char *path)
{
	auto_free char *x = NULL, *y = NULL;
	size_t n, m;

	assert_int_equal(fchmodat(w->a, path, 0600, 0), 0);
	assert_int_equal(fchmodat(w->b, path, 0600, 0), 0);
	ok(file_read(w->a, path, 64u << 20, &x, &n, &err));
	ok(file_read(w->b, path, 64u << 20, &y, &m, &err));
	if (n != m || memcmp(x, y, n) != 0)
		fail_msg("'%s' has other bytes", path);
}

static void same_target(const struct walk *w, const char *path)
{
	char x[PATH_MAX] = "", y[PATH_MAX] = "";

	assert_true(readlinkat(w->a, path, x, sizeof(x) - 1) > 0);
	assert_true(readlinkat(w->b, path, y, sizeof(y) - 1) > 0);
	assert_string_equal(x, y);
}

/*
 * A directory that no layer named has the time of its making in the one, a fixed one in the other.
 * Where a symlink leads to what is not there, flattening makes it, and changes the time of the
 * directory it is made in, which may have been named.
 */
static void same_times(
	const struct walk *w, const char *path, const struct stat *x, const struct stat *y)
{
	if (x->st_mtime >= w->begun && dangling)
		return;
	if (x->st_mtime != y->st_mtime)
		fail_msg("'%s' has time %ld instead of %ld", path, (long)y->st_mtime,
			(long)x->st_mtime);
}

static void same(struct walk *w, const char *path);

static void same_names(struct walk *w, const char *path)
{
	auto_strv struct strv x = STRV_INIT, y = STRV_INIT;

	assert_int_equal(fchmodat(w->a, path, 0700, 0), 0);
	assert_int_equal(fchmodat(w->b, path, 0700, 0), 0);
	list(w->a, path, &x);
	list(w->b, path, &y);
	for (size_t i = 0; i < x.n && i < y.n; i++)
		if (strcmp(x.v[i], y.v[i]) != 0)
			fail_msg("'%s' has '%s' instead of '%s'", path, y.v[i], x.v[i]);
	if (x.n != y.n)
		fail_msg("'%s' has %zu names instead of %zu, '%s'", path, y.n, x.n,
			x.n > y.n ? x.v[y.n] : y.v[x.n]);
	for (size_t i = 0; i < x.n; i++) {
		auto_free char *sub = xasprintf("%s/%s", path, x.v[i]);

		same(w, sub);
	}
}

static void remember(struct walk *w, const char *path, ino_t x, ino_t y)
{
	w->a_ino = xreallocarray(w->a_ino, w->files.n + 1, sizeof(*w->a_ino));
	w->b_ino = xreallocarray(w->b_ino, w->files.n + 1, sizeof(*w->b_ino));
	w->a_ino[w->files.n] = x;
	w->b_ino[w->files.n] = y;
	strv_add(&w->files, path);
}

static void same(struct walk *w, const char *path)
{
	struct stat x, y;

	if (fstatat(w->a, path, &x, AT_SYMLINK_NOFOLLOW) < 0 ||
		fstatat(w->b, path, &y, AT_SYMLINK_NOFOLLOW) < 0)
		fail_msg("look at '%s': %s", path, strerror(errno));
	if ((x.st_mode & S_IFMT) != (y.st_mode & S_IFMT) ||
		(!S_ISLNK(x.st_mode) && x.st_mode != (y.st_mode & ~TIGHTEN_BITS)))
		fail_msg("'%s' has mode %o instead of %o", path, y.st_mode, x.st_mode);
	same_times(w, path, &x, &y);
	if (S_ISDIR(x.st_mode))
		same_names(w, path);
	else
		remember(w, path, x.st_ino, y.st_ino);
	if (S_ISREG(x.st_mode))
		same_content(w, path);
	if (S_ISLNK(x.st_mode))
		same_target(w, path);
}

/* Names that are one file in the one tree are one in the other. */
static void same_links(const struct walk *w)
{
	for (size_t i = 0; i < w->files.n; i++)
		for (size_t j = i + 1; j < w->files.n; j++)
			if ((w->a_ino[i] == w->a_ino[j]) != (w->b_ino[i] == w->b_ino[j]))
				fail_msg("'%s' and '%s': a hard link or not?", w->files.v[i],
					w->files.v[j]);
}

/* Make both of the layers so far. Returns the unpacked image's top. */
static int check(void)
{
	static time_t begun;
	struct walk w = { .begun = begun ? begun : (begun = time(NULL) - 60) };
	auto_close int fd = new_image("image");

	int r = squash(fd);

	if (r < 0 && dangling) { /* a loop of symlinks: neither can be made */
		assert_int_equal(rootfs_flatten(st, MANIFEST_A, &layers, &err), r);
		return -1;
	}
	ok(r);
	ok(rootfs_flatten(st, MANIFEST_A, &layers, &err));
	ok(w.a = store_tree_open(st, STORE_DIR, MANIFEST_A, &err));
	w.b = unsquash();
	same(&w, ".");
	same_links(&w);
	strv_done(&w.files);
	free(w.a_ino);
	free(w.b_ino);
	close(w.a);
	return w.b;
}

static void is_missing(int top, const char *path)
{
	struct stat sb;

	assert_int_equal(fstatat(top, path, &sb, AT_SYMLINK_NOFOLLOW), -1);
}

/* --- the tests ------------------------------------------------------------------ */

static void base(void)
{
	struct tar t = { 0 };

	tar_dir(&t, "./", 0755, 100);
	tar_dir(&t, "usr", 0755, 101);
	tar_dir(&t, "usr/lib", 0711, 102);
	tar_file(&t, "usr/lib/a", "a1");
	tar_file(&t, "usr/lib/b", "b1");
	tar_link(&t, '2', "lib", "usr/lib");
	tar_dir(&t, "etc", 01755, 103);
	tar_file(&t, "etc/conf", "c1");
	tar_link(&t, '1', "etc/other", "etc/conf");
	layer(&t);
}

static void one_layer_is_what_its_tree_is(void **state)
{
	struct tar t = { 0 };

	base();
	tar_member(&t, '6', "pipe", 0640, 7, "", "", 0, 0);
	tar_member(&t, '0', "empty", 0, 8, "", "", 0, 0);
	tar_file(&t, "in/no/named/directory", "x");
	tar_dir(&t, "shut", 0, 9);
	tar_file(&t, "shut/in", "y");
	tar_file(&t, "new\nline \xff\xfe", "z");
	layer(&t);
	close(check());
}

static void times_that_the_format_cannot_tell_become_the_nearest(void **state)
{
	auto_close int fd = new_image("image"), top = -1;
	struct tar t = { 0 };
	struct stat sb;

	tar_pax(&t, "mtime", "-5", 2);
	tar_file(&t, "old", "x");
	tar_pax(&t, "mtime", "5000000000", 10);
	tar_file(&t, "far", "x");
	layer(&t);
	ok(squash(fd));
	top = unsquash();
	assert_int_equal(fstatat(top, "old", &sb, 0), 0);
	assert_int_equal(sb.st_mtime, 0);
	assert_int_equal(fstatat(top, "far", &sb, 0), 0);
	/* unsquashfs takes times as signed. */
	assert_int_equal((uint32_t)sb.st_mtime, UINT32_MAX);
}

static void whiteouts_and_opaque_directories_hide_what_is_below(void **state)
{
	struct tar t = { 0 };

	base();
	tar_dir(&t, "usr/lib", 0711, 102);
	tar_file(&t, "usr/lib/.wh.a", "");
	tar_dir(&t, "etc", 0755, 400);
	tar_file(&t, "etc/.wh..wh..opq", "");
	tar_file(&t, "etc/only", "o");
	tar_file(&t, ".wh.lib", "");
	tar_file(&t, "ghost/.wh.never", "");
	layer(&t);
	auto_close int top = check();

	is_missing(top, "usr/lib/a");
	is_missing(top, "etc/conf");
	is_missing(top, "lib");
}

static void an_opaque_top_hides_all(void **state)
{
	struct tar t = { 0 };

	base();
	tar_file(&t, ".wh..wh..opq", "");
	tar_file(&t, "all", "1");
	layer(&t);
	is_missing(check(), "usr");
}

static void kinds_change_from_layer_to_layer(void **state)
{
	struct tar t = { 0 };

	base();
	tar_file(&t, "usr", "a file now");
	tar_dir(&t, "etc/conf", 0755, 6);
	tar_file(&t, "etc/conf/x", "1");
	tar_member(&t, '6', "lib", 0600, 7, "", "", 0, 0);
	layer(&t);
	tar_dir(&t, "usr", 0700, 9);
	tar_file(&t, "usr/again", "1");
	tar_link(&t, '2', "etc/conf", "../usr");
	layer(&t);
	close(check());
}

static void files_below_a_symlinked_directory_go_where_it_leads(void **state)
{
	struct tar t = { 0 };
	struct stat sb;

	base();
	tar_file(&t, "lib/c", "c2");
	tar_file(&t, "lib/sub/d", "d2");
	tar_file(&t, "lib/.wh.a", "");
	layer(&t);
	auto_close int top = check();

	assert_int_equal(fstatat(top, "usr/lib/sub/d", &sb, 0), 0);
	is_missing(top, "usr/lib/a");
}

static void a_symlink_out_of_the_image_leads_back_into_it(void **state)
{
	struct tar t = { 0 };

	tar_link(&t, '2', "out", "/etc/far");
	tar_link(&t, '2', "up", "../../../../..");
	tar_link(&t, '2', "loop", "loop");
	layer(&t);
	tar_file(&t, "out/f", "1");
	tar_file(&t, "up/g", "2");
	layer(&t);
	close(check());
}

static void attributes_are_those_of_the_layer_that_named_last(void **state)
{
	struct tar t = { 0 };

	base();
	tar_dir(&t, "usr/lib", 0500, 500);
	layer(&t);
	tar_file(&t, "usr/lib/z", "z3");
	layer(&t);
	tar_file(&t, "etc/z", "z3");
	layer(&t);
	close(check());
}

/* The name with the data is hidden, another is not: the layer must be read again, and what else is
 * hidden still takes no room. */
static void a_hard_link_whose_first_name_is_hidden_keeps_its_data(void **state)
{
	auto_free char *big = xmalloc(3 << 20);
	struct tar t = { 0 };
	auto_close int top = -1;
	auto_free char *path = xasprintf("%s/image", dir);
	struct stat sb;
	uint64_t x = 1;

	for (size_t i = 0; i < 3 << 20; i++) /* incompressible */
		big[i] = (char)((x = x * 6364136223846793005u + 1) >> 56);
	tar_dir(&t, "d", 0755, 1);
	tar_member(&t, '0', "d/big", 0644, 2, "", big, 1 << 20, 1 << 20);
	tar_file(&t, "d/small", "small");
	tar_member(&t, '0', "d/huge", 0644, 2, "", big, 3 << 20, 3 << 20);
	tar_dir(&t, "e", 0755, 1);
	tar_link(&t, '1', "e/big", "d/big");
	tar_link(&t, '1', "e/small", "d/small");
	tar_file(&t, "e/other", "other");
	layer(&t);
	tar_file(&t, ".wh.d", "");
	layer(&t);
	top = check();
	assert_int_equal(read_again, 1);
	assert_int_equal(fstatat(top, "e/big", &sb, 0), 0);
	assert_int_equal(sb.st_size, 1 << 20);
	assert_int_equal(stat(path, &sb), 0);
	assert_in_range(sb.st_size, 1 << 20, (1 << 20) + 8192);
}

static void what_is_hidden_takes_no_room(void **state)
{
	auto_free char *data = xmalloc(1 << 20), *path = xasprintf("%s/image", dir);
	struct tar t = { 0 };
	struct stat sb;
	uint64_t x = 1;

	for (int k = 0; k < 5; k++) {
		for (size_t i = 0; i < 1 << 20; i++)
			data[i] = (char)((x = x * 6364136223846793005u + 1) >> 56);
		tar_dir(&t, "opt", 0755, 3);
		tar_dir(&t, "opt/d", 0755, 3);
		tar_member(&t, '0', "opt/d/f", 0600, k, "", data, 1 << 20, 1 << 20);
		tar_member(&t, '0', k % 2 ? "opt/odd" : "opt/even", 0600, k, "", data, 99, 99);
		layer(&t);
	}
	close(check());
	assert_int_equal(read_again, 0);
	assert_int_equal(stat(path, &sb), 0);
	assert_in_range(sb.st_size, 1 << 20, (1 << 20) + 8192);
}

/* Sizes around those of blocks, data that compress, that do not, and none at all. */
static void blocks_and_fragments_of_every_size_come_back(void **state)
{
	static const size_t sizes[] = { 1, 100, 131071, 131072, 131073, 262143, 262144, 262145,
		1000000, 3 << 20 };
	auto_free char *data = xmalloc(4 << 20);
	struct tar t = { 0 };
	uint64_t x = 7;

	for (size_t i = 0; i < 4 << 20; i++)
		data[i] = (char)((x = x * 6364136223846793005u + 1) >> (i % 3 ? 60 : 56));
	memset(data + (1 << 20), 0, 1 << 20);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		for (int k = 0; k < 3; k++) {
			char name[32];

			snprintf(name, sizeof(name), "f%zu.%d", sizes[i], k);
			tar_member(
				&t, '0', name, 0644, 5, "", data + k * 500000, sizes[i], sizes[i]);
		}
	layer(&t);
	close(check());
}

/* GNU's sparse format 1.0 in a pax header: the file of 8 GiB and a bit has 512 bytes of data. */
static void sparse_file(struct tar *t, const char *name, uint64_t size, uint64_t at)
{
	char map[512] = "", text[32];

	snprintf(map, sizeof(map), "2\n%llu\n512\n%llu\n0\n", (unsigned long long)at,
		(unsigned long long)size);
	auto_free char *body = xcalloc(1, 1024);

	memcpy(body, map, 512);
	memset(body + 512, 'd', 512);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)size);

	/* One pax header with all the records. */
	const char *keys[] = { "GNU.sparse.major", "GNU.sparse.minor", "GNU.sparse.name",
		"GNU.sparse.realsize" };
	const char *values[] = { "1", "0", name, text };
	char records[1024] = "";

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		size_t len = strlen(keys[i]) + strlen(values[i]) + 3, n = len + 1;
		char digits[24];

		while (n != len + (size_t)snprintf(digits, sizeof(digits), "%zu", n))
			n = len + strlen(digits);
		snprintf(records + strlen(records), sizeof(records) - strlen(records), "%s %s=%s\n",
			digits, keys[i], values[i]);
	}
	tar_member(t, 'x', "pax", 0644, 0, "", records, strlen(records), strlen(records));
	tar_member(t, '0', "GNUSparseFile.0/f", 0644, 1000, "", body, 1024, 1024);
}

static void holes_stay_holes_in_files_of_any_size(void **state)
{
	const uint64_t size = (9ull << 30) + 12345, ats[] = { 0, 100000, 5ull << 30, size - 512 };
	auto_free char *path = xasprintf("%s/image", dir);
	auto_close int top = -1;
	struct tar t = { 0 };
	struct stat sb;
	char got[512];

	for (size_t i = 0; i < ARRAY_LEN(ats); i++) {
		char name[16];

		snprintf(name, sizeof(name), "sparse%zu", i);
		sparse_file(&t, name, size, ats[i]);
	}
	sparse_file(&t, "small", 5000, 600);
	layer(&t);

	auto_close int fd = new_image("image");

	ok(squash(fd));
	assert_int_equal(stat(path, &sb), 0);
	assert_in_range(sb.st_size, 1000, 1 << 20);
	top = unsquash();
	for (size_t i = 0; i < ARRAY_LEN(ats); i++) {
		char name[16];

		snprintf(name, sizeof(name), "sparse%zu", i);
		auto_close int f = openat(top, name, O_RDONLY | O_CLOEXEC);

		assert_int_equal(fstat(f, &sb), 0);
		assert_int_equal(sb.st_size, size);
		assert_true(sb.st_blocks < 4096);
		assert_int_equal(pread(f, got, 512, (off_t)ats[i]), 512);
		for (int k = 0; k < 512; k++)
			assert_int_equal(got[k], 'd');
		if (ats[i] > 0) {
			assert_int_equal(pread(f, got, 1, (off_t)ats[i] - 1), 1);
			assert_int_equal(got[0], 0);
		}
	}
}

static void xattrs_of_users_are_kept(void **state)
{
	auto_close int top = -1;
	char value[16] = "";
	struct tar t = { 0 };

	tar_pax(&t, "SCHILY.xattr.user.color", "blue", 4);
	tar_dir(&t, "d", 0755, 5);
	tar_pax(&t, "SCHILY.xattr.user.color", "red", 3);
	tar_file(&t, "d/f", "1");
	tar_pax(&t, "SCHILY.xattr.security.capability", "12345678", 8);
	tar_file(&t, "d/g", "1");
	layer(&t);
	top = check();
	if (getuid() != 0) { /* unsquashfs gives them to ordinary users' files, too */
		auto_close int f = openat(top, "d/f", O_RDONLY | O_CLOEXEC);
		auto_close int d = openat(top, "d", O_RDONLY | O_CLOEXEC);

		assert_int_equal(fgetxattr(f, "user.color", value, sizeof(value)), 3);
		assert_memory_equal(value, "red", 3);
		assert_int_equal(fgetxattr(d, "user.color", value, sizeof(value)), 4);
	}
}

static void a_directory_may_have_a_hundred_thousand_names(void **state)
{
	auto_strv struct strv names = STRV_INIT;
	auto_close int top = -1;
	struct tar t = { 0 };

	t.p = xcalloc(100000 + 2, 512);
	for (int i = 0; i < 100000; i++) {
		struct tar one = { 0 };
		char name[64];

		snprintf(name, sizeof(name), "many/%d", (i * 7919) % 100000);
		/* Symlinks, since 100,000 files take the file system its time. */
		tar_link(&one, '2', name, "x");
		memcpy(t.p + t.n, one.p, one.n);
		t.n += one.n;
		tar_done(&one);
	}
	t.n += 2 * 512;
	tars[n_tars++] = t;
	auto_close int fd = new_image("image");

	ok(squash(fd));
	top = unsquash();
	list(top, "many", &names);
	assert_int_equal(names.n, 100000);
}

static void the_same_layers_give_the_same_bytes(void **state)
{
	auto_free char *x = NULL, *y = NULL;
	size_t n, m;

	base();
	for (int i = 0; i < 2; i++) {
		auto_close int fd = new_image(i ? "second" : "first");

		ok(squash(fd));
	}
	auto_close int d = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	ok(file_read(d, "first", 1 << 20, &x, &n, &err));
	ok(file_read(d, "second", 1 << 20, &y, &m, &err));
	assert_int_equal(n, m);
	assert_memory_equal(x, y, n);
	assert_int_equal(n % 4096, 0);
}

static void a_full_disk_is_told_as_one(void **state)
{
	auto_close int fd = open("/dev/full", O_RDWR | O_CLOEXEC);

	base();
	assert_true(fd >= 0);
	assert_int_equal(squash(fd), -ENOSPC);
	assert_non_null(strstr(err.text, strerror(ENOSPC)));
}

/* --- random layers -------------------------------------------------------------- */

static uint64_t seed;

static unsigned pick(unsigned n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % n;
}

/* One to three names, below a symlink's place where one is given. */
static void some_path(char buf[64], const char *below)
{
	static const char *const names[] = { "a", "b", "c", "dd" };
	unsigned depth = 1 + pick(3);

	strcpy(buf, below);
	for (unsigned i = 0; i < depth; i++)
		sprintf(buf + strlen(buf), "%s%s", *buf ? "/" : "", names[pick(ARRAY_LEN(names))]);
}

/*
 * A layer has either symlinks, which come first and stay, or all its members below the place of
 * one. Otherwise it would depend on the order of its members what it makes, which unpacking does
 * not keep.
 */
static void some_symlinks(struct tar *t)
{
	static const char *const targets[] = { "a", "../b", "/c/a", ".", "c/dd", "/", "none/x",
		"m" };

	for (const char *name = "l"; name; name = *name == 'l' ? "m" : NULL)
		if (pick(2))
			tar_link(t, '2', name, targets[pick(ARRAY_LEN(targets))]);
}

static void some_member(struct tar *t, const char *below)
{
	char path[64], other[80], *slash;
	unsigned k = pick(100);

	some_path(path, below);
	if (k < 35) {
		snprintf(other, sizeof(other), "%u", pick(1000));
		tar_file(t, path, other);
	} else if (k < 60) {
		tar_dir(t, path, 0700 | pick(64), pick(1000));
	} else if (k < 72) {
		some_path(other, below);
		tar_link(t, '1', path, other);
	} else if (k < 76) {
		tar_member(t, '6', path, 0600, 5, "", "", 0, 0);
	} else if (k < 93) {
		slash = strrchr(path, '/');
		snprintf(other, sizeof(other), "%.*s.wh.%s", slash ? (int)(slash + 1 - path) : 0,
			path, slash ? slash + 1 : path);
		tar_file(t, other, "");
	} else {
		snprintf(other, sizeof(other), "%s/.wh..wh..opq", path);
		tar_file(t, other, "");
	}
}

/* A layer that unpacking refuses is refused here, too, and is left out. */
static void some_layer(int links)
{
	struct tar t = { 0 };
	const char *below = "";
	unsigned n = 1 + pick(12);

	if (links && pick(2))
		below = pick(2) ? "l" : "m";
	else if (links)
		some_symlinks(&t);
	for (unsigned i = 0; i < n; i++)
		some_member(&t, below);
	tar_end(&t);
	if (layers_add(&t) < 0) {
		auto_call(squashfs_writer_free_p) struct squashfs_writer *s = NULL;
		auto_close int fd = new_image("bad");

		ok(squashfs_writer_new(fd, OCI_ZSTD, 1, CREATED, &s, &err));
		ok(squashfs_writer_layer(s, &err));
		assert_true(read_into(s, &t) < 0);
		tar_done(&t);
		return;
	}
	tars[n_tars++] = t;
}

static void compare_random(uint64_t first, int n, int links)
{
	for (int i = 0; i < n; i++) {
		seed = first + (uint64_t)i;
		print_message("# seed %llu\n", (unsigned long long)seed);
		for (unsigned k = 2 + pick(4); k > 0; k--)
			some_layer(links);
		if (n_tars > 0)
			close(check());
		end(NULL);
		begin(NULL);
	}
}

static void random_layers_give_the_tree_that_applying_them_gives(void **state)
{
	compare_random(1, 60, 0);
}

static void random_layers_with_symlinks_do_so_too(void **state)
{
	dangling = 1;
	compare_random(10000, 60, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_layer_is_what_its_tree_is),
		TEST(times_that_the_format_cannot_tell_become_the_nearest),
		TEST(whiteouts_and_opaque_directories_hide_what_is_below),
		TEST(an_opaque_top_hides_all),
		TEST(kinds_change_from_layer_to_layer),
		TEST(files_below_a_symlinked_directory_go_where_it_leads),
		TEST(a_symlink_out_of_the_image_leads_back_into_it),
		TEST(attributes_are_those_of_the_layer_that_named_last),
		TEST(a_hard_link_whose_first_name_is_hidden_keeps_its_data),
		TEST(what_is_hidden_takes_no_room),
		TEST(blocks_and_fragments_of_every_size_come_back),
		TEST(holes_stay_holes_in_files_of_any_size),
		TEST(xattrs_of_users_are_kept),
		TEST(a_directory_may_have_a_hundred_thousand_names),
		TEST(the_same_layers_give_the_same_bytes),
		TEST(a_full_disk_is_told_as_one),
		TEST(random_layers_give_the_tree_that_applying_them_gives),
		TEST(random_layers_with_symlinks_do_so_too),
	};

	if (!squashfs_writer_available() || system("unsquashfs -v >/dev/null 2>&1") == 127 << 8) {
		puts("1..0 # SKIP libsquashfs or unsquashfs is not there");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
