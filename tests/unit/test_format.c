#include "unit.h"
#include "pull/format.h"
#include "squashfs/writer.h"

#include <limits.h>

#define EXT4 0xef53
#define NFS  0x6969

static const struct filesystem_probe all = { 1, 1, 1, 1 };

static enum store_format judge(unsigned long type, struct filesystem_probe p, const char *expected)
{
	struct filesystem fs = filesystem_of_type(type);
	auto_free char *why = NULL;
	enum store_format f = format_judge(&fs, &p, 1, &why);

	if (expected)
		assert_non_null(strstr(why, expected));
	else
		assert_null(why);
	return f;
}

static void a_local_file_system_that_can_do_all_gets_layers(void **state)
{
	assert_int_equal(judge(EXT4, all, NULL), STORE_FORMAT_LAYERS);
}

static void what_servers_keep_gets_squashfs(void **state)
{
	static const unsigned long types[] = { NFS, 0x0bd00bd0, 0x47504653, 0x19830326, 0x00c36400,
		0x65735546 };

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		assert_int_equal(judge(types[i], all, "it lies on "), STORE_FORMAT_SQUASHFS);
}

static void where_overlays_marks_cannot_be_made_squashfs_it_is(void **state)
{
	assert_int_equal(judge(EXT4, (struct filesystem_probe){ 0, 1, 1, 1 }, "no whiteouts"),
		STORE_FORMAT_SQUASHFS);
	assert_int_equal(judge(EXT4, (struct filesystem_probe){ 1, 0, 1, 1 }, "no user extended"),
		STORE_FORMAT_SQUASHFS);
	assert_int_equal(judge(EXT4, (struct filesystem_probe){ 1, 1, 1, 0 }, "layer of overlayfs"),
		STORE_FORMAT_SQUASHFS);
	assert_int_equal(
		judge(EXT4, (struct filesystem_probe){ 1, 1, 0, 1 }, NULL), STORE_FORMAT_LAYERS);
	/* Who may have no user namespaces here may run the image elsewhere. */
	assert_int_equal(
		judge(EXT4, (struct filesystem_probe){ 1, 1, 1, -1 }, NULL), STORE_FORMAT_LAYERS);
}

static void without_squashfs_trees_are_made_that_can_be_shown(void **state)
{
	const struct filesystem_probe no_overlay = { 0, 1, 1, 0 };
	struct filesystem fs = filesystem_of_type(NFS);
	auto_free char *why = NULL, *why_dir = NULL;

	assert_int_equal(format_judge(&fs, &no_overlay, 0, &why_dir), STORE_FORMAT_DIR);

	assert_int_equal(format_judge(&fs, &all, 0, &why), STORE_FORMAT_LAYERS);
	assert_string_equal(why, "it lies on nfs");
}

static int asked;
static struct filesystem_probe answer;

static int probe(int dir_fd, struct filesystem_probe *ret, struct mlr_error *err)
{
	asked++;
	*ret = answer;
	return dir_fd >= 0 ? 0 : mlr_fail(err, EBADF, "no directory");
}

static int probe_fails(int dir_fd, struct filesystem_probe *ret, struct mlr_error *err)
{
	return mlr_fail(err, EROFS, "cannot");
}

static void what_was_tried_is_recorded_until_the_record_goes(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char dir[PATH_MAX];
	auto_store struct store *st = NULL;
	auto_free char *told = NULL;
	enum store_format f;
	struct mlr_error err = MLR_ERROR_INIT;

	snprintf(dir, sizeof(dir), "%s/mlr-test-format.XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(store_open(dir, 1, &st, &err), 0);
	assert_int_equal(format_choose(st, probe_fails, &f, &told, &err), -EROFS);
	assert_non_null(strstr(err.text, dir));

	answer = (struct filesystem_probe){ 0, 1, 1, 1 };
	assert_int_equal(format_choose(st, probe, &f, &told, &err), 0);
	assert_int_equal(asked, 1);
	assert_int_equal(f,
		squashfs_writer_available() && access("/dev/fuse", R_OK | W_OK) == 0
			? STORE_FORMAT_SQUASHFS
			: STORE_FORMAT_DIR);
	assert_non_null(strstr(told, "no whiteouts"));
	free(take_ptr(&told));

	answer = all;
	assert_int_equal(format_choose(st, probe, &f, &told, &err), 0);
	assert_int_equal(asked, 1);
	assert_null(told); /* it was told before */
	assert_int_not_equal(f, 0);

	assert_int_equal(file_replace(store_fd(st), "probe.json", "{}", 2, 0644, &err), 0);
	assert_int_equal(format_choose(st, probe, &f, &told, &err), 0);
	assert_int_equal(asked, 2);
	assert_int_equal(unlinkat(store_fd(st), "probe.json", 0), 0);
	assert_int_equal(format_choose(st, probe, &f, &told, &err), 0);
	assert_int_equal(asked, 3);
	assert_int_equal(file_remove_tree(AT_FDCWD, dir, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_local_file_system_that_can_do_all_gets_layers),
		cmocka_unit_test(what_servers_keep_gets_squashfs),
		cmocka_unit_test(where_overlays_marks_cannot_be_made_squashfs_it_is),
		cmocka_unit_test(without_squashfs_trees_are_made_that_can_be_shown),
		cmocka_unit_test(what_was_tried_is_recorded_until_the_record_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
