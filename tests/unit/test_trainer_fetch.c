#include "trainer_test.h"

#include "base/strv.h"
#include "data/fetch.h"

#include <archive.h>
#include <archive_entry.h>

static int open_test_dir(const char *name)
{
	int fd;

	assert_int_equal(file_remove_tree(AT_FDCWD, in_test_dir(name), NULL), 0);
	assert_int_equal(file_mkdir_p(AT_FDCWD, in_test_dir(name), 0755, NULL), 0);
	fd = open(in_test_dir(name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* The names in a directory, sorted, with a blank between. */
static const char *listing(const char *name)
{
	static char all[4096];
	struct dirent **list;
	int n = scandir(in_test_dir(name), &list, NULL, alphasort);

	all[0] = '\0';
	for (int i = 0; i < n; i++) {
		if (strcmp(list[i]->d_name, ".") != 0 && strcmp(list[i]->d_name, "..") != 0) {
			strcat(all, *all ? " " : "");
			strcat(all, list[i]->d_name);
		}
		free(list[i]);
	}
	free(list);
	return all;
}

/* --- the table ---------------------------------------------------------------- */

static void every_known_set_has_its_places_and_digests(void **state)
{
	static const char *const names[] = { "mnist", "fashion-mnist", "cifar-10", "cifar-100" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const struct known_set *s = known_set_find(names[i]);

		assert_non_null(s);
		assert_non_null(strstr(known_set_names(), names[i]));
		assert_true(s->mirrors[0] && s->mirrors[1]);
		assert_non_null(s->files[0].name);
		for (int k = 0; k < KNOWN_FILES_MAX && s->files[k].name; k++) {
			assert_true(fetch_sum_is_digest(s->files[k].sha256));
			for (int j = 0; j < k; j++)
				assert_string_not_equal(s->files[j].sha256, s->files[k].sha256);
		}
		assert_ptr_equal(s->archive, archive_files_find(s->files[0].name));
	}
	assert_null(known_set_find("imagenet"));
}

/* --- sets from several places -------------------------------------------------- */

struct told {
	int count[FETCH_UNPACKED + 1];
	char failed[1024];
};

static void note(void *ctx, enum fetch_moment moment, const char *name, const char *text)
{
	struct told *t = ctx;

	assert_non_null(name);
	t->count[moment]++;
	if (moment == FETCH_FAILED)
		snprintf(t->failed, sizeof(t->failed), "%s", text);
}

/* A set of two files, "abc" and "", which lie in the test's directory "right". */
static struct known_set two_files(const char *first, const char *second)
{
	static char urls[2][256];

	snprintf(urls[0], sizeof(urls[0]), "file://%s", in_test_dir(first));
	snprintf(urls[1], sizeof(urls[1]), "file://%s", in_test_dir(second));
	close(open_test_dir("right"));
	close(open_test_dir("wrong"));
	write_file("right/a.gz", "abc", 3);
	write_file("right/b.gz", "", 0);
	write_file("wrong/a.gz", "abd", 3);
	return (struct known_set){ "two", { urls[0], urls[1] },
		{ { "a.gz", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
			{ "b.gz",
				"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" } },
		NULL };
}

static void a_set_comes_from_the_next_place_where_one_fails_or_lies(void **state)
{
	const struct known_set set = two_files("wrong", "right");
	struct told told = { { 0 }, "" };
	const struct fetch_options o = { .dir = in_test_dir("set"), .tell = note, .ctx = &told };
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *sums = NULL;

	close(open_test_dir("set"));
	if (fetch_set(&o, &set, NULL, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(told.count[FETCH_DONE], 2);
	assert_int_equal(told.count[FETCH_FAILED], 2); /* one lies, one is not there */
	assert_non_null(strstr(told.failed, "/wrong/b.gz: "));
	assert_string_equal(listing("set"), ".fetch.lock SHA256SUMS a.gz b.gz");
	assert_int_equal(
		file_read(AT_FDCWD, in_test_dir("set/SHA256SUMS"), 1000, &sums, NULL, NULL), 0);
	assert_string_equal(sums,
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a.gz\n"
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b.gz\n");

	/* again: nobody is asked */
	memset(&told, 0, sizeof(told));
	assert_int_equal(fetch_set(&o, &set, NULL, NULL), 0);
	assert_int_equal(told.count[FETCH_THERE], 2);
	assert_int_equal(told.count[FETCH_DONE] + told.count[FETCH_FAILED], 0);
}

static void a_set_that_is_nowhere_right_names_the_last_place(void **state)
{
	const struct known_set set = two_files("none", "wrong");
	const struct fetch_options o = { .dir = in_test_dir("set") };
	struct mlr_error err = MLR_ERROR_INIT;

	close(open_test_dir("set"));
	assert_int_equal(fetch_set(&o, &set, NULL, &err), -EBADMSG);
	assert_non_null(strstr(err.text,
		"/wrong/a.gz: its sha256 is "
		"a52d159f262b2c6ddb724a61840befc36eb30c88877a4030b65cbe86298449c9 "
		"where ba7816bf"));
	assert_string_equal(listing("set"), ".fetch.lock");
}

static void a_mirror_is_tried_before_a_set_s_own_places(void **state)
{
	const struct known_set set = two_files("wrong", "none");
	auto_free char *mirror = xasprintf("file://%s", in_test_dir("right"));
	struct told told = { { 0 }, "" };
	const struct fetch_options o = { .dir = in_test_dir("set"), .tell = note, .ctx = &told };

	close(open_test_dir("set"));
	assert_int_equal(fetch_set(&o, &set, mirror, NULL), 0);
	assert_int_equal(told.count[FETCH_DONE], 2);
	assert_int_equal(told.count[FETCH_FAILED], 0);
}

static void sums_keep_the_lines_of_other_files(void **state)
{
	char ones[HASH_HEX_SIZE], twos[HASH_HEX_SIZE], got[HASH_HEX_SIZE];
	auto_close int dirfd = open_test_dir("sums");
	auto_free char *text = NULL, *wrote = NULL;

	memset(ones, '1', sizeof(ones) - 1);
	memset(twos, '2', sizeof(twos) - 1);
	ones[64] = twos[64] = '\0';
	wrote = xasprintf("# by hand\n%s *a\nshort  a b\n%s  ab", ones, ones);
	write_file("sums/SHA256SUMS", wrote, strlen(wrote));
	assert_int_equal(fetch_sum_find(dirfd, "a", got, NULL), 1);
	assert_string_equal(got, ones);
	assert_int_equal(fetch_sum_find(dirfd, "b", got, NULL), 0);
	assert_int_equal(fetch_sum_put(dirfd, "a", twos, NULL), 0);
	assert_int_equal(fetch_sum_find(dirfd, "a", got, NULL), 1);
	assert_string_equal(got, twos);
	assert_int_equal(fetch_sum_find(dirfd, "ab", got, NULL), 1);
	assert_int_equal(
		file_read(AT_FDCWD, in_test_dir("sums/SHA256SUMS"), 1000, &text, NULL, NULL), 0);
	free(wrote);
	wrote = xasprintf("# by hand\nshort  a b\n%s  ab\n%s  a\n", ones, twos);
	assert_string_equal(text, wrote);
}

/* --- archives ---------------------------------------------------------------- */

struct entry {
	const char *path;
	int type; /* AE_IFREG … */
	const char *link, *hardlink;
};

/* Each regular file holds its path. */
static void write_tar(const char *name, const struct entry *entries, size_t n)
{
	struct archive *a = archive_write_new();

	archive_write_add_filter_gzip(a);
	archive_write_set_format_pax_restricted(a);
	assert_int_equal(archive_write_open_filename(a, in_test_dir(name)), ARCHIVE_OK);
	for (size_t i = 0; i < n; i++) {
		struct archive_entry *e = archive_entry_new();
		int is_file = entries[i].type == AE_IFREG && !entries[i].hardlink;

		archive_entry_set_pathname(e, entries[i].path);
		archive_entry_set_filetype(e, (unsigned)entries[i].type);
		archive_entry_set_perm(e, 04777);
		archive_entry_set_size(e, is_file ? (int64_t)strlen(entries[i].path) : 0);
		if (entries[i].link)
			archive_entry_set_symlink(e, entries[i].link);
		if (entries[i].hardlink)
			archive_entry_set_hardlink(e, entries[i].hardlink);
		assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
		if (is_file)
			archive_write_data(a, entries[i].path, strlen(entries[i].path));
		archive_entry_free(e);
	}
	assert_int_equal(archive_write_close(a), ARCHIVE_OK);
	archive_write_free(a);
}

static const struct archive_files two = { "t.tgz", "top", { "one", "two" } };

static int unpack(const struct entry *entries, size_t n, struct mlr_error *err)
{
	auto_close int dirfd = open_test_dir("into");

	write_tar("into/t.tgz", entries, n);
	return archive_unpack(dirfd, "t.tgz", &two, err);
}

static void of_an_archive_the_known_files_come_out_and_nothing_else(void **state)
{
	static const struct entry entries[] = { { "top/", AE_IFDIR }, { "top/one", AE_IFREG },
		{ "top/readme", AE_IFREG }, { "../evil", AE_IFREG },
		{ "/tmp/evil-mltrain", AE_IFREG }, { "top/../../evil", AE_IFREG },
		{ "top/sub/two", AE_IFREG }, { "two", AE_IFREG }, { "link", AE_IFLNK, "/etc" },
		{ "./top/two", AE_IFREG }, { "topper/one", AE_IFREG }, { "top/device", AE_IFCHR } };
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *got = NULL;
	struct stat st;

	if (unpack(entries, ARRAY_LEN(entries), &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(listing("into"), "one t.tgz two");
	assert_int_equal(file_read(AT_FDCWD, in_test_dir("into/two"), 100, &got, NULL, NULL), 0);
	assert_string_equal(got, "./top/two");
	assert_int_equal(stat(in_test_dir("into/one"), &st), 0);
	assert_int_equal(st.st_mode & 07133, 0); /* no right that the archive gives */
	assert_int_equal(access(in_test_dir("evil"), F_OK), -1);
	assert_int_equal(access("/tmp/evil-mltrain", F_OK), -1);
}

static void an_archive_with_links_or_doubles_or_gaps_is_refused_whole(void **state)
{
	static const struct {
		struct entry entries[3];
		size_t n;
		const char *says;
	} all[] = {
		{ { { "top/one", AE_IFREG }, { "top/two", AE_IFLNK, "/etc/passwd" } }, 2,
			"archive 't.tgz': 'two' is not a regular file in it" },
		{ { { "top/one", AE_IFREG }, { "top/two", AE_IFREG, NULL, "top/one" } }, 2,
			"archive 't.tgz': 'two' is not a regular file in it" },
		{ { { "top/one", AE_IFREG }, { "top/one", AE_IFREG }, { "top/two", AE_IFREG } }, 3,
			"archive 't.tgz' has 'one' twice" },
		{ { { "top/one", AE_IFREG } }, 1, "archive 't.tgz' lacks 'top/two'" },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct mlr_error err = MLR_ERROR_INIT;

		assert_int_equal(unpack(all[i].entries, all[i].n, &err), -EPROTO);
		assert_string_equal(err.text, all[i].says);
		assert_string_equal(listing("into"), "t.tgz");
	}
}

static void an_archive_that_ends_early_leaves_nothing(void **state)
{
	static const struct entry entries[] = { { "top/one", AE_IFREG }, { "top/two", AE_IFREG } };
	auto_free char *whole = NULL;
	size_t len;

	assert_int_equal(unpack(entries, 2, NULL), 0);
	assert_int_equal(
		file_read(AT_FDCWD, in_test_dir("into/t.tgz"), 100000, &whole, &len, NULL), 0);
	for (size_t n = 0; n < len - 60; n += 7) {
		auto_close int dirfd = open_test_dir("into");
		struct mlr_error err = MLR_ERROR_INIT;

		write_file("into/t.tgz", whole, n);
		assert_int_equal(archive_unpack(dirfd, "t.tgz", &two, &err), -EPROTO);
		assert_string_equal(listing("into"), "t.tgz");
	}
}

static void what_an_unpacking_that_was_killed_left_does_not_disturb(void **state)
{
	static const struct entry entries[] = { { "top/one", AE_IFREG }, { "top/two", AE_IFREG } };
	auto_close int dirfd = open_test_dir("into");
	auto_free char *got = NULL;

	write_tar("into/t.tgz", entries, 2);
	write_file("outside", "mine", 4);
	assert_int_equal(symlink("../outside", in_test_dir("into/.one.unpacking")), 0);
	write_file("into/.two.unpacking", "half and more than that", 23);
	assert_int_equal(archive_unpack(dirfd, "t.tgz", &two, NULL), 0);
	assert_string_equal(listing("into"), "one t.tgz two");
	assert_int_equal(file_read(AT_FDCWD, in_test_dir("into/two"), 100, &got, NULL, NULL), 0);
	assert_string_equal(got, "top/two");
	free(got);
	assert_int_equal(file_read(AT_FDCWD, in_test_dir("outside"), 100, &got, NULL, NULL), 0);
	assert_string_equal(got, "mine");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_known_set_has_its_places_and_digests),
		cmocka_unit_test(a_set_comes_from_the_next_place_where_one_fails_or_lies),
		cmocka_unit_test(a_set_that_is_nowhere_right_names_the_last_place),
		cmocka_unit_test(a_mirror_is_tried_before_a_set_s_own_places),
		cmocka_unit_test(sums_keep_the_lines_of_other_files),
		cmocka_unit_test(of_an_archive_the_known_files_come_out_and_nothing_else),
		cmocka_unit_test(an_archive_with_links_or_doubles_or_gaps_is_refused_whole),
		cmocka_unit_test(an_archive_that_ends_early_leaves_nothing),
		cmocka_unit_test(what_an_unpacking_that_was_killed_left_does_not_disturb),
	};

	return cmocka_run_group_tests(tests, make_test_dir, drop_test_dir);
}
