#include "unit.h"
#include "mpi/mpi.h"

#define ENV(...) ((char *const[]){ __VA_ARGS__, NULL })
#define V(text)  ((char *)(text))

static void only_a_rank_alone_is_told_not_to_read_memory(void **state)
{
	static const char name[] = "OMPI_MCA_btl_vader_single_copy_mechanism";
	auto_call(plan_done) struct plan p;

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
	assert_string_equal(plan_env_get(&p, "UCX_TLS"), "^posix,cma");
	p.namespaces = PLAN_NS_PID;
	mpi_plan(ENV(V("PMIX_RANK=0")), &p);
	assert_string_equal(plan_env_get(&p, "OMPI_MCA_btl"), "^vader");
}

static void directories_of_the_pmi_server_are_brought_but_no_system_ones(void **state)
{
	char dir[] = "/tmp/mlr-test-mpi.XXXXXX", env[64], missing[96];
	auto_call(plan_done) struct plan p;

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

static void a_rank_of_several_learns_where_the_others_meet(void **state)
{
	auto_call(plan_done) struct plan p;

	plan_init(&p);
	mpi_world_plan(
		ENV(V("SLURM_PROCID=0"), V("SLURM_STEP_NUM_TASKS=1"), V("SLURM_LOCALID=0")), &p);
	assert_int_equal(p.n_env, 0);
	mpi_world_plan(ENV(V("SLURM_PROCID=3"), V("SLURM_STEP_NUM_TASKS=4"), V("SLURM_LOCALID=1"),
			       V("SLURM_STEP_NODELIST=cpu[1-2]"), V("SLURM_JOB_ID=7"),
			       V("SLURM_STEP_ID=2")),
		&p);
	assert_int_equal(p.n_env, 5);
	assert_string_equal(plan_env_get(&p, "RANK"), "3");
	assert_string_equal(plan_env_get(&p, "WORLD_SIZE"), "4");
	assert_string_equal(plan_env_get(&p, "LOCAL_RANK"), "1");
	assert_string_equal(plan_env_get(&p, "MASTER_ADDR"), "cpu1");
	assert_string_equal(plan_env_get(&p, "MASTER_PORT"), "15219");
	assert_int_equal(plan_env_origin(&p, "MASTER_PORT"), PLAN_FROM_MPI);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_rank_alone_is_told_not_to_read_memory),
		cmocka_unit_test(directories_of_the_pmi_server_are_brought_but_no_system_ones),
		cmocka_unit_test(a_rank_of_several_learns_where_the_others_meet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
