/* CUDA's forward compatibility, decided of libraries that are made here. */
#include "unit.h"
#include "elf_file.h"
#include "gpu/inject/compat.h"
#include "image_dir.h"

#define DIR_IN_IMAGE "/usr/local/cuda/compat"

static char root[64];
static struct gpu_compat c;

static int make(void **state)
{
	image_dir_make(root);
	c = (struct gpu_compat){ 0 };
	return 0;
}

static int drop(void **state)
{
	gpu_compat_done(&c);
	image_dir_drop(root);
	return 0;
}

/* A libcuda with a note, or with none. */
static void put_libcuda(const char *version, const char *note)
{
	auto_free char *path = xasprintf("%s" DIR_IN_IMAGE "/libcuda.so.%s", root, version);
	const struct elf_file f = { .soname = "libcuda.so.1",
		.note_section = note ? ".note.cuda.fwd_compatibility" : NULL,
		.note_owner = "NVIDIA Corporation",
		.note = note };

	image_dir_mkdir(root, DIR_IN_IMAGE);
	elf_file_write(path, &f);
}

static void decide(const char *driver, const char *cuda)
{
	struct gpu_machine m = GPU_MACHINE_INIT;
	const struct gpu_image image = image_dir(root);

	m.driver = GPU_DRIVER_NVIDIA;
	m.driver_text = xstrdup(driver);
	gpu_version_parse(driver, &m.driver_version);
	gpu_version_parse(cuda, &m.cuda);
	assert_int_equal(gpu_compat_read(&image, &m, &c), 0);
	gpu_machine_done(&m);
}

#define NOTE \
	"{\"Format\": 1, \"CUDA Version\": \"12.9\", \"Driver\": [535, 550, 570, 575], \"Device\": [1, 2, 7]}"

static const struct row {
	const char *what, *version, *note, *driver, *cuda;
	int use;
	const char *why;
} rows[] = {
	{ "a driver of a branch that is named", "575.57.08", NOTE, "535.104.05", "12.2", 1,
		"CUDA 12.9" },
	{ "one of a branch that is not", "575.57.08", NOTE, "525.60.13", "12.0", 0, "do not know" },
	{ "a driver that serves as much", "575.57.08", NOTE, "575.51.03", "12.9", 0, "has 12.9" },
	{ "a newer driver", "575.57.08", NOTE, "580.65.06", "13.0", 0, "do not know" },
	{ "a driver whose CUDA is unknown", "575.57.08", NOTE, "570.86.10", "", 1, "570.86.10" },
	{ "the same, and newer than they are", "575.57.08", NOTE, "575.64.03", "", 0, "575.64.03" },
	{ "a note that names no driver", "13.2.1", "{\"CUDA Version\": \"13.2\"}", "540.4.0",
		"12.6", 1, "CUDA 13.2" },
	{ "the same with a newer driver", "13.2.1", "{\"CUDA Version\": \"13.2\"}", "590.1.0",
		"13.3", 0, "13.3" },
	{ "a note that says nothing", "575.57.08", "{}", "535.104.05", "12.2", 0,
		"name no driver" },
	{ "a note that is no JSON", "575.57.08", "{\"Format\":", "535.104.05", "12.2", 0,
		"cannot be understood" },
	{ "a note that is no object", "575.57.08", "[535]", "535.104.05", "12.2", 0,
		"cannot be understood" },
	{ "drivers that are no numbers", "575.57.08",
		"{\"CUDA Version\": 12, \"Driver\": [\"535\", null]}", "535.104.05", "12.2", 0,
		"do not know" },
	{ "no note and a newer branch", "550.54.15", NULL, "535.104.05", "12.2", 1, "535.104.05" },
	{ "no note and the same branch", "535.183.01", NULL, "535.104.05", "12.2", 0,
		"535.104.05" },
	{ "no note and an older branch", "470.82.01", NULL, "535.104.05", "12.2", 0, "535.104.05" },
	{ "a number more than the other has", "1000.1", NULL, "535.104.05", "12.2", 1, "1000.1" },
};

static void the_note_or_else_the_branch_decides(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct row *r = &rows[i];

		put_libcuda(r->version, r->note);
		decide(r->driver, r->cuda);
		if (c.use != r->use || !c.why || !strstr(c.why, r->why))
			fail_msg("%s: %d, %s", r->what, c.use, c.why ? c.why : "no reason");
		assert_string_equal(c.dir, DIR_IN_IMAGE);
		assert_string_equal(c.version, r->version);
		drop(state);
		make(state);
	}
}

static void both_versions_are_told(void **state)
{
	put_libcuda("575.57.08", NOTE);
	decide("535.104.05", "12.2");
	assert_non_null(strstr(c.why, "575.57.08"));
	assert_non_null(strstr(c.why, "535.104.05"));
	assert_non_null(strstr(c.why, DIR_IN_IMAGE));
}

static void all_names_of_libraries_are_listed_and_nothing_else(void **state)
{
	put_libcuda("575.57.08", NOTE);
	image_dir_put(root, DIR_IN_IMAGE "/libnvidia-ptxjitcompiler.so.1", "");
	image_dir_put(root, DIR_IN_IMAGE "/libcuda.so.1", "");
	image_dir_put(root, DIR_IN_IMAGE "/README", "");
	image_dir_put(root, DIR_IN_IMAGE "/nvidia.so", "");
	decide("535.104.05", "12.2");
	assert_int_equal(c.libraries.n, 3);
	assert_string_equal(c.libraries.v[0], "libcuda.so.1");
	assert_string_equal(c.libraries.v[1], "libcuda.so.575.57.08");
	assert_string_equal(c.libraries.v[2], "libnvidia-ptxjitcompiler.so.1");
}

static void of_several_none_is_used(void **state)
{
	put_libcuda("575.57.08", NOTE);
	put_libcuda("550.54.15", NULL);
	decide("535.104.05", "12.2");
	assert_int_equal(c.use, 0);
	assert_non_null(strstr(c.why, "2 libcuda.so"));
}

static void of_more_than_a_package_has_none_is_used(void **state)
{
	put_libcuda("575.57.08", NOTE);
	for (int i = 0; i < 64; i++) {
		auto_free char *path = xasprintf(DIR_IN_IMAGE "/libx%d.so", i);

		image_dir_put(root, path, "");
	}
	decide("535.104.05", "12.2");
	assert_int_equal(c.use, 0);
	assert_non_null(strstr(c.why, "65 libraries"));
}

static void without_a_versioned_libcuda_there_is_nothing_to_decide(void **state)
{
	decide("535.104.05", "12.2");
	assert_int_equal(c.use, 0);
	assert_null(c.dir);
	assert_null(c.why);
	image_dir_put(root, DIR_IN_IMAGE "/libcuda.so.1", "");
	image_dir_put(root, DIR_IN_IMAGE "/libcuda.so.x.y", "");
	image_dir_put(root, DIR_IN_IMAGE "/libcuda.so.575", "");
	decide("535.104.05", "12.2");
	assert_int_equal(c.use, 0);
	assert_null(c.dir);
}

static void what_cannot_be_read_is_not_used(void **state)
{
	auto_free char *path = xasprintf("%s" DIR_IN_IMAGE "/libcuda.so.575.57.08", root);

	image_dir_put(root, DIR_IN_IMAGE "/libcuda.so.575.57.08", "no library");
	decide("535.104.05", "12.2");
	assert_int_equal(c.use, 0);
	assert_non_null(strstr(c.why, "cannot be understood"));
	gpu_compat_done(&c);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("gone", path), 0);
	decide("535.104.05", "12.2");
	assert_int_equal(c.use, 0);
	assert_non_null(strstr(c.why, "No such file"));
}

static void an_image_that_cannot_be_looked_into_has_a_reason(void **state)
{
	struct gpu_machine m = GPU_MACHINE_INIT;
	const struct gpu_image image = image_dir(NULL);

	assert_int_equal(gpu_compat_read(&image, &m, &c), 0);
	assert_int_equal(c.use, 0);
	assert_non_null(strstr(c.why, "cannot be read"));
}

static void an_unknown_driver_gets_none(void **state)
{
	struct gpu_machine m = GPU_MACHINE_INIT;
	const struct gpu_image image = image_dir(root);

	put_libcuda("575.57.08", NOTE);
	assert_int_equal(gpu_compat_read(&image, &m, &c), 0);
	assert_int_equal(c.use, 0);
	assert_non_null(strstr(c.why, "is unknown"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_note_or_else_the_branch_decides, make, drop),
		cmocka_unit_test_setup_teardown(both_versions_are_told, make, drop),
		cmocka_unit_test_setup_teardown(
			all_names_of_libraries_are_listed_and_nothing_else, make, drop),
		cmocka_unit_test_setup_teardown(of_several_none_is_used, make, drop),
		cmocka_unit_test_setup_teardown(
			of_more_than_a_package_has_none_is_used, make, drop),
		cmocka_unit_test_setup_teardown(
			without_a_versioned_libcuda_there_is_nothing_to_decide, make, drop),
		cmocka_unit_test_setup_teardown(what_cannot_be_read_is_not_used, make, drop),
		cmocka_unit_test_setup_teardown(
			an_image_that_cannot_be_looked_into_has_a_reason, make, drop),
		cmocka_unit_test_setup_teardown(an_unknown_driver_gets_none, make, drop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
