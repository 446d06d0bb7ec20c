/* Slurm's commands, the job around us, and the plugins of srun. */
#include "doctor/check.h"

#include "base/cleanup.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * `srun --version`. Where it finds no slurm.conf it asks the DNS for a server, so it gets a second.
 *
 *   version  "slurm 22.05.8", to free(), or NULL
 *
 * Returns its exit status, 124 when the second was over.
 */
static int ask_version(const char *srun, char **version)
{
	auto_free char *command = NULL;
	char line[128] = "";
	FILE *p;
	int r;

	if (strpbrk(srun, "'\n"))
		return -1;
	command = xasprintf("exec timeout 1 '%s' --version 2>/dev/null", srun);
	p = popen(command, "re");
	if (!p)
		return -1;
	if (fgets(line, sizeof(line), p))
		line[strcspn(line, "\n")] = '\0';
	r = pclose(p);
	if (*line)
		*version = xstrdup(line);
	return WIFEXITED(r) ? WEXITSTATUS(r) : -1;
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
	auto_free char *srun = doctor_program(m, "srun"), *version = NULL;
	const char *job = doctor_is_here(m) ? getenv("SLURM_JOB_ID") : NULL;
	struct doctor_finding *f;

	if (!srun && job) {
		f = doctor_add(r, "slurm", DOCTOR_WARNING,
			"this is in job %s, but there is no srun on PATH", job);
		doctor_because(f,
			"mlrun asks squeue whether jobs that use an image still run; without it images are kept for seven days");
		doctor_mend(f, DOCTOR_YOU, "export PATH=$PATH:/usr/bin:/opt/slurm/bin");
		return;
	}
	if (!srun) {
		doctor_add(r, "slurm", DOCTOR_PASS, "no Slurm here");
		return;
	}
	if (doctor_is_here(m) && ask_version(srun, &version) == 1 && !version) {
		f = doctor_add(r, "slurm", DOCTOR_WARNING, "'%s' does not work here", srun);
		doctor_because(f, "it finds no configuration, in no slurm.conf and by no server");
		doctor_mend(
			f, DOCTOR_ADMINISTRATOR, "%s --version; ls -l /etc/slurm/slurm.conf", srun);
		return;
	}
	doctor_add(r, "slurm", DOCTOR_PASS, "%s%s%s", version ? version : "srun is there",
		job ? ", in job " : "", job ? job : "");
	look_at_plugins(m, r);
}
