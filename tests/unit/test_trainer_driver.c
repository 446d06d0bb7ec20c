/* NVIDIA's driver where the linker does not look for it. */
#include "tensor/driver.h"
#include "trainer_test.h"

#include <dlfcn.h>

#define NVML "libnvidia-ml.so.1"

static void make_dirs(const char *first)
{
	static const char *const below[] = { "usr", "usr/local", "usr/local/nvidia" };
	auto_free char *last = xasprintf("usr/local/nvidia/%s", first);

	for (size_t i = 0; i < ARRAY_LEN(below); i++)
		mkdir(in_test_dir(below[i]), 0755);
	assert_int_equal(mkdir(in_test_dir(last), 0755), 0);
}

/* tests/gpu/fake_nvml.c, whose soname is the real one's. */
static void copy_library(const char *to)
{
	const char *build = getenv("top_builddir");
	auto_free char *from = xasprintf("%s/tests/gpu/fake_nvml.so", build ? build : ".");
	auto_free char *bytes = NULL;
	size_t len;

	assert_int_equal(file_read(AT_FDCWD, from, 1 << 22, &bytes, &len, NULL), 0);
	write_file(to, bytes, len);
}

static void a_driver_that_is_nowhere_is_told_with_a_way_out(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;

	assert_null(driver_library_open(test_dir, "libcuda.so.1", &err));
	assert_int_equal(err.code, ENOENT);
	assert_non_null(strstr(err.text, "the linker knows no libcuda.so.1, nor is it in '"));
	assert_non_null(strstr(err.text, "/usr/local/nvidia/lib64' or"));
	assert_non_null(
		strstr(err.text, "\nhint: name the directory of libcuda.so.1 in LD_LIBRARY_PATH"));
	assert_null(driver_library_open(test_dir, "libcuda.so.1", NULL));
}

static void a_driver_that_cannot_be_loaded_is_named(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;

	make_dirs("lib");
	write_file("usr/local/nvidia/lib/libcuda.so.1", "ELF, but no", 11);
	assert_null(driver_library_open(test_dir, "libcuda.so.1", &err));
	assert_int_equal(err.code, ELIBACC);
	assert_non_null(strstr(err.text, "/usr/local/nvidia/lib/libcuda.so.1: "));
}

/* CUDA's runtime and NCCL ask for a soname. */
static void what_is_found_is_there_for_who_asks_the_linker(void **state)
{
	void *handle;

	make_dirs("lib64");
	copy_library("usr/local/nvidia/lib64/" NVML);
	handle = driver_library_open(test_dir, NVML, NULL);
	assert_non_null(handle);
	assert_ptr_equal(dlopen(NVML, RTLD_NOW), handle);
	assert_non_null(dlsym(handle, "nvmlInit_v2"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_driver_that_is_nowhere_is_told_with_a_way_out,
			make_test_dir, drop_test_dir),
		cmocka_unit_test_setup_teardown(
			a_driver_that_cannot_be_loaded_is_named, make_test_dir, drop_test_dir),
		cmocka_unit_test_setup_teardown(what_is_found_is_there_for_who_asks_the_linker,
			make_test_dir, drop_test_dir),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
