/* AMD's ROCm on a host, in trees made here. */
#include "unit.h"
#include "elf_file.h"
#include "made_machine.h"
#include "gpu/amd/amd.h"

static struct gpu_machine m = GPU_MACHINE_INIT;

static int forget(void **state)
{
	gpu_machine_done(&m);
	return drop_root(state);
}

static void put_library(const char *path, const char *soname)
{
	static const char *const versions[] = { "GLIBC_2.17", "GLIBC_2.34", NULL };
	const struct elf_file f = { .soname = soname, .versions = versions };
	auto_free char *full = place(path);

	elf_file_write(full, &f);
}

static void look(void)
{
	auto_call(gpu_dir_close) struct gpu_dir d = GPU_DIR_INIT;

	gpu_machine_done(&m);
	assert_int_equal(gpu_dir_open(root, &d), 0);
	gpu_rocm_find(&d, &m);
}

static const struct gpu_file *file(const char *path)
{
	for (size_t i = 0; i < m.n_files; i++)
		if (strcmp(m.files[i].path, path) == 0)
			return &m.files[i];
	fail_msg("no file '%s' (%zu files, '%s')", path, m.n_files,
		m.n_files ? m.files[0].path : "");
	return NULL;
}

static void the_runtime_is_found_through_links_and_told_without_them(void **state)
{
	const struct gpu_file *f;

	put_link("/opt/rocm", "/etc/alternatives/rocm");
	put_link("/etc/alternatives/rocm", "/opt/rocm-6.2.0");
	put_library("/opt/rocm-6.2.0/lib/libhsa-runtime64.so.1.14.60200", "libhsa-runtime64.so.1");
	put_link("/opt/rocm-6.2.0/lib/libhsa-runtime64.so.1", "libhsa-runtime64.so.1.14.60200");
	put_library("/opt/rocm-6.2.0/lib/libamdhip64.so.6.2.60200", "libamdhip64.so.6");
	put_link("/opt/rocm-6.2.0/lib/libamdhip64.so.6", "libamdhip64.so.6.2.60200");
	put_link("/opt/rocm-6.2.0/lib/libamdhip64.so", "libamdhip64.so.6");
	put_library("/opt/rocm-6.2.0/lib/librocblas.so.4.2.60200", "librocblas.so.4");
	put("/opt/rocm-6.2.0/bin/rocminfo", "#!/bin/sh\n");
	look();
	assert_int_equal(m.n_files, 3);
	f = file("/opt/rocm-6.2.0/lib/libhsa-runtime64.so.1.14.60200");
	assert_int_equal(f->vendor, GPU_AMD);
	assert_int_equal(f->kind, GPU_LIBRARY);
	assert_int_equal(f->caps, GPU_COMPUTE);
	assert_int_equal(f->bits, 8 * sizeof(void *));
	assert_string_equal(f->soname, "libhsa-runtime64.so.1");
	assert_null(f->dev_link);
	assert_null(f->target);
	assert_int_equal(f->glibc.part[1], 34);
	f = file("/opt/rocm-6.2.0/lib/libamdhip64.so.6.2.60200");
	assert_string_equal(f->dev_link, "libamdhip64.so");
	f = file("/opt/rocm-6.2.0/bin/rocminfo");
	assert_int_equal(f->kind, GPU_PROGRAM);
	assert_int_equal(f->vendor, GPU_AMD);
	assert_int_equal(f->caps, GPU_UTILITY);
	assert_string_equal(f->target, "/usr/bin/rocminfo");
}

static void of_several_versions_the_newest_is_taken(void **state)
{
	put_library("/opt/rocm-6.9.1/lib/libhsa-runtime64.so.1.9", "libhsa-runtime64.so.1");
	put_library("/opt/rocm-6.10.0/lib/libhsa-runtime64.so.1.10", "libhsa-runtime64.so.1");
	look();
	assert_int_equal(m.n_files, 1);
	file("/opt/rocm-6.10.0/lib/libhsa-runtime64.so.1.10");
}

static void a_distributions_own_is_found_last(void **state)
{
	put_library("/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1.5.0", "libhsa-runtime64.so.1");
	put_library("/usr/lib/x86_64-linux-gnu/libdrm.so.2.4.0", "libdrm.so.2");
	put_library("/usr/lib/x86_64-linux-gnu/libdrm_amdgpu.so.1.0.0", "libdrm_amdgpu.so.1");
	put_library("/usr/lib64/libnuma.so.1.0.0", "libnuma.so.1");
	put("/usr/share/libdrm/amdgpu.ids", "1.0.0\n");
	look();
	assert_int_equal(m.n_files, 5);
	assert_int_equal(file("/usr/share/libdrm/amdgpu.ids")->kind, GPU_DATA);
	assert_int_equal(file("/usr/share/libdrm/amdgpu.ids")->vendor, GPU_AMD);
	assert_string_equal(
		file("/usr/share/libdrm/amdgpu.ids")->target, "/usr/share/libdrm/amdgpu.ids");
	assert_string_equal(
		file("/usr/lib/x86_64-linux-gnu/libdrm.so.2.4.0")->soname, "libdrm.so.2");
	file("/usr/lib/x86_64-linux-gnu/libdrm_amdgpu.so.1.0.0");
	file("/usr/lib64/libnuma.so.1.0.0");
}

static void without_the_runtime_there_is_no_rocm(void **state)
{
	put_library("/opt/rocm/lib/libamdhip64.so.6", "libamdhip64.so.6");
	put_library("/usr/lib64/libnuma.so.1.0.0", "libnuma.so.1");
	look();
	assert_int_equal(m.n_files, 0);
}

static void what_is_no_library_is_left_out(void **state)
{
	put_library("/opt/rocm/lib/libhsa-runtime64.so.1", "libhsa-runtime64.so.1");
	put("/opt/rocm/lib/libamdhip64.so", "INPUT(libamdhip64.so.6)\n");
	put("/opt/rocm/lib/libhiprtc.so.old", "");
	put_link("/opt/rocm/lib/libamd_comgr.so", "nowhere");
	look();
	assert_int_equal(m.n_files, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_root, forget)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_runtime_is_found_through_links_and_told_without_them),
		TEST(of_several_versions_the_newest_is_taken),
		TEST(a_distributions_own_is_found_last),
		TEST(without_the_runtime_there_is_no_rocm),
		TEST(what_is_no_library_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
