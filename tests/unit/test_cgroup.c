#include "unit.h"
#include "made_machine.h"

#include "runtime/limits.h"

/* A machine as systemd makes it: a user's manager has its groups, a login session has not. */
#define USER "/user.slice/user-7.slice"
#define APP  USER "/user@7.service/app.slice"

static void group(const char *path, const char *handed_down)
{
	auto_free char *control = xasprintf("/sys/fs/cgroup%s/cgroup.subtree_control", path);
	auto_free char *procs = xasprintf("/sys/fs/cgroup%s/cgroup.procs", path);

	put(control, handed_down);
	put(procs, "");
}

static void mode(const char *path, mode_t m)
{
	auto_free char *full = xasprintf("%s/sys/fs/cgroup%s", root, path);

	assert_int_equal(chmod(full, m), 0);
}

static int make(void **state)
{
	if (make_root(state) < 0)
		return -1;
	put("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
	group("", "cpu memory pids\n");
	group("/user.slice", "cpu memory pids\n");
	group(USER, "cpu memory pids\n");
	group(USER "/session-3.scope", "\n");
	group(USER "/user@7.service", "cpu memory pids\n");
	group(APP, "memory pids\n");
	group(APP "/term.scope", "\n");
	/* Root's: what a user cannot write to. */
	mode("", 0555);
	mode("/user.slice", 0555);
	mode(USER, 0555);
	return 0;
}

static void found(unsigned cpus, uint64_t memory, const char *want)
{
	struct plan p = { .cpus = cpus, .memory = memory };
	auto_free char *got = NULL, *full = xasprintf("%s/sys/fs/cgroup%s", root, want);
	struct mlr_error err = MLR_ERROR_INIT;

	if (cgroup_find(root, &p, &got, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(got, full);
}

static void refused(unsigned cpus, int code, const char *why)
{
	struct plan p = { .cpus = cpus, .memory = 1 << 20 };
	auto_free char *got = NULL;
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(cgroup_find(root, &p, &got, &err), -code);
	if (!strstr(err.text, why))
		fail_msg("'%s' is not in '%s'", why, err.text);
	assert_non_null(strstr(err.text, "systemd-run --user --scope"));
	assert_null(got);
}

static void the_nearest_delegated_group_that_hands_the_controllers_down_is_taken(void **state)
{
	put("/proc/self/cgroup", "1:name=x:/\n0::" APP "/term.scope\n");
	found(0, 1 << 20, APP);
	found(100, 0, USER "/user@7.service");
	found(100, 1 << 20, USER "/user@7.service");
}

static void a_session_without_delegation_is_told_the_way_out(void **state)
{
	if (geteuid() == 0)
		return; /* whom no mode keeps out */
	put("/proc/self/cgroup", "0::" USER "/session-3.scope\n");
	refused(0, EACCES, "none is delegated to you");
}

static void a_machine_without_the_controllers_is_told_of(void **state)
{
	put("/proc/self/cgroup", "0::" APP "/term.scope\n");
	mode("", 0755);
	put("/sys/fs/cgroup/cgroup.controllers", "cpuset memory\n");
	refused(50, ENOTSUP, "has no 'cpu' controller");
	put("/proc/self/cgroup", "4:memory:/x\n");
	refused(50, ENOTSUP, "no unified hierarchy");
}

/* The kernel puts the files into a new group. */
int __real_mkdir(const char *path, mode_t m);
int __wrap_mkdir(const char *path, mode_t m);
int __wrap_mkdir(const char *path, mode_t m)
{
	static const char *const files[] = { "cpu.max", "memory.max", "pids.max", "cgroup.procs" };
	int r = __real_mkdir(path, m);

	if (r < 0 || !strstr(path, "/mlrun-"))
		return r;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		auto_free char *file = xasprintf("%s/%s", path + strlen(root), files[i]);

		put(file, "");
	}
	return 0;
}

static void holds_in(const char *group, const char *name, const char *want)
{
	auto_free char *path =
		xasprintf("%s/sys/fs/cgroup%s/mlrun-%d/%s", root, group, (int)getpid(), name);
	auto_free char *text = NULL;

	assert_int_equal(file_read(AT_FDCWD, path, 100, &text, NULL, NULL), 0);
	assert_string_equal(text, want);
}

static void holds(const char *name, const char *want)
{
	holds_in(APP, name, want);
}

static void a_group_gets_the_limits_and_then_the_process_and_old_ones_are_swept(void **state)
{
	struct plan p = { .cpus = 150, .memory = 64 << 20 };
	struct mlr_error err = MLR_ERROR_INIT;
	/* Above the largest pid there can be; and one that lives. */
	auto_free char *old = xasprintf("%s/sys/fs/cgroup" APP "/mlrun-4194305", root);
	auto_free char *used = xasprintf("%s/sys/fs/cgroup" APP "/mlrun-%d", root, (int)getppid());
	struct stat st;

	put("/proc/self/cgroup", "0::" APP "/term.scope\n");
	put("/sys/fs/cgroup" APP "/cgroup.subtree_control", "cpu memory pids\n");
	strv_add(&p.cgroup, "pids.max");
	strv_add(&p.cgroup, "9");
	assert_int_equal(__real_mkdir(old, 0755), 0);
	assert_int_equal(__real_mkdir(used, 0755), 0);
	if (cgroup_enter(root, &p, &err) < 0)
		fail_msg("%s", err.text);
	holds("cpu.max", "150000 100000");
	holds("memory.max", "67108864");
	holds("pids.max", "9");
	holds("cgroup.procs", "0");
	assert_int_equal(stat(old, &st), -1);
	assert_int_equal(stat(used, &st), 0);
	strv_done(&p.cgroup);
}

static void one_that_is_only_wished_for_lies_in_the_callers_own_whose_limits_hold(void **state)
{
	struct plan p = { .has_cgroup = 1 };

	put("/proc/self/cgroup", "0::" APP "/term.scope\n");
	assert_int_equal(cgroup_enter(root, &p, NULL), 0);
	holds_in(APP "/term.scope", "cgroup.procs", "0");
	put("/proc/self/cgroup", "0::/no/such\n");
	assert_int_equal(cgroup_enter(root, &p, NULL), 0);
}

static void a_further_file_needs_its_controller(void **state)
{
	struct plan p = { .has_cgroup = 1 };
	auto_free char *got = NULL;
	struct mlr_error err = MLR_ERROR_INIT;

	put("/proc/self/cgroup", "0::" APP "/term.scope\n");
	strv_add(&p.cgroup, "io.weight");
	strv_add(&p.cgroup, "9");
	assert_int_equal(cgroup_find(root, &p, &got, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "none above this process hands the controllers down"));
	strv_done(&p.cgroup);
}

static void without_limits_no_group_is_looked_for(void **state)
{
	struct plan p = { 0 };

	assert_int_equal(cgroup_enter("/no/such", &p, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			the_nearest_delegated_group_that_hands_the_controllers_down_is_taken, make,
			drop_root),
		cmocka_unit_test_setup_teardown(
			a_session_without_delegation_is_told_the_way_out, make, drop_root),
		cmocka_unit_test_setup_teardown(
			a_machine_without_the_controllers_is_told_of, make, drop_root),
		cmocka_unit_test_setup_teardown(
			a_group_gets_the_limits_and_then_the_process_and_old_ones_are_swept, make,
			drop_root),
		cmocka_unit_test_setup_teardown(
			one_that_is_only_wished_for_lies_in_the_callers_own_whose_limits_hold, make,
			drop_root),
		cmocka_unit_test_setup_teardown(
			a_further_file_needs_its_controller, make, drop_root),
		cmocka_unit_test(without_limits_no_group_is_looked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
