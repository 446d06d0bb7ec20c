/* What comes into a plan of a machine, a wish and a choice that are made up here. */
#include "unit.h"
#include "gpu/inject/inject.h"
#include "image_dir.h"

#define V "550.54.15"

/* Whether this machine's /proc has a driver's directory. */
static int has_proc;

int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);

int __wrap_access(const char *path, int mode)
{
	if (strcmp(path, "/proc/driver/nvidia") != 0)
		return __real_access(path, mode);
	errno = ENOENT;
	return has_proc ? 0 : -1;
}

#define LIB "/usr/lib/x86_64-linux-gnu/"

static char host[64], root[64];
static struct gpu_machine m;
static struct gpu_wish w;
static struct gpu_choice c;
static struct plan p;

static struct gpu_file *add_file(
	enum gpu_file_kind kind, unsigned caps, const char *path, const char *target)
{
	struct gpu_file *f = gpu_machine_add_file(&m);

	f->kind = kind;
	f->caps = caps;
	f->path = xstrdup(path);
	f->target = target ? xstrdup(target) : NULL;
	f->bits = 64;
	return f;
}

static void add_library(unsigned caps, const char *path, const char *soname, const char *dev_link)
{
	struct gpu_file *f = add_file(GPU_LIBRARY, caps, path, NULL);

	f->soname = soname ? xstrdup(soname) : NULL;
	f->dev_link = dev_link ? xstrdup(dev_link) : NULL;
}

static void add_node(struct gpu_node **v, size_t *n, const char *path)
{
	gpu_node_add(v, n)->path = xstrdup(path);
}

static void add_gpu(enum gpu_vendor vendor, unsigned minor, const char *bus)
{
	struct gpu *g = gpu_machine_add_gpu(&m);

	g->vendor = vendor;
	g->minor = minor;
	g->bus_id = xstrdup(bus);
	g->index = (int)m.n_gpus - 1;
	g->node.path = vendor == GPU_NVIDIA ? xasprintf("/dev/nvidia%u", minor)
					    : xasprintf("/dev/dri/renderD%u", 128 + minor);
	g->proc_dir = vendor == GPU_NVIDIA ? xasprintf("/proc/driver/nvidia/gpus/%s", bus) : NULL;
	gpu_node_add(&g->drm, &g->n_drm)->path = xasprintf("/dev/dri/card%u", minor);
	gpu_node_add(&g->drm, &g->n_drm)->path = xasprintf("/dev/dri/renderD%u", 128 + minor);
}

static void add_mig(unsigned gi)
{
	struct gpu *g = &m.gpus[0];
	struct gpu_mig *part;

	g->mig = xgrow(g->mig, g->n_mig, sizeof(*g->mig));
	part = &g->mig[g->n_mig++];
	*part = (struct gpu_mig){ .gi = gi, .ci = 0 };
	part->gi_access = xasprintf("/proc/driver/nvidia/capabilities/gpu0/mig/gi%u/access", gi);
	part->ci_access =
		xasprintf("/proc/driver/nvidia/capabilities/gpu0/mig/gi%u/ci0/access", gi);
	part->gi_node.path = xasprintf("/dev/nvidia-caps/nvidia-cap%u", gi * 10);
	part->ci_node.path = xasprintf("/dev/nvidia-caps/nvidia-cap%u", gi * 10 + 1);
}

static void make_files(void)
{
	struct gpu_file *f;

	add_library(GPU_COMPUTE | GPU_VIDEO, LIB "libcuda.so." V, "libcuda.so.1", "libcuda.so");
	add_library(GPU_UTILITY, LIB "libnvidia-ml.so." V, "libnvidia-ml.so.1", NULL);
	add_library(GPU_VIDEO, LIB "libnvcuvid.so." V, "libnvcuvid.so.1", NULL);
	add_library(GPU_VIDEO, LIB "vdpau/libvdpau_nvidia.so." V, "libvdpau_nvidia.so.1", NULL);
	add_library(GPU_GRAPHICS | GPU_DISPLAY, LIB "libGLX_nvidia.so." V, "libGLX_nvidia.so.0",
		"libGLX_indirect.so.0");
	add_library(GPU_GRAPHICS | GPU_DISPLAY, LIB "libnvidia-glcore.so." V,
		"libnvidia-glcore.so." V, NULL);
	add_library(GPU_COMPUTE | GPU_VIDEO | GPU_GRAPHICS | GPU_DISPLAY,
		LIB "libnvidia-allocator.so." V, "libnvidia-allocator.so.1", NULL);
	add_library(GPU_NGX, LIB "libnvidia-ngx.so." V, "libnvidia-ngx.so.1", NULL);
	f = add_file(GPU_LIBRARY, GPU_COMPUTE | GPU_VIDEO, "/usr/lib/i386-linux-gnu/libcuda.so." V,
		NULL);
	f->bits = 32;
	f->soname = xstrdup("libcuda.so.1");
	add_file(GPU_PROGRAM, GPU_UTILITY, "/opt/bin/nvidia-smi", "/usr/bin/nvidia-smi");
	add_file(GPU_PROGRAM, GPU_COMPUTE, "/usr/bin/nvidia-cuda-mps-server",
		"/usr/bin/nvidia-cuda-mps-server");
	add_file(GPU_FIRMWARE, 0, "/lib/firmware/nvidia/" V "/gsp_ga10x.bin",
		"/lib/firmware/nvidia/" V "/gsp_ga10x.bin");
	add_file(GPU_SOCKET, GPU_UTILITY, "/run/nvidia-persistenced/socket",
		"/run/nvidia-persistenced/socket");
	add_file(GPU_DATA, GPU_GRAPHICS | GPU_DISPLAY,
		"/usr/share/glvnd/egl_vendor.d/10_nvidia.json",
		"/usr/share/glvnd/egl_vendor.d/10_nvidia.json");
	add_file(GPU_DATA, GPU_DISPLAY, "/usr/lib/xorg/libglxserver_nvidia.so." V,
		"/usr/lib/xorg/libglxserver_nvidia.so." V);
	add_file(GPU_DATA, GPU_DISPLAY, "/usr/lib/xorg/libglxserver_nvidia.so." V,
		"/usr/lib/xorg/libglxserver_nvidia.so");
}

static int make(void **state)
{
	static const char *const controls[] = { "/dev/nvidiactl", "/dev/nvidia-uvm",
		"/dev/nvidia-uvm-tools", "/dev/nvidia-modeset" };
	static const char *const fabric[] = { "/dev/nvidia-fs0", "/dev/infiniband/uverbs0",
		"/dev/infiniband/rdma_cm", "/dev/nvidia-nvswitchctl", "/dev/gdrdrv",
		"/dev/nvidia-caps-imex-channels/channel0",
		"/dev/nvidia-caps-imex-channels/channel1" };

	has_proc = 0;
	image_dir_make(host);
	image_dir_make(root);
	setenv("MLRUN_GPU_ROOT", host, 1);
	image_dir_put(host, "/proc/driver/nvidia/params",
		"ResmanDebugLevel: 1\nModifyDeviceFiles: 1\nX: 1\n");
	image_dir_put(host, "/proc/driver/nvidia/version", "NVRM version: " V "\n");
	plan_init(&p);
	m = (struct gpu_machine)GPU_MACHINE_INIT;
	w = (struct gpu_wish)GPU_WISH_INIT;
	c = (struct gpu_choice){ 0 };
	m.driver = GPU_DRIVER_NVIDIA;
	m.driver_text = xstrdup(V);
	gpu_version_parse(V, &m.driver_version);
	for (size_t i = 0; i < ARRAY_LEN(controls); i++)
		add_node(&m.nodes, &m.n_nodes, controls[i]);
	for (size_t i = 0; i < ARRAY_LEN(fabric); i++)
		add_node(&m.fabric, &m.n_fabric, fabric[i]);
	add_gpu(GPU_NVIDIA, 0, "0000:3b:00.0");
	add_gpu(GPU_NVIDIA, 3, "0000:5e:00.0");
	make_files();
	w.kind = GPU_WISH_ALL;
	w.caps = GPU_UTILITY | GPU_COMPUTE;
	return 0;
}

static int drop(void **state)
{
	plan_done(&p);
	gpu_machine_done(&m);
	gpu_wish_done(&w);
	gpu_choice_done(&c);
	unsetenv("MLRUN_GPU_ROOT");
	image_dir_drop(host);
	image_dir_drop(root);
	return 0;
}

static void choose(size_t gpu, int mig)
{
	c.v = xreallocarray(c.v, c.n + 1, sizeof(*c.v));
	c.v[c.n++] = (struct gpu_chosen){ gpu, mig };
}

static void inject(void)
{
	const struct gpu_image image = image_dir(root);
	struct mlr_error err = MLR_ERROR_INIT;

	if (gpu_inject(&m, &w, &c, &image, &p, &err) < 0)
		fail_msg("%s", err.text);
}

static const struct plan_mount *at(const char *target)
{
	const struct plan_mount *found = NULL;

	for (size_t i = 0; i < p.n_mounts; i++) {
		assert_int_equal(p.mounts[i].origin, PLAN_FROM_GPU);
		if (strcmp(p.mounts[i].target, target) == 0 && p.mounts[i].kind != PLAN_SEAL) {
			assert_null(found); /* nothing is put twice to one place */
			found = &p.mounts[i];
		}
	}
	return found;
}

static void is_bound(const char *target, const char *source, unsigned flags)
{
	const struct plan_mount *b = at(target);
	auto_free char *from = xasprintf("%s%s", host, source);

	if (!b)
		fail_msg("nothing is at %s", target);
	assert_int_equal(b->kind, PLAN_BIND);
	assert_string_equal(b->source, from);
	assert_int_equal(b->flags, flags);
}

/* A path of the machine's that is the same inside. */
static void is_same(const char *path, unsigned flags)
{
	is_bound(path, path, flags);
}

static void is_node(const char *path)
{
	is_same(path, PLAN_READONLY | PLAN_NOSUID | PLAN_NOEXEC);
}

static void is_link(const char *target, const char *text)
{
	const struct plan_mount *l = at(target);

	if (!l)
		fail_msg("no link is at %s", target);
	assert_int_equal(l->kind, PLAN_SYMLINK);
	assert_string_equal(l->source, text);
}

static void is_absent(const char *target)
{
	if (at(target))
		fail_msg("%s is there", target);
}

static void is_found(const char *name, int bits, const char *path)
{
	for (size_t i = 0; i < p.n_libraries; i++)
		if (strcmp(p.libraries[i].name, name) == 0 && p.libraries[i].bits == bits) {
			assert_string_equal(p.libraries[i].path, path);
			return;
		}
	fail_msg("%s is not found", name);
}

#define FILE_FLAGS (PLAN_READONLY | PLAN_NOSUID | PLAN_NODEV)
#define PROC       (PLAN_READONLY | PLAN_NOSUID | PLAN_NODEV | PLAN_NOEXEC)

static void the_chosen_gpus_and_the_controls_of_their_capabilities_come_in(void **state)
{
	choose(1, -1);
	inject();
	is_node("/dev/nvidiactl");
	is_node("/dev/nvidia3");
	is_node("/dev/nvidia-uvm");
	is_node("/dev/nvidia-uvm-tools");
	is_absent("/dev/nvidia0");
	is_absent("/dev/nvidia-modeset");
	is_absent("/dev/dri/card3");
	is_absent("/dev/nvidia-fs0");
}

static void check(const char *when, const char *target, int wanted)
{
	if ((at(target) != NULL) != wanted)
		fail_msg("%s: %s is %s", when, target, wanted ? "missing" : "there");
}

/* What each capability brings; 0: any. */
static const struct {
	const char *target;
	unsigned caps;
} brought[] = {
	{ "/dev/nvidiactl", 0 },
	{ "/dev/nvidia0", 0 },
	{ "/proc/driver/nvidia/params", 0 },
	{ "/lib/firmware/nvidia/" V "/gsp_ga10x.bin", 0 },
	{ "/dev/nvidia-uvm", GPU_COMPUTE | GPU_VIDEO },
	{ "/dev/nvidia-modeset", GPU_DISPLAY },
	{ "/dev/dri/card0", GPU_GRAPHICS | GPU_DISPLAY },
	{ GPU_LIB_DIR "/libcuda.so." V, GPU_COMPUTE | GPU_VIDEO },
	{ GPU_LIB_DIR "/libnvidia-ml.so." V, GPU_UTILITY },
	{ GPU_LIB_DIR "/libnvcuvid.so." V, GPU_VIDEO },
	{ GPU_LIB_DIR "/libGLX_nvidia.so." V, GPU_GRAPHICS | GPU_DISPLAY },
	{ GPU_LIB_DIR "/libnvidia-ngx.so." V, GPU_NGX },
	{ "/usr/bin/nvidia-smi", GPU_UTILITY },
	{ "/usr/bin/nvidia-cuda-mps-server", GPU_COMPUTE },
	{ "/run/nvidia-persistenced/socket", GPU_UTILITY },
	{ "/usr/share/glvnd/egl_vendor.d/10_nvidia.json", GPU_GRAPHICS | GPU_DISPLAY },
	{ "/usr/lib/xorg/libglxserver_nvidia.so", GPU_DISPLAY },
	{ "/etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf",
		GPU_GRAPHICS | GPU_DISPLAY },
};

static void each_capability_brings_its_own_and_no_more(void **state)
{
	static const unsigned wished[] = { 0, GPU_UTILITY, GPU_COMPUTE, GPU_VIDEO, GPU_GRAPHICS,
		GPU_DISPLAY, GPU_NGX, GPU_COMPAT32, GPU_CAPABILITIES_ALL };

	for (size_t i = 0; i < ARRAY_LEN(wished); i++) {
		auto_free char *when = gpu_capabilities_print(wished[i]);

		w.caps = wished[i];
		choose(0, -1);
		inject();
		for (size_t k = 0; k < ARRAY_LEN(brought); k++)
			check(when, brought[k].target,
				!brought[k].caps || (brought[k].caps & w.caps));
		/* Of 32 bits only with what brings the library itself. */
		check(when, GPU_LIB32_DIR "/libcuda.so." V, w.caps == GPU_CAPABILITIES_ALL);
		drop(state);
		make(state);
	}
}

static void libraries_lie_in_our_directory_with_their_links_and_it_is_sealed(void **state)
{
	w.caps = GPU_CAPABILITIES_ALL;
	choose(0, -1);
	inject();
	assert_int_equal(at(GPU_LIB_DIR)->kind, PLAN_TMPFS);
	is_bound(GPU_LIB_DIR "/libcuda.so." V, LIB "libcuda.so." V, FILE_FLAGS);
	is_link(GPU_LIB_DIR "/libcuda.so.1", "libcuda.so." V);
	is_link(GPU_LIB_DIR "/libcuda.so", "libcuda.so.1");
	is_bound(GPU_LIB_DIR "/libvdpau_nvidia.so." V, LIB "vdpau/libvdpau_nvidia.so." V,
		FILE_FLAGS);
	is_link(GPU_LIB_DIR "/libGLX_nvidia.so.0", "libGLX_nvidia.so." V);
	is_link(GPU_LIB_DIR "/libGLX_indirect.so.0", "libGLX_nvidia.so." V);
	is_found("libcuda.so.1", 64, GPU_LIB_DIR "/libcuda.so.1");
	is_found("libcuda.so", 64, GPU_LIB_DIR "/libcuda.so");
	is_found("libnvidia-glcore.so." V, 64, GPU_LIB_DIR "/libnvidia-glcore.so." V);
	is_found("libcuda.so.1", 32, GPU_LIB32_DIR "/libcuda.so.1");
	is_link("/usr/lib/xorg/libglxserver_nvidia.so", "libglxserver_nvidia.so." V);
	for (size_t i = 0, sealed = 0; i < p.n_mounts; i++) {
		int inside =
			strncmp(p.mounts[i].target, GPU_LIB_DIR "/", strlen(GPU_LIB_DIR "/")) == 0;

		sealed |= p.mounts[i].kind == PLAN_SEAL &&
			strcmp(p.mounts[i].target, GPU_LIB_DIR) == 0;
		assert_false(sealed && inside); /* what comes later could not be made any more */
		if (i + 1 == p.n_mounts)
			assert_true(sealed);
	}
}

static void the_gbm_driver_is_linked_where_the_distribution_has_its_own(void **state)
{
	w.caps = GPU_GRAPHICS;
	choose(0, -1);
	inject();
	is_link("/usr/lib64/gbm/nvidia-drm_gbm.so", GPU_LIB_DIR "/libnvidia-allocator.so.1");
	drop(state);
	make(state);
	image_dir_mkdir(root, "/usr/lib/x86_64-linux-gnu");
	image_dir_mkdir(root, "/usr/lib/aarch64-linux-gnu");
	w.caps = GPU_GRAPHICS;
	choose(0, -1);
	inject();
	is_absent("/usr/lib64/gbm/nvidia-drm_gbm.so");
}

static void drm_nodes_have_links_by_their_paths(void **state)
{
	w.caps = GPU_GRAPHICS;
	choose(1, -1);
	inject();
	is_node("/dev/dri/card3");
	is_node("/dev/dri/renderD131");
	is_link("/dev/dri/by-path/pci-0000:5e:00.0-card", "../card3");
	is_link("/dev/dri/by-path/pci-0000:5e:00.0-render", "../renderD131");
	is_absent("/dev/dri/card0");
}

static void proc_shows_the_chosen_alone_and_forbids_to_make_nodes(void **state)
{
	const struct plan_mount *f;

	choose(0, -1);
	inject();
	assert_int_equal(at("/proc/driver")->kind, PLAN_TMPFS);
	f = at("/proc/driver/nvidia/params");
	assert_int_equal(f->kind, PLAN_FILE);
	assert_string_equal(f->text, "ResmanDebugLevel: 1\nModifyDeviceFiles: 0\nX: 1\n");
	assert_int_equal(at("/proc/driver/nvidia/version")->kind, PLAN_FILE);
	is_absent("/proc/driver/nvidia/registry"); /* this machine has none */
	is_same("/proc/driver/nvidia/gpus/0000:3b:00.0", PROC);
	is_absent("/proc/driver/nvidia/gpus/0000:5e:00.0");
}

static void where_the_machine_has_a_driver_its_directory_alone_is_covered(void **state)
{
	has_proc = 1;
	choose(0, -1);
	inject();
	assert_int_equal(at("/proc/driver/nvidia")->kind, PLAN_TMPFS);
	is_absent("/proc/driver");
}

static void without_gpus_the_machines_are_not_told_of(void **state)
{
	const struct plan_mount *dir;

	assert_int_equal(gpu_procfs_hide(&p, NULL), 0);
	assert_int_equal(p.n_mounts, 0);
	has_proc = 1;
	assert_int_equal(gpu_procfs_hide(&p, NULL), 0);
	dir = at("/proc/driver/nvidia");
	assert_int_equal(dir->kind, PLAN_TMPFS);
	assert_int_equal(dir->flags, PROC);
	assert_int_equal(p.n_mounts, 1);
}

static void a_part_brings_its_parent_and_the_files_of_its_own(void **state)
{
	m.has_caps = 1;
	add_mig(1);
	add_mig(2);
	choose(0, 1);
	inject();
	is_node("/dev/nvidia0");
	is_node("/dev/nvidia-caps/nvidia-cap20");
	is_node("/dev/nvidia-caps/nvidia-cap21");
	is_absent("/dev/nvidia-caps/nvidia-cap10");
	is_same("/proc/driver/nvidia/capabilities/gpu0/mig/gi2/access", PROC);
	is_same("/proc/driver/nvidia/capabilities/gpu0/mig/gi2/ci0/access", PROC);
	is_absent("/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access");
}

static void two_parts_of_one_gpu_bring_its_node_once(void **state)
{
	add_mig(1);
	add_mig(2);
	choose(0, 0);
	choose(0, 1);
	inject();
	is_node("/dev/nvidia0"); /* at() refuses two */
	/* The kernel has no such devices, so the files alone are there. */
	is_absent("/dev/nvidia-caps/nvidia-cap10");
	is_same("/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", PROC);
}

static void a_whole_gpu_brings_all_its_parts(void **state)
{
	m.has_caps = 1;
	add_mig(1);
	add_mig(2);
	choose(0, -1);
	inject();
	is_node("/dev/nvidia-caps/nvidia-cap11");
	is_node("/dev/nvidia-caps/nvidia-cap21");
}

static void extras_bring_the_nodes_of_the_fabric(void **state)
{
	w.extras = GPU_EXTRA_MOFED | GPU_EXTRA_GDRCOPY | GPU_EXTRA_GDS;
	strv_add(&w.imex, "1");
	strv_add(&w.imex, "7");
	image_dir_put(host, "/etc/cufile.json", "{}");
	choose(0, -1);
	inject();
	is_node("/dev/infiniband/uverbs0");
	is_node("/dev/infiniband/rdma_cm");
	is_node("/dev/gdrdrv");
	is_node("/dev/nvidia-fs0");
	is_same("/etc/cufile.json", FILE_FLAGS);
	is_absent("/run/udev"); /* this machine has none */
	is_absent("/dev/nvidia-nvswitchctl");
	is_node("/dev/nvidia-caps-imex-channels/channel1");
	is_absent("/dev/nvidia-caps-imex-channels/channel0");
	is_absent("/dev/nvidia-caps-imex-channels/channel7");
	assert_true(p.n_remarks > 0);
}

static void without_a_gpu_the_driver_comes_alone(void **state)
{
	w.kind = GPU_WISH_DRIVER;
	w.extras = GPU_EXTRA_GDRCOPY;
	inject();
	is_node("/dev/nvidiactl");
	is_bound("/usr/bin/nvidia-smi", "/opt/bin/nvidia-smi", FILE_FLAGS);
	is_absent("/dev/nvidia0");
	is_absent("/dev/gdrdrv");
	is_absent("/proc/driver/nvidia/gpus/0000:3b:00.0");
	assert_int_equal(at("/proc/driver/nvidia/version")->kind, PLAN_FILE);
}

static void sockets_can_be_written_to(void **state)
{
	choose(0, -1);
	inject();
	is_bound("/run/nvidia-persistenced/socket", "/run/nvidia-persistenced/socket",
		PLAN_NOSUID | PLAN_NODEV | PLAN_NOEXEC);
}

static void the_profile_names_the_chosen_by_their_minor_numbers(void **state)
{
	w.caps = GPU_GRAPHICS;
	choose(0, -1);
	choose(1, -1);
	inject();
	assert_non_null(
		strstr(at("/etc/nvidia/nvidia-application-profiles-rc.d/10-container.conf")->text,
			"\"EGLVisibleDGPUDevices\", 0x9]"));
}

static void a_variable_counts_as_the_container_does_unless_the_user_gave_one(void **state)
{
	plan_env_set(&p, "CUDA_VISIBLE_DEVICES", "3", PLAN_FROM_CALLER);
	c.visible[GPU_NVIDIA] = xstrdup("0");
	choose(1, -1);
	inject();
	assert_string_equal(plan_env_get(&p, "CUDA_VISIBLE_DEVICES"), "0");
	assert_int_equal(plan_env_origin(&p, "CUDA_VISIBLE_DEVICES"), PLAN_FROM_GPU);
	drop(state);
	make(state);
	plan_env_set(&p, "CUDA_VISIBLE_DEVICES", "3", PLAN_FROM_CALLER);
	choose(1, -1);
	inject();
	assert_null(plan_env_get(&p, "CUDA_VISIBLE_DEVICES"));
	assert_true(strv_has(&p.dropped, "CUDA_VISIBLE_DEVICES"));
	drop(state);
	make(state);
	plan_env_set(&p, "CUDA_VISIBLE_DEVICES", "1", PLAN_FROM_USER);
	c.visible[GPU_NVIDIA] = xstrdup("0");
	choose(1, -1);
	inject();
	assert_string_equal(plan_env_get(&p, "CUDA_VISIBLE_DEVICES"), "1");
}

static void amds_bring_their_nodes_and_libraries_only_where_the_image_has_none(void **state)
{
	for (int has_rocm = 0; has_rocm < 2; has_rocm++) {
		struct gpu_file *f = add_file(GPU_LIBRARY, GPU_COMPUTE,
			"/opt/rocm-6.1/lib/libhsa-runtime64.so.1.13", NULL);

		f->vendor = GPU_AMD;
		f->soname = xstrdup("libhsa-runtime64.so.1");
		add_node(&m.nodes, &m.n_nodes, "/dev/kfd");
		add_gpu(GPU_AMD, 5, "0000:83:00.0");
		c.visible[GPU_AMD] = xstrdup("0");
		plan_env_set(&p, "HIP_VISIBLE_DEVICES", "1", PLAN_FROM_CALLER);
		plan_env_set(&p, "CUDA_VISIBLE_DEVICES", "1", PLAN_FROM_CALLER);
		if (has_rocm)
			image_dir_mkdir(root, "/opt/rocm-5.7");
		choose(2, -1);
		inject();
		is_node("/dev/kfd");
		is_node("/dev/dri/renderD133");
		is_node("/dev/dri/card5");
		is_absent("/dev/nvidiactl");
		is_absent(GPU_LIB_DIR "/libcuda.so." V);
		is_absent("/proc/driver/nvidia/params");
		check("amd", GPU_LIB_DIR "/libhsa-runtime64.so.1.13", !has_rocm);
		assert_string_equal(plan_env_get(&p, "ROCR_VISIBLE_DEVICES"), "0");
		assert_null(plan_env_get(&p, "HIP_VISIBLE_DEVICES"));
		assert_null(plan_env_get(&p, "CUDA_VISIBLE_DEVICES"));
		drop(state);
		make(state);
	}
}

static void newer_libraries_of_the_image_stand_in_place_of_the_drivers(void **state)
{
	image_dir_put(root, "/usr/local/cuda/compat/libcuda.so.560.28.03", "");
	image_dir_put(root, "/usr/local/cuda/compat/libnvidia-ml.so.1", "");
	/* An empty file is no library: not used, and everything is the driver's. */
	choose(0, -1);
	inject();
	is_link(GPU_LIB_DIR "/libcuda.so.1", "libcuda.so." V);
	is_bound(GPU_LIB_DIR "/libnvidia-ml.so." V, LIB "libnvidia-ml.so." V, FILE_FLAGS);
}

static void a_driver_of_its_own_root_is_inside_where_it_thinks_it_is(void **state)
{
	free(m.driver_root);
	m.driver_root = xstrdup("/run/nvidia/driver");
	add_library(GPU_UTILITY, "/run/nvidia/driver/usr/lib64/libnvidia-cfg.so." V,
		"libnvidia-cfg.so.1", NULL);
	add_file(GPU_PROGRAM, GPU_UTILITY, "/run/nvidia/driver/usr/bin/nvidia-debugdump", NULL);
	choose(0, -1);
	inject();
	is_bound(GPU_LIB_DIR "/libnvidia-cfg.so." V,
		"/run/nvidia/driver/usr/lib64/libnvidia-cfg.so." V, FILE_FLAGS);
	is_bound("/usr/bin/nvidia-debugdump", "/run/nvidia/driver/usr/bin/nvidia-debugdump",
		FILE_FLAGS);
}

static void a_soname_that_is_no_name_makes_no_link(void **state)
{
	add_library(GPU_UTILITY, LIB "libodd.so." V, "../../../etc/passwd", "..");
	choose(0, -1);
	inject();
	is_found("libodd.so." V, 64, GPU_LIB_DIR "/libodd.so." V);
	for (size_t i = 0; i < p.n_mounts; i++)
		assert_null(strstr(p.mounts[i].target, "passwd"));
}

static void windows_files_lie_where_windows_has_them(void **state)
{
	struct gpu_file *f =
		add_file(GPU_LIBRARY, GPU_COMPUTE, "/usr/lib/wsl/drivers/nv.inf/libcuda.so.1.1",
			"/usr/lib/wsl/drivers/nv.inf/libcuda.so.1.1");

	f->soname = xstrdup("libcuda.so.1.1");
	m.driver = GPU_DRIVER_WSL;
	add_node(&m.nodes, &m.n_nodes, "/dev/dxg");
	inject();
	is_node("/dev/dxg");
	is_same("/usr/lib/wsl/drivers/nv.inf/libcuda.so.1.1", FILE_FLAGS);
	is_link(GPU_LIB_DIR "/libcuda.so.1.1", "/usr/lib/wsl/drivers/nv.inf/libcuda.so.1.1");
	is_absent("/proc/driver/nvidia/params");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make, drop)
	const struct CMUnitTest tests[] = {
		TEST(the_chosen_gpus_and_the_controls_of_their_capabilities_come_in),
		TEST(each_capability_brings_its_own_and_no_more),
		TEST(libraries_lie_in_our_directory_with_their_links_and_it_is_sealed),
		TEST(the_gbm_driver_is_linked_where_the_distribution_has_its_own),
		TEST(drm_nodes_have_links_by_their_paths),
		TEST(proc_shows_the_chosen_alone_and_forbids_to_make_nodes),
		TEST(where_the_machine_has_a_driver_its_directory_alone_is_covered),
		TEST(without_gpus_the_machines_are_not_told_of),
		TEST(a_part_brings_its_parent_and_the_files_of_its_own),
		TEST(two_parts_of_one_gpu_bring_its_node_once),
		TEST(a_whole_gpu_brings_all_its_parts),
		TEST(extras_bring_the_nodes_of_the_fabric),
		TEST(without_a_gpu_the_driver_comes_alone),
		TEST(sockets_can_be_written_to),
		TEST(the_profile_names_the_chosen_by_their_minor_numbers),
		TEST(a_variable_counts_as_the_container_does_unless_the_user_gave_one),
		TEST(amds_bring_their_nodes_and_libraries_only_where_the_image_has_none),
		TEST(newer_libraries_of_the_image_stand_in_place_of_the_drivers),
		TEST(a_driver_of_its_own_root_is_inside_where_it_thinks_it_is),
		TEST(a_soname_that_is_no_name_makes_no_link),
		TEST(windows_files_lie_where_windows_has_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
