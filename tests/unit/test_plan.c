#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/memory.h"
#include "plan/plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int make(void **state)
{
	struct plan *p = xmalloc(sizeof(*p));

	plan_init(p);
	p->image = xstrdup("demo:1");
	p->workdir = xstrdup("/w");
	p->workdir_origin = "user";
	p->argv_origin = "user";
	*state = p;
	return 0;
}

static int drop(void **state)
{
	plan_done(*state);
	free(*state);
	return 0;
}

static void a_later_variable_wins_and_remembers_what_it_shadows(void **state)
{
	struct plan *p = *state;
	auto_strv struct strv l = STRV_INIT;

	plan_env_set(p, "A", "caller's", "caller");
	plan_env_set(p, "B", "2", "caller");
	plan_env_set(p, "A", "image's", "image");
	plan_env_list(p, &l);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.v[0], "A=image's");
	assert_string_equal(p->env[0].shadowed, "caller's");
	assert_string_equal(p->env[0].shadowed_by, "caller");
	plan_env_unset(p, "A");
	assert_null(plan_env_get(p, "A"));
	assert_string_equal(plan_env_get(p, "B"), "2");
}

static void a_mount_on_the_root_or_a_relative_path_is_refused(void **state)
{
	struct mlr_error err;

	assert_int_equal(plan_mount_add(*state, PLAN_BIND, "/x", "/", 0, "user", &err), -EINVAL);
	assert_int_equal(
		plan_mount_add(*state, PLAN_BIND, "/x", "//./..", 0, "user", &err), -EINVAL);
	assert_int_equal(plan_mount_add(*state, PLAN_BIND, "/x", "rel", 0, "user", &err), -EINVAL);
	assert_non_null(strstr(err.text, "'rel' is not an absolute path"));
	assert_int_equal(plan_mount_add(*state, PLAN_BIND, "/x", "/.hidden", 0, "user", &err), 0);
}

static void the_topmost_mount_over_whole_path_components_counts(void **state)
{
	struct plan *p = *state;

	plan_mount_add(p, PLAN_BIND, "/host", "/data", 0, "user", NULL);
	plan_mount_add(p, PLAN_TMPFS, NULL, "/scratch", 0, "user", NULL);
	assert_true(plan_covers(p, "/data"));
	assert_true(plan_covers(p, "/data/x"));
	assert_false(plan_covers(p, "/database"));
	assert_false(plan_covers(p, "/scratch"));
	plan_mount_add(p, PLAN_TMPFS, NULL, "/data/home", 0, "user", NULL);
	assert_false(plan_covers(p, "/data/home/x"));
	plan_mount_add(p, PLAN_BIND, "/host", "/data/home/x", 0, "user", NULL);
	assert_true(plan_covers(p, "/data/home/x"));
}

static void a_printed_plan_names_origins_and_escapes_control_characters(void **state)
{
	struct plan *p = *state;
	auto_free char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	plan_mount_add(p, PLAN_BIND, "/host", "/data", PLAN_READONLY, "user", NULL);
	plan_env_set(p, "A", "1", "caller");
	plan_env_set(p, "A", "\033[2J\xc2\x9b", "image");
	strv_add(&p->argv, "true");
	plan_print(p, f);
	fclose(f);
	assert_non_null(strstr(text, "user     bind     /host -> /data ro\n"));
	assert_non_null(strstr(text, "image    A=\\x1b[2J\\u009b   (instead of caller's '1')\n"));
	assert_null(strchr(text, '\033'));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_later_variable_wins_and_remembers_what_it_shadows, make, drop),
		cmocka_unit_test_setup_teardown(
			a_mount_on_the_root_or_a_relative_path_is_refused, make, drop),
		cmocka_unit_test_setup_teardown(
			the_topmost_mount_over_whole_path_components_counts, make, drop),
		cmocka_unit_test_setup_teardown(
			a_printed_plan_names_origins_and_escapes_control_characters, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
