#include "unit.h"
#include "outer.h"

#include <zstd.h>

static int add_bytes(void *ctx, const void *buf, size_t len, struct mlr_error *e)
{
	tar_bytes(ctx, buf, len);
	return 0;
}

static int rebuild(struct tar *t)
{
	char diff_id[8 + HASH_HEX_SIZE];
	uint64_t bytes;

	return layer_rebuild(record, tree, add_bytes, t, diff_id, &bytes, &err);
}

/* Unpack a layer, and check that tree and record give the same tar back. */
static void comes_back(struct tar *t)
{
	auto_tar struct tar again = { 0 };

	if (unpack_as(t, OCI_PLAIN) < 0)
		fail_msg("%s", err.text);
	if (rebuild(&again) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(again.n, t->n);
	for (size_t i = 0; i < t->n; i++)
		if (again.p[i] != t->p[i])
			fail_msg("byte %zu differs", i);
}

/* Does the decompressed record have these bytes? */
static int record_has(const char *text)
{
	size_t size = (size_t)lseek(record, 0, SEEK_END), room = 16 << 20, n, len = strlen(text);
	auto_free char *in = xmalloc(size), *out = xmalloc(room);

	assert_int_equal(pread(record, in, size, 0), size);
	n = ZSTD_decompress(out, room, in, size);
	assert_false(ZSTD_isError(n));
	return memmem(out, n, text, len) != NULL;
}

static void what_the_tree_holds_is_not_in_the_record(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_dir(&t, "d", 0755, 5);
	tar_file(&t, "d/f", "in the tree, or so one hopes");
	tar_member(&t, '0', "d/secret", 0200, 5, "", "unreadable", 10, 10);
	tar_end(&t);
	tar_bytes(&t, "garbage after the end", 21);
	comes_back(&t);
	assert_false(record_has("in the tree"));
	assert_true(record_has("unreadable"));
	assert_true(record_has("garbage after the end"));
}

static void files_that_a_later_member_replaces_are_kept(void **state)
{
	static const char types[] = { '0', '1', '2', '5', '6', 'h' };

	for (size_t i = 0; i < sizeof(types); i++) {
		auto_tar struct tar t = { 0 };

		tar_file(&t, "other", "other");
		tar_file(&t, "f", "the first");
		tar_file(&t, "f", "the second");
		tar_file(&t, "d/x/f", "below");
		tar_file(&t, "d/y", "beside");
		if (types[i] == '5') {
			tar_dir(&t, "f", 0755, 5);
			tar_file(&t, "d", "a directory no more");
		} else if (types[i] == 'h') { /* a link to itself changes nothing */
			tar_link(&t, '1', "f", "f");
		} else if (types[i] == '0') {
			tar_file(&t, "f", "the third");
			tar_file(&t, "d/y", "again");
		} else {
			tar_link(&t, types[i], "f", "other");
			tar_link(&t, types[i], "d", "other");
			tar_file(&t, "f", "the last");
		}
		tar_end(&t);
		comes_back(&t);
		assert_true(record_has("the first"));
		assert_int_equal(record_has("the second"), types[i] != 'h');
		start_again();
	}
}

static void the_same_name_many_times_comes_back_in_order(void **state)
{
	auto_tar struct tar t = { 0 };

	for (int i = 0; i < 300; i++) {
		char name[32], text[32];

		snprintf(name, sizeof(name), "f%d", i % 7);
		snprintf(text, sizeof(text), "text %d", i * i);
		tar_file(&t, name, text);
	}
	tar_end(&t);
	comes_back(&t);
}

static void files_reached_through_symlinks_are_named_by_their_real_path(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_dir(&t, "usr/lib", 0755, 5);
	tar_link(&t, '2', "lib", "/usr/lib");
	tar_link(&t, '2', "up", "usr/lib/../..");
	tar_file(&t, "lib/a", "1");
	tar_file(&t, "up/lib/b", "2");
	tar_file(&t, "lib/a", "3");
	tar_link(&t, '2', "gone", "made/by/this"); /* to nothing: the parents are made */
	tar_file(&t, "gone/c", "4");
	tar_file(&t, "lib", "no link any more");
	tar_end(&t);
	comes_back(&t);
	assert_true(record_has("usr/lib/a"));
}

static void files_below_directories_that_nobody_may_search_are_kept(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_file(&t, "shut/f", "behind a door");
	tar_file(&t, "shut/d/f", "behind two");
	tar_file(&t, "open/f", "in the open");
	tar_link(&t, '2', "alias", "shut/d");
	tar_dir(&t, "shut", 0600, 5);
	tar_dir(&t, "alias", 0755, 5);
	tar_dir(&t, "replaced", 0, 5);
	tar_file(&t, "replaced", "a file now");
	tar_end(&t);
	comes_back(&t);
	assert_true(record_has("behind a door"));
	assert_false(record_has("in the open"));
}

static void a_top_directory_that_nobody_may_search_comes_back(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_file(&t, "f", "behind a door");
	tar_file(&t, "d/f", "behind it, too");
	tar_dir(&t, "./", 0600, 5);
	tar_end(&t);
	comes_back(&t);
	assert_false(record_has("behind it, too")); /* the tree's own top is open to its owner */
}

/* Large files out of order are read from the record again instead of being remembered. */
static void replaced_files_come_back_whatever_their_size_and_order(void **state)
{
	auto_free char *big = xmalloc(300000);
	auto_tar struct tar t = { 0 };
	char name[2] = "";

	for (int i = 0; i < 300000; i++)
		big[i] = (char)((unsigned)i * (unsigned)i / 7);
	for (char c = 'a'; c < 'f'; c++) {
		name[0] = c;
		tar_member(&t, '0', name, 0644, 5, "", big + c, 200000, 200000);
	}
	for (char c = 'e'; c >= 'a'; c--) {
		name[0] = c;
		tar_file(&t, name, "small");
	}
	tar_end(&t);
	comes_back(&t);
}

static void a_record_does_not_grow_without_bounds(void **state)
{
	size_t size = 1 << 20;
	auto_free char *big = xcalloc(1, size);
	auto_tar struct tar links = { 0 }, doors = { 0 };

	/* A directory that is shut by many names is gone through once. */
	tar_member(&doors, '0', "d/f", 0644, 5, "", big, size, size);
	tar_link(&doors, '2', "s", ".");
	for (int i = 0; i < 200; i++)
		tar_dir(&doors, i % 2 ? "d" : "s/s/d", 0600, 5);
	tar_end(&doors);
	comes_back(&doors);
	assert_true(lseek(record, 0, SEEK_END) < 10000);

	start_again();
	tar_member(&links, '0', "f", 0644, 5, "", big, size, size);
	for (int i = 0; i < 100; i++) {
		tar_link(&links, '1', "l", "f");
		tar_file(&links, "l", "replaced");
	}
	tar_end(&links);
	assert_int_equal(unpack_as(&links, OCI_PLAIN), -EFBIG);
	says("more bytes of replaced files than the layer has");
}

static void marks_devices_and_data_that_nobody_asked_for_come_back(void **state)
{
	auto_tar struct tar t = { 0 };

	tar_member(&t, '3', "dev/null", 0666, 5, "", "", 0, 0);
	tar_member(&t, '4', "dev/sda", 0660, 5, "", "", 0, 0);
	tar_member(&t, '0', "d/.wh.gone", 0644, 5, "", "data of a whiteout", 18, 18);
	tar_member(&t, '0', ".wh..wh.plnk/1.2", 0644, 5, "", "aufs", 4, 4);
	tar_file(&t, "d/.wh..wh..opq", "");
	tar_file(&t, "f", "text");
	tar_pax(&t, "SCHILY.xattr.user.a", "b", 1);
	tar_pax(&t, "SCHILY.acl.access", "user::rw-", 9);
	tar_file(&t, "x", "y");
	tar_pax(&t, "comment", "pax lets links have data", 24);
	tar_member(&t, '1', "with-data", 0644, 5, "f", "text", 4, 4);
	tar_member(&t, '7', "contiguous", 0644, 5, "", "0123", 4, 4);
	tar_member(&t, '0', "empty", 0644, 5, "", "", 0, 0);
	comes_back(&t); /* even without an end mark */
}

/* Archives of GNU tar in each of its formats: long names, three kinds of sparse files, links. */
static void archives_of_gnu_tar_in_every_format_come_back(void **state)
{
	static const char *const kinds[] = { "v7", "ustar", "oldgnu", "gnu", "pax",
		"oldgnu --sparse", "gnu --sparse", "pax --sparse --sparse-version=0.0",
		"pax --sparse --sparse-version=0.1", "pax --sparse --sparse-version=1.0",
		"gnu --hard-dereference", "pax --xattrs --acls", "gnu -b 1", "gnu --label=volume" };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		auto_tar struct tar t = { .chunk = 4096 };
		auto_free char *
			gnu = xasprintf("%s/gnu", outer),
		       *cmd = xasprintf(
			       "mkdir -p '%s/in/d' && cd '%s/in' && for i in 1 2 3 4 5 6 7 8 9; do "
			       "head -c ${i}71234 /dev/urandom >d/$i; done && echo a >a && ln -f a b && "
			       "ln -sf a c && truncate -s 3000000 hole && printf end >>hole && "
			       "printf start | dd of=hole conv=notrunc status=none && "
			       "printf x | dd of=hole bs=100000 seek=7 conv=notrunc status=none && "
			       "truncate -s 5000000 allhole && printf solid >solid && "
			       "L=$(printf %%090d 7) && case '%s' in v7*) ;; ustar*) L=$L/$L ;; "
			       "*) L=$L/$L/$L ;; esac && mkdir -p $(dirname $L) && echo long >$L.f && "
			       "tar --format=%s -cf ../out.tar . 2>../log",
			       gnu, gnu, kinds[i], kinds[i]),
		       *path = xasprintf("%s/out.tar", gnu), *shell = xasprintf("bash -c \"$CMD\"");
		char *bytes;
		size_t n;

		assert_int_equal(setenv("CMD", cmd, 1), 0);
		if (system(shell) != 0)
			fail_msg("GNU tar does not write --format=%s", kinds[i]);
		assert_int_equal(file_read(AT_FDCWD, path, 64 << 20, &bytes, &n, &err), 0);
		assert_int_equal(file_remove_tree(AT_FDCWD, gnu, &err), 0);
		tar_bytes(&t, bytes, n);
		free(bytes);
		comes_back(&t);
		assert_false(record_has("solid\n"));
		start_again();
	}
}

static void a_tree_that_was_tampered_with_is_told(void **state)
{
	auto_tar struct tar t = { 0 }, again = { 0 };
	char diff_id[8 + HASH_HEX_SIZE];
	uint64_t bytes;

	tar_file(&t, "d/f", "text");
	tar_end(&t);
	comes_back(&t);

	assert_int_equal(file_replace(tree, "d/f", "TEXT", 4, 0644, NULL), 0);
	assert_int_equal(layer_rebuild(record, tree, NULL, NULL, diff_id, &bytes, &err), 0);
	assert_string_not_equal(diff_id, result.diff_id);

	assert_int_equal(file_replace(tree, "d/f", "longer", 6, 0644, NULL), 0);
	assert_int_equal(rebuild(&again), -EBADMSG);
	says("'d/f' of the layer's tree has 6 bytes, not 4");

	unlinkat(tree, "d/f", 0);
	assert_int_equal(rebuild(&again), -EBADMSG);
	says("'d/f' of the layer's tree: No such file");
	assert_int_equal(symlinkat("/etc/passwd", tree, "d/f"), 0);
	assert_int_equal(rebuild(&again), -EBADMSG);
	says("reached through a symlink");
	unlinkat(tree, "d/f", 0);
	assert_int_equal(mkfifoat(tree, "d/f", 0600), 0);
	assert_int_equal(rebuild(&again), -EBADMSG);
	says("no longer a regular file");
	unlinkat(tree, "d/f", 0);
	unlinkat(tree, "d", AT_REMOVEDIR);
	assert_int_equal(symlinkat("/etc", tree, "d"), 0);
	assert_int_equal(rebuild(&again), -EBADMSG);
	says("reached through a symlink");
}

/* A record by hand, compressed as it must be. */
static void write_record(const void *p, size_t n)
{
	size_t room = ZSTD_compressBound(n);
	auto_free char *out = xmalloc(room);

	n = ZSTD_compress(out, room, p, n, 1);
	assert_int_equal(ftruncate(record, 0), 0);
	assert_int_equal(pwrite(record, out, n, 0), n);
}

static void records_that_are_none_are_refused(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		int code;
		const char *words;
	} cases[] = {
#define RECORD(s) LAYER_RECORD_MAGIC s, sizeof(LAYER_RECORD_MAGIC s) - 1
		{ "NOTHING\n\0\0", 10, EPROTO, "not a layer's record" },
		{ RECORD(""), EPROTO, "ends too early" },
		{ RECORD("R\3ab"), EPROTO, "ends too early" },
		{ RECORD("R\3abcE\4"), EPROTO, "makes 3 bytes, and says 4" },
		{ RECORD("R\3abcE\3x"), EPROTO, "goes on after its end" },
		{ RECORD("Q\3"), EPROTO, "unknown kind 0x51" },
		{ RECORD("\0\3"), EPROTO, "unknown kind 0x00" },
		{ RECORD("F\3\0E\3"), EPROTO, "a path of 0 bytes" },
		{ RECORD("F\3\200\100E\3"), EPROTO, "a path of 8192 bytes" },
		{ RECORD("F\3\3a\0bE\3"), EPROTO, "a NUL in it" },
		{ RECORD("R\377\377\377\377\377\377\377\377\377\1"), EPROTO, "a number too large" },
		{ RECORD("R\377\377\377\377\377\377\377\177"), EFBIG, "bytes allowed" },
		{ RECORD("F\3\14../../passwdE\3"), EBADMSG, "" },
		{ RECORD("F\3\13/etc/passwdE\3"), EBADMSG, "" },
		{ RECORD("F\1\1aD\2\1axxE\1"), EPROTO, "gives 'a' two sizes" },
	};
	auto_tar struct tar t = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		write_record(cases[i].bytes, cases[i].n);
		if (rebuild(&t) != -cases[i].code || !strstr(err.text, cases[i].words))
			fail_msg("case %zu: '%s' does not say '%s'", i, err.text, cases[i].words);
	}
	write_record(RECORD("R\3abcE\3"));
	assert_int_equal(pwrite(record, "more", 4, lseek(record, 0, SEEK_END)), 4);
	assert_int_equal(rebuild(&t), -EPROTO);
	says("goes on after its end");
	assert_int_equal(ftruncate(record, 12), 0);
	assert_int_equal(rebuild(&t), -EPROTO);
	says("is cut short");
	assert_int_equal(pwrite(record, "garbage", 7, 0), 7);
	assert_int_equal(rebuild(&t), -EPROTO);
	says("is damaged");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_the_tree_holds_is_not_in_the_record),
		TEST(files_that_a_later_member_replaces_are_kept),
		TEST(the_same_name_many_times_comes_back_in_order),
		TEST(files_reached_through_symlinks_are_named_by_their_real_path),
		TEST(files_below_directories_that_nobody_may_search_are_kept),
		TEST(a_top_directory_that_nobody_may_search_comes_back),
		TEST(replaced_files_come_back_whatever_their_size_and_order),
		TEST(a_record_does_not_grow_without_bounds),
		TEST(marks_devices_and_data_that_nobody_asked_for_come_back),
		TEST(archives_of_gnu_tar_in_every_format_come_back),
		TEST(a_tree_that_was_tampered_with_is_told),
		TEST(records_that_are_none_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
