/* Checks Slurm's commands, the job around us, and srun's plugins. */
#include "doctor/check.h"

#define ANSWER_SIZE 4096

/*
 * Run srun with an argument that makes it start nothing. Without a slurm.conf it asks the DNS for a
 * server, so it gets a second.
 *
 *   answer  the start of its output, on either stream
 *
 * Returns its exit status, 124 if the second was over, -1 if it could not be run.
 */
static int ask(const char *srun, const char *argument, char answer[ANSWER_SIZE])
{
	auto_free char *command = NULL;
	FILE *p;
	size_t n;
	int r;

	answer[0] = '\0';
	if (strpbrk(srun, "'\n"))
		return -1;
	command = xasprintf("exec timeout 1 '%s' %s 2>&1", srun, argument);
	p = popen(command, "re");
	if (!p)
		return -1;
	n = fread(answer, 1, ANSWER_SIZE - 1, p);
	answer[n] = '\0';
	r = pclose(p);
	return WIFEXITED(r) ? WEXITSTATUS(r) : -1;
}

/* Check how ranks of an MPI program find each other: Open MPI uses PMIx, MPICH and Intel MPI PMI-2
 * as well. */
static void look_at_pmi(const char *srun, struct doctor_report *r)
{
	char answer[ANSWER_SIZE];

	if (ask(srun, "--mpi=list", answer) != 0)
		return;
	if (strstr(answer, "pmix")) {
		doctor_add(r, "pmi", DOCTOR_PASS, "srun --mpi=pmix starts MPI programs%s",
			strstr(answer, "pmi2") ? ", and --mpi=pmi2" : "");
		return;
	}
	doctor_add(r, "pmi", DOCTOR_WARNING, "srun has no PMIx");
	doctor_because(r, "ranks of Open MPI do not find each other: each is a job of its own%s",
		strstr(answer, "pmi2") ? "; MPICH's can with --mpi=pmi2" : "");
	doctor_mend(r, DOCTOR_ADMINISTRATOR,
		"build Slurm with --with-pmix (Debian: apt-get install slurm-wlm-basic-plugins)");
}

static void look_at_plugins(const struct doctor_machine *m, struct doctor_report *r)
{
	static const char *const files[] = { "/etc/slurm/plugstack.conf",
		"/etc/slurm-llnl/plugstack.conf" };

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		auto_free char *text = doctor_text(m, files[i]);

		if (text) {
			doctor_add(r, "spank", DOCTOR_PASS,
				strstr(text, "mlrun")
					? "'%s' names mlrun's plugin"
					: "'%s' does not name mlrun's plugin: srun has no --container-image of mlrun's",
				files[i]);
			return;
		}
	}
}

void check_slurm(const struct doctor_machine *m, struct doctor_report *r)
{
	auto_free char *srun = doctor_program(m, "srun");
	char answer[ANSWER_SIZE];
	const char *job = doctor_is_here(m) ? getenv("SLURM_JOB_ID") : NULL;
	int status;

	if (!srun && job) {
		doctor_add(
			r, "slurm", DOCTOR_WARNING, "this is in job %s, but no srun on PATH", job);
		doctor_because(r,
			"mlrun asks squeue whether jobs that use an image still run; without it images are kept for seven days");
		doctor_mend(r, DOCTOR_YOU, "export PATH=$PATH:/usr/bin:/opt/slurm/bin");
		return;
	}
	if (!srun) {
		doctor_add(r, "slurm", DOCTOR_PASS, "no Slurm here");
		return;
	}
	if (!doctor_is_here(m)) {
		doctor_add(r, "slurm", DOCTOR_PASS, "srun is there");
		return;
	}
	status = ask(srun, "--version", answer);
	if (status > 0 && status != 124) {
		doctor_add(r, "slurm", DOCTOR_WARNING, "'%s' does not work here", srun);
		doctor_because(r, "it finds no configuration, in no slurm.conf and by no server");
		doctor_mend(
			r, DOCTOR_ADMINISTRATOR, "%s --version; ls -l /etc/slurm/slurm.conf", srun);
		return;
	}
	answer[strcspn(answer, "\n")] = '\0';
	doctor_add(r, "slurm", DOCTOR_PASS, "%s%s%s",
		status == 0 && *answer ? answer : "srun is there", job ? ", in job " : "",
		job ? job : "");
	if (status == 0)
		look_at_pmi(srun, r);
	look_at_plugins(m, r);
}
