/*
 * Finds AMD's GPUs by the topology of the kernel's driver amdkfd (Documentation of ROCm's KFD
 * topology; Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c). The topology node of a GPU that the
 * job's cgroup denies cannot be read; such a GPU is found in /sys/class/drm.
 */
#include "gpu/amd/amd.h"

#include "gpu/node.h"

#define KFD "/sys/class/kfd/kfd/topology/nodes"
#define AMD "1002" /* AMD's PCI vendor id */

/* The number in a line "drm_render_minor 128"; 0 without one. */
static uint64_t property(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, len) == 0 && line[len] == ' ')
			return strtoull(line + len, NULL, 10);
	}
	return 0;
}

/* Read a small file below a directory, without the final newline, to free(); NULL also when
 * empty. */
static char *read_below(const struct gpu_dir *d, const char *dir, const char *name)
{
	auto_free char *path = xasprintf("%s/%s", dir, name), *text = gpu_dir_read(d, path);

	if (text)
		text[strcspn(text, "\n")] = '\0';
	return text && *text ? take_ptr(&text) : NULL;
}

static int by_number(const void *a, const void *b)
{
	long x = strtol(*(char *const *)a, NULL, 10), y = strtol(*(char *const *)b, NULL, 10);

	return (x > y) - (x < y);
}

/* Find a device's name in pci.ids(5), "Aldebaran/MI200 [Instinct MI250X]"; the lines of a vendor's
 * devices begin with a tab. To free(). */
static char *name_in_ids(FILE *f, const char *device)
{
	auto_free char *line = NULL;
	size_t size = 0, digits = strlen(device);
	int is_amd = 0;

	while (getline(&line, &size, f) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (*line != '\t' && *line != '#' && *line)
			is_amd = strncmp(line, AMD, strlen(AMD)) == 0;
		else if (is_amd && *line == '\t' && strncmp(line + 1, device, digits) == 0 &&
			line[1 + digits] == ' ')
			return xstrdup(line + 1 + digits + strspn(line + 1 + digits, " "));
	}
	return NULL;
}

static char *model_by_ids(const struct gpu_dir *d, const char *device)
{
	static const char *const files[] = { "/usr/share/misc/pci.ids",
		"/usr/share/hwdata/pci.ids" };

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		int fd = gpu_dir_open_file(d, files[i]);
		FILE *f = fd < 0 ? NULL : fdopen(fd, "re");
		char *name = f ? name_in_ids(f, device) : NULL;

		if (f)
			fclose(f);
		else if (fd >= 0)
			close(fd);
		if (name)
			return name;
	}
	return NULL;
}

/* The board's name, which few boards have, else the chip's. The list of chips is long, and not read
 * when only files matter. */
static char *model_of(const struct gpu_dir *d, const char *device_dir, int with_files)
{
	auto_free char *board = read_below(d, device_dir, "product_name"), *id = NULL, *chip = NULL;

	if (board)
		return xasprintf("AMD %s", strncmp(board, "AMD ", 4) == 0 ? board + 4 : board);
	id = with_files ? NULL : read_below(d, device_dir, "device");
	chip = id && strncmp(id, "0x", 2) == 0 ? model_by_ids(d, id + 2) : NULL;
	return chip ? xasprintf("AMD %s", chip) : xstrdup("AMD GPU");
}

/* Add the GPU behind a render node, from sysfs. */
static struct gpu *add_gpu(
	const struct gpu_dir *d, unsigned render, int with_files, struct gpu_machine *m)
{
	auto_free char *device_dir = xasprintf("/sys/class/drm/renderD%u/device", render),
		       *real = gpu_dir_resolve(d, device_dir, NULL),
		       *path = xasprintf("/dev/dri/renderD%u", render),
		       *memory = read_below(d, device_dir, "mem_info_vram_total");
	const struct gpu_node_want want = { path, GPU_DRM_MAJOR, render, R_OK | W_OK };
	const char *name = real ? strrchr(real, '/') + 1 : "";
	struct gpu *g = gpu_machine_add_gpu(m);

	g->vendor = GPU_AMD;
	g->bus_id = xstrdup(strchr(name, ':') ? name : "");
	g->minor = render;
	g->model = model_of(d, device_dir, with_files);
	g->memory = memory ? strtoull(memory, NULL, 10) : 0;
	gpu_node_find_drm(d, device_dir, g, &m->warnings);
	if (gpu_node_look(d, &want, &g->node, &m->warnings) < 0)
		g->node = (struct gpu_node){ .path = take_ptr(&path),
			.major = GPU_DRM_MAJOR,
			.minor = render,
			.error = ENOENT };
	return g;
}

/* Add the GPU of a topology node. Processors are nodes too, with gpu_id 0. */
static void add_topology_node(
	const struct gpu_dir *d, const char *name, int with_files, struct gpu_machine *m)
{
	auto_free char *dir = xasprintf(KFD "/%s", name), *id = read_below(d, dir, "gpu_id"),
		       *path = xasprintf("%s/properties", dir), *text = NULL;
	uint64_t location, unique, version;
	struct gpu *g;

	if (!id || strtoul(id, NULL, 10) == 0)
		return;
	text = gpu_dir_read(d, path);
	if (property(text, "drm_render_minor") == 0 ||
		property(text, "drm_render_minor") > 1u << 20)
		return;
	g = add_gpu(d, (unsigned)property(text, "drm_render_minor"), with_files, m);
	location = property(text, "location_id");
	unique = property(text, "unique_id");
	version = property(text, "gfx_target_version");
	if (!*g->bus_id && location) {
		set_ptr(&g->bus_id,
			xasprintf("%04" PRIx64 ":%02x:%02x.%x",
				property(text, "domain") & 0xffffffff,
				(unsigned)(location >> 8 & 0xff), (unsigned)(location >> 3 & 0x1f),
				(unsigned)(location & 7)));
	}
	if (unique)
		g->uuid = xasprintf("GPU-%016" PRIx64, unique);
	g->arch = (struct gpu_version){ { (unsigned)(version / 10000 % 1000),
		(unsigned)(version / 100 % 100), (unsigned)(version % 100) } };
}

static int is_listed(const struct gpu_machine *m, unsigned render)
{
	for (size_t i = 0; i < m->n_gpus; i++)
		if (m->gpus[i].vendor == GPU_AMD && m->gpus[i].minor == render)
			return 1;
	return 0;
}

/* Add GPUs that amdkfd hides from this job. Other cards that it lacks are for graphics only. */
static void add_denied(const struct gpu_dir *d, int with_files, struct gpu_machine *m)
{
	auto_strv struct strv names = STRV_INIT;

	gpu_dir_list(d, "/sys/class/drm", &names);
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *dir = xasprintf("/sys/class/drm/%s/device", names.v[i]),
			       *vendor = NULL, *path = xasprintf("/dev/dri/%s", names.v[i]);
		struct gpu_node node = { .path = NULL };
		long render = gpu_number_behind(names.v[i], "renderD");

		if (render < 0 || is_listed(m, (unsigned)render) ||
			gpu_dir_node(d, path, &node) < 0)
			continue;
		free(node.path);
		vendor = read_below(d, dir, "vendor");
		if (node.error == EPERM && vendor && strcmp(vendor, "0x" AMD) == 0)
			add_gpu(d, (unsigned)render, with_files, m);
	}
}

/* All of them need /dev/kfd. */
static void check_door(const struct gpu_dir *d, size_t first, struct gpu_machine *m)
{
	static const struct gpu_node_want kfd = { "/dev/kfd", -1, -1, R_OK | W_OK };
	auto_free char *why = NULL;
	struct gpu_node door = { .error = ENOENT };
	size_t before = m->n_nodes;

	gpu_node_find(d, &kfd, &m->nodes, &m->n_nodes, &m->warnings);
	if (m->n_nodes > before)
		door = m->nodes[before];
	for (size_t i = first; i < m->n_gpus; i++) {
		struct gpu *g = &m->gpus[i];

		if (g->node.error == 0)
			g->node.error = door.error;
		else if (g->node.error == EACCES && door.error == 0)
			door = g->node;
	}
	if (m->n_gpus == first || door.error == 0 || door.error == EPERM)
		return;
	if (door.error == ENOENT) {
		strv_add(&m->warnings,
			"'/dev/kfd' is missing although amdgpu is loaded: as root, modprobe amdgpu && udevadm trigger");
		return;
	}
	why = gpu_node_why(&door);
	strv_add(&m->warnings, why);
}

int gpu_amd_find(const struct gpu_dir *d, int with_files, unsigned caps, struct gpu_machine *m,
	struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT;
	size_t first = m->n_gpus;

	if (gpu_dir_list(d, KFD, &names) < 0)
		return 0;
	qsort(names.v, names.n, sizeof(*names.v), by_number);
	for (size_t i = 0; i < names.n; i++)
		add_topology_node(d, names.v[i], with_files, m);
	add_denied(d, with_files, m);
	check_door(d, first, m);
	if (with_files && m->n_gpus > first)
		gpu_rocm_find(d, m);
	return 0;
}
