#include "gpu/nvidia/nvidia.h"

#define COMPATIBLE_MAX 4096 /* bytes of a device tree's names */

/* From a driver on, its CUDA version, until the next line. A branch without a toolkit of its own
 * supports that of the branch before it, or what its nvidia-smi reports (565). */
static const struct {
	struct gpu_version driver, cuda;
} served[] = {
	{ { { 340, 29 } }, { { 6, 5 } } },
	{ { { 346, 46 } }, { { 7, 0 } } },
	{ { { 352, 31 } }, { { 7, 5 } } },
	{ { { 367, 48 } }, { { 8, 0 } } },
	{ { { 384, 81 } }, { { 9, 0 } } },
	{ { { 387, 26 } }, { { 9, 1 } } },
	{ { { 396, 26 } }, { { 9, 2 } } },
	{ { { 410, 48 } }, { { 10, 0 } } },
	{ { { 418, 39 } }, { { 10, 1 } } },
	{ { { 440, 33 } }, { { 10, 2 } } },
	{ { { 450, 36, 6 } }, { { 11, 0 } } },
	{ { { 455, 23 } }, { { 11, 1 } } },
	{ { { 460, 27, 3 } }, { { 11, 2 } } },
	{ { { 465, 19, 1 } }, { { 11, 3 } } },
	{ { { 470, 42, 1 } }, { { 11, 4 } } },
	{ { { 495, 29, 5 } }, { { 11, 5 } } },
	{ { { 510, 39, 1 } }, { { 11, 6 } } },
	{ { { 515, 43, 4 } }, { { 11, 7 } } },
	{ { { 520, 61, 5 } }, { { 11, 8 } } },
	{ { { 525, 60, 13 } }, { { 12, 0 } } },
	{ { { 530, 30, 2 } }, { { 12, 1 } } },
	{ { { 535, 54, 3 } }, { { 12, 2 } } },
	{ { { 545, 23, 6 } }, { { 12, 3 } } },
	{ { { 550, 54, 14 } }, { { 12, 4 } } },
	{ { { 555, 42, 2 } }, { { 12, 5 } } },
	{ { { 560, 28, 3 } }, { { 12, 6 } } },
	{ { { 565, 57, 1 } }, { { 12, 7 } } },
	{ { { 570, 26 } }, { { 12, 8 } } },
	{ { { 575, 51, 3 } }, { { 12, 9 } } },
	{ { { 580, 65, 6 } }, { { 13, 0 } } },
	{ { { 590, 44, 1 } }, { { 13, 1 } } },
	{ { { 595, 45, 4 } }, { { 13, 2 } } },
};

/* Branches before the first line and after the last are unknown. */
#define LAST_BRANCH 599

static int is_there(const struct gpu_dir *d, const char *path)
{
	auto_close int fd = file_open_in_root(d->fd, path, O_PATH, 0);

	return fd >= 0;
}

/* The names in a device tree's "compatible" each end with a NUL. */
static int names_tegra(const struct gpu_dir *d, const char *path)
{
	static const char tegra[] = "nvidia,tegra";
	auto_close int fd = gpu_dir_open_file(d, path);
	char text[COMPATIBLE_MAX];
	ssize_t n = fd < 0 ? -1 : file_read_full(fd, text, sizeof(text));

	return n > 0 && memmem(text, (size_t)n, tegra, sizeof(tegra) - 1) != NULL;
}

static int is_tegra(const struct gpu_dir *d)
{
	return is_there(d, "/etc/nv_tegra_release") ||
		names_tegra(d, "/sys/firmware/devicetree/base/compatible") ||
		names_tegra(d, "/proc/device-tree/compatible");
}

/*
 * "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023" or
 * "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (…)": the
 * first word that is a version.
 */
static void read_version(struct gpu_machine *m, char *text)
{
	char *rest = NULL;

	text[strcspn(text, "\n")] = '\0';
	m->is_open = strstr(text, "Open Kernel Module") != NULL;
	for (char *word = strtok_r(text, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest))
		if (gpu_driver_is_version(word)) {
			gpu_driver_set_version(m, word);
			return;
		}
}

void gpu_driver_find(const struct gpu_dir *d, struct gpu_machine *m)
{
	auto_free char *text = NULL;

	if (is_tegra(d)) {
		m->driver = GPU_DRIVER_TEGRA;
		m->refused = xstrdup(
			"this is a Jetson (Tegra), whose GPU driver is a part of its Linux for Tegra and not "
			"NVIDIA's usual one; 'nvidia-ctk cdi generate --mode=csv' describes it in a CDI file, "
			"whose devices --device brings");
		return;
	}
	text = gpu_dir_read(d, "/proc/driver/nvidia/version");
	if (text) {
		m->driver = GPU_DRIVER_NVIDIA;
		read_version(m, text);
	} else if (is_there(d, "/dev/dxg")) {
		m->driver = GPU_DRIVER_WSL;
	} else if (is_there(d, "/dev/nvidiactl")) {
		m->driver = GPU_DRIVER_NVIDIA;
	}
}

int gpu_driver_is_version(const char *text)
{
	struct gpu_version v;

	return strchr(text, '.') && gpu_version_parse(text, &v) == 0 && v.part[0] > 100;
}

void gpu_driver_set_version(struct gpu_machine *m, const char *text)
{
	set_ptr(&m->driver_text, xstrdup(text));
	gpu_version_parse(text, &m->driver_version);
	m->cuda = gpu_driver_cuda(&m->driver_version);
}

struct gpu_version gpu_driver_cuda(const struct gpu_version *driver)
{
	struct gpu_version cuda = { { 0 } };

	if (driver->part[0] > LAST_BRANCH)
		return cuda;
	for (size_t i = 0; i < ARRAY_LEN(served); i++)
		if (gpu_version_compare(driver, &served[i].driver) >= 0)
			cuda = served[i].cuda;
	return cuda;
}
