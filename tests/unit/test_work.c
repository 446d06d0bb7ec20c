#include "unit.h"
#include "work/slurm.h"
#include "work/work.h"

static void squeues_lines_are_jobs_and_its_warnings_are_none(void **state)
{
	char text[] = "squeue: error: something odd\n"
		      "7|RUNNING|ann|cpu1|None|mlrun-worker:00112233445566aa\n"
		      "8|PENDING|bob||Priority|(null)\n"
		      "9|FAILED|ann|cpu2|NonZeroExitCode|a|b\n"
		      "10|RUNNING|ann|cpu3\n"
		      "\n";
	auto_call(slurm_jobs_done) struct slurm_jobs l = SLURM_JOBS_INIT;

	slurm_jobs_parse(text, &l);
	assert_int_equal(l.n, 3);
	assert_string_equal(l.v[0].id, "7");
	assert_string_equal(l.v[0].comment, "mlrun-worker:00112233445566aa");
	assert_string_equal(l.v[1].node, "");
	assert_string_equal(l.v[1].user, "bob");
	assert_string_equal(l.v[2].comment, "a|b");
}

static void a_job_is_a_workers_by_its_comment_and_not_by_its_number(void **state)
{
	char text[] = "7|RUNNING|ann|cpu1|None|(null)\n"
		      "8|RUNNING|ann|cpu1|None|mlrun-worker:00112233445566aa\n";
	auto_call(slurm_jobs_done) struct slurm_jobs l = SLURM_JOBS_INIT;
	struct worker w = { .id = (char *)"7", .key = (char *)"00112233445566aa" };

	slurm_jobs_parse(text, &l);
	assert_string_equal(slurm_job_of(&l, &w)->id, "8");
	w.key = (char *)"00112233445566ab";
	assert_null(slurm_job_of(&l, &w));
}

static void slurms_words_for_an_end_are_four_kinds(void **state)
{
	assert_int_equal(slurm_status("PENDING"), WORKER_PENDING);
	assert_int_equal(slurm_status("RUNNING"), WORKER_STARTING);
	assert_int_equal(slurm_status("COMPLETING"), WORKER_STARTING);
	assert_int_equal(slurm_status("COMPLETED"), WORKER_SUCCEEDED);
	assert_int_equal(slurm_status("NODE_FAIL"), WORKER_FAILED);
	assert_int_equal(slurm_status("CANCELLED"), WORKER_STOPPED);
	assert_int_equal(slurm_status("DEADLINE"), WORKER_TIMEDOUT);
	assert_int_equal(slurm_status("A_NEW_STATE"), WORKER_STARTING);
}

static void a_step_has_all_of_its_job(void **state)
{
	auto_strv struct strv argv = STRV_INIT;
	struct worker w = { .id = (char *)"7", .cpus = 4 };

	slurm_step(&w, 0, &argv);
	assert_string_equal(argv.v[0], "srun");
	assert_true(strv_has(&argv, "--jobid=7"));
	assert_true(strv_has(&argv, "--overlap"));
	assert_true(strv_has(&argv, "--cpus-per-task=4"));
	assert_false(strv_has(&argv, "--pty"));
}

static void an_outer_jobs_variables_are_kept_from_slurms_programs(void **state)
{
	auto_strv struct strv env = STRV_INIT;

	setenv("SLURM_JOB_ID", "7", 1);
	setenv("SLURM_CONF", "/x/slurm.conf", 1);
	setenv("SBATCH_ACCOUNT", "lab", 1);
	setenv("SQUEUE_STATES", "PD", 1);
	slurm_environment(&env);
	assert_null(strv_env_get(env.v, "SLURM_JOB_ID"));
	assert_null(strv_env_get(env.v, "SQUEUE_STATES"));
	assert_string_equal(strv_env_get(env.v, "SLURM_CONF"), "/x/slurm.conf");
	assert_string_equal(strv_env_get(env.v, "SBATCH_ACCOUNT"), "lab");
}

/* One that ended long ago and had the number of another; two on one node, one on another. */
static struct worker some[] = {
	{ .id = (char *)"8",
		.system = (char *)"slurm",
		.node = (char *)"cpu2",
		.status = WORKER_STOPPED },
	{ .id = (char *)"7",
		.system = (char *)"slurm",
		.node = (char *)"cpu1",
		.address = (char *)"10.0.0.1",
		.status = WORKER_RUNNING,
		.cpus = 2 },
	{ .id = (char *)"8",
		.system = (char *)"slurm",
		.node = (char *)"cpu1",
		.address = (char *)"10.0.0.1",
		.status = WORKER_RUNNING,
		.cpus = 2,
		.gpus = 1 },
	{ .id = (char *)"9",
		.system = (char *)"slurm",
		.node = (char *)"cpu2",
		.address = (char *)"10.0.0.2",
		.status = WORKER_RUNNING },
	{ .id = (char *)"local-abc", .system = (char *)"local", .status = WORKER_PENDING },
};

static void a_worker_is_found_by_id_and_host_and_by_a_node_of_its_own(void **state)
{
	const struct worker_list l = { some, ARRAY_LEN(some) };
	struct mlr_error err;

	assert_int_equal(work_find(&l, "8", &err), 2);
	assert_int_equal(work_find(&l, "worker-8", &err), 2);
	assert_int_equal(work_find(&l, "local-abc", &err), 4);
	assert_int_equal(work_find(&l, "cpu2", &err), 3);
	assert_int_equal(work_find(&l, "10.0.0.2", &err), 3);
	assert_int_equal(work_find(&l, "cpu1", &err), -EEXIST);
	assert_non_null(strstr(err.text, "name one: worker-7, worker-8"));
	assert_int_equal(work_find(&l, "cpu3", &err), -ENOENT);
}

static void slots_are_gpus_else_processors(void **state)
{
	assert_int_equal(worker_slots(&some[1]), 2);
	assert_int_equal(worker_slots(&some[2]), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(squeues_lines_are_jobs_and_its_warnings_are_none),
		cmocka_unit_test(a_job_is_a_workers_by_its_comment_and_not_by_its_number),
		cmocka_unit_test(slurms_words_for_an_end_are_four_kinds),
		cmocka_unit_test(a_step_has_all_of_its_job),
		cmocka_unit_test(an_outer_jobs_variables_are_kept_from_slurms_programs),
		cmocka_unit_test(a_worker_is_found_by_id_and_host_and_by_a_node_of_its_own),
		cmocka_unit_test(slots_are_gpus_else_processors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
