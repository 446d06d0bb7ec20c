#include "unit.h"
#include "rootfs/flatten.h"
#include "rootfs/image.h"
#include "rootfs/place.h"
#include "store/tree.h"
#include "layers.h"

static struct strv cover; /* the directories that stacking() found to need one */
static int tree;          /* the flattened one */

static int begin(void **state)
{
	tree = -1;
	return setup(state);
}

static int end(void **state)
{
	if (tree >= 0)
		close(tree);
	strv_done(&layers);
	strv_done(&cover);
	return teardown(state);
}

/* The next layer up. */
static void layer(struct tar *t)
{
	tar_end(t);
	ok(layers_add(t));
	tar_done(t);
}

/* How the layers must be stacked; makes a cover if that is needed. */
static int stacking(void)
{
	int r = rootfs_stacking(st, &layers, &cover, &err);

	ok(r);
	if (r == ROOTFS_COVERED)
		ok(rootfs_cover(st, MANIFEST_A, &layers, &cover, &err));
	return r;
}

static struct stat look_at(int at, const char *path);

/* A directory's status in the cover. */
static struct stat look_at_cover(const char *path)
{
	int fd = store_tree_open(st, STORE_COVER, MANIFEST_A, &err);
	struct stat sb;

	ok(fd);
	sb = look_at(fd, path);
	close(fd);
	return sb;
}

static void flatten(void)
{
	ok(rootfs_flatten(st, MANIFEST_A, &layers, &err));
	ok(tree = store_tree_open(st, STORE_DIR, MANIFEST_A, &err));
}

static struct stat look_at(int at, const char *path)
{
	struct stat sb = { 0 };

	if (fstatat(at, path, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		fail_msg("'%s' is not there", path);
	return sb;
}

static struct stat look(const char *path)
{
	return look_at(tree, path);
}

static void holds(const char *path, const char *text)
{
	auto_free char *got = NULL;

	ok(file_read(tree, path, 1 << 20, &got, NULL, &err));
	assert_string_equal(got, text);
}

static void is_missing(const char *path)
{
	struct stat sb;

	assert_int_equal(fstatat(tree, path, &sb, AT_SYMLINK_NOFOLLOW), -1);
}

/* A base that most tests start from. */
static void base(void)
{
	struct tar t = { 0 };

	tar_dir(&t, "./", 0755, 100);
	tar_dir(&t, "usr", 0755, 101);
	tar_dir(&t, "usr/lib", 0711, 102);
	tar_file(&t, "usr/lib/a", "a1");
	tar_file(&t, "usr/lib/b", "b1");
	tar_link(&t, '2', "lib", "usr/lib");
	tar_dir(&t, "etc", 0755, 103);
	tar_file(&t, "etc/conf", "c1");
	layer(&t);
}

static void layers_that_name_their_directories_need_no_flattening(void **state)
{
	struct tar t = { 0 };

	base();
	tar_dir(&t, "usr", 0700, 200);
	tar_dir(&t, "usr/lib", 0755, 201);
	tar_file(&t, "usr/lib/.wh.a", "");
	tar_file(&t, "new/deep/f", "x"); /* implicit, but there is nothing below */
	layer(&t);
	assert_int_equal(stacking(), ROOTFS_AS_IS);
}

static void a_directory_used_without_a_name_is_covered_as_it_was_below(void **state)
{
	struct tar t = { 0 };

	base();
	tar_file(&t, "etc/more", "m");
	layer(&t);
	assert_int_equal(stacking(), ROOTFS_COVERED);
	assert_int_equal(cover.n, 1);
	assert_int_equal(look_at_cover("etc").st_mtime, 103);
	assert_int_equal(look_at_cover("etc").st_mode & 07777, 0755);
	flatten();
	assert_int_equal(look("etc").st_mtime, 103); /* as it was */
	holds("etc/more", "m");
	holds("etc/conf", "c1");
}

static void a_directory_that_nobody_ever_named_needs_none(void **state)
{
	struct tar t = { 0 };

	tar_file(&t, "opt/a", "1");
	layer(&t);
	tar_file(&t, "opt/b", "2");
	layer(&t);
	assert_int_equal(stacking(), ROOTFS_AS_IS);
}

static void files_below_a_symlinked_directory_go_where_it_leads(void **state)
{
	struct tar t = { 0 };

	base();
	tar_file(&t, "lib/c", "c2");
	layer(&t);
	assert_int_equal(stacking(), ROOTFS_FLAT);
	flatten();
	assert_true(S_ISLNK(look("lib").st_mode));
	holds("usr/lib/c", "c2");
	assert_int_equal(look("usr/lib").st_mode & 07777, 0711);
	assert_int_equal(look("usr/lib").st_mtime, 102);
}

/* Names in both orders: one case would fail whichever name a file system lists first. */
static void a_symlink_of_the_same_layer_leads_before_directories_without_a_name(void **state)
{
	struct tar t = { 0 };

	(void)state;
	base();
	tar_link(&t, '2', "a", "z");
	tar_link(&t, '2', "y", "b");
	tar_file(&t, "b", "");
	tar_file(&t, "z", "");
	layer(&t);
	tar_link(&t, '2', "z", "etc");
	tar_link(&t, '2', "b", "etc");
	tar_file(&t, "a/one", "1");
	tar_file(&t, "y/two", "2");
	layer(&t);
	flatten();
	assert_true(S_ISLNK(look("a").st_mode) && S_ISLNK(look("y").st_mode));
	holds("etc/one", "1");
	holds("etc/two", "2");
}

static void a_named_directory_replaces_a_symlink(void **state)
{
	struct tar t = { 0 };

	base();
	tar_dir(&t, "lib", 0750, 300);
	tar_file(&t, "lib/c", "c2");
	layer(&t);
	assert_int_equal(stacking(), ROOTFS_AS_IS);
	flatten();
	assert_true(S_ISDIR(look("lib").st_mode));
	holds("lib/c", "c2");
	is_missing("usr/lib/c");
}

static void a_symlink_out_of_the_image_leads_back_into_it(void **state)
{
	auto_free char *victim = xasprintf("%s/victim", dir);
	struct tar t = { 0 };
	struct stat sb;

	ok(mkdir(victim, 0700));
	tar_link(&t, '2', "out", victim);
	tar_link(&t, '2', "up", "../../../../../../../../../..");
	layer(&t);
	tar_file(&t, "out/f", "1");
	tar_file(&t, "up/g", "2");
	layer(&t);
	assert_int_equal(stacking(), ROOTFS_FLAT);
	flatten();
	holds("g", "2");
	auto_free char *inside = xasprintf("%s/f", victim + 1);

	holds(inside, "1");
	assert_int_equal(stat(victim, &sb), 0);
	assert_int_equal(sb.st_nlink, 2);
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
	layer(&t);
	flatten();
	is_missing("usr/lib/a");
	holds("usr/lib/b", "b1");
	is_missing("etc/conf");
	holds("etc/only", "o");
	assert_int_equal(look("etc").st_mtime, 400);
	is_missing("lib");
}

static void a_whiteout_that_hides_nothing_is_covered(void **state)
{
	struct tar t = { 0 };

	base();
	tar_dir(&t, "fresh", 0755, 1);
	tar_file(&t, "fresh/.wh.ghost", "");
	layer(&t);
	assert_int_equal(stacking(), ROOTFS_COVERED);
	flatten();
	is_missing("fresh/ghost");
	assert_true(S_ISDIR(look("fresh").st_mode));
}

static void a_whiteout_in_the_lowest_layer_is_covered(void **state)
{
	struct tar t = { 0 };

	tar_file(&t, "d/.wh.ghost", "");
	layer(&t);
	assert_int_equal(stacking(), ROOTFS_COVERED);
	flatten();
	is_missing("d/ghost");
}

static void a_whiteout_below_an_opaque_directory_is_covered(void **state)
{
	struct tar t = { 0 };

	base();
	tar_dir(&t, "usr", 0755, 1);
	tar_file(&t, "usr/.wh..wh..opq", "");
	tar_dir(&t, "usr/lib", 0755, 1);
	tar_file(&t, "usr/lib/.wh.a", "");
	layer(&t);
	assert_int_equal(stacking(), ROOTFS_COVERED);
}

static void a_directory_that_is_only_emptied_keeps_its_mode_and_time(void **state)
{
	struct tar t = { 0 };

	base();
	tar_file(&t, "usr/lib/.wh..wh..opq", "");
	tar_file(&t, "usr/lib/c", "c2");
	layer(&t);
	tar_file(&t, "usr/lib/d", "d3");
	layer(&t);
	assert_int_equal(stacking(), ROOTFS_COVERED);
	assert_int_equal(look_at_cover("usr/lib").st_mode & 07777, 0711);
	assert_int_equal(look_at_cover("usr/lib").st_mtime, 102);
	flatten();
	assert_int_equal(look("usr/lib").st_mode & 07777, 0711);
	assert_int_equal(look("usr/lib").st_mtime, 102);
	is_missing("usr/lib/a");
}

static void a_directory_that_came_anew_keeps_nothing_of_the_old_one(void **state)
{
	struct tar t = { 0 };

	base();
	tar_file(&t, "usr/.wh.lib", "");
	layer(&t);
	tar_file(&t, "usr/lib/.wh..wh..opq", "");
	tar_file(&t, "usr/lib/c", "c2");
	layer(&t);
	stacking();
	flatten();
	assert_int_equal(look("usr/lib").st_mode & 07777, 0755);
}

/* A note of it would lead through the link, even out of the store. */
static void a_directory_that_a_link_replaced_in_its_layer_is_forgotten(void **state)
{
	struct tar t = { 0 };

	base();
	tar_file(&t, "d/e/f", "1");
	tar_file(&t, "d/e/.wh.g", "");
	tar_link(&t, '2', "d", "/etc");
	tar_file(&t, "h/i", "1");
	tar_file(&t, "h", "2");
	layer(&t);
	assert_int_equal(stacking(), ROOTFS_AS_IS);
}

static void an_opaque_top_needs_flattening(void **state)
{
	struct tar t = { 0 };

	base();
	tar_file(&t, ".wh..wh..opq", "");
	tar_file(&t, "all", "1");
	layer(&t);
	assert_int_equal(stacking(), ROOTFS_FLAT);
	flatten();
	holds("all", "1");
	is_missing("usr");
	assert_int_equal(look(".").st_mtime, 100);
}

static void kinds_change_from_layer_to_layer(void **state)
{
	struct tar t = { 0 };

	base();
	tar_file(&t, "usr", "a file now");
	tar_dir(&t, "etc", 0755, 5);
	tar_dir(&t, "etc/conf", 0755, 6);
	tar_file(&t, "etc/conf/x", "1");
	tar_member(&t, '6', "lib", 0600, 7, "", "", 0, 0);
	layer(&t);
	assert_int_equal(stacking(), ROOTFS_AS_IS);
	flatten();
	holds("usr", "a file now");
	holds("etc/conf/x", "1");
	assert_true(S_ISFIFO(look("lib").st_mode));
}

static void modes_and_times_are_those_of_the_layer_that_named_last(void **state)
{
	struct tar t = { 0 };

	base();
	tar_dir(&t, "usr/lib", 0500, 500); /* read-only, and the next layer adds to it */
	layer(&t);
	tar_file(&t, "usr/lib/z", "z3");
	layer(&t);
	flatten();
	assert_int_equal(look("usr/lib").st_mode & 07777, 0500);
	assert_int_equal(look("usr/lib").st_mtime, 500);
	holds("usr/lib/z", "z3");
	assert_int_equal(look("usr").st_mtime, 101);
	assert_int_equal(look(".").st_mtime, 100);
}

static void unreadable_directories_are_flattened_and_left_as_they_are(void **state)
{
	auto_close int first = -1;
	struct tar t = { 0 };

	tar_dir(&t, "shut", 0, 11);
	tar_dir(&t, "shut/in", 0, 12);
	tar_file(&t, "shut/in/f", "1");
	layer(&t);
	tar_dir(&t, "shut", 0, 13);
	tar_file(&t, "shut/g", "2");
	layer(&t);
	flatten();
	assert_int_equal(look("shut").st_mode & 07777, 0);
	assert_int_equal(look("shut").st_mtime, 13);
	ok(first = store_tree_open(st, STORE_LAYER, layers.v[0], &err));
	assert_int_equal(look_at(first, "shut").st_mode & 07777, 0);
	assert_int_equal(look_at(first, "shut").st_mtime, 11);
	assert_int_equal(fchmodat(tree, "shut", 0700, 0), 0);
	holds("shut/g", "2");
	assert_int_equal(look("shut/in").st_mode & 07777, 0);
	assert_int_equal(look("shut/in").st_mtime, 12);
}

static void files_are_links_of_the_layers_and_hard_links_stay_links(void **state)
{
	auto_close int first = -1;
	struct tar t = { 0 };

	tar_file(&t, "f", "1");
	tar_link(&t, '1', "g", "f");
	tar_link(&t, '2', "s", "f");
	layer(&t);
	flatten();
	ok(first = store_tree_open(st, STORE_LAYER, layers.v[0], &err));
	assert_int_equal(look("f").st_ino, look_at(first, "f").st_ino);
	assert_int_equal(look("f").st_ino, look("g").st_ino);
	assert_int_equal(look("f").st_nlink, 4);
	assert_true(S_ISLNK(look("s").st_mode));
	ok(rootfs_flatten(st, MANIFEST_A, &layers, &err)); /* already there */
}

static void what_cannot_be_linked_is_copied_with_its_holes_and_times(void **state)
{
	const struct timespec ts[2] = { { 77, 0 }, { 77, 5 } };
	auto_close int from = -1, to = -1, fd = -1;
	char other[] = "/dev/shm/mlr-test-flatten.XXXXXX", got[8];
	struct stat sb;

	assert_non_null(mkdtemp(other));
	ok(from = open(other, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	ok(mkdirat(store_fd(st), "to", 0755));
	ok(to = openat(store_fd(st), "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	ok(fd = openat(from, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0640));
	assert_int_equal(pwrite(fd, "head", 4, 0), 4);
	assert_int_equal(pwrite(fd, "tail", 4, 8 << 20), 4);
	assert_int_equal(ftruncate(fd, 16 << 20), 0);
	assert_int_equal(futimens(fd, ts), 0);
	assert_int_equal(symlinkat("nowhere", from, "s"), 0);
	assert_int_equal(mkfifoat(from, "p", 0600), 0);

	ok(rootfs_place(from, to, "f", &err));
	ok(rootfs_place(from, to, "f", &err)); /* replaces */
	ok(rootfs_place(from, to, "s", &err));
	ok(rootfs_place(from, to, "p", &err));
	sb = look_at(to, "f");
	assert_int_equal(sb.st_mode & 07777, 0640);
	assert_int_equal(sb.st_size, 16 << 20);
	assert_int_equal(sb.st_mtim.tv_sec, 77);
	assert_int_equal(sb.st_mtim.tv_nsec, 5);
	assert_true(sb.st_blocks < 4096);
	close(fd);
	ok(fd = openat(to, "f", O_RDONLY | O_CLOEXEC));
	assert_int_equal(pread(fd, got, 4, 0), 4);
	assert_int_equal(pread(fd, got + 4, 4, 8 << 20), 4);
	assert_memory_equal(got, "headtail", 8);
	assert_true(S_ISLNK(look_at(to, "s").st_mode));
	assert_true(S_ISFIFO(look_at(to, "p").st_mode));
	ok(file_remove_tree(AT_FDCWD, other, &err));
}

static void a_layer_that_is_not_there_is_named(void **state)
{
	strv_add(
		&layers, "sha256:9999999999999999999999999999999999999999999999999999999999999999");
	assert_int_equal(rootfs_stacking(st, &layers, &cover, &err), -ENOENT);
	says("layer sha256:9999");
	assert_int_equal(rootfs_flatten(st, MANIFEST_A, &layers, &err), -ENOENT);
	assert_false(store_tree_exists(st, STORE_DIR, MANIFEST_A));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(layers_that_name_their_directories_need_no_flattening),
		TEST(a_directory_used_without_a_name_is_covered_as_it_was_below),
		TEST(a_directory_that_nobody_ever_named_needs_none),
		TEST(files_below_a_symlinked_directory_go_where_it_leads),
		TEST(a_symlink_of_the_same_layer_leads_before_directories_without_a_name),
		TEST(a_named_directory_replaces_a_symlink),
		TEST(a_symlink_out_of_the_image_leads_back_into_it),
		TEST(whiteouts_and_opaque_directories_hide_what_is_below),
		TEST(a_whiteout_that_hides_nothing_is_covered),
		TEST(a_whiteout_in_the_lowest_layer_is_covered),
		TEST(a_whiteout_below_an_opaque_directory_is_covered),
		TEST(a_directory_that_is_only_emptied_keeps_its_mode_and_time),
		TEST(a_directory_that_came_anew_keeps_nothing_of_the_old_one),
		TEST(a_directory_that_a_link_replaced_in_its_layer_is_forgotten),
		TEST(an_opaque_top_needs_flattening),
		TEST(kinds_change_from_layer_to_layer),
		TEST(modes_and_times_are_those_of_the_layer_that_named_last),
		TEST(unreadable_directories_are_flattened_and_left_as_they_are),
		TEST(files_are_links_of_the_layers_and_hard_links_stay_links),
		TEST(what_cannot_be_linked_is_copied_with_its_holes_and_times),
		TEST(a_layer_that_is_not_there_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
