/* GPUs and their nodes, in trees made here. */
#include "unit.h"
#include "made_machine.h"
#include "gpu/amd/amd.h"
#include "gpu/nvidia/nvidia.h"
#include "gpu/node.h"

static struct gpu_machine m = GPU_MACHINE_INIT;

/* Nodes that a job's cgroup denies; NULL: none. */
static const char *denied;

int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);

int __wrap_access(const char *path, int mode)
{
	char place[4096];
	ssize_t n = denied ? readlink(path, place, sizeof(place) - 1) : -1;

	if (n > (ssize_t)strlen(root)) {
		place[n] = '\0';
		if (strstr(denied, place + strlen(root))) {
			errno = EPERM;
			return -1;
		}
	}
	return __real_access(path, mode);
}

static int forget(void **state)
{
	gpu_machine_done(&m);
	return drop_root(state);
}

static void put_gpu(const char *bus, unsigned minor, const char *uuid)
{
	auto_free char *path = xasprintf("/proc/driver/nvidia/gpus/%s/information", bus),
		       *text = xasprintf("Model: \t\t NVIDIA H100 80GB HBM3\n"
					 "IRQ:   \t\t 101\n"
					 "GPU UUID: \t %s\n"
					 "Bus Location: \t %s\n"
					 "Device Minor: \t %u\n"
					 "GPU Excluded:\t No\n",
			       uuid, bus, minor);

	put(path, text);
}

static void put_node(unsigned minor)
{
	auto_free char *path = xasprintf("/dev/nvidia%u", minor);

	put_mode(path, "", 0666);
}

/* What nvidia-modprobe makes beside the GPUs' own nodes. */
static void put_driver(void)
{
	put("/proc/devices",
		"Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n236 nvidia-caps\n"
		"235 nvidia-caps-imex-channels\n507 nvidia-uvm\n\nBlock devices:\n  8 sd\n");
	put("/dev/nvidiactl", "");
	put("/dev/nvidia-uvm", "");
	put("/dev/nvidia-uvm-tools", "");
}

static void look_as(enum gpu_driver driver)
{
	auto_call(gpu_dir_close) struct gpu_dir d = GPU_DIR_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	gpu_machine_done(&m);
	m.driver = driver;
	assert_int_equal(gpu_dir_open(root, &d), 0);
	if (gpu_devices_find(&d, &m, &err) < 0 || gpu_amd_find(&d, 0, 0, &m, &err) < 0)
		fail_msg("%s", err.text);
	gpu_machine_count(&m);
}

static void look(void)
{
	look_as(GPU_DRIVER_NVIDIA);
}

static void warns(const char *words)
{
	for (size_t i = 0; i < m.warnings.n; i++)
		if (strstr(m.warnings.v[i], words))
			return;
	fail_msg("nobody warns of '%s' (%zu warnings, '%s')", words, m.warnings.n,
		m.warnings.n ? m.warnings.v[0] : "");
}

static void is_node(const char *path, unsigned major, unsigned minor)
{
	const struct gpu_node *n = gpu_machine_node(&m, path);

	if (!n)
		fail_msg("no node '%s'", path);
	assert_int_equal(n->error, 0);
	assert_int_equal(n->major, major);
	assert_int_equal(n->minor, minor);
}

/* A GPU's index, and why its node cannot be opened. */
static void is_gpu(size_t i, enum gpu_vendor vendor, int index, int error)
{
	assert_int_equal(m.gpus[i].vendor, vendor);
	assert_int_equal(m.gpus[i].index, index);
	assert_int_equal(m.gpus[i].node.error, error);
}

static void one_gpu_is_told_with_all_its_nodes(void **state)
{
	put_driver();
	put("/dev/nvidia-modeset", "");
	put_gpu("0000:3b:00.0", 0, "GPU-11111111-2222-3333-4444-555555555555");
	put_node(0);
	put_link("/sys/bus/pci/devices/0000:3b:00.0", "../../../devices/pci0000:3a/0000:3b:00.0");
	put("/sys/devices/pci0000:3a/0000:3b:00.0/drm/card1/dev", "226:1\n");
	put("/sys/devices/pci0000:3a/0000:3b:00.0/drm/renderD129/dev", "226:129\n");
	put("/dev/dri/card1", "");
	put("/dev/dri/renderD129", "");
	look();
	assert_int_equal(m.n_gpus, 1);
	const struct gpu *g = &m.gpus[0];

	is_gpu(0, GPU_NVIDIA, 0, 0);
	assert_string_equal(g->bus_id, "0000:3b:00.0");
	assert_string_equal(g->proc_dir, "/proc/driver/nvidia/gpus/0000:3b:00.0");
	assert_string_equal(g->uuid, "GPU-11111111-2222-3333-4444-555555555555");
	assert_string_equal(g->model, "NVIDIA H100 80GB HBM3");
	assert_int_equal(g->n_drm, 2);
	assert_int_equal(g->n_mig, 0);
	assert_true(m.has_caps);
	is_node("/dev/nvidia0", 195, 0);
	is_node("/dev/nvidiactl", 195, 255);
	is_node("/dev/nvidia-uvm", 507, 0);
	is_node("/dev/nvidia-uvm-tools", 507, 1);
	is_node("/dev/nvidia-modeset", 195, 254);
	is_node("/dev/dri/card1", 226, 1);
	is_node("/dev/dri/renderD129", 226, 129);
	assert_int_equal(m.warnings.n, 0);
}

static void without_a_driver_nothing_is_looked_for(void **state)
{
	put_driver();
	put_gpu("0000:3b:00.0", 0, "GPU-1");
	put_node(0);
	look_as(GPU_DRIVER_NONE);
	assert_int_equal(m.n_gpus, 0);
	assert_int_equal(m.n_nodes, 0);
	assert_int_equal(m.warnings.n, 0);
}

static void eight_gpus_are_counted_by_bus_and_not_by_minor(void **state)
{
	static const char *const buses[] = { "0000:18:00.0", "0000:2a:00.0", "0000:3a:00.0",
		"0000:5d:00.0", "0000:9a:00.0", "0000:ab:00.0", "0000:ba:00.0", "0001:01:00.0" };
	static const unsigned minors[] = { 3, 2, 1, 0, 7, 6, 5, 4 };

	put_driver();
	for (size_t i = 8; i-- > 0;) {
		auto_free char *uuid = xasprintf("GPU-%zu", i);

		put_gpu(buses[i], minors[i], uuid);
		put_node(minors[i]);
	}
	look();
	assert_int_equal(m.n_gpus, 8);
	for (size_t i = 0; i < 8; i++) {
		assert_string_equal(m.gpus[i].bus_id, buses[i]);
		assert_int_equal(m.gpus[i].minor, minors[i]);
		assert_int_equal(m.gpus[i].index, (int)i);
	}
	/* One that cannot be opened is not counted, as it is not by nvidia-smi in a job. */
	drop("/dev/nvidia1");
	look();
	is_gpu(1, GPU_NVIDIA, 1, 0);
	is_gpu(2, GPU_NVIDIA, -1, ENOENT);
	assert_string_equal(m.gpus[2].node.path, "/dev/nvidia1");
	is_gpu(3, GPU_NVIDIA, 2, 0);
	warns("'/dev/nvidia1' is missing: this container was not given this GPU, or nvidia-modprobe -c1 has");
}

static void domains_have_four_digits_or_more(void **state)
{
	put_driver();
	put_gpu("00010000:01:00.0", 0, "GPU-0");
	put_gpu("00000000:65:00.0", 1, "GPU-1");
	put_gpu("0002:C1:00.0", 2, "GPU-2");
	put_node(0);
	put_node(1);
	put_node(2);
	look();
	assert_int_equal(m.n_gpus, 3);
	assert_string_equal(m.gpus[0].bus_id, "0000:65:00.0");
	assert_string_equal(m.gpus[0].proc_dir, "/proc/driver/nvidia/gpus/00000000:65:00.0");
	assert_string_equal(m.gpus[1].bus_id, "0002:c1:00.0");
	assert_string_equal(m.gpus[2].bus_id, "10000:01:00.0");
}

static void hundreds_of_gpus_are_sorted(void **state)
{
	put_driver();
	for (unsigned i = 0; i < 300; i++) {
		auto_free char *bus = xasprintf("%04x:%02x:00.0", i / 200, 255 - i % 200);

		put_gpu(bus, i, "GPU-1");
		put_node(i);
	}
	look();
	assert_int_equal(m.n_gpus, 300);
	for (size_t i = 1; i < m.n_gpus; i++)
		assert_true(strcmp(m.gpus[i - 1].bus_id, m.gpus[i].bus_id) < 0);
	assert_int_equal(m.gpus[299].index, 299);
}

static void a_uuid_that_the_driver_does_not_know_yet_is_unknown(void **state)
{
	put_driver();
	put_gpu("0000:3b:00.0", 0, "GPU-?\?-?\?-?\?");
	put_node(0);
	look();
	assert_null(m.gpus[0].uuid);
}

static void a_gpu_that_is_excluded_or_broken_is_left_out_and_told(void **state)
{
	put_driver();
	put_node(0);
	put_gpu("0000:3b:00.0", 0, "GPU-1");
	put("/proc/driver/nvidia/gpus/0000:4b:00.0/information",
		"Device Minor: 1\nGPU Excluded:\t Yes\n");
	put("/proc/driver/nvidia/gpus/0000:5b:00.0/information",
		"Model: \t\t none\nDevice Minor: \t ?\n");
	put("/proc/driver/nvidia/gpus/0000:6b:00.0/power", "\n");
	put("/proc/driver/nvidia/gpus/readme", "\n");
	look();
	assert_int_equal(m.n_gpus, 1);
	assert_int_equal(m.warnings.n, 3);
	warns("GPU 0000:4b:00.0 is excluded by the driver's option");
	warns("5b:00.0/information' has no line 'Device Minor'");
	warns("6b:00.0/information' cannot be read");
}

static void where_procfs_hides_gpus_their_nodes_tell(void **state)
{
	put_driver();
	put_node(10);
	put_node(9);
	put("/dev/nvidia9a", "");
	look();
	assert_int_equal(m.n_gpus, 2);
	assert_int_equal(m.gpus[0].minor, 9);
	assert_string_equal(m.gpus[0].bus_id, "");
	assert_null(m.gpus[0].proc_dir);
	assert_int_equal(m.gpus[1].index, 1);
	/* An empty directory is no hidden one: the driver has no GPU. */
	put("/proc/driver/nvidia/gpus/x", "");
	drop("/proc/driver/nvidia/gpus/x");
	look();
	assert_int_equal(m.n_gpus, 0);
}

static void put_capability(const char *name, unsigned minor)
{
	auto_free char *path = xasprintf("/proc/driver/nvidia/capabilities/%s", name),
		       *text = xasprintf(
			       "DeviceFileMinor: %u\nDeviceFileMode: 292\nDeviceFileModify: 1\n",
			       minor),
		       *node = xasprintf("/dev/nvidia-caps/nvidia-cap%u", minor);

	put(path, text);
	put_mode(node, "", 0444);
}

static void parts_are_found_with_their_nodes(void **state)
{
	put_driver();
	put_gpu("0000:18:00.0", 0, "GPU-0");
	put_gpu("0000:2a:00.0", 1, "GPU-1");
	put_node(0);
	put_node(1);
	put_capability("mig/config", 1);
	put_capability("gpu0/mig/gi10/access", 93);
	put_capability("gpu0/mig/gi10/ci0/access", 94);
	put_capability("gpu0/mig/gi2/access", 21);
	put_capability("gpu0/mig/gi2/ci1/access", 23);
	put_capability("gpu0/mig/gi2/ci0/access", 22);
	put_capability("gpu1/mig/gi1/access", 150);
	put("/proc/driver/nvidia/capabilities/gpu1/mig/gi1/ci0/access", "\n");
	put("/proc/driver/nvidia-caps/mig-minors",
		"config 1\nmonitor 2\ngpu1/gi1/ci0/access 151\ngpu1/gi1/ci1/access 152\ngpu1/gi1/ci2/access 15");
	look();
	assert_int_equal(m.gpus[0].n_mig, 3);
	assert_int_equal(m.gpus[1].n_mig, 1);
	const struct gpu_mig *part = m.gpus[0].mig;

	assert_int_equal(part[0].gi, 2);
	assert_int_equal(part[0].ci, 0);
	assert_int_equal(part[1].ci, 1);
	assert_int_equal(part[2].gi, 10);
	assert_string_equal(
		part[2].gi_access, "/proc/driver/nvidia/capabilities/gpu0/mig/gi10/access");
	assert_string_equal(
		part[2].ci_access, "/proc/driver/nvidia/capabilities/gpu0/mig/gi10/ci0/access");
	assert_string_equal(part[2].gi_node.path, "/dev/nvidia-caps/nvidia-cap93");
	assert_string_equal(part[2].ci_node.path, "/dev/nvidia-caps/nvidia-cap94");
	assert_int_equal(part[2].ci_node.major, 236);
	assert_int_equal(part[2].ci_node.minor, 94);
	/* Nobody may write to it, and nobody needs to. */
	assert_int_equal(part[2].ci_node.mode, 0444);
	assert_int_equal(part[2].ci_node.error, 0);
	/* Its own file says nothing; the list of all does. */
	assert_string_equal(m.gpus[1].mig[0].ci_node.path, "/dev/nvidia-caps/nvidia-cap151");
	assert_int_equal(m.gpus[1].mig[0].ci_node.error, ENOENT);
	warns("'/dev/nvidia-caps/nvidia-cap151' is missing, so this part of a GPU cannot be used: as root, "
	      "nvidia-modprobe -f /proc/driver/nvidia/capabilities/gpu1/mig/gi1/ci0/access");
	/* The list was cut within its last number. */
	put("/proc/driver/nvidia/capabilities/gpu1/mig/gi1/ci2/access", "\n");
	look();
	assert_int_equal(m.gpus[1].n_mig, 2);
	assert_null(m.gpus[1].mig[1].ci_node.path);
	warns("names the device of this part of a GPU");
}

static void a_kernel_without_caps_has_parts_without_nodes(void **state)
{
	put_driver();
	put("/proc/devices", "Character devices:\n195 nvidia\n507 nvidia-uvm\n");
	put_gpu("0000:18:00.0", 0, "GPU-0");
	put_node(0);
	put_capability("gpu0/mig/gi1/access", 3);
	put_capability("gpu0/mig/gi1/ci0/access", 4);
	look();
	assert_false(m.has_caps);
	assert_int_equal(m.gpus[0].n_mig, 1);
	assert_null(m.gpus[0].mig[0].gi_node.path);
	assert_null(m.gpus[0].mig[0].ci_node.path);
	assert_int_equal(m.warnings.n, 0);
}

static void nodes_that_nobody_made_are_told_with_the_command(void **state)
{
	put("/proc/devices", "Character devices:\n195 nvidia\n507 nvidia-uvm\n");
	put_gpu("0000:18:00.0", 0, "GPU-0");
	put_gpu("0000:2a:00.0", 1, "GPU-1");
	look();
	assert_int_equal(m.n_gpus, 2);
	assert_int_equal(m.n_nodes, 0);
	assert_int_equal(m.gpus[0].index, -1);
	assert_int_equal(m.warnings.n, 1);
	warns("'/dev/nvidia0', '/dev/nvidia1' are missing although the driver is loaded: nvidia-modprobe never ran; "
	      "as root, nvidia-modprobe -c0 -c1 -u");
	put_node(0);
	put_node(1);
	look();
	warns("'/dev/nvidiactl' is missing although the driver is loaded");
}

static void a_module_that_is_not_loaded_leaves_dead_nodes(void **state)
{
	put_driver();
	put("/proc/devices",
		"Character devices:\n195 nvidia\n236 nvidia-caps\n507 nvidia-uvm-of-others\n");
	put_gpu("0000:18:00.0", 0, "GPU-0");
	put_node(0);
	look();
	assert_int_equal(gpu_machine_node(&m, "/dev/nvidia-uvm")->error, ENXIO);
	warns("nvidia-uvm is not loaded");
}

static void put_amd(unsigned node, unsigned render, const char *bus, const char *unique)
{
	auto_free char *dir = xasprintf("/sys/class/kfd/kfd/topology/nodes/%u", node),
		       *id = xasprintf("%s/gpu_id", dir), *path = xasprintf("%s/properties", dir),
		       *text = xasprintf(
			       "cpu_cores_count 0\nsimd_count 1216\ndomain 0\n"
			       "drm_render_minor %u\nunique_id %s\ngfx_target_version 90402\n",
			       render, unique),
		       *device = xasprintf("/sys/devices/pci0000:c0/%s", bus),
		       *to = xasprintf("../../../devices/pci0000:c0/%s", bus),
		       *link = xasprintf("/sys/class/drm/renderD%u/device", render),
		       *vendor = xasprintf("%s/vendor", device),
		       *number = xasprintf("%s/device", device),
		       *memory = xasprintf("%s/mem_info_vram_total", device),
		       *drm = xasprintf("%s/drm/renderD%u/dev", device, render),
		       *dev = xasprintf("/dev/dri/renderD%u", render);

	put(id, "51110\n");
	put(path, text);
	put(vendor, "0x1002\n");
	put(number, "0x74a1\n");
	put(memory, "206141652992\n");
	put(drm, "\n");
	put_link(link, to);
	put(dev, "");
}

static void what_the_jobs_cgroup_denies_is_known_and_nothing_odd(void **state)
{
	put_driver();
	for (unsigned i = 0; i < 4; i++) {
		auto_free char *bus = xasprintf("0000:%02x:00.0", i);

		put_gpu(bus, i, "GPU-1");
		put_node(i);
	}
	put("/dev/kfd", "");
	put_amd(1, 128, "0000:c1:00.0", "1");
	put_amd(2, 129, "0000:c6:00.0", "2");
	/* amdkfd lets nobody read the topology of a GPU that the cgroup denies. */
	drop("/sys/class/kfd/kfd/topology/nodes/2/properties");
	denied = "/dev/nvidia0 /dev/nvidia2 /dev/dri/renderD129";
	look();
	denied = NULL;
	assert_int_equal(m.n_gpus, 6);
	is_gpu(0, GPU_NVIDIA, -1, EPERM);
	is_gpu(1, GPU_NVIDIA, 0, 0);
	is_gpu(2, GPU_NVIDIA, -1, EPERM);
	is_gpu(3, GPU_NVIDIA, 1, 0);
	is_gpu(4, GPU_AMD, 0, 0);
	is_gpu(5, GPU_AMD, -1, EPERM);
	assert_string_equal(m.gpus[5].bus_id, "0000:c6:00.0");
	assert_int_equal(m.warnings.n, 0);
}

static void nodes_of_a_driver_that_is_gone_are_dead(void **state)
{
	put_driver();
	put_node(0);
	put("/proc/devices", "Character devices:\n  1 mem\n");
	look();
	assert_int_equal(m.n_gpus, 1);
	is_gpu(0, GPU_NVIDIA, -1, ENXIO);
	assert_int_equal(gpu_machine_node(&m, "/dev/nvidiactl")->error, ENXIO);
	assert_int_equal(m.warnings.n, 1);
	warns("the kernel module nvidia is not loaded, though its device nodes are there");
}

/* A device that every machine has stands for one that is not the driver's. */
static void a_number_that_is_not_the_drivers_is_told_on_a_real_machine(void **state)
{
	static const struct {
		struct gpu_node_want want;
		int error;
	} cases[] = {
		{ { "/dev/null", 195, 0, R_OK | W_OK }, ENXIO },
		{ { "/dev/null", 1, 3, R_OK | W_OK }, 0 },
		{ { "/dev/null", -1, -1, R_OK | W_OK }, 0 },
	};
	auto_call(gpu_dir_close) struct gpu_dir d = GPU_DIR_INIT;

	assert_int_equal(gpu_dir_open("/", &d), 0);
	assert_true(d.is_machine);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct gpu_node n;

		assert_int_equal(gpu_node_look(&d, &cases[i].want, &n, &m.warnings), 0);
		assert_int_equal(n.error, cases[i].error);
		assert_int_equal(n.major, 1);
		free(n.path);
	}
	assert_int_equal(m.warnings.n, 1);
	warns("'/dev/null' is device 1:3, not the driver's 195:0");
}

static void a_node_that_is_closed_is_told_with_whose_it_is(void **state)
{
	static const struct {
		const char *path;
		mode_t mode;
		int error;
		const char *users, *why; /* NULL: not closed */
	} cases[] = {
		{ "/dev/nvidia0", 0660, EACCES, "group daemon",
			"only group 'daemon' may open '/dev/nvidia0' (mode 0660)" },
		{ "/dev/nvidia0", 0660, EACCES, "group daemon", "usermod -aG daemon " },
		{ "/dev/nvidia0", 0600, EACCES, "only root",
			"only root may open '/dev/nvidia0' (mode 0600)" },
		/* Who may only read has no use of it, but for a node of capabilities. */
		{ "/dev/nvidia0", 0640, EACCES, "only root", "" },
		{ "/dev/nvidia0", 0440, EACCES, "group daemon", "" },
		{ "/dev/nvidia0", 0666, EACCES, "a security module denies it",
			"a security module denies '/dev/nvidia0'" },
		{ "/dev/nvidia0", 0666, ENOENT, "nobody: missing",
			"as root, create it: nvidia-modprobe -c0 -u" },
		{ "/dev/dri/renderD128", 0666, ENOENT, "nobody: missing", "modprobe amdgpu" },
		{ "/dev/nvidia0", 0666, EPERM, "the job's cgroup denies it",
			"the job's cgroup denies '/dev/nvidia0'" },
		{ "/dev/nvidia0", 0666, 0, "you", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct gpu_node n = { .path = (char *)cases[i].path,
			.gid = 1,
			.mode = cases[i].mode,
			.error = cases[i].error };
		auto_free char *users = gpu_node_users(&n), *why = gpu_node_why(&n);

		assert_string_equal(users, cases[i].users);
		if (!why != !cases[i].why || (why && !strstr(why, cases[i].why)))
			fail_msg("'%s' does not say '%s'", why, cases[i].why);
	}
}

static void closed_nodes_are_one_warning(void **state)
{
	if (geteuid() == 0) /* nothing is closed to root */
		return;
	put_driver();
	for (unsigned i = 0; i < 4; i++) {
		auto_free char *bus = xasprintf("0000:%02x:00.0", i),
			       *path = xasprintf("/dev/nvidia%u", i);

		put_gpu(bus, i, "GPU-1");
		put_mode(path, "", 0);
	}
	look();
	is_gpu(0, GPU_NVIDIA, -1, EACCES);
	assert_int_equal(m.warnings.n, 1);
	warns("only its owner may open '/dev/nvidia0' (mode 0000)");
	warns("(and so for 3 more)");
}

static void the_fabrics_nodes_are_apart(void **state)
{
	static const char *const nodes[] = { "/dev/nvidia-fs0", "/dev/nvidia-fs15", "/dev/gdrdrv",
		"/dev/nvidia-nvswitchctl", "/dev/nvidia-nvswitch0", "/dev/infiniband/uverbs0",
		"/dev/infiniband/rdma_cm" };

	put_driver();
	put_gpu("0000:18:00.0", 0, "GPU-0");
	put_node(0);
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
		put(nodes[i], "");
	put("/dev/nvidia-nvswitch0x", "");
	put("/dev/infiniband/umad0", "");
	put("/dev/nvidia-caps-imex-channels/channel0", "");
	put_mode("/dev/nvidia-caps-imex-channels/channel7", "", 0444);
	put("/dev/nvidia-caps-imex-channels/x", "");
	look();
	assert_int_equal(m.n_fabric, ARRAY_LEN(nodes) + 2);
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
		is_node(nodes[i], 0, 0);
	is_node("/dev/nvidia-caps-imex-channels/channel0", 235, 0);
	is_node("/dev/nvidia-caps-imex-channels/channel7", 235, 7);
}

static void windows_gpus_are_one_node(void **state)
{
	put("/dev/dxg", "");
	look_as(GPU_DRIVER_WSL);
	assert_int_equal(m.n_gpus, 0);
	assert_int_equal(m.n_nodes, 1);
	assert_string_equal(m.nodes[0].path, "/dev/dxg");
	assert_int_equal(m.warnings.n, 0);
}

static void amds_gpus_are_told_by_their_topology(void **state)
{
	put("/dev/kfd", "");
	put("/sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n");
	put("/sys/class/kfd/kfd/topology/nodes/0/properties",
		"cpu_cores_count 96\ndrm_render_minor 0\n");
	put_amd(10, 129, "0000:c6:00.0", "0");
	put_amd(2, 128, "0000:c1:00.0", "1311768467463790320");
	put("/usr/share/misc/pci.ids",
		"# comment\n1001  Other\n\t74a1  no\n1002  Advanced Micro Devices, Inc. [AMD/ATI]\n\t74a0  Aqua\n"
		"\t74a1  Aqua Vanjaram [Instinct MI300X]\n\t\t1002 74a1  sub\n1003  X\n\t74a1  no\n");
	put("/sys/devices/pci0000:c0/0000:c6:00.0/product_name", "AMD INSTINCT MI300X OAM\n");
	look_as(GPU_DRIVER_NONE);
	assert_int_equal(m.n_gpus, 2);
	const struct gpu *g = m.gpus;

	is_gpu(0, GPU_AMD, 0, 0);
	assert_string_equal(g[0].bus_id, "0000:c1:00.0");
	assert_string_equal(g[0].uuid, "GPU-123456789abcdef0");
	assert_string_equal(g[0].model, "AMD Aqua Vanjaram [Instinct MI300X]");
	assert_string_equal(g[0].node.path, "/dev/dri/renderD128");
	assert_true(g[0].memory == 206141652992);
	assert_int_equal(g[0].arch.part[0], 9);
	assert_int_equal(g[0].arch.part[1], 4);
	assert_int_equal(g[0].arch.part[2], 2);
	assert_int_equal(g[0].n_drm, 1);
	assert_int_equal(g[1].index, 1);
	assert_null(g[1].uuid);
	assert_string_equal(g[1].model, "AMD INSTINCT MI300X OAM");
	is_node("/dev/kfd", 0, 0);
	is_node("/dev/dri/renderD129", 226, 129);
	assert_int_equal(m.warnings.n, 0);
	/* Without /dev/kfd none can be used. */
	drop("/dev/kfd");
	drop("/usr/share/misc/pci.ids");
	look_as(GPU_DRIVER_NONE);
	assert_int_equal(m.gpus[0].index, -1);
	assert_string_equal(m.gpus[0].model, "AMD GPU");
	warns("'/dev/kfd' is missing");
}

static void vendors_are_counted_apart(void **state)
{
	put_driver();
	put_gpu("0000:3b:00.0", 0, "GPU-0");
	put_node(0);
	put("/dev/kfd", "");
	put_amd(1, 128, "0000:c1:00.0", "1");
	look();
	assert_int_equal(m.n_gpus, 2);
	is_gpu(0, GPU_NVIDIA, 0, 0);
	is_gpu(1, GPU_AMD, 0, 0);
	assert_int_equal(m.warnings.n, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_root, forget)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_gpu_is_told_with_all_its_nodes),
		TEST(without_a_driver_nothing_is_looked_for),
		TEST(eight_gpus_are_counted_by_bus_and_not_by_minor),
		TEST(domains_have_four_digits_or_more),
		TEST(hundreds_of_gpus_are_sorted),
		TEST(a_uuid_that_the_driver_does_not_know_yet_is_unknown),
		TEST(a_gpu_that_is_excluded_or_broken_is_left_out_and_told),
		TEST(where_procfs_hides_gpus_their_nodes_tell),
		TEST(parts_are_found_with_their_nodes),
		TEST(a_kernel_without_caps_has_parts_without_nodes),
		TEST(nodes_that_nobody_made_are_told_with_the_command),
		TEST(a_module_that_is_not_loaded_leaves_dead_nodes),
		TEST(what_the_jobs_cgroup_denies_is_known_and_nothing_odd),
		TEST(nodes_of_a_driver_that_is_gone_are_dead),
		TEST(a_number_that_is_not_the_drivers_is_told_on_a_real_machine),
		TEST(a_node_that_is_closed_is_told_with_whose_it_is),
		TEST(closed_nodes_are_one_warning),
		TEST(the_fabrics_nodes_are_apart),
		TEST(windows_gpus_are_one_node),
		TEST(amds_gpus_are_told_by_their_topology),
		TEST(vendors_are_counted_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
