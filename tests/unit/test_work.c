#include "unit.h"
#include "work/batch.h"
#include "work/elastic.h"
#include "work/share.h"
#include "work/watch.h"
#include "work/work.h"

#include <math.h>

static void squeues_lines_are_jobs_and_its_warnings_are_none(void **state)
{
	char text[] =
		"squeue: error: something odd\n"
		"m1|7|RUNNING|ann|cpu1|None|workq|1|1|N/A|N/A|N/A|mlrun-worker:00112233445566aa\n"
		"m1|8|PENDING|bob||Priority|workq|1|1|N/A|N/A|N/A|(null)\n"
		"m1|9|FAILED|ann|cpu2|NonZeroExitCode|workq|1|1|N/A|N/A|N/A|a|b\n"
		"m1|10|RUNNING|ann|cpu3\n"
		"\n";
	auto_call(work_jobs_done) struct batch_jobs l = { 0 };

	slurm_jobs_parse(text, "m1", &l);
	assert_int_equal(l.n, 3);
	assert_string_equal(l.v[0].id, "7");
	assert_string_equal(l.v[0].key, "00112233445566aa");
	assert_string_equal(l.v[1].node, "");
	assert_string_equal(l.v[1].user, "bob");
	assert_null(l.v[2].key);
}

static void a_line_in_another_users_comment_is_no_job(void **state)
{
	char text[] =
		"m1|7|RUNNING|bob|cpu1|None|workq|1|1|N/A|N/A|N/A|hello\n"
		"8|RUNNING|ann|cpu1|None|workq|1|1|N/A|N/A|N/A|mlrun-worker:00112233445566aa 00:1:4:1:c1\n"
		"m0|9|RUNNING|ann|cpu1|None|workq|1|1|N/A|N/A|N/A|mlrun-worker:00112233445566aa 00:1:4:1:c1\n";
	auto_call(work_jobs_done) struct batch_jobs l = { 0 };

	slurm_jobs_parse(text, "m1", &l);
	assert_int_equal(l.n, 1);
	assert_string_equal(l.v[0].id, "7");
}

static void a_job_is_a_workers_by_its_comment_and_not_by_its_number(void **state)
{
	char text[] =
		"m|7|RUNNING|ann|cpu1|None|workq|1|1|N/A|N/A|N/A|(null)\n"
		"m|8|RUNNING|ann|cpu1|None|workq|1|1|N/A|N/A|N/A|mlrun-worker:00112233445566aa\n";
	auto_call(work_jobs_done) struct batch_jobs l = { 0 };
	struct worker w = { .id = (char *)"7", .key = (char *)"00112233445566aa" };

	slurm_jobs_parse(text, "m", &l);
	assert_string_equal(work_job_of(&l, &w)->id, "8");
	w.key = (char *)"00112233445566a";
	assert_null(work_job_of(&l, &w));
	w.key = (char *)"00112233445566ab";
	assert_null(work_job_of(&l, &w));
}

static void slurms_words_for_an_end_are_four_kinds(void **state)
{
	assert_int_equal(batch_slurm.status("PENDING"), WORKER_PENDING);
	assert_int_equal(batch_slurm.status("RUNNING"), WORKER_STARTING);
	assert_int_equal(batch_slurm.status("COMPLETING"), WORKER_STARTING);
	assert_int_equal(batch_slurm.status("COMPLETED"), WORKER_SUCCEEDED);
	assert_int_equal(batch_slurm.status("NODE_FAIL"), WORKER_FAILED);
	assert_int_equal(batch_slurm.status("SUSPENDED"), WORKER_SUSPENDED);
	assert_int_equal(batch_slurm.status("CANCELLED"), WORKER_STOPPED);
	assert_int_equal(batch_slurm.status("DEADLINE"), WORKER_TIMEDOUT);
	assert_int_equal(batch_slurm.status("A_NEW_STATE"), WORKER_STARTING);
}

static void a_step_has_all_of_its_job(void **state)
{
	auto_strv struct strv argv = STRV_INIT;
	struct worker w = { .id = (char *)"7", .cpus = 4 };

	batch_slurm.step(&w, 0, &argv);
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
	batch_slurm.environment(&env);
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

static void sinfos_lines_are_nodes_and_what_is_free_in_service(void **state)
{
	char text[] =
		"sinfo: error: something odd\n"
		"mixed  2/6/0/8  UNLIMITED  gpu:a100:4(S:0-1),nic:1  gpu:a100:1(IDX:0),nic:0 NO a.example\n"
		"idle   0/4/0/4  2          gpu:2,gpu:b:1            gpu:0,gpu:b:0 FORCE:2 b\n"
		"down*  0/0/4/4  UNLIMITED  gpu:4                    gpu:0 NO c\n"
		"idle*  0/4/0/4  UNLIMITED  (null)                   gpu:0 NO d\n"
		"allocated 4/0/0/4 2        (null)                   gpu:0 YES:4 e\n";
	auto_free struct batch_node *nodes = NULL;
	struct share_wish two = { .kind = 'g', .units = 2 }, cpus = { .kind = 'c', .units = 2 };
	size_t n = 0;

	slurm_nodes_parse(text, &nodes, &n);
	assert_int_equal(n, 5);
	assert_int_equal(nodes[0].free_gpus, 3);
	assert_int_equal(nodes[0].free_cpus, 6);
	assert_int_equal(nodes[1].free_gpus, 3);
	assert_int_equal(nodes[1].free_cpus, 2);
	/* Two jobs share each of two processors. */
	assert_int_equal(nodes[1].all_cpus, 4);
	assert_string_equal(nodes[1].machine, "b");
	/* Those that are down have nothing free, and may have again. */
	assert_int_equal(nodes[2].free_gpus, 0);
	assert_int_equal(nodes[2].all_gpus, 4);
	/* One worker on either: of three GPUs one stays idle. */
	assert_int_equal(share_free(nodes, n, &two, 1, 9), 4);
	/* None on the second: it has no three processors. */
	assert_int_equal(share_free(nodes, n, &two, 3, 9), 2);
	assert_int_equal(share_free(nodes, n, &cpus, 2, 9), 8);
	assert_int_equal(share_free(nodes, n, &cpus, 2, 1), 4);
}

static void a_run_in_a_comment_is_read_and_a_strangers_nonsense_is_not(void **state)
{
	static const char *const bad[] = { "", "x", "12ab:1:4:1:g", "12ab:0:4:1:g1",
		"12ab:5:4:1:g1", "12ab:1:4:0:g1", "12ab:1:4:101:g1", "12ab:1:99999:1:g1",
		"12ab:1:4:1:x1", "12ab:1:4:1:g1:2", "12ab:1:4:1:g0", "12ab:1:4:1:g-1",
		"00112233445566778:1:4:1:g1" };
	struct share_wish w;
	auto_free char *word = NULL;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(share_read(bad[i], &w), -EPROTO);
	assert_int_equal(share_read("12ab:2:8:3:g4", &w), 0);
	word = share_word(&w);
	assert_string_equal(word, "12ab:2:8:3:g4");
}

static void runs_of_a_partition_are_collected_from_their_jobs(void **state)
{
	char text[] =
		"m|7|RUNNING|1|a|None|q|1|1|gres:gpu:2|N/A|N/A|mlrun-worker:01 aa:1:4:1:g2\n"
		"m|6|RUNNING|1|b|None|q|1|1|gres/gpu:2|N/A|N/A|mlrun-worker:02 aa:1:4:1:g2\n"
		"m|8|COMPLETING|1|c|None|q|1|1|gpu:a100:2|N/A|N/A|mlrun-worker:03 aa:1:4:1:g2\n"
		"m|9|PENDING|2||Priority|q|1|1|gpu:1|N/A|N/A|mlrun-worker:04 aa:1:4:1:g1\n"
		"m|10|PENDING|2||JobHeldUser|q|1|1|gpu:1|N/A|N/A|mlrun-worker:05 bb:1:4:1:g1\n"
		"m|11|RUNNING|2|d|None|other|1|1|gpu:1|N/A|N/A|mlrun-worker:06 cc:1:4:1:g1\n"
		"m|12|RUNNING|2|d|None|q|1|1|N/A|N/A|N/A|mlrun-worker:07 dd:1:4:1:c1\n"
		"m|13|FAILED|2|d|None|q|1|1|gpu:1|N/A|N/A|mlrun-worker:08 ee:1:4:1:g1\n"
		"m|14|RUNNING|2|d|None|q|1|1|gpu:1|N/A|N/A|mlrun-worker:09\n";
	auto_call(work_jobs_done) struct batch_jobs jobs = { 0 };
	auto_call(share_table_done) struct share_table t = { 0 };

	slurm_jobs_parse(text, "m", &jobs);
	share_collect(&jobs, "q", 'g', &t);
	assert_int_equal(t.n, 2);
	assert_int_equal(t.v[0].running, 2);
	assert_int_equal(t.v[0].ending, 1);
	assert_int_equal(t.v[0].held, 6);
	assert_int_equal(t.v[0].first, 6);
	/* A key is its user's. */
	assert_string_equal(t.v[1].user, "2");
	assert_int_equal(t.v[1].waiting, 1);
	assert_int_equal(t.v[1].held, 0);
}

static void nodes_of_all_partitions_are_those_of_the_default_one(void **state)
{
	char text[] = "idle 0/4/0/4 UNLIMITED (null) gpu:0 NO a other\n"
		      "idle 0/2/0/2 UNLIMITED (null) gpu:0 NO b main*\n";
	auto_free struct batch_node *nodes = NULL;
	size_t n = 0;

	slurm_nodes_parse(text, &nodes, &n);
	assert_int_equal(n, 1);
	assert_int_equal(nodes[0].all_cpus, 2);
}

static void who_is_waited_for_is_known_from_the_jobs(void **state)
{
	char text[] = "m|7|RUNNING|1|a|None|q|1|1|gpu:1|N/A|N/A|mlrun-worker:01 aa:1:4:1:g1\n"
		      "m|8|SUSPENDED|1|b|None|q|1|1|gpu:1|N/A|N/A|mlrun-worker:02 aa:1:4:1:g1\n"
		      "m|9|PENDING|1||Resources|q|1|1|gpu:1|N/A|N/A|mlrun-worker:03 aa:1:4:1:g1\n"
		      "m|10|SUSPENDED|2|d|None|q|1|1|gpu:1|N/A|N/A|mlrun-worker:04 aa:1:4:1:g1\n";
	auto_call(work_jobs_done) struct batch_jobs jobs = { 0 };
	auto_call(share_table_done) struct share_table t = { 0 };
	auto_free char *words = NULL;
	const struct share_wish run = { .key = "aa" };

	slurm_jobs_parse(text, "m", &jobs);
	words = elastic_waits(NULL, &jobs, "1", &run);
	assert_string_equal(words, "job 8 on b is suspended; job 9 waits (Resources)");
	/* It has left: it neither has its slots nor counts as needed. */
	share_collect(&jobs, "q", 'g', &t);
	assert_int_equal(t.n, 2);
	assert_int_equal(t.v[0].held, 1);
	assert_int_equal(t.v[0].suspended, 1);
	assert_int_equal(t.v[1].wish.min, 0);
}

/* The comment of a job is anybody's, and becomes a part of file names. */
static void a_workers_key_has_hexadecimal_digits_only(void **state)
{
	char text[] = "m|7|RUNNING|1|a|None|q|1|1|gpu:1|N/A|N/A|mlrun-worker:a/../b aa:1:4:1:g1\n"
		      "m|8|RUNNING|1|b|None|q|1|1|gpu:1|N/A|N/A|mlrun-worker: aa:1:4:1:g1\n";
	auto_call(work_jobs_done) struct batch_jobs jobs = { 0 };

	slurm_jobs_parse(text, "m", &jobs);
	assert_int_equal(jobs.n, 2);
	for (size_t i = 0; i < jobs.n; i++) {
		assert_null(jobs.v[i].key);
		assert_null(jobs.v[i].run);
	}
}

static void a_workers_status_says_what_is_known_of_its_end(void **state)
{
	static const struct {
		enum worker_status status;
		int exit_status;
		const char *state, *reason, *words;
	} rows[] = {
		{ WORKER_FAILED, 3, "FAILED", NULL, "failed (3)" },
		{ WORKER_FAILED, -1, "PREEMPTED", NULL, "failed (PREEMPTED)" },
		{ WORKER_FAILED, -1, "FAILED", NULL, "failed" },
		{ WORKER_PENDING, -1, "PENDING", "Resources", "pending (Resources)" },
		{ WORKER_SUSPENDED, -1, "SUSPENDED", NULL, "suspended" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct worker w = { .status = rows[i].status,
			.exit_status = rows[i].exit_status,
			.state = (char *)rows[i].state,
			.reason = (char *)rows[i].reason };
		auto_free char *words = worker_describe(&w);

		assert_string_equal(words, rows[i].words);
	}
}

static void a_comment_gives_its_run_neither_slots_nor_needs_beyond_its_jobs(void **state)
{
	/* Two jobs of one GPU, which say 1000 and need 900; one without any. */
	char text[] =
		"m|7|RUNNING|2|a|None|q|1|4|gpu:1|N/A|N/A|mlrun-worker:01 aa:900:1000:1:g1000\n"
		"m|8|PENDING|2||Priority|q|1|4|gpu:1|N/A|N/A|mlrun-worker:02 aa:900:1000:1:g1000\n"
		"m|9|RUNNING|3|b|None|q|1|4|N/A|N/A|N/A|mlrun-worker:03 bb:900:1000:1:g1000\n";
	auto_call(work_jobs_done) struct batch_jobs jobs = { 0 };
	auto_call(share_table_done) struct share_table t = { 0 };
	struct share_wish own = { "cc", 1, 4, 1, 1, 'g' };

	slurm_jobs_parse(text, "m", &jobs);
	share_collect(&jobs, "q", 'g', &t);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.v[0].held, 1);
	share_add(&t, "1", &own)->first = 10;
	share_divide(&t, 4);
	assert_int_equal(t.v[0].share, 2);
	assert_int_equal(t.v[1].share, 2);
}

static void a_jobs_time_is_that_of_this_machine(void **state)
{
	char text[] = "m|7|COMPLETED|1|a|None|q|1|1|N/A|2026-11-26T17:04:00|2026-11-26T18:04:30|\n";
	auto_call(work_jobs_done) struct batch_jobs jobs = { 0 };

	setenv("TZ", "UTC", 1);
	slurm_jobs_parse(text, "m", &jobs);
	assert_int_equal(jobs.v[0].start, 1795712640);
	assert_int_equal(jobs.v[0].end - jobs.v[0].start, 3630);
}

static void slurm_is_asked_seldomer_each_time_up_to_a_limit(void **state)
{
	assert_int_equal(work_later(0, 300, 5000), 300);
	assert_int_equal(work_later(300, 300, 5000), 600);
	assert_int_equal(work_later(2400, 300, 5000), 4800);
	assert_int_equal(work_later(4800, 300, 5000), 5000);
	assert_int_equal(work_later(5000, 300, 5000), 5000);
}

struct want {
	long min, max, weight, units, share;
};

static void divides(long units, const struct want *wants, size_t n)
{
	auto_call(share_table_done) struct share_table t = { 0 };

	for (size_t i = 0; i < n; i++) {
		struct share_wish w = { .min = wants[i].min,
			.max = wants[i].max,
			.weight = wants[i].weight,
			.units = wants[i].units,
			.kind = 'g' };

		snprintf(w.key, sizeof(w.key), "%zu", i);
		share_add(&t, "1", &w)->first = (long)i;
	}
	share_divide(&t, units);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(t.v[i].share, wants[i].share);
}

#define DIVIDES(units, ...)                                         \
	do {                                                        \
		static const struct want wants[] = { __VA_ARGS__ }; \
		divides(units, wants, ARRAY_LEN(wants));            \
	} while (0)

static void slots_are_divided_by_weight_between_min_and_max(void **state)
{
	DIVIDES(4, { 1, 4, 1, 1, 4 });
	DIVIDES(4, { 1, 4, 1, 1, 2 }, { 1, 4, 1, 1, 2 });
	/* What is left over is the oldest one's. */
	DIVIDES(4, { 1, 4, 1, 1, 2 }, { 1, 4, 1, 1, 1 }, { 1, 4, 1, 1, 1 });
	DIVIDES(8, { 1, 8, 3, 1, 6 }, { 1, 8, 1, 1, 2 });
	/* What one cannot use is the others'. */
	DIVIDES(8, { 1, 1, 1, 1, 1 }, { 1, 9, 1, 1, 7 });
	DIVIDES(4, { 3, 4, 1, 1, 3 }, { 1, 4, 1, 1, 1 });
	/* A younger one whose min does not fit waits, and one younger still does not. */
	DIVIDES(4, { 3, 4, 1, 1, 3 }, { 2, 4, 1, 1, 0 }, { 1, 4, 1, 1, 1 });
	/* Two GPUs for each worker. */
	DIVIDES(8, { 1, 8, 1, 2, 2 }, { 1, 8, 1, 1, 4 });
	DIVIDES(0, { 1, 4, 1, 1, 0 });
}

static void what_a_job_had_is_in_the_cells_of_its_time(void **state)
{
	struct batch_job j = { .status = WORKER_STARTING,
		.runs = 1,
		.nodes = 1,
		.cpus = 1,
		.gpus = 2,
		.start = 10000 };
	double past[WATCH_CELLS] = { 0 };

	/* It ends by its limit later than now. */
	j.end = 20000;
	watch_add_past(&j, 'g', 10020, past);
	assert_float_equal(past[WATCH_CELLS - 1], 2, 1e-9);
	assert_float_equal(past[WATCH_CELLS - 2], 2 * 5.0 / WATCH_CELL_S, 1e-9);
	assert_float_equal(past[WATCH_CELLS - 3], 0, 1e-9);
	/* Slurm has a time for a start to come, too. */
	j.status = WORKER_PENDING;
	watch_add_past(&j, 'g', 10020, past);
	assert_float_equal(past[WATCH_CELLS - 1], 2, 1e-9);
}

static void a_logs_end_tells_generation_and_speed(void **state)
{
	char text[] = "000,\"generation\":1}\n"
		      "{\"generation\":1,\"epoch\":0,\"samples\":100,\"train_seconds\":1}\n"
		      "{\"generation\":2,\"epoch\":0,\"samples\":200,\"train_seconds\":9}\n"
		      "{\"event\":\"load\"}\n[1]\n{\"generation\":\"x\"}\n"
		      "{\"generation\":2,\"epoch\":0,\"samples\":300,\"train_seconds\":10}\n"
		      "{\"generation\":2,\"epoch\":1,\"samples\":50,\"train_seconds\":11}\n";
	char empty[] = "";
	struct watch_run run;

	watch_read_log(text, &run);
	assert_int_equal(run.generation, 2);
	assert_float_equal(run.images_per_second, 100, 1e-9);
	watch_read_log(empty, &run);
	assert_int_equal(run.generation, -1);
	assert_true(isnan(run.images_per_second));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(squeues_lines_are_jobs_and_its_warnings_are_none),
		cmocka_unit_test(a_line_in_another_users_comment_is_no_job),
		cmocka_unit_test(a_job_is_a_workers_by_its_comment_and_not_by_its_number),
		cmocka_unit_test(slurms_words_for_an_end_are_four_kinds),
		cmocka_unit_test(a_step_has_all_of_its_job),
		cmocka_unit_test(an_outer_jobs_variables_are_kept_from_slurms_programs),
		cmocka_unit_test(a_worker_is_found_by_id_and_host_and_by_a_node_of_its_own),
		cmocka_unit_test(slots_are_gpus_else_processors),
		cmocka_unit_test(sinfos_lines_are_nodes_and_what_is_free_in_service),
		cmocka_unit_test(nodes_of_all_partitions_are_those_of_the_default_one),
		cmocka_unit_test(who_is_waited_for_is_known_from_the_jobs),
		cmocka_unit_test(a_workers_key_has_hexadecimal_digits_only),
		cmocka_unit_test(a_workers_status_says_what_is_known_of_its_end),
		cmocka_unit_test(a_run_in_a_comment_is_read_and_a_strangers_nonsense_is_not),
		cmocka_unit_test(runs_of_a_partition_are_collected_from_their_jobs),
		cmocka_unit_test(a_comment_gives_its_run_neither_slots_nor_needs_beyond_its_jobs),
		cmocka_unit_test(a_jobs_time_is_that_of_this_machine),
		cmocka_unit_test(slurm_is_asked_seldomer_each_time_up_to_a_limit),
		cmocka_unit_test(what_a_job_had_is_in_the_cells_of_its_time),
		cmocka_unit_test(a_logs_end_tells_generation_and_speed),
		cmocka_unit_test(slots_are_divided_by_weight_between_min_and_max),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
