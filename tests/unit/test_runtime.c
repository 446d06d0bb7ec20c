#include "unit.h"
#include "runtime/accounts.h"
#include "runtime/runtime.h"
#include "runtime/target.h"

static char dir[64];
static int root;

static int make_dir(void **state)
{
	strcpy(dir, "/tmp/mlr-test-runtime.XXXXXX");
	assert_non_null(mkdtemp(dir));
	root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return root < 0;
}

static int drop_dir(void **state)
{
	close(root);
	return file_remove_tree(AT_FDCWD, dir, NULL);
}

static struct plan_identity ann(void)
{
	return (struct plan_identity){ .uid = 1000,
		.gid = 100,
		.host_uid = 1000,
		.host_gid = 100,
		.name = (char *)"ann",
		.group = (char *)"users",
		.home = (char *)"/home/ann",
		.shell = (char *)"/bin/sh" };
}

static void passwd_names_the_caller_and_drops_lines_of_his_id_or_name(void **state)
{
	struct plan_identity id = ann();
	auto_free char *got = accounts_passwd("root:x:0:0:root:/root:/bin/sh\n"
					      "ubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n"
					      "ann:x:77:77::/:/bin/false\n"
					      "anna:x:10:10::/:/bin/false",
		&id);

	assert_string_equal(got,
		"ann:x:1000:100:ann:/home/ann:/bin/sh\n"
		"root:x:0:0:root:/root:/bin/sh\n"
		"anna:x:10:10::/:/bin/false\n");
}

static void passwd_of_an_image_without_one_holds_the_caller(void **state)
{
	struct plan_identity id = ann();
	auto_free char *got = accounts_passwd(NULL, &id);

	assert_string_equal(got, "ann:x:1000:100:ann:/home/ann:/bin/sh\n");
}

static void passwd_keeps_the_images_root_for_an_inner_root(void **state)
{
	struct plan_identity id = ann();

	id.uid = 0;
	assert_null(accounts_passwd("root:x:0:0:root:/root:/bin/sh\n", &id));
}

static void passwd_with_lines_that_are_no_accounts_is_taken_as_it_is(void **state)
{
	struct plan_identity id = ann();
	auto_free char *got = accounts_passwd("\n\n:::\nx\nx:y\nx:y:\n", &id);

	assert_string_equal(got, "ann:x:1000:100:ann:/home/ann:/bin/sh\n:::\nx\nx:y\nx:y:\n");
}

static void group_of_the_caller_is_added_only_when_it_is_missing(void **state)
{
	struct plan_identity id = ann();
	auto_free char *got = accounts_group("root:x:0:\n", &id);

	assert_string_equal(got, "users:x:100:\nroot:x:0:\n");
	assert_null(accounts_group("root:x:0:\nstaff:x:100:\n", &id));
}

static void a_missing_target_is_made_with_its_parents(void **state)
{
	struct stat st;
	int linked = 0, fd = target_open(root, "/a/b/c", 1, &linked, NULL);

	assert_true(fd >= 0);
	close(fd);
	linked = 0;
	fd = target_open(root, "/a/b/c", 1, &linked, NULL);
	assert_true(fd >= 0);
	assert_int_equal(linked, 0);
	close(fd);
	assert_int_equal(fstatat(root, "a/b/c", &st, 0), 0);
	assert_true(S_ISDIR(st.st_mode));
	fd = target_open(root, "/a/file", 0, &linked, NULL);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(fstatat(root, "a/file", &st, 0), 0);
	assert_true(S_ISREG(st.st_mode));
}

static void a_target_through_links_stays_inside_the_root(void **state)
{
	struct stat st;
	int linked = 0, fd;

	/* A dangling absolute link, a dangling relative one, and one that climbs. */
	assert_int_equal(symlinkat("/run/deep/resolv.conf", root, "abs"), 0);
	assert_int_equal(symlinkat("var/x", root, "rel"), 0);
	assert_int_equal(symlinkat("../../../../../../tmp/mlr-escaped", root, "climb"), 0);
	fd = target_open(root, "/abs", 0, &linked, NULL);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(fstatat(root, "run/deep/resolv.conf", &st, 0), 0);
	fd = target_open(root, "/rel/below", 1, &linked, NULL);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(fstatat(root, "var/x/below", &st, 0), 0);
	linked = 0;
	fd = target_open(root, "/rel/below", 1, &linked, NULL);
	assert_true(fd >= 0);
	assert_int_equal(linked, 1);
	close(fd);
	fd = target_open(root, "/climb", 1, &linked, NULL);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(fstatat(root, "tmp/mlr-escaped", &st, 0), 0);
	assert_int_not_equal(stat("/tmp/mlr-escaped", &st), 0);
}

static void links_that_go_round_end_with_an_error(void **state)
{
	struct mlr_error err;
	int linked;

	assert_int_equal(symlinkat("loop2", root, "loop1"), 0);
	assert_int_equal(symlinkat("loop1", root, "loop2"), 0);
	assert_int_equal(target_open(root, "/loop1/x", 1, &linked, &err), -ELOOP);
	assert_non_null(strstr(err.text, "'/loop1/x'"));
}

static void a_directory_where_a_file_shall_be_is_an_error_and_the_other_way(void **state)
{
	struct mlr_error err;
	int linked;

	assert_int_equal(mkdirat(root, "isdir", 0755), 0);
	assert_int_equal(target_open(root, "/isdir", 0, &linked, &err), -EISDIR);
	close(openat(root, "isfile", O_CREAT | O_WRONLY, 0644));
	assert_int_equal(target_open(root, "/isfile", 1, &linked, &err), -ENOTDIR);
	assert_int_equal(target_open(root, "/isfile/below", 1, &linked, &err), -ENOTDIR);
	assert_int_equal(target_open(root, "/x/..", 1, &linked, &err), -EINVAL);
}

static void put(const char *path, const char *text)
{
	auto_free char *parent = xstrdup(path);

	*strrchr(parent, '/') = '\0';
	assert_int_equal(file_mkdir_p(root, parent, 0755, NULL), 0);
	assert_int_equal(file_replace(root, path, text, strlen(text), 0644, NULL), 0);
}

static void expect_hint(const char *file, const char *value, const char *hint)
{
	struct mlr_error err = { EPERM, "x" };

	put(file, value);
	runtime_hint_userns(dir, &err);
	if (!strstr(err.text, hint))
		fail_msg("'%s' is not in '%s'", hint, err.text);
	assert_int_equal(file_remove_tree(root, "proc", NULL), 0);
}

static void the_setting_that_forbids_user_namespaces_is_named(void **state)
{
	expect_hint("proc/sys/user/max_user_namespaces", "0\n", "user.max_user_namespaces is 0");
	expect_hint("proc/sys/user/max_mnt_namespaces", "0\n", "user.max_mnt_namespaces is 0");
	expect_hint("proc/sys/kernel/unprivileged_userns_clone", "0\n",
		"sysctl -w kernel.unprivileged_userns_clone=1");
	expect_hint("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n",
		"sysctl -w kernel.apparmor_restrict_unprivileged_userns=0");
	expect_hint("proc/sys/user/max_user_namespaces", "1000\n", "inside another container");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(passwd_names_the_caller_and_drops_lines_of_his_id_or_name),
		cmocka_unit_test(passwd_of_an_image_without_one_holds_the_caller),
		cmocka_unit_test(passwd_keeps_the_images_root_for_an_inner_root),
		cmocka_unit_test(passwd_with_lines_that_are_no_accounts_is_taken_as_it_is),
		cmocka_unit_test(group_of_the_caller_is_added_only_when_it_is_missing),
		cmocka_unit_test(a_missing_target_is_made_with_its_parents),
		cmocka_unit_test(a_target_through_links_stays_inside_the_root),
		cmocka_unit_test(links_that_go_round_end_with_an_error),
		cmocka_unit_test(a_directory_where_a_file_shall_be_is_an_error_and_the_other_way),
		cmocka_unit_test(the_setting_that_forbids_user_namespaces_is_named),
	};

	return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
