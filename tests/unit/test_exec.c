#include "unit.h"
#include "exec/parts.h"
#include "exec/users_mounts.h"

static char *const caller[] = { (char *)"PATH=/host/bin", (char *)"LD_PRELOAD=x.so",
	(char *)"PYTHONPATH=/p", (char *)"BASH_FUNC_module%%=() {", (char *)"SLURM_JOB_ID=7",
	(char *)"EDITOR=vi", (char *)"HOME=/home/ann", (char *)"TMPDIR=/scratch/7",
	(char *)"A=caller", NULL };

static void plan_it(const struct exec_options *o, const struct strv *image, struct plan *p)
{
	struct mlr_error err = MLR_ERROR_INIT;

	plan_init(p);
	p->id.home = strdup("/home/ann");
	if (environment_plan(o, caller, image, p, &err) < 0)
		fail_msg("%s", err.text);
}

static void the_callers_search_paths_stay_outside_and_the_rest_comes_in(void **state)
{
	auto_call(plan_done) struct plan p;
	struct exec_options o = { 0 };
	struct strv none = STRV_INIT;

	plan_it(&o, &none, &p);
	assert_string_equal(plan_env_get(&p, "PATH"),
		"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	assert_null(plan_env_get(&p, "LD_PRELOAD"));
	assert_null(plan_env_get(&p, "PYTHONPATH"));
	assert_null(plan_env_get(&p, "BASH_FUNC_module%%"));
	assert_string_equal(plan_env_get(&p, "EDITOR"), "vi");
	assert_string_equal(plan_env_get(&p, "PYTHONNOUSERSITE"), "1");
	assert_true(strv_has(&p.dropped, "LD_PRELOAD"));
}

static void later_origins_win_from_caller_to_option(void **state)
{
	char name[] = "/tmp/mlr-test-exec.XXXXXX";
	int fd = mkstemp(name);
	auto_call(plan_done) struct plan p;
	struct exec_options o = { 0 };
	auto_strv struct strv image = STRV_INIT;
	static const char text[] = "# comment\n\n B=file\r\nC=file\nEDITOR\n";

	assert_int_equal(file_write_all(fd, text, sizeof(text) - 1), 0);
	close(fd);
	strv_add(&image, "PATH=/image/bin");
	strv_add(&image, "A=image");
	strv_add(&image, "B=image");
	strv_add(&o.env_files, name);
	strv_add(&o.env, "C=option");
	strv_add(&o.env, "UNKNOWN_TO_CALLER");
	plan_it(&o, &image, &p);
	assert_string_equal(plan_env_get(&p, "PATH"), "/image/bin");
	assert_string_equal(plan_env_get(&p, "A"), "image");
	assert_string_equal(plan_env_get(&p, "B"), "file");
	assert_string_equal(plan_env_get(&p, "C"), "option");
	assert_string_equal(plan_env_get(&p, "EDITOR"), "vi");
	assert_null(plan_env_get(&p, "UNKNOWN_TO_CALLER"));
	strv_done(&o.env);
	strv_done(&o.env_files);
	unlink(name);
}

static void clearenv_keeps_what_the_job_needs(void **state)
{
	auto_call(plan_done) struct plan p;
	struct exec_options o = { .clearenv = 1 };
	struct strv none = STRV_INIT;

	plan_it(&o, &none, &p);
	assert_null(plan_env_get(&p, "EDITOR"));
	assert_string_equal(plan_env_get(&p, "SLURM_JOB_ID"), "7");
	assert_string_equal(plan_env_get(&p, "HOME"), "/home/ann");
}

static void a_temporary_directory_that_is_not_mounted_is_not_named_inside(void **state)
{
	auto_call(plan_done) struct plan p;
	struct exec_options o = { 0 };
	struct strv none = STRV_INIT;

	plan_it(&o, &none, &p);
	plan_mount_add(&p, PLAN_BIND, "/scratch", "/scratch", 0, PLAN_FROM_USER, NULL);
	environment_drop_unmounted(&p);
	assert_string_equal(plan_env_get(&p, "TMPDIR"), "/scratch/7");
	p.mounts[0].target[1] = 'X';
	environment_drop_unmounted(&p);
	assert_null(plan_env_get(&p, "TMPDIR"));
	assert_true(strv_has(&p.dropped, "TMPDIR"));
}

static void a_bad_line_of_an_env_file_is_named_with_its_number(void **state)
{
	char name[] = "/tmp/mlr-test-exec.XXXXXX";
	int fd = mkstemp(name);
	auto_call(plan_done) struct plan p;
	struct exec_options o = { 0 };
	struct strv none = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(file_write_all(fd, "A=1\n=x\n", 7), 0);
	close(fd);
	strv_add(&o.env_files, name);
	plan_init(&p);
	p.id.home = strdup("/home/ann");
	assert_int_equal(environment_plan(&o, caller, &none, &p, &err), -EINVAL);
	assert_non_null(strstr(err.text, "line 2: invalid variable '=x'"));
	strv_done(&o.env_files);
	unlink(name);
}

static void a_volume_is_read_as_source_target_flags(void **state)
{
	auto_call(plan_done) struct plan p;

	plan_init(&p);
	assert_int_equal(volume_plan("/etc", &p, NULL), 0);
	assert_string_equal(p.mounts[0].target, "/etc");
	assert_int_equal(volume_plan("/etc/../usr:/x:ro,z,nosuid", &p, NULL), 0);
	assert_string_equal(p.mounts[1].source, "/usr");
	assert_string_equal(p.mounts[1].target, "/x");
	assert_int_equal(p.mounts[1].flags, PLAN_READONLY | PLAN_NOSUID);
	assert_int_equal(volume_plan("/proc/self", &p, NULL), 0);
	assert_string_equal(p.mounts[2].target, "/proc/self");
}

static void refuse(const char *text, const char *why)
{
	auto_call(plan_done) struct plan p;
	struct mlr_error err = MLR_ERROR_INIT;

	plan_init(&p);
	assert_true(volume_plan(text, &p, &err) < 0);
	if (!strstr(err.text, why))
		fail_msg("'%s' is not in '%s'", why, err.text);
}

static void a_wrong_volume_is_refused_with_the_reason(void **state)
{
	refuse("/no/such/place:/x", "hint: make it first: mkdir -p '/no/such/place'");
	refuse("data:/x", "write ./data for a directory here");
	refuse("/etc:/x:rw,huh", "invalid volume flag 'huh'");
	refuse("/etc:x", "'x' is not an absolute path");
	refuse("/etc:/", "is the root");
	refuse(":/x", "with neither empty");
	refuse("/etc:", "with neither empty");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_callers_search_paths_stay_outside_and_the_rest_comes_in),
		cmocka_unit_test(later_origins_win_from_caller_to_option),
		cmocka_unit_test(clearenv_keeps_what_the_job_needs),
		cmocka_unit_test(a_temporary_directory_that_is_not_mounted_is_not_named_inside),
		cmocka_unit_test(a_bad_line_of_an_env_file_is_named_with_its_number),
		cmocka_unit_test(a_volume_is_read_as_source_target_flags),
		cmocka_unit_test(a_wrong_volume_is_refused_with_the_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
