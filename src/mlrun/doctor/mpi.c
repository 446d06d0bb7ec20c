/* Checks MPI's launchers, what --mpi=host would bring, and whether ranks may read each other's
 * memory. */
#include "doctor/check.h"

#include "base/config.h"
#include "job/job.h"
#include "mpi/place.h"

static void look_at_launcher(const struct doctor_machine *m, struct doctor_report *r)
{
	auto_free char *mpirun = doctor_program(m, "mpirun");
	struct job_rank rank = job_rank_read(environ);

	if (doctor_is_here(m) && rank.is_mpi) {
		doctor_add(r, "mpi", DOCTOR_PASS, "this process is rank %s of a job (%s)",
			rank.number, rank.launcher);
		return;
	}
	if (mpirun)
		doctor_add(r, "mpi", DOCTOR_PASS, "mpirun is '%s'", mpirun);
	else
		doctor_add(
			r, "mpi", DOCTOR_PASS, "no mpirun on PATH (srun starts MPI programs too)");
}

/* The first that mlrun exec --mpi=host would find. A broken configuration is another check's. */
static void look_at_machines_mpi(const struct doctor_machine *m, struct doctor_report *r)
{
	auto_call(gpu_dir_close) struct gpu_dir d = GPU_DIR_INIT;
	auto_call(config_done) struct config c = { 0 };
	auto_call(mpi_tree_done) struct mpi_tree tree = { 0 };
	auto_call(mpi_place_done) struct mpi_place at = MPI_PLACE_INIT;
	auto_strv struct strv named = STRV_INIT, files = STRV_INIT;
	struct mpi_place_search search = { .d = &d, .config = &c, .env = environ };
	struct gpu_image machine;

	if (gpu_dir_open(*m->root ? m->root : "/", &d) < 0)
		return;
	config_load(&c, NULL);
	mpi_tree_of(&d, &machine);
	mpi_tree_begin(&tree, &machine, getenv("LD_LIBRARY_PATH"));
	if (mpi_place_find_machines(&search, &tree, &named, &files, &at))
		doctor_add(r, "mpi", DOCTOR_PASS, "--mpi=host brings %s ('%s/%s')",
			mpi_family_name(at.family), at.dir, at.name);
	else
		doctor_add(r, "mpi", DOCTOR_PASS,
			"no MPI library that --mpi=host could bring (its module may not be loaded)");
}

/* kernel: Documentation/admin-guide/LSM/Yama.rst */
static void look_at_yama(const struct doctor_machine *m, struct doctor_report *r)
{
	long scope = doctor_number(m, "/proc/sys/kernel/yama/ptrace_scope");

	if (scope <= 0) {
		doctor_add(r, "ptrace", DOCTOR_PASS,
			"processes of one user may read each other's memory");
		return;
	}
	doctor_add(r, "ptrace", DOCTOR_WARNING, "kernel.yama.ptrace_scope is %ld", scope);
	doctor_because(r,
		scope == 1
			? "MPI ranks on a node that do not ask the kernel for leave cannot read each other's memory: large messages are copied twice"
			: "MPI ranks on a node cannot read each other's memory: large messages are copied twice");
	if (scope == 3)
		doctor_mend(r, DOCTOR_ADMINISTRATOR,
			"grep -r ptrace_scope /etc/sysctl.conf /etc/sysctl.d; set it to 0 there and reboot: 3 cannot be taken back");
	else
		doctor_mend(r, DOCTOR_ADMINISTRATOR,
			"echo 'kernel.yama.ptrace_scope = 0' >/etc/sysctl.d/60-mlrun-ptrace.conf && sysctl --system");
}

void check_mpi(const struct doctor_machine *m, struct doctor_report *r)
{
	look_at_launcher(m, r);
	look_at_machines_mpi(m, r);
	look_at_yama(m, r);
}
