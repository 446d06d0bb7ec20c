#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "mpi/step.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENV(...) ((char *const[]){ __VA_ARGS__, NULL })
#define V(text)  ((char *)(text))

static void expect_step(char *const *env, const char *want)
{
	auto_free char *got = mpi_step(env);

	if (!want)
		assert_null(got);
	else
		assert_string_equal(got, want);
}

static void a_process_outside_of_steps_is_none(void **state)
{
	(void)state;
	expect_step(ENV(V("HOME=/")), NULL);
	/* A batch script, and an environment handed on without a step. */
	expect_step(ENV(V("SLURM_JOB_ID=7")), NULL);
	expect_step(ENV(V("SLURM_JOB_ID=7"), V("SLURM_STEP_ID=")), NULL);
	expect_step(ENV(V("PMIX_NAMESPACE=slurm.pmix.7.0")), NULL);
}

static void a_step_of_one_task_is_none_unless_it_has_a_pmi(void **state)
{
	(void)state;
	expect_step(
		ENV(V("SLURM_JOB_ID=7"), V("SLURM_STEP_ID=0"), V("SLURM_STEP_NUM_TASKS=1")), NULL);
	expect_step(ENV(V("SLURM_JOB_ID=7"), V("SLURM_STEP_ID=0"), V("SLURM_STEP_NUM_TASKS=1"),
			    V("PMI_RANK=0")),
		"slurm 7.0");
}

static void ranks_of_a_step_say_the_same_and_other_steps_another(void **state)
{
	(void)state;
	expect_step(ENV(V("SLURM_JOB_ID=7"), V("SLURM_STEP_ID=0"), V("SLURM_STEP_NUM_TASKS=4"),
			    V("SLURM_PROCID=1")),
		"slurm 7.0");
	expect_step(ENV(V("SLURM_JOB_ID=7"), V("SLURM_STEP_ID=1"), V("SLURM_STEP_NUM_TASKS=4")),
		"slurm 7.1");
}

static void mpirun_in_a_step_counts_more_than_the_step(void **state)
{
	(void)state;
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

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	snprintf(fd, sizeof(fd), "PMI_FD=%d", pair[1]);
	auto_free char *one = mpi_step(ENV(fd, V("PMI_SIZE=2"), V("PMI_RANK=0")));
	auto_free char *two = mpi_step(ENV(fd, V("PMI_SIZE=2"), V("PMI_RANK=1")));

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

static void only_a_rank_alone_is_told_not_to_read_memory(void **state)
{
	static const char name[] = "OMPI_MCA_btl_vader_single_copy_mechanism";
	auto_call(plan_done) struct plan p;

	(void)state;
	plan_init(&p);
	mpi_plan(ENV(V("HOME=/")), &p);
	assert_null(plan_env_get(&p, name));
	p.share = strdup("pmix 1");
	mpi_plan(ENV(V("PMIX_RANK=0")), &p);
	assert_null(plan_env_get(&p, name));
	free(p.share);
	p.share = NULL;
	mpi_plan(ENV(V("PMIX_RANK=0")), &p);
	assert_string_equal(plan_env_get(&p, name), "none");
	p.namespaces = PLAN_NS_PID;
	mpi_plan(ENV(V("PMIX_RANK=0")), &p);
	assert_string_equal(plan_env_get(&p, "OMPI_MCA_btl"), "^vader");
}

static void directories_of_the_pmi_server_are_brought_but_no_system_ones(void **state)
{
	char dir[] = "/tmp/mlr-test-mpi.XXXXXX", env[64], missing[96];
	auto_call(plan_done) struct plan p;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(env, sizeof(env), "PMIX_SERVER_TMPDIR=%s/", dir);
	snprintf(missing, sizeof(missing), "PMIX_DSTORE_21_BASE_PATH=%s/missing", dir);
	plan_init(&p);
	mpi_plan(ENV(V("PMIX_RANK=0"), env, missing, V("PMIX_SYSTEM_TMPDIR=/usr"),
			 V("PMIX_DSTORE_ESH_BASE_PATH=relative/x")),
		&p);
	assert_int_equal(p.n_mounts, 1);
	assert_string_equal(p.mounts[0].source, dir);
	assert_int_equal(p.mounts[0].origin, PLAN_FROM_MPI);
	/* Mounted once. */
	mpi_plan(ENV(V("PMIX_RANK=0"), env), &p);
	assert_int_equal(p.n_mounts, 1);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_outside_of_steps_is_none),
		cmocka_unit_test(a_step_of_one_task_is_none_unless_it_has_a_pmi),
		cmocka_unit_test(ranks_of_a_step_say_the_same_and_other_steps_another),
		cmocka_unit_test(mpirun_in_a_step_counts_more_than_the_step),
		cmocka_unit_test(hydra_ranks_are_known_by_the_proxy_at_the_other_end),
		cmocka_unit_test(only_a_rank_alone_is_told_not_to_read_memory),
		cmocka_unit_test(directories_of_the_pmi_server_are_brought_but_no_system_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
