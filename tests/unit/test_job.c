#include "unit.h"
#include "job/job.h"

#include <sys/socket.h>

#define ENV(...) ((char *const[]){ __VA_ARGS__, NULL })
#define V(text)  ((char *)(text))

static void expect_step(char *const *env, const char *want)
{
	auto_free char *got = job_step(env);

	if (!want)
		assert_null(got);
	else
		assert_string_equal(got, want);
}

static void a_process_outside_of_steps_is_none(void **state)
{
	expect_step(ENV(V("HOME=/")), NULL);
	/* A batch script, and an environment handed on without a step. */
	expect_step(ENV(V("SLURM_JOB_ID=7")), NULL);
	expect_step(ENV(V("SLURM_JOB_ID=7"), V("SLURM_STEP_ID=")), NULL);
	expect_step(ENV(V("PMIX_NAMESPACE=slurm.pmix.7.0")), NULL);
}

static void a_step_of_one_task_is_none_unless_it_has_a_pmi(void **state)
{
	expect_step(
		ENV(V("SLURM_JOB_ID=7"), V("SLURM_STEP_ID=0"), V("SLURM_STEP_NUM_TASKS=1")), NULL);
	expect_step(ENV(V("SLURM_JOB_ID=7"), V("SLURM_STEP_ID=0"), V("SLURM_STEP_NUM_TASKS=1"),
			    V("PMI_RANK=0")),
		"slurm 7.0");
}

static void ranks_of_a_step_say_the_same_and_other_steps_another(void **state)
{
	expect_step(ENV(V("SLURM_JOB_ID=7"), V("SLURM_STEP_ID=0"), V("SLURM_STEP_NUM_TASKS=4"),
			    V("SLURM_PROCID=1")),
		"slurm 7.0");
	expect_step(ENV(V("SLURM_JOB_ID=7"), V("SLURM_STEP_ID=1"), V("SLURM_STEP_NUM_TASKS=4")),
		"slurm 7.1");
}

static void mpirun_in_a_step_counts_more_than_the_step(void **state)
{
	expect_step(ENV(V("SLURM_JOB_ID=7"), V("SLURM_STEP_ID=0"), V("SLURM_STEP_NUM_TASKS=4"),
			    V("PMIX_NAMESPACE=1234"), V("PMIX_RANK=3"),
			    V("OMPI_MCA_ess_base_jobid=1234"), V("OMPI_COMM_WORLD_RANK=3")),
		"pmix 1234");
	expect_step(
		ENV(V("OMPI_MCA_ess_base_jobid=1234"), V("OMPI_COMM_WORLD_RANK=3")), "ompi 1234");
}

static void hydra_ranks_are_known_by_the_proxy_at_the_other_end(void **state)
{
	char fd[32], wrong[] = "PMI_FD=999";
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	snprintf(fd, sizeof(fd), "PMI_FD=%d", pair[1]);
	auto_free char *one = job_step(ENV(fd, V("PMI_SIZE=2"), V("PMI_RANK=0")));
	auto_free char *two = job_step(ENV(fd, V("PMI_SIZE=2"), V("PMI_RANK=1")));

	assert_non_null(one);
	assert_string_equal(one, two);
	snprintf(fd, sizeof(fd), "hydra %ld ", (long)getpid());
	assert_memory_equal(one, fd, strlen(fd));
	snprintf(fd, sizeof(fd), "PMI_FD=%d", pair[1]);
	expect_step(ENV(fd, V("PMI_SIZE=1"), V("PMI_RANK=0")), NULL);
	expect_step(ENV(wrong, V("PMI_SIZE=2"), V("PMI_RANK=0")), NULL);
	expect_step(ENV(V("PMI_FD=x"), V("PMI_SIZE=2"), V("PMI_RANK=0")), NULL);
	close(pair[0]);
	close(pair[1]);
}

static void jobs_of_every_batch_system_are_known(void **state)
{
	assert_string_equal(job_system(ENV(V("SLURM_JOB_ID=7"))), "Slurm");
	assert_string_equal(job_system(ENV(V("PBS_JOBID=7.head"))), "PBS");
	assert_string_equal(job_system(ENV(V("LSB_JOBID=7"))), "LSF");
	assert_string_equal(job_system(ENV(V("FLUX_JOB_ID=f7"))), "Flux");
	assert_null(job_system(ENV(V("SLURM_JOB_ID="), V("SLURM_CLUSTER_NAME=c"))));
}

static void variables_of_jobs_and_ranks_are_told_from_others(void **state)
{
	static const char *const sets[] = { "SLURM_JOB_ID", "SLURMD_NODENAME", "SRUN_DEBUG",
		"PBS_NODEFILE", "LSB_HOSTS", "FLUX_URI", "PMI_RANK", "PMI2_X", "PMIX_RANK",
		"OMPI_MCA_btl", "MPICH_X", "I_MPI_PIN", "UCX_TLS", "FI_PROVIDER" },
				 *const others[] = { "HOME", "XSLURM_JOB_ID", "PBS", "PMI" };

	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		if (!job_sets(sets[i]))
			fail_msg("%s", sets[i]);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (job_sets(others[i]))
			fail_msg("%s", others[i]);
}

static void expect_rank(char *const *env, const char *number, const char *launcher, int is_mpi)
{
	struct job_rank r = job_rank_read(env);

	assert_string_equal(r.number, number);
	assert_string_equal(r.launcher, launcher);
	assert_int_equal(r.is_mpi, is_mpi);
}

static void the_most_particular_launcher_numbers_the_rank(void **state)
{
	expect_rank(ENV(V("SLURM_PROCID=1"), V("OMPI_COMM_WORLD_RANK=2"), V("PMI_RANK=3"),
			    V("PMIX_RANK=4")),
		"4", "PMIx", 1);
	expect_rank(ENV(V("SLURM_PROCID=1"), V("OMPI_COMM_WORLD_RANK=2"), V("PMI_RANK=3")), "3",
		"PMI", 1);
	expect_rank(ENV(V("SLURM_PROCID=1"), V("OMPI_COMM_WORLD_RANK=2")), "2", "Open MPI", 1);
	expect_rank(ENV(V("SLURM_PROCID=1"), V("PMIX_RANK=")), "1", "Slurm", 0);
	assert_null(job_rank_read(ENV(V("HOME=/"))).number);
}

static void expect_first(const char *list, const char *want)
{
	auto_free char *got = job_nodes_first(list);

	if (!want)
		assert_null(got);
	else
		assert_string_equal(got, want);
}

static void the_first_node_of_a_list_is_found(void **state)
{
	expect_first("cpu1", "cpu1");
	expect_first("cpu1,cpu2", "cpu1");
	expect_first("cpu[1-2,5],gpu1", "cpu1");
	expect_first("node[007,009-012]", "node007");
	expect_first("a-b[3]-ib,c", "a-b3-ib");
	expect_first("rack[2-3]node[04-05,9],x", "rack2node04");
	expect_first("x,y[1-2]", "x");
	expect_first("", NULL);
	expect_first("cpu[1-2", NULL);
	expect_first("cpu[]", NULL);
}

static void expect_world(char *const *env, const char *rank, const char *size, const char *local,
	const char *address)
{
	auto_call(job_world_done) struct job_world w = { 0 };

	assert_int_equal(job_world_read(env, &w), 1);
	assert_string_equal(w.rank, rank);
	assert_string_equal(w.size, size);
	assert_string_equal(w.local, local);
	if (address)
		assert_string_equal(w.address, address);
	else
		assert_null(w.address);
	assert_in_range(w.port, 15000, 31383);
}

#define STEP(job, step)                                                              \
	V("SLURM_PROCID=1"), V("SLURM_STEP_NUM_TASKS=4"), V("SLURM_LOCALID=0"),      \
		V("SLURM_JOB_NODELIST=cpu[1-4]"), V("SLURM_STEP_NODELIST=cpu[2-3]"), \
		V("SLURM_JOB_ID=" job), V("SLURM_STEP_ID=" step)

static void ranks_of_every_launcher_know_their_world(void **state)
{
	char file[] = "/tmp/mlr-test-job.XXXXXX", nodefile[64];
	int fd = mkstemp(file);

	assert_int_equal(write(fd, "n7.site\nn8.site\n", 16), 16);
	close(fd);
	snprintf(nodefile, sizeof(nodefile), "PBS_NODEFILE=%s", file);
	expect_world(ENV(STEP("7", "0")), "1", "4", "0", "cpu2");
	/* mpirun's daemons are a step that lacks its own node. */
	expect_world(ENV(STEP("7", "0"), V("OMPI_COMM_WORLD_RANK=5"), V("OMPI_COMM_WORLD_SIZE=8"),
			     V("OMPI_COMM_WORLD_LOCAL_RANK=1")),
		"5", "8", "1", "cpu1");
	expect_world(ENV(V("PMI_RANK=5"), V("PMI_SIZE=8"), V("MPI_LOCALRANKID=1"), nodefile), "5",
		"8", "1", "n7.site");
	expect_world(ENV(V("PMI_RANK=5"), V("PMI_SIZE=8"), V("MPI_LOCALRANKID=1"),
			     V("LSB_MCPU_HOSTS=h3 4 h4 4")),
		"5", "8", "1", "h3");
	expect_world(ENV(V("OMPI_COMM_WORLD_RANK=1"), V("OMPI_COMM_WORLD_SIZE=2"),
			     V("OMPI_COMM_WORLD_LOCAL_RANK=1"), V("OMPI_COMM_WORLD_LOCAL_SIZE=2")),
		"1", "2", "1", "127.0.0.1");
	expect_world(ENV(V("FLUX_TASK_RANK=1"), V("FLUX_JOB_SIZE=2"), V("FLUX_TASK_LOCAL_ID=0")),
		"1", "2", "0", NULL);
	unlink(file);
}

static void a_single_task_and_a_batch_script_have_no_world(void **state)
{
	struct job_world w = { 0 };

	assert_int_equal(job_world_read(ENV(V("HOME=/")), &w), 0);
	assert_int_equal(job_world_read(ENV(V("SLURM_PROCID=0"), V("SLURM_LOCALID=0"),
						V("SLURM_NTASKS=4"), V("SLURM_JOB_ID=7")),
				 &w),
		0);
	assert_int_equal(job_world_read(ENV(V("SLURM_PROCID=0"), V("SLURM_LOCALID=0"),
						V("SLURM_STEP_NUM_TASKS=1")),
				 &w),
		0);
	assert_null(w.rank);
}

static unsigned port_of(char *const *env)
{
	auto_call(job_world_done) struct job_world w = { 0 };

	assert_int_equal(job_world_read(env, &w), 1);
	return w.port;
}

static void jobs_and_steps_side_by_side_have_ports_of_their_own(void **state)
{
	unsigned port = port_of(ENV(STEP("7", "0")));

	assert_int_equal(port_of(ENV(STEP("7", "0"), V("SLURM_PROCID=3"))), port);
	assert_int_not_equal(port_of(ENV(STEP("7", "1"))), port);
	assert_int_not_equal(port_of(ENV(STEP("8", "0"))), port);
	assert_int_not_equal(port_of(ENV(STEP("4294967302", "30"))), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_outside_of_steps_is_none),
		cmocka_unit_test(a_step_of_one_task_is_none_unless_it_has_a_pmi),
		cmocka_unit_test(ranks_of_a_step_say_the_same_and_other_steps_another),
		cmocka_unit_test(mpirun_in_a_step_counts_more_than_the_step),
		cmocka_unit_test(hydra_ranks_are_known_by_the_proxy_at_the_other_end),
		cmocka_unit_test(jobs_of_every_batch_system_are_known),
		cmocka_unit_test(variables_of_jobs_and_ranks_are_told_from_others),
		cmocka_unit_test(the_most_particular_launcher_numbers_the_rank),
		cmocka_unit_test(the_first_node_of_a_list_is_found),
		cmocka_unit_test(ranks_of_every_launcher_know_their_world),
		cmocka_unit_test(a_single_task_and_a_batch_script_have_no_world),
		cmocka_unit_test(jobs_and_steps_side_by_side_have_ports_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
