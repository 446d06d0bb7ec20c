#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"
#include "layer/whiteout.h"
#include "rootfs/lookup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/mlr-test-lookup.XXXXXX";

static void put(const char *name, const char *text)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);
	char *slash = strrchr(path, '/');

	*slash = '\0';
	assert_int_equal(file_mkdir_p(AT_FDCWD, path, 0755, NULL), 0);
	*slash = '/';
	assert_int_equal(file_replace(AT_FDCWD, path, text, strlen(text), 0644, NULL), 0);
}

static int open_dir(const char *name)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);

	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void link_at(const char *text, const char *name)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);

	assert_int_equal(symlink(text, path), 0);
}

/* Two trees, "up" over "low". */
static int make(void **state)
{
	struct plan *p = xcalloc(1, sizeof(*p));

	assert_non_null(mkdtemp(dir));
	put("low/etc/passwd", "low passwd");
	put("low/etc/group", "low group");
	put("low/etc/shadow", "low shadow");
	put("low/opaque/below", "hidden");
	put("low/gone/file", "hidden");
	put("low/plain/file", "hidden by a file");
	put("low/usr/share/real", "at the end of links");
	put("up/etc/group", "up group");
	put("up/opaque/above", "seen");
	put("up/plain", "a file");
	put("outside", "not the image's");

	auto_close int etc = open_dir("up/etc"), up = open_dir("up");

	assert_int_equal(layer_whiteout_make(etc, "shadow", NULL), 0);
	assert_int_equal(layer_whiteout_make(up, "gone", NULL), 0);
	assert_int_equal(layer_opaque_set(up, "opaque", NULL), 0);
	link_at("../usr/share", "up/etc/rel");
	link_at("/etc/rel/real", "up/abs");
	link_at("../../../../../../outside", "up/out");
	link_at("loop", "up/loop");

	strv_addf(&p->lowers, "%s/up", dir);
	strv_addf(&p->lowers, "%s/low", dir);
	*state = p;
	return 0;
}

static int unmake(void **state)
{
	plan_done(*state);
	free(*state);
	return file_remove_tree(AT_FDCWD, dir, NULL);
}

static void reads(const struct plan *p, const char *path, const char *text)
{
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *got = NULL;

	if (rootfs_read(p, path, 100, &got, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(got, text);
}

static void lacks(const struct plan *p, const char *path, int code)
{
	auto_free char *got = NULL;

	assert_int_equal(rootfs_read(p, path, 100, &got, NULL), -code);
	assert_null(got);
}

static void the_topmost_tree_that_has_a_file_wins(void **state)
{
	reads(*state, "/etc/passwd", "low passwd");
	reads(*state, "/etc/group", "up group");
	reads(*state, "/etc/../etc/./group", "up group");
	reads(*state, "/plain", "a file");
	lacks(*state, "/plain/file", ENOENT);
	lacks(*state, "/etc/none", ENOENT);
	lacks(*state, "/etc", ENOENT); /* no file */
}

static void whiteouts_and_opaque_directories_hide_what_is_below(void **state)
{
	lacks(*state, "/etc/shadow", ENOENT);
	lacks(*state, "/gone/file", ENOENT);
	lacks(*state, "/opaque/below", ENOENT);
	reads(*state, "/opaque/above", "seen");
}

static void links_are_followed_inside_and_never_out(void **state)
{
	reads(*state, "/etc/rel/real", "at the end of links");
	reads(*state, "/abs", "at the end of links");
	lacks(*state, "/out", ENOENT);
	lacks(*state, "/loop", ELOOP);
}

static void a_squashfs_file_is_not_looked_into(void **state)
{
	auto_call(plan_done) struct plan p;

	(void)state;
	plan_init(&p);
	p.squashfs = xstrdup("/x.sqfs");
	assert_int_equal(rootfs_lookup(&p, "/etc/passwd", NULL), -ENOTSUP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_topmost_tree_that_has_a_file_wins),
		cmocka_unit_test(whiteouts_and_opaque_directories_hide_what_is_below),
		cmocka_unit_test(links_are_followed_inside_and_never_out),
		cmocka_unit_test(a_squashfs_file_is_not_looked_into),
	};

	return cmocka_run_group_tests(tests, make, unmake);
}
