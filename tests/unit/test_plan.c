#include "unit.h"
#include "plan/explain.h"
#include "plan/plan.h"

static int make(void **state)
{
	struct plan *p = xmalloc(sizeof(*p));

	plan_init(p);
	p->image = xstrdup("demo:1");
	p->workdir = xstrdup("/w");
	p->workdir_origin = PLAN_FROM_USER;
	p->argv_origin = PLAN_FROM_USER;
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

	plan_env_set(p, "A", "caller's", PLAN_FROM_CALLER);
	plan_env_set(p, "B", "2", PLAN_FROM_CALLER);
	plan_env_set(p, "A", "image's", PLAN_FROM_IMAGE);
	plan_env_list(p, &l);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.v[0], "A=image's");
	assert_string_equal(p->env[0].shadowed, "caller's");
	assert_int_equal(p->env[0].shadowed_by, PLAN_FROM_CALLER);
	plan_env_unset(p, "A");
	assert_null(plan_env_get(p, "A"));
	assert_string_equal(plan_env_get(p, "B"), "2");
}

static void each_of_many_variables_is_found_and_taken_away(void **state)
{
	struct plan *p = *state;
	char key[32], value[32];

	for (int i = 0; i < 600; i++) {
		snprintf(key, sizeof(key), "SLURM_%d", i % 300);
		snprintf(value, sizeof(value), "%d", i);
		plan_env_set(p, key, value, PLAN_FROM_CALLER);
	}
	assert_int_equal(p->n_env, 300);
	for (int i = 0; i < 300; i += 2) {
		snprintf(key, sizeof(key), "SLURM_%d", i);
		plan_env_unset(p, key);
	}
	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "SLURM_%d", i);
		snprintf(value, sizeof(value), "%d", i + 300);
		if (i % 2 == 0)
			assert_null(plan_env_get(p, key));
		else
			assert_string_equal(plan_env_get(p, key), value);
	}
	assert_null(plan_env_get(p, "SLURM_"));
}

static void a_mount_on_the_root_or_a_relative_path_is_refused(void **state)
{
	struct mlr_error err;

	assert_int_equal(
		plan_mount_add(*state, PLAN_BIND, "/x", "/", 0, PLAN_FROM_USER, &err), -EINVAL);
	assert_int_equal(plan_mount_add(*state, PLAN_BIND, "/x", "//./..", 0, PLAN_FROM_USER, &err),
		-EINVAL);
	assert_int_equal(
		plan_mount_add(*state, PLAN_BIND, "/x", "rel", 0, PLAN_FROM_USER, &err), -EINVAL);
	assert_non_null(strstr(err.text, "'rel' is not an absolute path"));
	assert_int_equal(
		plan_mount_add(*state, PLAN_BIND, "/x", "/.hidden", 0, PLAN_FROM_USER, &err), 0);
}

static void the_topmost_mount_over_whole_path_components_counts(void **state)
{
	struct plan *p = *state;

	plan_mount_add(p, PLAN_BIND, "/host", "/data", 0, PLAN_FROM_USER, NULL);
	plan_mount_add(p, PLAN_TMPFS, NULL, "/scratch", 0, PLAN_FROM_USER, NULL);
	assert_true(plan_covers(p, "/data"));
	assert_true(plan_covers(p, "/data/x"));
	assert_false(plan_covers(p, "/database"));
	assert_false(plan_covers(p, "/scratch"));
	plan_mount_add(p, PLAN_TMPFS, NULL, "/data/home", 0, PLAN_FROM_USER, NULL);
	assert_false(plan_covers(p, "/data/home/x"));
	plan_mount_add(p, PLAN_BIND, "/host", "/data/home/x", 0, PLAN_FROM_USER, NULL);
	assert_true(plan_covers(p, "/data/home/x"));
}

static void what_is_put_first_keeps_its_order_and_that_of_the_others(void **state)
{
	static const char *const order[] = { "/c", "/d", "/a", "/b" };
	struct plan *p = *state;

	plan_mount_add(p, PLAN_BIND, "/x", "/a", 0, PLAN_FROM_USER, NULL);
	plan_mount_add(p, PLAN_BIND, "/x", "/b", 0, PLAN_FROM_USER, NULL);
	plan_mounts_first(p, 2); /* none */
	plan_file_add(p, "c\0c", 3, "/c", PLAN_FROM_GPU, NULL);
	plan_file_add(p, "", 0, "/d", PLAN_FROM_GPU, NULL);
	plan_mounts_first(p, 2);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(p->mounts[i].target, order[i]);
	assert_int_equal(p->mounts[0].text_size, 3);
	assert_memory_equal(p->mounts[0].text, "c\0c", 4);
	plan_mounts_first(p, 0);
	assert_string_equal(p->mounts[0].target, "/c");
}

static void a_later_library_of_one_name_and_bits_wins(void **state)
{
	struct plan *p = *state;

	plan_library_add(p, "libcuda.so.1", "/a/libcuda.so.1", 64, PLAN_FROM_GPU);
	plan_library_add(p, "libcuda.so.1", "/b/libcuda.so.1", 32, PLAN_FROM_GPU);
	plan_library_add(p, "libcuda.so.1", "/c/libcuda.so.1", 64, PLAN_FROM_CDI);
	assert_int_equal(p->n_libraries, 2);
	assert_string_equal(p->libraries[0].path, "/c/libcuda.so.1");
	assert_int_equal(p->libraries[0].origin, PLAN_FROM_CDI);
	assert_string_equal(p->libraries[1].path, "/b/libcuda.so.1");
}

/* /data has three entries, /link leads to /data/real, nothing else is there. */
static void look_at_a_made_up_image(void *ctx, const char *path, int follow, struct plan_seen *ret)
{
	ret->there = PLAN_THERE_NOTHING;
	if (strcmp(path, "/data") == 0) {
		ret->there = PLAN_THERE_DIRECTORY;
		ret->entries = 3;
	}
	if (strcmp(path, "/link") == 0 && !follow) {
		ret->there = PLAN_THERE_LINK;
		ret->link = xstrdup("data/real");
	}
	ret->path = xstrdup(strcmp(path, "/link") == 0 && follow ? "/data/real" : path);
}

static void mounts_lie_where_links_lead_and_hide_what_was_mounted_before(void **state)
{
	struct plan *p = *state;
	struct plan_context c = { .look = look_at_a_made_up_image };
	struct plan_place *v;

	plan_mount_add(p, PLAN_COPY, "/etc/passwd", "/link", 0, PLAN_FROM_DEFAULT, NULL); /* 0 */
	plan_mount_add(p, PLAN_BIND, "/etc", "/link", 0, PLAN_FROM_DEFAULT, NULL);        /* 1 */
	plan_mount_add(
		p, PLAN_BIND, "/etc/passwd", "/data/real/passwd", 0, PLAN_FROM_USER, NULL); /* 2 */
	plan_mount_add(p, PLAN_TMPFS, NULL, "/data", 0, PLAN_FROM_USER, NULL);              /* 3 */
	plan_mount_add(p, PLAN_SYMLINK, "x", "/data/a/b", 0, PLAN_FROM_DEFAULT, NULL);      /* 4 */
	plan_mount_add(p, PLAN_SYMLINK, "y", "/data/a", 0, PLAN_FROM_DEFAULT, NULL);        /* 5 */
	plan_mount_add(
		p, PLAN_BIND, "/no/such", "/none", PLAN_OPTIONAL, PLAN_FROM_USER, NULL); /* 6 */
	v = plan_places(p, &c);
	assert_int_equal(v[0].seen.there, PLAN_THERE_LINK);
	assert_string_equal(v[1].seen.path, "/data/real");
	assert_null(v[1].on);
	assert_ptr_equal(v[2].on, &p->mounts[1]);
	assert_int_equal(v[2].seen.there, PLAN_THERE_FILE);
	assert_int_equal(v[2].n_hides, 0);
	assert_int_equal(v[3].seen.entries, 3);
	assert_int_equal(v[3].n_hides, 2);
	assert_ptr_equal(v[3].hides[0], &p->mounts[1]);
	assert_ptr_equal(v[3].hides[1], &p->mounts[2]);
	assert_int_equal(v[4].seen.there, PLAN_THERE_NOTHING);
	assert_int_equal(v[4].left_out, 0);
	assert_int_equal(v[5].seen.there, PLAN_THERE_DIRECTORY);
	assert_int_equal(v[5].left_out, 1);
	assert_int_equal(v[6].left_out, 1);
	plan_places_free(v, p->n_mounts);
}

static void text_that_is_no_utf8_is_shown_in_json_nevertheless(void **state)
{
	struct plan *p = *state;
	struct plan_context c = { .look = look_at_a_made_up_image };
	json_auto_t *o = NULL;

	plan_env_set(p, "A", "\xe9", PLAN_FROM_CALLER);
	o = plan_json(p, &c);
	assert_string_equal(json_string_value(json_object_get(
				    json_array_get(json_object_get(o, "environment"), 0), "value")),
		"\xc3\xa9");
}

static void a_printed_plan_names_origins_and_escapes_control_characters(void **state)
{
	struct plan *p = *state;
	auto_free char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	struct plan_context c = { .look = look_at_a_made_up_image };

	plan_mount_add(p, PLAN_BIND, "/host", "/data", PLAN_READONLY, PLAN_FROM_USER, NULL);
	plan_env_set(p, "A", "1", PLAN_FROM_CALLER);
	plan_env_set(p, "A", "\033[2J\xc2\x9b", PLAN_FROM_IMAGE);
	strv_add(&p->argv, "true");
	plan_print(p, &c, f);
	fclose(f);
	assert_non_null(strstr(text,
		"user     bind     /host -> /data ro   (over the image's directory of 3 entries)\n"));
	assert_non_null(strstr(text, "image    A=\\x1b[2J\\u009b   (instead of caller's '1')\n"));
	assert_null(strchr(text, '\033'));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make, drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_later_variable_wins_and_remembers_what_it_shadows),
		TEST(each_of_many_variables_is_found_and_taken_away),
		TEST(a_mount_on_the_root_or_a_relative_path_is_refused),
		TEST(the_topmost_mount_over_whole_path_components_counts),
		TEST(what_is_put_first_keeps_its_order_and_that_of_the_others),
		TEST(a_later_library_of_one_name_and_bits_wins),
		TEST(mounts_lie_where_links_lead_and_hide_what_was_mounted_before),
		TEST(text_that_is_no_utf8_is_shown_in_json_nevertheless),
		TEST(a_printed_plan_names_origins_and_escapes_control_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
