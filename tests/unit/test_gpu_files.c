#include "unit.h"
#include "elf_file.h"
#include "made_machine.h"
#include "gpu/nvidia/nvidia.h"
#include "gpu/inject/ldcache.h"
#include "gpu/nvidia/table.h"

#include <elf.h>
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#if defined(__aarch64__)
#define TRIPLET "aarch64-linux-gnu"
#else
#define TRIPLET "x86_64-linux-gnu"
#endif
#define LIB "/usr/lib/" TRIPLET
#define KERNEL \
	"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version: \n"
#define VERSION "535.104.05"

static struct gpu_machine m;

static void put_elf(const char *path, struct elf_file f)
{
	auto_free char *full = place(path);

	elf_file_write(full, &f);
}

/* A library of the driver's, as small as it can be. */
static void put_library(const char *path, const char *soname)
{
	put_elf(path, (struct elf_file){ .soname = soname });
}

static void driver_tree(const char *layout)
{
	const char *top = getenv("top_srcdir");
	auto_free char *line =
		xasprintf("'%s/tests/cli/driver-tree' %s '%s/tree'", top ? top : ".", layout, root);

	assert_int_equal(system(line), 0);
	strcat(root, "/tree");
}

static void look_with(int with_files, unsigned caps)
{
	auto_call(gpu_dir_close) struct gpu_dir d = GPU_DIR_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	gpu_machine_done(&m);
	assert_int_equal(gpu_dir_open(root, &d), 0);
	if (gpu_files_find(&d, with_files, caps, &m, &err) < 0)
		fail_msg("%s", err.text);
}

static void look(void)
{
	look_with(1, GPU_CAPABILITIES_ALL);
}

static const struct gpu_file *find(const char *path)
{
	for (size_t i = 0; i < m.n_files; i++)
		if (strcmp(m.files[i].path, path) == 0)
			return &m.files[i];
	return NULL;
}

static const struct gpu_file *get(const char *path)
{
	const struct gpu_file *f = find(path);

	if (!f)
		fail_msg("'%s' is not among the files", path);
	return f;
}

static unsigned count(const char *words)
{
	unsigned n = 0;

	for (size_t i = 0; i < m.n_files; i++)
		n += strstr(m.files[i].path, words) != NULL;
	return n;
}

static void assert_each_file_once(void)
{
	for (size_t i = 0; i < m.n_files; i++)
		for (size_t k = 0; k < i; k++)
			if (m.files[i].kind == GPU_LIBRARY &&
				strcmp(m.files[i].path, m.files[k].path) == 0)
				fail_msg("'%s' is there twice", m.files[i].path);
}

static void assert_version(struct gpu_version v, const char *want)
{
	char text[GPU_VERSION_TEXT];

	assert_string_equal(gpu_version_print(&v, text), want);
}

static int make(void **state)
{
	unsetenv("LD_LIBRARY_PATH");
	unsetenv("CUDA_MPS_PIPE_DIRECTORY");
	return make_root(state);
}

static int remove_all(void **state)
{
	char *tree = strstr(root + 1, "/tree");

	if (tree)
		*tree = '\0';
	gpu_machine_done(&m);
	return drop_root(state);
}

static void a_machine_without_a_driver_has_nothing_and_no_warning(void **state)
{
	put_library(LIB "/libcuda.so." VERSION, "libcuda.so.1");
	put("/usr/bin/nvidia-smi", "");
	look();
	assert_int_equal(m.driver, GPU_DRIVER_NONE);
	assert_int_equal(m.n_files, 0);
	assert_int_equal(m.missing.n, 0);
	assert_int_equal(m.warnings.n, 0);
}

static void the_kernels_text_tells_the_version_of_both_modules(void **state)
{
	put("/proc/driver/nvidia/version", KERNEL);
	look_with(0, GPU_CAPABILITIES_ALL);
	assert_int_equal(m.driver, GPU_DRIVER_NVIDIA);
	assert_string_equal(m.driver_text, VERSION);
	assert_false(m.is_open);
	assert_version(m.cuda, "12.2");
	assert_int_equal(m.n_files + m.missing.n, 0);
	put("/proc/driver/nvidia/version",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs@h)  2025\n");
	look_with(0, GPU_CAPABILITIES_ALL);
	assert_string_equal(m.driver_text, "580.65.06");
	assert_true(m.is_open);
	assert_version(m.cuda, "13.0");
}

static void a_branch_serves_the_cuda_of_its_toolkit(void **state)
{
	static const char *const table[][2] = { { "390.157", "9.1" }, { "384.66", "8.0" },
		{ "384.81", "9.0" }, { "418.226.00", "10.1" }, { "470.256.02", "11.4" },
		{ "525.60.13", "12.0" }, { "535.54.03", "12.2" }, { "550.54.14", "12.4" },
		{ "560.35.05", "12.6" }, { "565.57.01", "12.7" }, { "570.26", "12.8" },
		{ "575.57.08", "12.9" }, { "580.65.06", "13.0" }, { "590.44.01", "13.1" },
		{ "595.45.04", "13.2" }, { "304.137", "unknown" }, { "610.43.02", "unknown" } };
	struct gpu_version v;

	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		assert_int_equal(gpu_version_parse(table[i][0], &v), 0);
		assert_version(gpu_driver_cuda(&v), table[i][1]);
	}
}

static void debians_files_are_found_behind_its_alternatives(void **state)
{
	const struct gpu_file *f;

	driver_tree("--version=535.247.01 debian");
	look();
	assert_string_equal(m.driver_root, "");
	assert_int_equal(m.warnings.n, 0);
	f = get(LIB "/nvidia/current/libcuda.so.535.247.01");
	assert_string_equal(f->soname, "libcuda.so.1");
	assert_string_equal(f->dev_link, "libcuda.so");
	assert_null(f->target);
	assert_int_equal(f->bits, 64);
	assert_int_equal(f->caps, GPU_COMPUTE | GPU_VIDEO);
	assert_string_equal(
		get(LIB "/nvidia/current/libnvidia-ml.so.535.247.01")->dev_link, "libnvidia-ml.so");
	assert_null(get(LIB "/nvidia/current/libnvoptix.so.535.247.01")->dev_link);
	assert_string_equal(get(LIB "/nvidia/current/libGLX_nvidia.so.535.247.01")->dev_link,
		"libGLX_indirect.so.0");
	assert_int_equal(
		get(LIB "/libnvidia-glcore.so.535.247.01")->caps, GPU_GRAPHICS | GPU_DISPLAY);
	assert_int_equal(
		get(LIB "/nvidia/current/vdpau/libvdpau_nvidia.so.535.247.01")->caps, GPU_VIDEO);
	assert_string_equal(
		get(LIB "/libnvidia-egl-gbm.so.1.1.1")->soname, "libnvidia-egl-gbm.so.1");
	f = get("/usr/lib/nvidia/current/nvidia-smi");
	assert_int_equal(f->kind, GPU_PROGRAM);
	assert_string_equal(f->target, "/usr/bin/nvidia-smi");
	f = get("/usr/lib/firmware/nvidia/535.247.01/gsp_ga10x.bin");
	assert_int_equal(f->kind, GPU_FIRMWARE);
	assert_string_equal(f->target, "/lib/firmware/nvidia/535.247.01/gsp_ga10x.bin");
	assert_int_equal(f->caps, 0);
	assert_int_equal(get("/run/nvidia-persistenced/socket")->kind, GPU_SOCKET);
	assert_string_equal(get("/usr/share/glvnd/egl_vendor.d/10_nvidia.json")->target,
		"/usr/share/glvnd/egl_vendor.d/10_nvidia.json");
	assert_true(strv_has(&m.missing, "libnvidia-tileiras.so"));
	assert_false(strv_has(&m.missing, "libcuda.so"));
	assert_each_file_once();
}

static void glvnds_and_mesas_libraries_are_never_the_drivers(void **state)
{
	static const char *const strangers[] = { "libGL.so", "libEGL.so", "libGLESv2.so",
		"libGLX.so", "libGLdispatch", "libOpenGL", "libOpenCL.so.1.0.0", "libGLX_mesa",
		"libvulkan" };

	driver_tree("workstation");
	look();
	assert_true(count("libGLX_nvidia.so") > 0);
	for (size_t i = 0; i < ARRAY_LEN(strangers); i++)
		assert_int_equal(count(strangers[i]), 0);
	assert_int_equal(count("50_mesa.json"), 0);
}

static void libraries_of_32_bits_are_found_beside_those_of_64(void **state)
{
	unsigned wide = 0, narrow = 0;

	driver_tree("rhel");
	look();
	for (size_t i = 0; i < m.n_files; i++) {
		if (m.files[i].kind != GPU_LIBRARY)
			continue;
		wide += m.files[i].bits == 64;
		narrow += m.files[i].bits == 32;
		if (m.files[i].bits == 32)
			assert_int_equal(strncmp(m.files[i].path, "/usr/lib/lib", 12) &&
					strncmp(m.files[i].path, "/usr/lib/vdpau/", 15),
				0);
	}
	assert_true(wide > 25);
#if defined(__x86_64__)
	assert_true(narrow > 15);
#endif
	assert_string_equal(get("/usr/lib64/xorg/modules/drivers/nvidia_drv.so")->target,
		"/usr/lib64/xorg/modules/drivers/nvidia_drv.so");
	assert_each_file_once();
}

static void a_driver_that_no_cache_knows_is_found_in_usr_local_nvidia(void **state)
{
	driver_tree("usr-local-nvidia");
	look();
	assert_true(m.is_open);
	get("/usr/local/nvidia/lib64/libcuda.so.580.65.06");
	assert_string_equal(get("/usr/local/nvidia/bin/nvidia-smi")->target, "/usr/bin/nvidia-smi");
	/* Where the kernel was told to look for firmware, and under that path. */
	assert_string_equal(get("/var/lib/nvidia/firmware/nvidia/580.65.06/gsp_ga10x.bin")->target,
		"/var/lib/nvidia/firmware/nvidia/580.65.06/gsp_ga10x.bin");
}

static void a_directory_that_only_the_linker_cache_knows_is_found(void **state)
{
	auto_call(gpu_ldcache_done) struct gpu_ldcache c = { 0 };
	auto_free char *data = NULL, *path = place("/etc/ld.so.cache");
	size_t len;

	put("/proc/driver/nvidia/version", KERNEL);
	put_library("/opt/driver/libcuda.so." VERSION, "libcuda.so.1");
	put_library("/srv/files/libnvidia-ml.so." VERSION, "libnvidia-ml.so.1");
	put_link("/srv/links/libnvidia-ml.so.1", "/srv/files/libnvidia-ml.so." VERSION);
	gpu_ldcache_add(&c, "libcuda.so.1", "/opt/driver/libcuda.so.1", 64);
	gpu_ldcache_add(&c, "libnvidia-ml.so.1", "/srv/links/libnvidia-ml.so.1", 64);
	len = gpu_ldcache_print(&c, &data);
	assert_int_equal(file_replace(AT_FDCWD, path, data, len, 0644, NULL), 0);
	look();
	get("/opt/driver/libcuda.so." VERSION);
	get("/srv/files/libnvidia-ml.so." VERSION);
	/* What is no cache is as none. */
	put("/etc/ld.so.cache", "no cache");
	look();
	assert_int_equal(count(".so"), 0);
	assert_int_equal(m.warnings.n, 1);
}

static void links_of_a_driver_container_lead_within_its_own_root(void **state)
{
	put("/proc/driver/nvidia/version", KERNEL);
	put_library("/run/nvidia/driver/opt/libcuda.so." VERSION, "libcuda.so.1");
	put_library("/opt/libcuda.so." VERSION, "the wrong one");
	put_link("/run/nvidia/driver" LIB "/libcuda.so." VERSION, "/opt/libcuda.so." VERSION);
	put("/run/nvidia/driver/usr/bin/nvidia-smi", "");
	look();
	assert_string_equal(m.driver_root, "/run/nvidia/driver");
	assert_string_equal(
		get("/run/nvidia/driver/opt/libcuda.so." VERSION)->soname, "libcuda.so.1");
	assert_string_equal(
		get("/run/nvidia/driver/usr/bin/nvidia-smi")->target, "/usr/bin/nvidia-smi");
	assert_int_equal(m.warnings.n, 0);
}

static void nixos_is_found_by_its_farm_of_links(void **state)
{
	driver_tree("nixos");
	look();
	assert_int_equal(count("-nvidia-x11-550.135-6.6.63/lib/libcuda.so.550.135"), 1);
	assert_int_equal(count("-bin/bin/nvidia-smi"), 1);
}

static void wsl_gives_windows_driver_with_its_store(void **state)
{
	const struct gpu_file *f;

	driver_tree("wsl");
	look();
	assert_int_equal(m.driver, GPU_DRIVER_WSL);
	f = get("/usr/lib/wsl/lib/libcuda.so.1");
	assert_string_equal(f->dev_link, "libcuda.so");
	assert_null(f->target);
	assert_int_equal(get("/usr/lib/wsl/lib/libdxcore.so")->caps, 0);
	f = get("/usr/lib/wsl/drivers/nv_dispi.inf_amd64_0123456789abcdef/libcuda.so.1.1");
	assert_string_equal(f->target, f->path);
	f = get("/usr/lib/wsl/drivers/nv_dispi.inf_amd64_0123456789abcdef/nvcubins.bin");
	assert_string_equal(f->target, f->path);
	assert_int_equal(f->kind, GPU_DATA);
	get("/usr/lib/wsl/drivers/nv_dispi.inf_amd64_0123456789abcdef/nvoptix.bin");
	assert_null(find("/usr/lib/wsl/drivers/nv_dispi.inf_amd64_0123456789abcdef/nv_dispi.inf"));
	assert_null(find("/usr/lib/wsl/drivers/nv_dispi.inf_amd64_0123456789abcdef/nvlddmkm.sys"));
	assert_int_equal(count("iigd_dch"), 0);
	assert_string_equal(get("/usr/lib/wsl/lib/nvidia-smi")->target, "/usr/bin/nvidia-smi");
	assert_int_equal(m.warnings.n, 0);
}

static void wsl_lacks_only_what_a_wanted_capability_brings(void **state)
{
	put("/dev/dxg", "");
	put_library("/usr/lib/wsl/lib/libdxcore.so", "libdxcore.so");
	put_library("/usr/lib/wsl/lib/libcuda.so.1", "libcuda.so.1");
	put_library("/usr/lib/wsl/lib/libnvoptix.so.1", "libnvoptix.so.1");
	look_with(1, GPU_COMPUTE);
	assert_int_equal(count("libcuda.so.1"), 1);
	assert_int_equal(count("libnvoptix.so.1"), 0);
	assert_true(strv_has(&m.missing, "libcudadebugger.so.1"));
	assert_false(strv_has(&m.missing, "libnvcuvid.so.1"));
	assert_false(strv_has(&m.missing, "libd3d12.so"));
}

static void wsl_without_nvidias_driver_says_so(void **state)
{
	put("/dev/dxg", "");
	put_library("/usr/lib/wsl/lib/libdxcore.so", "libdxcore.so");
	look();
	assert_int_equal(m.warnings.n, 1);
	assert_non_null(strstr(m.warnings.v[0], "wsl --shutdown"));
}

static void a_jetson_is_refused_with_the_way_out(void **state)
{
	static const char name[] = "nvidia,p3737-0000+p3701-0005\0nvidia,tegra234";
	auto_free char *full = place("/proc/device-tree/compatible");

	put("/proc/driver/nvidia/version", KERNEL);
	assert_int_equal(file_replace(AT_FDCWD, full, name, sizeof(name), 0644, NULL), 0);
	look();
	assert_int_equal(m.driver, GPU_DRIVER_TEGRA);
	assert_non_null(strstr(m.refused, "nvidia-ctk cdi generate"));
	assert_int_equal(m.n_files, 0);
}

static void libraries_of_another_version_than_the_kernels_are_left_out_and_told(void **state)
{
	driver_tree("mismatch");
	look();
	assert_string_equal(m.driver_text, "550.54.15");
	assert_int_equal(count(".so"), 0);
	assert_int_equal(m.warnings.n, 1);
	assert_non_null(strstr(m.warnings.v[0], "550.54.15"));
	assert_non_null(strstr(m.warnings.v[0], "libcuda.so.550.90.07'"));
	assert_non_null(strstr(m.warnings.v[0], "reboot"));
	/* Also where nobody asks for the files. */
	look_with(0, GPU_CAPABILITIES_ALL);
	assert_int_equal(m.warnings.n, 1);
	assert_non_null(strstr(m.warnings.v[0], "reboot"));
}

static void a_driver_without_libraries_is_told_with_the_way_out(void **state)
{
	put("/proc/driver/nvidia/version", KERNEL);
	look();
	assert_int_equal(m.warnings.n, 1);
	assert_non_null(strstr(m.warnings.v[0], "libcuda.so." VERSION));
	assert_non_null(strstr(m.warnings.v[0], "LD_LIBRARY_PATH"));
}

static void libraries_tell_the_version_where_the_kernels_text_is_hidden(void **state)
{
	put("/dev/nvidiactl", "");
	put_library(LIB "/libnvidia-ml.so.550.54.15", "libnvidia-ml.so.1");
	put_link(LIB "/libnvidia-ml.so.1", "libnvidia-ml.so.550.54.15");
	look_with(0, GPU_CAPABILITIES_ALL);
	assert_string_equal(m.driver_text, "550.54.15");
	assert_version(m.cuda, "12.4");
	assert_int_equal(m.n_files, 0);
	/* libcuda decides, also where it has no link. */
	put_library(LIB "/libcuda.so." VERSION, "libcuda.so.1");
	look();
	assert_string_equal(m.driver_text, VERSION);
	get(LIB "/libcuda.so." VERSION);
	assert_int_equal(count("libnvidia-ml"), 0);
}

static void libnvidia_tls_is_the_one_for_kernels_of_today(void **state)
{
	put("/proc/driver/nvidia/version", KERNEL);
	put_library("/usr/lib64/libcuda.so." VERSION, "libcuda.so.1");
	put_library("/usr/lib64/libnvidia-tls.so." VERSION, NULL);
	put_library("/usr/lib64/tls/libnvidia-tls.so." VERSION, NULL);
	look();
	get("/usr/lib64/tls/libnvidia-tls.so." VERSION);
	assert_int_equal(count("libnvidia-tls"), 1);
}

static void what_a_library_needs_of_the_driver_comes_with_it(void **state)
{
	static const char *const cuda[] = { "libnvidia-new.so." VERSION, "libnvidia-other.so.1",
		"../x.so." VERSION, NULL };
	static const char *const new[] = { "libnvidia-newer.so." VERSION, "libnvidia-encode.so.1",
		NULL };

	put("/proc/driver/nvidia/version", KERNEL);
	put_elf("/usr/lib64/libcuda.so." VERSION,
		(struct elf_file){ .soname = "libcuda.so.1", .needed = cuda });
	put_elf("/usr/lib64/libnvidia-new.so." VERSION, (struct elf_file){ .needed = new });
	put_library("/usr/lib64/libnvidia-newer.so." VERSION, "libnvidia-newer.so.7");
	put_library("/usr/lib64/libnvidia-encode.so." VERSION, "libnvidia-encode.so.1");
	put_library("/usr/lib64/libnvidia-other.so.1", "libnvidia-other.so.1");
	put_library("/usr/x.so." VERSION, "x");
	look();
	assert_int_equal(
		get("/usr/lib64/libnvidia-new.so." VERSION)->caps, GPU_COMPUTE | GPU_VIDEO);
	assert_int_equal(
		get("/usr/lib64/libnvidia-newer.so." VERSION)->caps, GPU_COMPUTE | GPU_VIDEO);
	assert_int_equal(
		get("/usr/lib64/libnvidia-encode.so." VERSION)->caps, GPU_COMPUTE | GPU_VIDEO);
	assert_int_equal(count("libnvidia-other"), 0);
	assert_int_equal(count("/x.so"), 0);
}

static void what_a_library_needs_comes_also_when_nobody_asks_for_it(void **state)
{
	static const char *const needed[] = { "libcuda.so.1", "libGL.so.1",
		"libnvidia-gpucomp.so." VERSION, NULL };

	put("/proc/driver/nvidia/version", KERNEL);
	put_elf("/usr/lib64/libnvidia-ngx.so." VERSION,
		(struct elf_file){ .soname = "libnvidia-ngx.so.1", .needed = needed });
	put_library("/usr/lib64/libcuda.so." VERSION, "libcuda.so.1");
	put_library("/usr/lib64/libnvidia-gpucomp.so." VERSION, "libnvidia-gpucomp.so." VERSION);
	put_library("/usr/lib64/libnvidia-nvvm.so." VERSION, "libnvidia-nvvm.so.4");
	put_library("/usr/lib64/libGL.so.1", "libGL.so.1");
	look_with(1, GPU_NGX);
	assert_int_equal(
		get("/usr/lib64/libcuda.so." VERSION)->caps, GPU_NGX | GPU_COMPUTE | GPU_VIDEO);
	assert_true(get("/usr/lib64/libnvidia-gpucomp.so." VERSION)->caps & GPU_NGX);
	assert_int_equal(count("/usr/lib64/"), 3);
}

/* Two names of one file, which its own name and SONAME do not tell. */
static void a_needed_name_that_is_a_link_to_another_library_is_followed_once(void **state)
{
	static const char *const needed[] = { "libnvidia-alias.so." VERSION, NULL };

	put("/proc/driver/nvidia/version", KERNEL);
	put_elf("/usr/lib64/libcuda.so." VERSION,
		(struct elf_file){ .soname = "libcuda.so.1", .needed = needed });
	put_library("/usr/lib64/libnvidia-ml.so." VERSION, "libnvidia-ml.so.1");
	put_link("/usr/lib64/libnvidia-alias.so." VERSION, "libnvidia-ml.so." VERSION);
	look();
	assert_int_equal(get("/usr/lib64/libnvidia-ml.so." VERSION)->caps,
		GPU_UTILITY | GPU_COMPUTE | GPU_VIDEO);
	assert_int_equal(count("/usr/lib64/"), 2);
}

static void what_is_no_library_of_this_machines_is_left_out(void **state)
{
	put("/proc/driver/nvidia/version", KERNEL);
	put_library("/usr/lib64/libnvidia-ml.so." VERSION, "libnvidia-ml.so.1");
	put_elf("/usr/lib64/libcuda.so." VERSION,
		(struct elf_file){ .soname = "libcuda.so.1", .machine = EM_S390 });
	put("/usr/lib64/libnvidia-opencl.so." VERSION, "no library");
	put_library("/usr/lib64/libnvidia-nvvm.so.1.2", "libnvidia-nvvm.so.4");
	put_link("/usr/lib64/libnvidia-nvvm.so." VERSION, "libnvidia-nvvm.so.1.2");
	look();
	get("/usr/lib64/libnvidia-ml.so." VERSION);
	assert_int_equal(count("/usr/lib64/"), 1);
	assert_true(strv_has(&m.missing, "libcuda.so"));
}

static void what_no_capability_asks_for_is_neither_brought_nor_missing(void **state)
{
	driver_tree("workstation");
	look_with(1, GPU_COMPUTE);
	assert_true(count("libcuda.so") == 1);
	assert_int_equal(count("libnvidia-ml.so"), 0);
	assert_int_equal(count("libGLX_nvidia"), 0);
	assert_int_equal(count("nvidia-smi"), 0);
	assert_int_equal(count("nvidia_drv.so"), 0);
	assert_int_equal(count("/usr/lib/i386-linux-gnu/"), 0);
	assert_int_equal(count("vulkan"), 0);
	assert_int_equal(count("/nvidia.icd"), 1);
	assert_true(strv_has(&m.missing, "libnvidia-compiler.so"));
	assert_false(strv_has(&m.missing, "libnvidia-nscq.so"));
	assert_false(strv_has(&m.missing, "nv-fabricmanager"));
	look_with(1, GPU_DISPLAY);
	assert_int_equal(count("libcuda.so"), 0);
	assert_int_equal(count("libGLX_nvidia"), 1);
	assert_int_equal(count("nvidia_drv.so"), 1);
}

static void configuration_of_graphics_comes_with_libraries_of_graphics_alone(void **state)
{
	put("/proc/driver/nvidia/version", KERNEL);
	put_library("/usr/lib64/libcuda.so." VERSION, "libcuda.so.1");
	put("/etc/vulkan/icd.d/nvidia_icd.json", "{}");
	put("/etc/OpenCL/vendors/nvidia.icd", "libnvidia-opencl.so.1\n");
	look();
	assert_null(find("/etc/vulkan/icd.d/nvidia_icd.json"));
	assert_int_equal(get("/etc/OpenCL/vendors/nvidia.icd")->kind, GPU_DATA);
	put_library("/usr/lib64/libnvidia-glcore.so." VERSION, "libnvidia-glcore.so." VERSION);
	look();
	assert_int_equal(
		get("/etc/vulkan/icd.d/nvidia_icd.json")->caps, GPU_GRAPHICS | GPU_DISPLAY);
}

static void the_glibc_that_a_library_needs_is_told(void **state)
{
	static const char *const versions[] = { "GLIBC_2.17", "GLIBC_2.38", "GLIBC_2.4", NULL };

	put("/proc/driver/nvidia/version", KERNEL);
	put_elf("/usr/lib64/libcuda.so." VERSION,
		(struct elf_file){ .soname = "libcuda.so.1", .versions = versions });
	look();
	assert_version(get("/usr/lib64/libcuda.so." VERSION)->glibc, "2.38");
}

static void what_no_wanted_capability_brings_is_not_looked_for(void **state)
{
	driver_tree("workstation");
	look_with(1, GPU_UTILITY);
	assert_true(count("libnvidia-ml.so") == 1 && count("nvidia-smi") == 1);
	assert_int_equal(
		count("libcuda") + count("libGLX") + count("i386") + count("xorg") + count(".json"),
		0);
	assert_int_equal(count("nvidia-cuda-mps-server"), 0);
	assert_true(count("gsp_") > 0); /* each capability brings firmware */
	for (size_t i = 0; i < m.missing.n; i++)
		assert_null(strstr(m.missing.v[i], "wayland"));
	/* What a wanted library needs comes with it. */
	look_with(1, GPU_GRAPHICS);
	assert_int_equal(count("libGLX_nvidia.so"), 1);
	assert_int_equal(count("libnvidia-tls.so"), 1);
	assert_int_equal(count("i386"), 0);
	look_with(1, GPU_COMPUTE | GPU_COMPAT32);
	assert_int_equal(count("libcuda.so"), 2);
}

static void the_pipes_of_mps_are_a_directory_or_are_missing(void **state)
{
	driver_tree("hgx");
	look();
	assert_int_equal(get("/tmp/nvidia-mps")->kind, GPU_SOCKET);
	assert_int_equal(get("/tmp/nvidia-mps")->caps, GPU_COMPUTE | GPU_VIDEO);
	get("/run/nvidia-fabricmanager/socket");
	assert_string_equal(get("/usr/bin/nv-fabricmanager")->target, "/usr/bin/nv-fabricmanager");
	assert_string_equal(get("/usr/bin/nvidia-imex-ctl")->target, "/usr/bin/nvidia-imex-ctl");
	setenv("CUDA_MPS_PIPE_DIRECTORY", "/run/nvidia-fabricmanager", 1);
	look();
	get("/run/nvidia-fabricmanager");
	assert_null(find("/tmp/nvidia-mps"));
}

static void a_socket_that_the_caller_cannot_use_counts_as_missing(void **state)
{
	auto_free char *path = NULL;

	driver_tree("ubuntu");
	path = place("/run/nvidia-persistenced/socket");
	look();
	get("/run/nvidia-persistenced/socket");
	assert_int_equal(chmod(path, 0), 0);
	look();
	/* Nothing is closed to root. */
	assert_int_equal(find("/run/nvidia-persistenced/socket") != NULL, geteuid() == 0);
}

static void write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		_exit(2);
	close(fd);
}

/* In a child whose "/" is the tree: its /proc/self is the kernel's, which tells where descriptors
 * lead. */
static int in_tree(void (*act)(void))
{
	auto_free char *map = xasprintf("0 %d 1", (int)getuid()), *real = place("/real/x");
	int status;
	pid_t pid;

	*strrchr(real, '/') = '\0';
	put_link("/proc/self", "/real/self");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
			_exit(3);
		write_to("/proc/self/uid_map", map);
		if (mount("/proc", real, NULL, MS_BIND | MS_REC, NULL) < 0 || chroot(root) < 0 ||
			chdir("/") < 0)
			_exit(4);
		strcpy(root, "/");
		act();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What a child finds is told by its exit status: 0 is right. */
static void expect_own_directories(void)
{
	auto_call(gpu_dir_close) struct gpu_dir d = GPU_DIR_INIT;

	setenv("LD_LIBRARY_PATH", "relative:/no/such:/opt/other:/opt/driver", 1);
	setenv("XDG_DATA_DIRS", "/opt/share", 1);
	setenv("PATH", "bin:/opt/bin2", 1);
	if (gpu_dir_open("/", &d) < 0 || !d.is_machine ||
		gpu_files_find(&d, 1, GPU_CAPABILITIES_ALL, &m, NULL) < 0)
		_exit(10);
	if (!find("/opt/driver/libcuda.so." VERSION) || count("/opt/other/") > 0)
		_exit(11);
	if (!find("/opt/share/vulkan/icd.d/nvidia_icd.json") ||
		strcmp(find("/opt/share/vulkan/icd.d/nvidia_icd.json")->target,
			"/etc/vulkan/icd.d/nvidia_icd.json") != 0)
		_exit(12);
	if (!find("/opt/bin2/nvidia-smi"))
		_exit(13);
}

static void a_real_machines_user_names_directories_by_variables(void **state)
{
	put("/proc/driver/nvidia/version", KERNEL);
	put_library("/opt/other/libcuda.so.550.54.15", "libcuda.so.1");
	put_library("/opt/other/libnvidia-tls.so." VERSION, "libnvidia-tls.so." VERSION);
	put_library("/opt/driver/libcuda.so." VERSION, "libcuda.so.1");
	put_library("/opt/driver/libnvidia-glcore.so." VERSION, "libnvidia-glcore.so." VERSION);
	put("/opt/share/vulkan/icd.d/nvidia_icd.json", "{}");
	put("/opt/bin2/nvidia-smi", "");
	assert_int_equal(in_tree(expect_own_directories), 0);
	/* A tree's user does not: the variables speak of the machine on which the test runs. */
	setenv("LD_LIBRARY_PATH", "/opt/driver", 1);
	look();
	assert_int_equal(count("libcuda"), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make, remove_all)
	const struct CMUnitTest tests[] = {
		TEST(a_machine_without_a_driver_has_nothing_and_no_warning),
		TEST(the_kernels_text_tells_the_version_of_both_modules),
		TEST(a_branch_serves_the_cuda_of_its_toolkit),
		TEST(debians_files_are_found_behind_its_alternatives),
		TEST(glvnds_and_mesas_libraries_are_never_the_drivers),
		TEST(libraries_of_32_bits_are_found_beside_those_of_64),
		TEST(a_driver_that_no_cache_knows_is_found_in_usr_local_nvidia),
		TEST(a_directory_that_only_the_linker_cache_knows_is_found),
		TEST(links_of_a_driver_container_lead_within_its_own_root),
		TEST(nixos_is_found_by_its_farm_of_links),
		TEST(wsl_gives_windows_driver_with_its_store),
		TEST(wsl_lacks_only_what_a_wanted_capability_brings),
		TEST(wsl_without_nvidias_driver_says_so),
		TEST(a_jetson_is_refused_with_the_way_out),
		TEST(libraries_of_another_version_than_the_kernels_are_left_out_and_told),
		TEST(a_driver_without_libraries_is_told_with_the_way_out),
		TEST(libraries_tell_the_version_where_the_kernels_text_is_hidden),
		TEST(libnvidia_tls_is_the_one_for_kernels_of_today),
		TEST(what_a_library_needs_of_the_driver_comes_with_it),
		TEST(what_a_library_needs_comes_also_when_nobody_asks_for_it),
		TEST(a_needed_name_that_is_a_link_to_another_library_is_followed_once),
		TEST(what_is_no_library_of_this_machines_is_left_out),
		TEST(what_no_capability_asks_for_is_neither_brought_nor_missing),
		TEST(configuration_of_graphics_comes_with_libraries_of_graphics_alone),
		TEST(the_glibc_that_a_library_needs_is_told),
		TEST(what_no_wanted_capability_brings_is_not_looked_for),
		TEST(the_pipes_of_mps_are_a_directory_or_are_missing),
		TEST(a_socket_that_the_caller_cannot_use_counts_as_missing),
		TEST(a_real_machines_user_names_directories_by_variables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
