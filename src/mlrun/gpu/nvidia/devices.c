#include "gpu/nvidia/nvidia.h"

#include "gpu/node.h"

#define GPUS        "/proc/driver/nvidia/gpus"
#define LACKING_MAX 16 /* nodes named in one sentence */

/* Fixed numbers of NVIDIA's driver (kernel-open/common/inc/nv.h: NV_MAJOR_DEVICE_NUMBER and so
 * on). */
enum { NVIDIA_MAJOR = 195, MODESET_MINOR = 254, CONTROL_MINOR = 255 };

/* From /proc/devices: the dynamic numbers of drivers. */
struct majors {
	int known;            /* the file was readable */
	int has_main;         /* the driver's fixed number is in use */
	long uvm, caps, imex; /* -1: not loaded */
};

static long major_of(const char *devices, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = devices; (at = strstr(at, name)); at += len) {
		const char *line = at;

		/* "506 nvidia-uvm", not "506 nvidia-uvm-tools". */
		if (at == devices || at[-1] != ' ' || (at[len] && at[len] != '\n'))
			continue;
		while (line > devices && line[-1] != '\n')
			line--;
		return strtol(line, NULL, 10);
	}
	return -1;
}

static struct majors read_majors(const struct gpu_dir *d)
{
	auto_free char *text = gpu_dir_read(d, "/proc/devices");

	if (!text)
		return (struct majors){ 0, 0, -1, -1, -1 };
	/* Older drivers call themselves "nvidia-frontend", newer ones "nvidia". */
	return (struct majors){ 1, strstr(text, "195 nvidia") != NULL, major_of(text, "nvidia-uvm"),
		major_of(text, "nvidia-caps"), major_of(text, "nvidia-caps-imex-channels") };
}

/* --- GPUs ----------------------------------------------------------------- */

/* The value of a line "GPU UUID:   GPU-…", to free(); NULL without one. */
static char *field(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, len) != 0 || line[len] != ':')
			continue;
		const char *value = line + len + 1 + strspn(line + len + 1, " \t");
		size_t n = strcspn(value, "\n");

		while (n > 0 && isspace((unsigned char)value[n - 1]))
			n--;
		return n > 0 ? xstrndup(value, n) : NULL;
	}
	return NULL;
}

struct place {
	unsigned domain, bus, device, function;
};

static int parse_bus_id(const char *text, struct place *ret)
{
	int end = 0;

	return sscanf(text, "%8x:%2x:%2x.%1x%n", &ret->domain, &ret->bus, &ret->device,
		       &ret->function, &end) == 4 &&
		!text[end];
}

static int by_bus_id(const void *a, const void *b)
{
	const struct gpu *x = a, *y = b;
	struct place p = { 0 }, q = { 0 };

	parse_bus_id(x->bus_id, &p);
	parse_bus_id(y->bus_id, &q);
	if (p.domain != q.domain)
		return p.domain < q.domain ? -1 : 1;
	if (p.bus != q.bus)
		return p.bus < q.bus ? -1 : 1;
	if (p.device != q.device)
		return p.device < q.device ? -1 : 1;
	if (p.function != q.function)
		return p.function < q.function ? -1 : 1;
	return (x->minor > y->minor) - (x->minor < y->minor);
}

/* The driver writes question marks until a GPU is first used. */
static char *known_uuid(char *uuid)
{
	if (uuid && !strchr(uuid, '?'))
		return uuid;
	free(uuid);
	return NULL;
}

static int is_excluded(const char *text)
{
	auto_free char *excluded = field(text, "GPU Excluded"), *old = field(text, "Blacklisted");

	return (excluded && strcmp(excluded, "Yes") == 0) || (old && strcmp(old, "Yes") == 0);
}

static void find_node(const struct gpu_dir *d, struct gpu *g, struct strv *warnings)
{
	auto_free char *path = xasprintf("/dev/nvidia%u", g->minor);
	const struct gpu_node_want want = { path, NVIDIA_MAJOR, g->minor, R_OK | W_OK };

	if (gpu_node_look(d, &want, &g->node, warnings) < 0)
		g->node = (struct gpu_node){ .path = take_ptr(&path),
			.major = NVIDIA_MAJOR,
			.minor = g->minor,
			.error = ENOENT };
}

/* Add the GPU of a directory of GPUS. The name is the bus id, with four or eight digits of
 * domain. */
static void add_gpu(const struct gpu_dir *d, const char *name, const struct majors *majors,
	struct gpu_machine *m)
{
	auto_free char *path = xasprintf(GPUS "/%s/information", name),
		       *text = gpu_dir_read(d, path), *minor = field(text, "Device Minor");
	struct place place;
	struct gpu *g;

	if (!parse_bus_id(name, &place))
		return;
	if (text && is_excluded(text)) {
		strv_addf(&m->warnings,
			"GPU %s is excluded by the driver's option NVreg_ExcludedGpus", name);
		return;
	}
	if (!minor || strspn(minor, "0123456789") != strlen(minor) || strlen(minor) > 7) {
		strv_addf(&m->warnings, "'%s' %s; ignored this GPU", path,
			text ? "has no line 'Device Minor'" : "cannot be read");
		return;
	}
	g = gpu_machine_add_gpu(m);
	g->vendor = GPU_NVIDIA;
	g->bus_id = xasprintf(
		"%04x:%02x:%02x.%x", place.domain, place.bus, place.device, place.function);
	g->proc_dir = xasprintf(GPUS "/%s", name);
	g->uuid = known_uuid(field(text, "GPU UUID"));
	g->model = field(text, "Model");
	g->minor = (unsigned)atoi(minor);
	find_node(d, g, &m->warnings);
	auto_free char *device_dir = xasprintf("/sys/bus/pci/devices/%s", g->bus_id);

	gpu_node_find_drm(d, device_dir, g, &m->warnings);
	gpu_mig_find(d, majors->known ? majors->caps : GPU_MIG_ANY_CAPS, g, &m->warnings);
}

/* Where procfs hides the GPUs, as in some containers, their nodes still show them. */
static void add_bare_nodes(const struct gpu_dir *d, const struct strv *dev,
	const struct majors *majors, struct gpu_machine *m)
{
	for (size_t i = 0; i < dev->n; i++) {
		long minor = gpu_number_behind(dev->v[i], "nvidia");
		struct gpu *g;

		if (minor < 0)
			continue;
		g = gpu_machine_add_gpu(m);
		g->vendor = GPU_NVIDIA;
		g->bus_id = xstrdup("");
		g->minor = (unsigned)minor;
		find_node(d, g, &m->warnings);
		gpu_mig_find(d, majors->known ? majors->caps : GPU_MIG_ANY_CAPS, g, &m->warnings);
	}
}

static void find_gpus(const struct gpu_dir *d, const struct strv *dev, const struct majors *majors,
	struct gpu_machine *m)
{
	auto_strv struct strv names = STRV_INIT;
	size_t first = m->n_gpus;

	if (gpu_dir_list(d, GPUS, &names) < 0)
		add_bare_nodes(d, dev, majors, m);
	for (size_t i = 0; i < names.n; i++)
		add_gpu(d, names.v[i], majors, m);
	if (m->n_gpus > first)
		qsort(m->gpus + first, m->n_gpus - first, sizeof(*m->gpus), by_bus_id);
}

/* --- other nodes ---------------------------------------------------------- */

/* Find UVM's nodes. The module has a number while it is loaded; otherwise the nodes are dead. */
static void find_uvm(const struct gpu_dir *d, const struct majors *majors, struct gpu_machine *m)
{
	static const char *const paths[] = { "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools" };

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		const struct gpu_node_want want = { paths[i], majors->uvm, (long)i, R_OK | W_OK };
		size_t before = m->n_nodes;

		gpu_node_find(d, &want, &m->nodes, &m->n_nodes, &m->warnings);
		if (m->n_nodes > before && majors->known && majors->uvm < 0)
			m->nodes[before].error = ENXIO;
	}
	if (majors->known && majors->has_main && majors->uvm < 0)
		strv_addf(&m->warnings,
			"the kernel module nvidia-uvm is not loaded, without which CUDA finds no GPU: as root, nvidia-modprobe -c0 -u");
}

static void find_nodes(const struct gpu_dir *d, const struct majors *majors, struct gpu_machine *m)
{
	static const struct gpu_node_want control = { "/dev/nvidiactl", NVIDIA_MAJOR, CONTROL_MINOR,
		R_OK | W_OK },
					  modeset = { "/dev/nvidia-modeset", NVIDIA_MAJOR,
						  MODESET_MINOR, R_OK | W_OK },
					  dxg = { "/dev/dxg", -1, -1, R_OK | W_OK };

	if (m->driver == GPU_DRIVER_WSL) {
		gpu_node_find(d, &dxg, &m->nodes, &m->n_nodes, &m->warnings);
		return;
	}
	gpu_node_find(d, &control, &m->nodes, &m->n_nodes, &m->warnings);
	find_uvm(d, majors, m);
	gpu_node_find(d, &modeset, &m->nodes, &m->n_nodes, &m->warnings);
}

/* Find a directory's nodes called word, or word and a number, which is the minor number if the
 * major one is known. */
static void find_like(const struct gpu_dir *d, const char *dir, const struct strv *names,
	const char *word, long major, int how, struct gpu_machine *m)
{
	for (size_t i = 0; i < names->n; i++) {
		const char *name = names->v[i];
		long number = gpu_number_behind(name, word);

		if (strcmp(name, word) != 0 && number < 0)
			continue;
		auto_free char *path = xasprintf("%s/%s", dir, name);
		const struct gpu_node_want want = { path, major, major < 0 ? -1 : number, how };

		gpu_node_find(d, &want, &m->fabric, &m->n_fabric, &m->warnings);
	}
}

static void find_fabric(const struct gpu_dir *d, const struct strv *dev,
	const struct majors *majors, struct gpu_machine *m)
{
	static const char *const words[] = { "nvidia-fs", "gdrdrv", "nvidia-nvswitchctl",
		"nvidia-nvswitch" };
	static const char infiniband[] = "/dev/infiniband",
			  imex[] = "/dev/nvidia-caps-imex-channels";
	auto_strv struct strv verbs = STRV_INIT, channels = STRV_INIT;

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		find_like(d, "/dev", dev, words[i], -1, R_OK | W_OK, m);
	if (strv_has(dev, "infiniband") && gpu_dir_list(d, infiniband, &verbs) == 0) {
		find_like(d, infiniband, &verbs, "uverbs", -1, R_OK | W_OK, m);
		find_like(d, infiniband, &verbs, "rdma_cm", -1, R_OK | W_OK, m);
	}
	if (strv_has(dev, "nvidia-caps-imex-channels") && gpu_dir_list(d, imex, &channels) == 0)
		find_like(d, imex, &channels, "channel", majors->imex, R_OK, m);
}

/* --- what is odd ---------------------------------------------------------- */

static void append(char **text, char *more)
{
	set_ptr(text, more);
}

/* Warn of GPUs in procfs that have no node. */
static void warn_lacking(struct gpu_machine *m)
{
	auto_free char *paths = xstrdup(""), *options = xstrdup("");
	size_t lacking = 0, there = 0;

	for (size_t i = 0; i < m->n_gpus; i++) {
		const struct gpu *g = &m->gpus[i];

		there += g->node.error != ENOENT;
		if (g->node.error != ENOENT || lacking++ >= LACKING_MAX)
			continue;
		append(&paths, xasprintf("%s%s'%s'", paths, *paths ? ", " : "", g->node.path));
		append(&options, xasprintf("%s -c%u", options, g->minor));
	}
	if (lacking > LACKING_MAX)
		append(&paths, xasprintf("%s and %zu more", paths, lacking - LACKING_MAX));
	if (lacking > 0 && there == 0)
		strv_addf(&m->warnings,
			"%s %s missing although the driver is loaded: nvidia-modprobe never ran; as root, nvidia-modprobe%s -u",
			paths, lacking > 1 ? "are" : "is", options);
	else if (lacking > 0)
		strv_addf(&m->warnings,
			"%s %s missing: this container was not given %s, or nvidia-modprobe%s has to be run as root",
			paths, lacking > 1 ? "are" : "is", lacking > 1 ? "these GPUs" : "this GPU",
			options);
	else if (!gpu_machine_node(m, "/dev/nvidiactl"))
		strv_add(&m->warnings,
			"'/dev/nvidiactl' is missing although the driver is loaded: nvidia-modprobe never ran; as root, nvidia-modprobe -c0 -u");
}

/* Nodes outlive the module that they lead to. */
static void mark_dead(struct gpu_machine *m)
{
	for (size_t i = 0; i < m->n_gpus; i++)
		if (m->gpus[i].node.error == 0)
			m->gpus[i].node.error = ENXIO;
	for (size_t i = 0; i < m->n_nodes; i++)
		m->nodes[i].error = ENXIO;
	strv_add(&m->warnings,
		"the kernel module nvidia is not loaded, though its device nodes are there: as root, modprobe nvidia");
}

/* Report all nodes that a group's mode closes in one sentence, as they mostly are alike. */
static void warn_closed(struct gpu_machine *m)
{
	const struct gpu_node *first = NULL;
	size_t n = 0;

	for (size_t i = 0; i < m->n_gpus; i++)
		if (m->gpus[i].vendor == GPU_NVIDIA && m->gpus[i].node.error == EACCES && n++ == 0)
			first = &m->gpus[i].node;
	for (size_t i = 0; i < m->n_nodes; i++)
		if (m->nodes[i].error == EACCES &&
			strcmp(m->nodes[i].path, "/dev/nvidia-modeset") != 0 && n++ == 0)
			first = &m->nodes[i];
	if (!first)
		return;
	auto_free char *why = gpu_node_why(first);

	if (n > 1)
		strv_addf(&m->warnings, "%s (and so for %zu more)", why, n - 1);
	else
		strv_add(&m->warnings, why);
}

int gpu_devices_find(const struct gpu_dir *d, struct gpu_machine *m, struct mlr_error *err)
{
	auto_strv struct strv dev = STRV_INIT;
	struct majors majors;
	int r;

	if (m->driver == GPU_DRIVER_NONE || m->driver == GPU_DRIVER_TEGRA)
		return 0;
	r = gpu_dir_list(d, "/dev", &dev);
	if (r < 0 && r != -ENOENT)
		return mlr_result(err, r, "GPUs: '/dev' cannot be listed");
	majors = read_majors(d);
	m->has_caps = majors.known ? majors.caps >= 0 : strv_has(&dev, "nvidia-caps");
	if (m->driver == GPU_DRIVER_NVIDIA)
		find_gpus(d, &dev, &majors, m);
	find_nodes(d, &majors, m);
	find_fabric(d, &dev, &majors, m);
	if (m->driver == GPU_DRIVER_NVIDIA && majors.known && !majors.has_main)
		mark_dead(m);
	else if (m->driver == GPU_DRIVER_NVIDIA)
		warn_lacking(m);
	warn_closed(m);
	return 0;
}

int gpu_nvidia_find(const struct gpu_dir *d, int with_files, unsigned caps, struct gpu_machine *m,
	struct mlr_error *err)
{
	TRY(gpu_files_find(d, with_files, caps, m, err));
	return gpu_devices_find(d, m, err);
}
