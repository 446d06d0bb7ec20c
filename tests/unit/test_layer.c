#include "unit.h"
#include "base/hash.h"
#include "base/tighten.h"
#include "layer/path.h"
#include "outer.h"

#include <sys/xattr.h>

static int unpack(struct tar *t)
{
	tar_end(t);
	return unpack_as(t, OCI_PLAIN);
}

static void accepted(struct tar *t)
{
	int r = unpack(t);

	if (r < 0)
		fail_msg("%s", err.text);
}

static void refused(struct tar *t, int code, const char *words)
{
	assert_int_equal(unpack(t), -code);
	says(words);
}

static void holds(const char *path, const char *text)
{
	auto_free char *got = NULL;

	if (file_read(tree, path, 1 << 20, &got, NULL, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(got, text);
}

static void is_missing(const char *path)
{
	struct stat sb;

	assert_int_equal(fstatat(tree, path, &sb, AT_SYMLINK_NOFOLLOW), -1);
}

static struct stat look(const char *path)
{
	struct stat sb = { 0 };

	if (fstatat(tree, path, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		fail_msg("'%s' is not there", path);
	return sb;
}

static int opaque(const char *path)
{
	auto_close int fd = openat(tree, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	assert_true(fd >= 0);
	return layer_opaque_is(fd);
}

static int whiteout(const char *path)
{
	struct stat sb = look(path);

	return layer_whiteout_is(&sb);
}

static void files_directories_and_links_come_out_as_they_went_in(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_dir(&t, "./", 0751, 500);
	tar_dir(&t, "./a/", 0555, 600); /* read-only, and yet it gets a file */
	tar_file(&t, "./a/f", "text");
	tar_link(&t, '2', "./a/s", "../nowhere");
	tar_link(&t, '1', "./h", "./a/f");
	tar_member(&t, '0', "x", 0755, 2000, "", "y", 1, 1);
	accepted(&t);

	holds("a/f", "text");
	holds("h", "text");
	assert_int_equal(look("h").st_nlink, 2);
	assert_int_equal(look("a").st_mode & 07777, 0555);
	assert_int_equal(look("a").st_mtime, 600);
	assert_int_equal(look(".").st_mode & 07777, 0751);
	assert_int_equal(look(".").st_mtime, 500);
	assert_int_equal(look("x").st_mode & 07777, 0755);
	assert_int_equal(look("x").st_mtime, 2000);
	assert_true(S_ISLNK(look("a/s").st_mode));
	assert_int_equal(look("a/s").st_mtime, 1000);
	assert_int_equal(result.entries, 6);
	assert_int_equal(result.implicit.n, 0);
}

static void the_diff_id_covers_what_follows_the_end_mark(void **state)
{
	auto_tar struct tar t = { 0 };
	char hex[HASH_HEX_SIZE];

	tar_file(&t, "f", "x");
	tar_end(&t);
	tar_bytes(&t, "trailing", 8);
	assert_int_equal(unpack_as(&t, OCI_PLAIN), 0);
	hash_buffer(t.p, t.n, hex);
	assert_string_equal(result.diff_id + 7, hex);
	assert_memory_equal(result.diff_id, "sha256:", 7);
	assert_int_equal(result.bytes, t.n);
}

static void a_stream_that_comes_in_single_bytes_is_the_same(void **state)
{
	auto_tar struct tar t = { .chunk = 1 };

	tar_file(&t, "d/f", "text");
	tar_end(&t);
	tar_gzip(&t);
	assert_int_equal(unpack_as(&t, OCI_GZIP), 0);
	holds("d/f", "text");
}

static void an_empty_layer_is_a_layer(void **state)
{
	auto_tar struct tar t = { 0 };

	assert_int_equal(unpack_as(&t, OCI_PLAIN), 0);
	assert_string_equal(result.diff_id,
		"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	tar_end(&t);
	layer_result_done(&result);
	assert_int_equal(unpack_as(&t, OCI_PLAIN), 0);
	assert_int_equal(result.entries, 0);
}

static void a_symlink_out_of_the_tree_leads_back_into_it(void **state)
{
	auto_tar struct tar t = { 0 };
	char abs[PATH_MAX + 16], below[PATH_MAX + 20];

	snprintf(abs, sizeof(abs), "%.80s/target", outer);
	snprintf(below, sizeof(below), "%s/f2", abs + 1); /* the tree is what "/" means */
	tar_link(&t, '2', "up", "../../../../../../..");
	tar_link(&t, '2', "abs", abs);
	tar_link(&t, '2', "rel", "../target");
	tar_file(&t, "up/f1", "1");
	tar_file(&t, "abs/f2", "2");
	tar_file(&t, "rel/f3", "3");
	accepted(&t);
	holds("f1", "1");
	holds(below, "2");
	holds("target/f3", "3");
}

static void a_symlink_loop_is_refused(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_link(&t, '2', "a", "b");
	tar_link(&t, '2', "b", "a");
	tar_file(&t, "a/f", "x");
	refused(&t, ELOOP, "'a/f'");
}

static void a_dangling_symlink_gets_its_directories(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_link(&t, '2', "lib", "usr/lib");
	tar_file(&t, "lib/x", "1");
	accepted(&t);
	holds("usr/lib/x", "1");
	assert_int_equal(result.implicit.n, 3);
	assert_string_equal(result.implicit.v[0], ".");
	assert_string_equal(result.implicit.v[1], "usr");
	assert_string_equal(result.implicit.v[2], "usr/lib");
}

static void the_last_name_is_never_followed(void **state)
{
	auto_tar struct tar t = { 0 };
	char abs[PATH_MAX + 16];

	snprintf(abs, sizeof(abs), "%.80s/outside", outer);
	tar_link(&t, '2', "f", abs);
	tar_file(&t, "f", "mine");
	tar_link(&t, '2', "d", "../target");
	tar_dir(&t, "d", 0777, 1);
	tar_file(&t, "d/x", "1");
	tar_link(&t, '2', "p", "../outside");
	tar_member(&t, '6', "p", 0666, 1, "", "", 0, 0);
	accepted(&t);
	holds("f", "mine");
	holds("d/x", "1");
	assert_true(S_ISFIFO(look("p").st_mode));
}

static void a_hard_link_cannot_name_what_is_outside(void **state)
{
	char abs[PATH_MAX + 16];
	auto_tar struct tar evil = { 0 }, t = { 0 };

	snprintf(abs, sizeof(abs), "%.80s/outside", outer);
	tar_link(&evil, '1', "h", abs);
	assert_true(unpack(&evil) < 0);
	is_missing("h");

	tar_link(&t, '2', "s", abs);
	tar_link(&t, '1', "h", "s"); /* links the symlink, not what it names */
	accepted(&t);
	assert_true(S_ISLNK(look("h").st_mode));
}

static void a_hard_link_to_a_file_of_another_layer_is_refused_by_name(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_link(&t, '1', "h", "bin/sh");
	assert_int_equal(unpack(&t), -ENOENT);
	says("'h': hard link to 'bin/sh'");

	auto_tar struct tar u = { 0 };

	tar_link(&u, '1', "h", "sh");
	refused(&u, EPROTO, "'h': hard link to 'sh', which this layer does not have");
}

static void a_hard_link_to_itself_keeps_the_file(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_file(&t, "f", "x");
	tar_link(&t, '1', "f", "f");
	tar_link(&t, '1', "g", "./f");
	tar_link(&t, '1', "g", "f");
	accepted(&t);
	holds("f", "x");
	holds("g", "x");
}

static void overwriting_a_linked_file_leaves_the_other_name_alone(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_file(&t, "f", "old");
	tar_link(&t, '1', "g", "f");
	tar_file(&t, "f", "new");
	accepted(&t);
	holds("f", "new");
	holds("g", "old");
}

static void the_top_can_only_be_a_directory(void **state)
{
	static const char types[] = "0126";

	for (const char *c = types; *c; c++) {
		auto_tar struct tar t = { 0 };

		tar_member(&t, *c, "./", 0644, 1, "target", "", 0, 0);
		tar_file(&t, "f", "x");
		if (*c == '0') /* tar's old way to write a directory: a file with a slash */
			accepted(&t);
		else
			refused(&t, EPROTO, "top directory");
	}
}

static void of_two_members_with_one_name_the_last_counts(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_file(&t, "f", "one");
	tar_file(&t, "./f", "two");
	tar_dir(&t, "d", 0700, 1);
	tar_file(&t, "d/keep", "x");
	tar_dir(&t, "d", 0750, 2);
	tar_file(&t, "gone/a/b", "x");
	tar_file(&t, "gone", "file now");
	tar_link(&t, '2', "l", "d");
	tar_dir(&t, "l", 0755, 3);
	accepted(&t);
	holds("f", "two");
	holds("d/keep", "x");
	assert_int_equal(look("d").st_mode & 07777, 0750);
	assert_int_equal(look("d").st_mtime, 2);
	holds("gone", "file now");
	assert_true(S_ISDIR(look("l").st_mode));
	assert_true(opaque("l")); /* the symlink had removed what is below */
	is_missing("l/keep");
}

static void a_parent_that_changes_its_kind_is_not_remembered(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_file(&t, "a/f", "1");
	tar_link(&t, '2', "a", "b");
	tar_file(&t, "a/g", "2");
	accepted(&t);
	holds("b/g", "2");
	is_missing("b/f");
}

static void a_file_as_parent_is_refused(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_file(&t, "f", "x");
	tar_file(&t, "f/g", "x");
	refused(&t, ENOTDIR, "'f/g': directory 'f'");
}

static void devices_are_skipped_and_counted(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_member(&t, '3', "dev/null", 0666, 1, "", "", 0, 0);
	tar_member(&t, '4', "dev/sda", 0666, 1, "", "", 0, 0);
	accepted(&t);
	assert_int_equal(result.devices_skipped, 2);
	is_missing("dev/null"); /* in particular it is no whiteout, though its numbers are 0:0 */
}

static void fifos_are_made(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_member(&t, '6', "run/p", 0622, 77, "", "", 0, 0);
	accepted(&t);
	assert_true(S_ISFIFO(look("run/p").st_mode));
	assert_int_equal(look("run/p").st_mode & 07777, 0600);
	assert_int_equal(look("run/p").st_mtime, 77);
}

static void bits_that_serve_others_are_dropped_and_the_sticky_bit_stays(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_member(&t, '0', "su", 04755, 1, "", "x", 1, 1);
	tar_member(&t, '0', "sg", 02711, 1, "", "x", 1, 1);
	tar_dir(&t, "d", 02775, 1);
	tar_dir(&t, "tmp", 01777, 1);
	tar_member(&t, '2', "link", 0777, 1, "tmp", "", 0, 0);
	tar_dir(&t, "link/in", 0777, 1);
	tar_dir(&t, "shut", 0777, 1);
	tar_dir(&t, "shut", 0755, 1);
	accepted(&t);
	assert_int_equal(look("su").st_mode & 07777, 0755);
	assert_int_equal(look("sg").st_mode & 07777, 0711);
	assert_int_equal(look("d").st_mode & 07777, 0755);
	assert_int_equal(look("tmp").st_mode & 07777, 01755);
	assert_int_equal(look("tmp/in").st_mode & 07777, 0755);
	assert_int_equal(result.open.n, 2);
	assert_string_equal(result.open.v[0], "777 tmp/in");
	assert_string_equal(result.open.v[1], "1777 tmp");
}

static void modes_do_not_depend_on_the_umask(void **state)
{
	auto_tar struct tar t = { 0 };
	/* Each after one that got all it asked for, and one that did not. */
	static const mode_t modes[] = { 0600, 0700, 0644, 0600, 0755, 0777, 0400, 0600, 01700, 0 };
	mode_t old = umask(077);
	char name[32];

	tar_member(&t, '0', "f", 0666, 1, "", "x", 1, 1);
	tar_file(&t, "i/f", "x");
	tar_dir(&t, "d", 0777, 1);
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		snprintf(name, sizeof(name), "d/%04o.%zu", modes[i], i);
		tar_member(&t, '0', name, modes[i], 1, "", "x", 1, 1);
	}
	accepted(&t);
	umask(old);
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		snprintf(name, sizeof(name), "d/%04o.%zu", modes[i], i);
		assert_int_equal(look(name).st_mode & 07777, modes[i] & ~TIGHTEN_BITS);
	}
	assert_int_equal(look("f").st_mode & 07777, 0644);
	assert_int_equal(look("d").st_mode & 07777, 0755);
	assert_int_equal(look("i").st_mode & 07777, 0755);
}

static void an_unreadable_directory_gets_its_files_and_can_be_removed(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_dir(&t, "d", 0, 9);
	tar_dir(&t, "d/e", 0, 8);
	tar_member(&t, '0', "d/e/f", 0, 7, "", "x", 1, 1);
	tar_dir(&t, "./d", 0, 10); /* named again */
	accepted(&t);
	assert_int_equal(look("d").st_mode & 07777, 0);
	assert_int_equal(look("d").st_mtime, 10);
}

static void a_directory_keeps_what_was_said_of_it_when_the_way_to_it_changes(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_dir(&t, "real", 0755, 1);
	tar_link(&t, '2', "way", "real");
	tar_dir(&t, "way/d", 0700, 9);
	tar_dir(&t, "gone/d", 0700, 8);
	tar_file(&t, "gone", "x");
	tar_link(&t, '2', "way", "other");
	tar_link(&t, '2', "gone", "other");
	tar_file(&t, "other/d/f", "x");
	accepted(&t);
	assert_int_equal(look("real/d").st_mode & 07777, 0700);
	assert_int_equal(look("real/d").st_mtime, 9);
	assert_int_equal(look("other/d").st_mode & 07777, 0755);
	assert_int_equal(look("other/d").st_mtime, 0);
}

static void names_are_bytes(void **state)
{
	static const char latin1[] = "caf\xe9", utf8[] = "\xe6\x97\xa5\xe6\x9c\xac",
			  odd[] = " \n\t*?[\\\x01";
	static const char bad_pax[] = "pax-\xff\xfe-\xc3(";
	auto_tar struct tar t = { 0 };
	char target[64];

	tar_file(&t, latin1, "1");
	tar_file(&t, odd, "2");
	tar_pax(&t, "path", utf8, strlen(utf8));
	tar_file(&t, "short", "3");
	tar_pax(&t, "path", bad_pax, strlen(bad_pax));
	tar_file(&t, "short", "4");
	tar_pax(&t, "linkpath", bad_pax, strlen(bad_pax));
	tar_link(&t, '2', "link", "short");
	tar_pax(&t, "linkpath", bad_pax, strlen(bad_pax));
	tar_link(&t, '1', "hard", "short");
	accepted(&t);
	holds(latin1, "1");
	holds(odd, "2");
	holds(utf8, "3");
	holds(bad_pax, "4");
	holds("hard", "4");
	assert_int_equal(readlinkat(tree, "link", target, sizeof(target)), (int)strlen(bad_pax));
	assert_memory_equal(target, bad_pax, strlen(bad_pax));
}

static void long_names_are_kept_and_too_long_ones_refused(void **state)
{
	auto_tar struct tar t = { 0 }, u = { 0 }, v = { 0 };
	char path[PATH_MAX + 600];
	size_t n = 0;

	while (n < 2500) /* 10 names of 249 */
		n += (size_t)sprintf(path + n, "%0249zu/", n);
	strcpy(path + n, "f");
	tar_pax(&t, "path", path, strlen(path));
	tar_file(&t, "f", "deep");
	accepted(&t);
	holds(path, "deep");

	memset(path, 'x', 300);
	tar_pax(&u, "path", path, 300);
	tar_file(&u, "f", "x");
	refused(&u, ENAMETOOLONG, "create file");

	for (n = 0; n < PATH_MAX + 10; n += 2)
		memcpy(path + n, "d/", 2);
	tar_pax(&v, "path", path, n);
	tar_file(&v, "f", "x");
	refused(&v, ENAMETOOLONG, "deeper than 256");
}

static void a_sparse_file_keeps_its_holes(void **state)
{
	static const char records[] = "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"
				      "26 GNU.sparse.name=sparse\n31 GNU.sparse.realsize=9437184\n";
	static const char map[] = "2\n0\n4\n8388608\n4\n"; /* GNU 1.0: as text before the data */
	auto_tar struct tar t = { 0 };
	char data[512 + 8] = { 0 }, got[8];

	memcpy(data, map, strlen(map));
	memcpy(data + 512, "headtail", 8);
	tar_member(&t, 'x', "pax", 0644, 0, "", records, strlen(records), strlen(records));
	tar_member(
		&t, '0', "GNUSparseFile.0/sparse", 0644, 5, "", data, sizeof(data), sizeof(data));
	accepted(&t);
	assert_int_equal(look("sparse").st_size, 9437184);
	assert_true(look("sparse").st_blocks * 512 < 1 << 20);
	auto_close int fd = openat(tree, "sparse", O_RDONLY | O_CLOEXEC);

	assert_int_equal(pread(fd, got, 4, 0), 4);
	assert_int_equal(pread(fd, got + 4, 4, 8388608), 4);
	assert_memory_equal(got, "headtail", 8);
}

static void user_xattrs_stay_and_overlays_own_and_others_go(void **state)
{
	auto_tar struct tar t = { 0 };
	char v[16];

	tar_pax(&t, "SCHILY.xattr.user.note", "a\0b", 3);
	tar_member(&t, '0', "f", 0444, 1, "", "x", 1, 1);
	tar_pax(&t, "SCHILY.xattr.user.overlay.opaque", "y", 1);
	tar_dir(&t, "d", 0755, 1);
	tar_pax(&t, "SCHILY.xattr.security.capability", "\1\0\0\2", 4);
	tar_member(&t, '0', "g", 0755, 1, "", "x", 1, 1);
	tar_pax(&t, "SCHILY.xattr.trusted.overlay.redirect", "/etc", 4);
	tar_dir(&t, "e", 0755, 1);
	accepted(&t);
	auto_close int f = openat(tree, "f", O_RDONLY | O_CLOEXEC),
		       g = openat(tree, "g", O_RDONLY | O_CLOEXEC);

	if (fgetxattr(f, "user.note", v, sizeof(v)) >= 0 || errno != ENOTSUP)
		assert_int_equal(fgetxattr(f, "user.note", v, sizeof(v)), 3);
	assert_int_equal(look("f").st_mode & 07777, 0444);
	assert_false(opaque("d"));
	assert_true(fgetxattr(g, "security.capability", v, sizeof(v)) < 0);
	auto_close int e = openat(tree, "e", O_RDONLY | O_CLOEXEC);

	assert_true(fgetxattr(e, "trusted.overlay.redirect", v, sizeof(v)) < 0);
}

static void times_have_fractions_of_seconds(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_pax(&t, "mtime", "1234567890.123456789", 20);
	tar_file(&t, "f", "x");
	tar_pax(&t, "mtime", "1234567891.5", 12);
	tar_dir(&t, "d", 0755, 1);
	accepted(&t);
	assert_int_equal(look("f").st_mtim.tv_sec, 1234567890);
	assert_int_equal(look("f").st_mtim.tv_nsec, 123456789);
	assert_int_equal(look("d").st_mtim.tv_nsec, 500000000);
}

static void whiteouts_become_marks_of_overlayfs(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_file(&t, "a/.wh.gone", "");
	tar_file(&t, ".wh.top", "");
	tar_dir(&t, "o", 0755, 44);
	tar_file(&t, "o/.wh..wh..opq", "");
	tar_file(&t, "o/new", "1");
	tar_file(&t, ".wh..wh.aufs", "");
	tar_file(&t, ".wh..wh.plnk/12.34", "x");
	accepted(&t);
	assert_true(whiteout("a/gone"));
	assert_true(whiteout("top"));
	assert_true(opaque("o"));
	assert_false(opaque("a"));
	assert_int_equal(look("o").st_mtime, 44);
	is_missing("a/.wh.gone");
	is_missing("o/.wh..wh..opq");
	is_missing(".wh..wh.aufs");
	is_missing(".wh..wh.plnk");
	assert_int_equal(result.hiding.n, 2);
	assert_string_equal(result.hiding.v[0], ".");
	assert_string_equal(result.hiding.v[1], "a");
}

static void an_addition_wins_over_a_whiteout_of_its_name(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_file(&t, ".wh.f", "");
	tar_file(&t, "f", "1");
	tar_file(&t, "g", "2");
	tar_file(&t, ".wh.g", "");
	tar_file(&t, ".wh.d", "");
	tar_dir(&t, "d", 0755, 1);
	tar_file(&t, "e/x", "3");
	tar_file(&t, ".wh.e", "");
	tar_file(&t, ".wh.i", "");
	tar_file(&t, "i/x", "4");
	accepted(&t);
	holds("f", "1");
	holds("g", "2");
	holds("e/x", "3");
	holds("i/x", "4");
	assert_true(opaque("d")); /* nothing of the directory below may show */
	assert_true(opaque("e"));
	assert_true(opaque("i"));
	assert_int_equal(
		result.implicit.n, 1); /* the top; the rest owes nothing to the layers below */
}

static void whiteouts_in_an_opaque_directory_are_not_kept(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_file(&t, "o/.wh.a", "");
	tar_file(&t, "o/.wh..wh..opq", "");
	tar_file(&t, "o/.wh.b", "");
	accepted(&t);
	is_missing("o/a");
	is_missing("o/b");
}

static void whiteouts_act_on_the_real_parent_and_never_outside(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_link(&t, '2', "up", "..");
	tar_link(&t, '2', "l", "d");
	tar_file(&t, "up/.wh.outside", "");
	tar_file(&t, "up/.wh.target", "");
	tar_file(&t, "l/.wh.x", "");
	tar_file(&t, ".wh.l", "");
	accepted(&t);
	assert_true(whiteout("outside"));
	assert_true(whiteout("target"));
	assert_true(whiteout("d/x"));
	assert_true(S_ISLNK(look("l").st_mode));
	assert_true(strv_has(&result.hiding, "d"));
}

static void directories_used_without_a_name_are_told(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_file(&t, "usr/lib/x/f", "1");
	tar_dir(&t, "usr/lib", 0755, 1);
	tar_dir(&t, "opt", 0755, 1);
	tar_file(&t, "opt/f", "1");
	accepted(&t);
	assert_int_equal(result.implicit.n, 3);
	assert_string_equal(result.implicit.v[0], ".");
	assert_string_equal(result.implicit.v[1], "usr");
	assert_string_equal(result.implicit.v[2], "usr/lib/x");
}

static void several_gzip_members_and_padding_are_one_stream(void **state)
{
	auto_tar struct tar t = { 0 }, all = { .chunk = 777 };
	size_t half;

	tar_file(&t, "a", "1");
	tar_file(&t, "b", "2");
	tar_end(&t);
	half = t.n / 2;
	for (int i = 0; i < 2; i++) {
		auto_tar struct tar part = { 0 };

		tar_bytes(&part, t.p + (i ? half : 0), i ? t.n - half : half);
		tar_gzip(&part);
		tar_bytes(&all, part.p, part.n);
	}
	tar_bytes(&all, "\0\0\0\0\0\0\0", 7);
	assert_int_equal(unpack_as(&all, OCI_GZIP), 0);
	holds("a", "1");
	holds("b", "2");
	assert_int_equal(result.bytes, t.n);
}

/* A member a file, a table of contents, and a footer that has nothing but an extra field
 * (containerd, stargz-snapshotter, docs/estargz.md). */
static void an_estargz_layer_is_a_gzip_layer(void **state)
{
	static const unsigned char footer[] =
		"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x1a\0SG\x16\0"
		"00000000000002c0STARGZ\1\0\0\xff\xff\0\0\0\0\0\0\0\0";
	const size_t chunks[] = { 0, 1, 100 };

	for (size_t c = 0; c < ARRAY_LEN(chunks); c++) {
		auto_tar struct tar all = { .chunk = chunks[c] };
		size_t bytes = 0;

		for (int i = 0; i < 3; i++) {
			auto_tar struct tar part = { 0 };

			tar_file(&part, i == 0 ? "a" : i == 1 ? "b" : "stargz.index.json", "{}");
			if (i == 2)
				tar_end(&part);
			bytes += part.n;
			tar_gzip(&part);
			tar_bytes(&all, part.p, part.n);
		}
		tar_bytes(&all, footer, sizeof(footer) - 1);
		assert_int_equal(unpack_as(&all, OCI_GZIP), 0);
		assert_int_equal(result.bytes, bytes);
		holds("b", "{}");
		layer_result_done(&result);
	}
}

/* What zstd:chunked and pzstd write: many frames, and tables in frames to be skipped. */
static void several_zstd_frames_and_skippable_ones_are_one_stream(void **state)
{
	const size_t chunks[] = { 0, 1, 777 };

	for (size_t c = 0; c < ARRAY_LEN(chunks); c++) {
		auto_tar struct tar t = { 0 }, all = { .chunk = chunks[c] };
		size_t third;

		tar_file(&t, "a", "1");
		tar_file(&t, "b", "2");
		tar_end(&t);
		third = t.n / 3;
		tar_zstd_skippable(&all, "first", 5);
		for (size_t i = 0; i < 3; i++) {
			auto_tar struct tar part = { 0 };

			tar_bytes(&part, t.p + i * third, i == 2 ? t.n - 2 * third : third);
			tar_zstd(&part, 3, 0);
			tar_bytes(&all, part.p, part.n);
			tar_zstd_skippable(&all, "table of contents", 17);
		}
		assert_int_equal(layer_sniff(all.p, all.n), OCI_ZSTD);
		assert_int_equal(unpack_as(&all, OCI_ZSTD), 0);
		holds("a", "1");
		holds("b", "2");
		assert_int_equal(result.bytes, t.n);
		layer_result_done(&result);
	}
}

static void gzip(struct tar *t)
{
	tar_gzip(t);
}

static void zstd(struct tar *t)
{
	tar_zstd(t, 3, 0);
}

static void a_broken_stream_is_refused(void **state)
{
	enum { START = 1000000 };
	static const struct {
		void (*compress)(struct tar *t);
		enum oci_compression comp;
		const char *words;
		size_t cut;
		const char *more;
		size_t flip; /* a byte, counted from the end; 0: none */
	} cases[] = {
		{ gzip, OCI_GZIP, "ends too early", 5, "", 0 },
		{ gzip, OCI_GZIP, "garbage after the end of the gzip stream", 0, "garbage", 0 },
		{ gzip, OCI_GZIP, "is damaged", 0, "", 5 }, /* the CRC */
		{ gzip, OCI_GZIP, "begins with byte 0x", 0, "", START },
		{ zstd, OCI_ZSTD, "ends too early", 5, "", 0 },
		{ zstd, OCI_ZSTD, "ends too early", 0, "\x28\xb5", 0 }, /* half a magic number */
		{ zstd, OCI_ZSTD, "garbage after the end of the zstd stream", 0, "garbage", 0 },
		{ zstd, OCI_ZSTD, "garbage after the end of the zstd stream", 0, "\x1f\x8b\x08\x01",
			0 },
		{ zstd, OCI_ZSTD, "is damaged", 0, "", 3 }, /* the checksum */
		{ zstd, OCI_ZSTD, "not a zstd stream", 0, "", START },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_tar struct tar t = { 0 }, none = { 0 };

		tar_file(&t, "f", "x");
		tar_end(&t);
		cases[i].compress(&t);
		t.n -= cases[i].cut;
		tar_bytes(&t, cases[i].more, strlen(cases[i].more));
		if (cases[i].flip)
			t.p[cases[i].flip == START ? 0 : t.n - cases[i].flip] ^= 0xff;
		assert_int_equal(unpack_as(&t, cases[i].comp), -EBADMSG);
		if (!strstr(err.text, cases[i].words))
			fail_msg("row %zu: '%s' does not say '%s'", i, err.text, cases[i].words);
		assert_int_equal(unpack_as(&none, cases[i].comp), -EBADMSG);
	}
}

static void a_zstd_window_beyond_the_limit_is_refused(void **state)
{
	auto_tar struct tar most = { 0 }, more = { 0 };

	tar_file(&most, "f", "x");
	tar_end(&most);
	tar_bytes(&more, most.p, most.n);
	tar_zstd(&most, 1, 27);
	assert_int_equal(unpack_as(&most, OCI_ZSTD), 0);
	holds("f", "x");
	tar_zstd(&more, 1, 28);
	assert_int_equal(unpack_as(&more, OCI_ZSTD), -EFBIG);
	says("window larger than the 128 MiB allowed");
}

static void the_kind_of_compression_is_told_by_the_first_bytes(void **state)
{
	assert_int_equal(layer_sniff("\x1f\x8b\x08\x00", 4), OCI_GZIP);
	assert_int_equal(layer_sniff("\x28\xb5\x2f\xfd", 4), OCI_ZSTD);
	assert_int_equal(layer_sniff("\x5f\x2a\x4d\x18", 4), OCI_ZSTD);
	assert_int_equal(layer_sniff("\x28\xb5\x2f\xfd", 3), OCI_PLAIN);
	assert_int_equal(layer_sniff("file", 4), OCI_PLAIN);
	assert_int_equal(layer_sniff("", 0), OCI_PLAIN);
}

static void broken_tars_are_refused(void **state)
{
	auto_tar struct tar cut = { 0 }, sum = { 0 }, huge = { 0 }, neg = { 0 };

	tar_file(&cut, "f", "a text of some length");
	cut.n -= 505;
	assert_int_equal(unpack_as(&cut, OCI_PLAIN), -EPROTO);

	tar_file(&sum, "e", "x");
	tar_file(&sum, "f", "x");
	sum.p[1024] ^= 1;
	tar_end(&sum);
	assert_int_equal(unpack_as(&sum, OCI_PLAIN), -EPROTO);

	tar_member(
		&huge, '0', "f", 0644, 1, "", "x", 1, 077777777777ull); /* 8 GiB that do not come */
	refused(&huge, EPROTO, "runcated");

	tar_pax(&neg, "size", "-5", 2);
	tar_member(&neg, '0', "f", 0644, 1, "", "x", 1, 1);
	assert_true(unpack(&neg) < 0);
}

static ssize_t failing_read(void *ctx, void *buf, size_t len, struct mlr_error *e)
{
	struct tar *t = ctx;

	if (t->at < t->n)
		return tar_read(ctx, buf, len, e);
	return mlr_fail(e, ECONNRESET, "short read: %s", "Connection reset by peer");
}

static void a_read_that_fails_is_what_the_error_tells(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_member(&t, '0', "f", 0644, 1, "", "x", 1, 5000);
	assert_int_equal(
		layer_unpack(failing_read, &t, OCI_PLAIN, tree, -1, &result, &err), -ECONNRESET);
	assert_string_equal(err.text, "short read: Connection reset by peer");
}

static int limited(struct tar *t, enum oci_compression comp, struct layer_limits limits)
{
	t->at = 0;
	return layer_unpack_limited(tar_read, t, comp, tree, -1, &limits, &result, &err);
}

static void bombs_are_refused_at_their_limit(void **state)
{
	const struct layer_limits normal = LAYER_LIMITS_DEFAULT;
	struct layer_limits l;
	auto_tar struct tar many = { 0 }, big = { 0 };
	char name[100];
	void *zeros = calloc(8, 1 << 20);

	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "d%d/f", i);
		tar_file(&many, name, "");
	}
	tar_end(&many);
	l = normal;
	l.entries = 10;
	assert_int_equal(limited(&many, OCI_PLAIN, l), -EFBIG);
	says("more than the 10 members allowed");
	l = normal;
	l.dir_memory = 500;
	assert_int_equal(limited(&many, OCI_PLAIN, l), -EFBIG);
	says("more directories than");

	tar_member(&big, '0', "f", 0644, 1, "", zeros, 8 << 20, 8 << 20);
	tar_end(&big);
	free(zeros);
	l = normal;
	l.bytes = 1 << 20;
	assert_int_equal(limited(&big, OCI_PLAIN, l), -EFBIG);
	tar_gzip(&big);
	assert_int_equal(limited(&big, OCI_GZIP, normal), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(files_directories_and_links_come_out_as_they_went_in),
		TEST(the_diff_id_covers_what_follows_the_end_mark),
		TEST(a_stream_that_comes_in_single_bytes_is_the_same),
		TEST(an_empty_layer_is_a_layer),
		TEST(a_symlink_out_of_the_tree_leads_back_into_it),
		TEST(a_symlink_loop_is_refused),
		TEST(a_dangling_symlink_gets_its_directories),
		TEST(the_last_name_is_never_followed),
		TEST(a_hard_link_cannot_name_what_is_outside),
		TEST(a_hard_link_to_a_file_of_another_layer_is_refused_by_name),
		TEST(a_hard_link_to_itself_keeps_the_file),
		TEST(overwriting_a_linked_file_leaves_the_other_name_alone),
		TEST(the_top_can_only_be_a_directory),
		TEST(of_two_members_with_one_name_the_last_counts),
		TEST(a_parent_that_changes_its_kind_is_not_remembered),
		TEST(a_file_as_parent_is_refused),
		TEST(devices_are_skipped_and_counted),
		TEST(fifos_are_made),
		TEST(bits_that_serve_others_are_dropped_and_the_sticky_bit_stays),
		TEST(modes_do_not_depend_on_the_umask),
		TEST(an_unreadable_directory_gets_its_files_and_can_be_removed),
		TEST(a_directory_keeps_what_was_said_of_it_when_the_way_to_it_changes),
		TEST(names_are_bytes),
		TEST(long_names_are_kept_and_too_long_ones_refused),
		TEST(a_sparse_file_keeps_its_holes),
		TEST(user_xattrs_stay_and_overlays_own_and_others_go),
		TEST(times_have_fractions_of_seconds),
		TEST(whiteouts_become_marks_of_overlayfs),
		TEST(an_addition_wins_over_a_whiteout_of_its_name),
		TEST(whiteouts_in_an_opaque_directory_are_not_kept),
		TEST(whiteouts_act_on_the_real_parent_and_never_outside),
		TEST(directories_used_without_a_name_are_told),
		TEST(several_gzip_members_and_padding_are_one_stream),
		TEST(an_estargz_layer_is_a_gzip_layer),
		TEST(a_broken_stream_is_refused),
		TEST(several_zstd_frames_and_skippable_ones_are_one_stream),
		TEST(a_zstd_window_beyond_the_limit_is_refused),
		TEST(the_kind_of_compression_is_told_by_the_first_bytes),
		TEST(broken_tars_are_refused),
		TEST(a_read_that_fails_is_what_the_error_tells),
		TEST(bombs_are_refused_at_their_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
