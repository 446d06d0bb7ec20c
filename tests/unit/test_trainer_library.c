/* Where NVIDIA's libraries are looked for: Python environments that exist here, with another
 * library under their names. */
#include "backend/cuda/libraries/library.h"
#include "trainer_test.h"

#include "base/file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SONAME "libmade-up-by-a-test.so.9"

static void make_parents(const char *path)
{
	auto_free char *copy = xstrdup(in_test_dir(path));

	*strrchr(copy, '/') = '\0';
	assert_int_equal(file_mkdir_p(AT_FDCWD, copy, 0755, NULL), 0);
}

/* A link below test_dir, with the directories that it needs. */
static void put_link(const char *path, const char *to)
{
	make_parents(path);
	assert_int_equal(symlink(to, in_test_dir(path)), 0);
}

/* A library that this machine has, at a path below test_dir. Under qemu-user its own path is no
 * file of the machine's, so it is copied. */
static void put_library(const char *path)
{
	void *handle = dlopen("libm.so.6", RTLD_NOW);
	auto_free char *library = NULL;
	Dl_info info;
	size_t len;

	assert_non_null(handle);
	assert_int_not_equal(dladdr(dlsym(handle, "cos"), &info), 0);
	assert_int_equal(file_read(AT_FDCWD, info.dli_fname, 64 << 20, &library, &len, NULL), 0);
	make_parents(path);
	write_file(path, library, len);
	dlclose(handle);
}

/* In another process, as what is opened stays so. Returns library_open()'s answer, made positive.
 */
static int opened(const char *variable, const char *value)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		double (*function)(double) = NULL;
		struct library_symbol symbol = { "cos", &function };
		struct mlr_error err = MLR_ERROR_INIT;
		int r;

		unsetenv("VIRTUAL_ENV");
		unsetenv("CONDA_PREFIX");
		setenv("PATH", "/nonexistent:relative", 1);
		setenv(variable, value, 1);
		r = library_open(SONAME, &symbol, 1, &err);
		if (r == 0 && (!function || function(0) != 1))
			_exit(99);
		if (r < 0 && (!strstr(err.text, SONAME) || !strstr(err.text, "\nhint: searched: ")))
			_exit(98);
		_exit(-r);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void libraries_are_found_in_python_environments(void **state)
{
	static const struct {
		const char *library; /* where it lies */
		const char *variable, *value, *tail;
	} cases[] = {
		{ "venv/lib/python3.11/site-packages/nvidia/cudnn/lib/" SONAME, "VIRTUAL_ENV",
			"venv", "" },
		{ "conda/lib/python3.9/site-packages/nvidia/cu13/lib/" SONAME, "CONDA_PREFIX",
			"conda", "" },
		{ "usr/local/lib/python3.12/dist-packages/nvidia/nccl/lib/" SONAME, "PATH", "usr",
			"/bin" },
		{ "opt/lib64/python3.13/site-packages/nvidia/nccl/lib/" SONAME, "PATH", "opt",
			"/bin" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		auto_free char *value =
			xasprintf("%s/%s%s", test_dir, cases[i].value, cases[i].tail);

		assert_int_equal(opened(cases[i].variable, value), ENOENT);
		put_library(cases[i].library);
		if (cases[i].tail[0]) {
			auto_free char *python = xasprintf("%s/bin/python3", cases[i].value);

			assert_int_equal(opened(cases[i].variable, value), ENOENT);
			put_link(python, "/bin/sh"); /* it is not run */
		}
		assert_int_equal(opened(cases[i].variable, value), 0);
	}
}

/* An environment's bin/python3 is a link: first what lies beside the link counts, then the file. */
static void a_linked_python_leads_to_its_own_environment_too(void **state)
{
	auto_free char *value = xasprintf("%s/linked/bin", test_dir);
	auto_free char *file = xasprintf("%s/base/bin/python3.11", test_dir);

	assert_int_equal(file_mkdir_p(AT_FDCWD, in_test_dir("base/bin"), 0755, NULL), 0);
	write_file("base/bin/python3.11", "#!/bin/sh\n", 10);
	assert_int_equal(chmod(file, 0755), 0);
	put_link("linked/bin/python3", file);
	assert_int_equal(opened("PATH", value), ENOENT);
	put_library("base/lib/python3.11/site-packages/nvidia/cudnn/lib/" SONAME);
	assert_int_equal(opened("PATH", value), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			libraries_are_found_in_python_environments, make_test_dir, drop_test_dir),
		cmocka_unit_test_setup_teardown(a_linked_python_leads_to_its_own_environment_too,
			make_test_dir, drop_test_dir),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
