/* NVIDIA's driver, as far as its files tell. */
#include "doctor/check.h"

#include "base/cleanup.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* /dev/nvidia0 and so on. */
static int count_nodes(const struct doctor_machine *m)
{
	auto_free char *path = doctor_path(m, "/dev");
	DIR *d = opendir(path);
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d)))
		n += strncmp(e->d_name, "nvidia", 6) == 0 && isdigit((unsigned char)e->d_name[6]);
	if (d)
		closedir(d);
	return n;
}

/* "535.104.05" of "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 …" */
static char *driver_version(char *text)
{
	char *save = NULL;

	text[strcspn(text, "\n")] = '\0';
	for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save))
		if (isdigit((unsigned char)*w) && strchr(w, '.') &&
			strspn(w, "0123456789.") == strlen(w))
			return w;
	return NULL;
}

void check_gpu(const struct doctor_machine *m, struct doctor_report *r)
{
	auto_free char *text = doctor_text(m, "/proc/driver/nvidia/version"),
		       *ctl = doctor_path(m, "/dev/nvidiactl");
	const char *version = text ? driver_version(text) : NULL;
	int n = count_nodes(m);
	struct doctor_finding *f;

	if (!text && n == 0) {
		doctor_add(r, "gpu", DOCTOR_PASS, "no NVIDIA GPU here");
		return;
	}
	if (!text) {
		f = doctor_add(r, "gpu", DOCTOR_FAILURE, "%d GPU device node%s, but no driver", n,
			n > 1 ? "s" : "");
		doctor_because(f, "/proc/driver/nvidia/version is not there");
		doctor_mend(f, DOCTOR_ADMINISTRATOR, "modprobe nvidia && dmesg | grep -i nvrm");
		return;
	}
	if (n == 0) {
		f = doctor_add(r, "gpu", DOCTOR_FAILURE, "NVIDIA driver %s, but no /dev/nvidia0",
			version ? version : "(version unknown)");
		doctor_because(f,
			"the nodes are made when the driver is first used by root, or a job was given no GPU");
		doctor_mend(f, DOCTOR_ADMINISTRATOR, "nvidia-modprobe -u -c=0");
		return;
	}
	if (doctor_is_here(m) && access(ctl, R_OK | W_OK) < 0) {
		f = doctor_add(r, "gpu", DOCTOR_FAILURE, "/dev/nvidiactl cannot be opened: %s",
			strerror(errno));
		doctor_because(f,
			"NVIDIA driver %s lets its own group alone use the GPUs, or the job has none",
			version ? version : "(version unknown)");
		doctor_mend(f, DOCTOR_ADMINISTRATOR,
			"echo 'options nvidia NVreg_DeviceFileMode=0666' >/etc/modprobe.d/nvidia-mode.conf; srun --gres=gpu:1 in a job");
		return;
	}
	doctor_add(r, "gpu", DOCTOR_PASS, "NVIDIA driver %s, %d GPU%s",
		version ? version : "(version unknown)", n, n > 1 ? "s" : "");
}
