/* Judging an image against a machine, both made up. */
#include "unit.h"
#include "elf_file.h"
#include "doctor/image.h"
#include "gpu/nvidia/nvidia.h"
#include "image_dir.h"

/* An image and a machine in a few words; NULL: not known. */
struct pair {
	const char *cuda;       /* the image's CUDA_VERSION */
	const char *platform;   /* the image's */
	const char *driver;     /* the machine's; NULL: its GPU is AMD's */
	const char *arch;       /* the GPU's compute capability */
	const char *processors; /* the machine's */
	const char *brand;      /* the GPU's */
	int control_error;      /* of /dev/nvidiactl */
};

static char root[64];

static int make(void **state)
{
	image_dir_make(root);
	return 0;
}

static int drop(void **state)
{
	image_dir_drop(root);
	return 0;
}

static void add_node(struct gpu_machine *m, const char *path, int error)
{
	struct gpu_node *n = gpu_node_add(&m->nodes, &m->n_nodes);

	n->path = xstrdup(path);
	n->mode = error ? 0600 : 0666;
	n->error = error;
}

static void make_machine(const struct pair *is, struct gpu_machine *m)
{
	struct gpu *g = gpu_machine_add_gpu(m);

	g->index = 0;
	g->bus_id = xstrdup("0000:3b:00.0");
	g->model = xstrdup("NVIDIA X");
	g->node.path = xstrdup("/dev/nvidia0");
	if (is->arch)
		assert_int_equal(gpu_version_parse(is->arch, &g->arch), 0);
	m->processors = is->processors ? xstrdup(is->processors) : NULL;
	g->vendor = is->driver ? GPU_NVIDIA : GPU_AMD;
	if (!is->driver)
		return;
	g->brand = is->brand ? xstrdup(is->brand) : NULL;
	add_node(m, "/dev/nvidiactl", is->control_error);
	add_node(m, "/dev/nvidia-uvm", 0);
	m->driver = GPU_DRIVER_NVIDIA;
	m->driver_text = xstrdup(is->driver);
	assert_int_equal(gpu_version_parse(is->driver, &m->driver_version), 0);
	m->cuda = gpu_driver_cuda(&m->driver_version);
}

/* The findings of one subject, "verdict: text" each on a line, to free(). */
static char *findings(const struct pair *is, const char *subject)
{
	static const char *const verdicts[] = { "ok", "not needed", "doubtful", "fails" };
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	auto_call(doctor_report_done) struct doctor_report r = { 0 };
	auto_call(plan_done) struct plan p;
	auto_strv struct strv env = STRV_INIT;
	struct gpu_image image = image_dir(root);
	char *const nobody[] = { NULL };
	struct gpu_request q = {
		.word = "all", .caller = nobody, .image_env = &env, .image = &image
	};
	char *text = xstrdup("");

	plan_init(&p);
	p.platform = is->platform ? xstrdup(is->platform) : NULL;
	if (is->cuda)
		strv_addf(&env, "CUDA_VERSION=%s", is->cuda);
	make_machine(is, &m);
	image.processors = m.processors;
	doctor_image_gpus(&q, &p, &m, NULL, &r);
	for (size_t i = 0; i < r.n; i++)
		if (strcmp(r.v[i].check, subject) == 0) {
			auto_free char *before = text;

			text = xasprintf(
				"%s%s: %s\n", before, verdicts[r.v[i].verdict], r.v[i].what);
		}
	return text;
}

static void assert_begins(const struct pair *is, const char *subject, const char *want)
{
	auto_free char *text = findings(is, subject);

	if (strncmp(text, want, strlen(want)) != 0)
		fail_msg("CUDA %s, driver %s, arch %s: '%s', wanted '%s'", is->cuda, is->driver,
			is->arch ? is->arch : "?", text, want);
}

/* NVIDIA's "CUDA Compatibility", tables of minor version compatibility and of drivers. */
static void a_cuda_is_judged_by_the_driver(void **state)
{
	static const struct {
		const char *cuda, *driver, *verdict;
	} rows[] = {
		{ "10.2.89", "440.33.01", "ok" },
		{ "10.2.89", "418.87.00", "fails" }, /* 10.1, and no compatibility before 11 */
		{ "10.2.89", "580.65.06", "ok" },
		{ "11.0.3", "450.51.05", "ok" },
		{ "11.1.1", "450.51.05", "fails" },
		{ "11.8.0", "450.80.02", "doubtful" },
		{ "11.8.0", "450.36.06", "fails" },
		{ "11.8.0", "470.42.01", "doubtful" },
		{ "11.8.0", "520.61.05", "ok" },
		{ "11.4.0", "440.33.01", "fails" },
		{ "12.0.0", "520.61.05", "fails" },
		{ "12.0.0", "525.60.13", "ok" },
		{ "12.9.1", "525.60.13", "doubtful" },
		{ "12.4.1", "550.54.14", "ok" },
		{ "12.4.1", "545.23.08", "doubtful" },
		{ "12.2.0", "535.104.05", "ok" },
		{ "13.0.0", "575.57.08", "fails" },
		{ "13.0.0", "580.65.06", "ok" },
		{ "13.1.0", "580.95.05", "doubtful" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct pair is = { .cuda = rows[i].cuda, .driver = rows[i].driver };

		assert_begins(&is, "cuda", rows[i].verdict);
	}
}

static void a_cuda_is_judged_by_the_gpu_s_compute_capability(void **state)
{
	static const struct {
		const char *cuda, *arch, *second; /* "": nothing is wrong */
	} rows[] = {
		{ "13.0.0", "7.0",
			"fails: GPU 0 (NVIDIA X) has compute capability 7.0, and CUDA 13.0 serves "
			"those from 7.5 on" },
		{ "13.0.0", "7.5", "" },
		{ "12.9.0", "7.0", "" },
		{ "12.0.0", "3.7", "fails" },
		{ "11.8.0", "3.7", "" },
		{ "11.8.0", "3.0", "fails" },
		{ "8.0", "2.1", "" },
		{ "11.4.3", "9.0",
			"doubtful: GPU 0 (NVIDIA X) has compute capability 9.0, which is newer than "
			"the image's CUDA 11.4.3: only programs that bring PTX work" },
		{ "11.8.0", "9.0", "" },
		{ "11.0.3", "8.9", "" }, /* runs machine code of 8.0 */
		{ "10.2.89", "8.6", "doubtful" },
		{ "9.0.176", "7.5", "" },
		{ "12.4.1", "12.0", "doubtful" },
		{ "12.8.0", "12.0", "" },
		{ "12.8.0", "10.3", "" },
		{ "11.8.0", NULL, "" },
		{ "13.0.0", "99.0", "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct pair is = {
			.cuda = rows[i].cuda, .driver = "580.65.06", .arch = rows[i].arch
		};
		auto_free char *text = findings(&is, "cuda");
		const char *second = strchr(text, '\n') + 1;

		if (*rows[i].second ? strncmp(second, rows[i].second, strlen(rows[i].second)) != 0
				    : *second != '\0')
			fail_msg("CUDA %s on %s: '%s'", rows[i].cuda, rows[i].arch, second);
	}
}

static void a_cuda_has_nothing_to_run_on_where_all_gpus_are_amds(void **state)
{
	const struct pair cuda = { .cuda = "12.4.1" }, none = { .cuda = NULL };
	auto_free char *text = NULL;

	assert_begins(&cuda, "cuda",
		"fails: the image has CUDA 12.4.1 (CUDA_VERSION), and the machine no GPU of NVIDIA's");
	text = findings(&none, "cuda");
	assert_string_equal(text, "");
}

static void the_image_s_own_libcuda_is_doubtful_on_gpus_for_players(void **state)
{
	static const struct {
		const char *brand, *want;
	} rows[] = { { "Tesla", "ok: " }, { "GeForce", "doubtful: " },
		{ "GeForceRTX", "doubtful: " }, { "TitanRTX", "doubtful: " }, { "Nvidia", "ok: " },
		{ NULL, "ok: " } };
	auto_free char *libcuda = xasprintf("%s/usr/local/cuda/compat/libcuda.so.580.65.06", root);

	image_dir_mkdir(root, "/usr/local/cuda/compat");
	elf_file_write(libcuda, &(struct elf_file){ .soname = "libcuda.so.1" });
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct pair is = {
			.cuda = "13.0.0", .driver = "535.104.05", .brand = rows[i].brand
		};

		assert_begins(&is, "cuda", rows[i].want);
	}
}

static void a_node_that_is_closed_is_told_with_the_reason(void **state)
{
	const struct pair denied = { .driver = "580.65.06", .control_error = EPERM },
			  closed = { .driver = "580.65.06", .control_error = EACCES },
			  lacking = { .driver = "580.65.06", .control_error = ENOENT };
	auto_free char *first = findings(&denied, "devices"),
		       *second = findings(&closed, "devices"),
		       *third = findings(&lacking, "devices");

	assert_non_null(strstr(first, "fails: the job's cgroup denies '/dev/nvidiactl'"));
	assert_non_null(strstr(second, "fails: only root may open '/dev/nvidiactl' (mode 0600)"));
	assert_non_null(strstr(third, "fails: '/dev/nvidiactl' is missing"));
}

static void a_platform_is_judged_by_the_machine_s_processors(void **state)
{
	static const struct {
		const char *platform, *processors, *want;
	} rows[] = {
		{ "linux/amd64", "x86_64",
			"ok: the image is for linux/amd64, as the machine is (x86_64)\n" },
		{ "linux/arm64/v8", "aarch64", "ok" },
		{ "linux/arm64", "x86_64",
			"fails: the image is for linux/arm64, the machine and its driver's "
			"libraries are for x86_64\n" },
		{ "linux/amd64", "aarch64", "fails" },
		{ "linux/ppc64le", "ppc64le", "ok" },
		{ "linux/amd64", "", "fails" },
		{ "linux/amd64", "i", "fails" },
		{ "linux/amd64", NULL, "doubtful" },
		{ NULL, "x86_64", "ok: the image names none\n" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct pair is = { .platform = rows[i].platform,
			.processors = rows[i].processors,
			.driver = "580.65.06" };

		assert_begins(&is, "platform", rows[i].want);
	}
}

static void the_c_library_is_looked_for_where_those_processors_have_it(void **state)
{
	const struct pair arm = { .driver = "580.65.06", .processors = "aarch64" };
	const struct pair x86 = { .driver = "580.65.06", .processors = "x86_64" };

	image_dir_put(root, "/lib/aarch64-linux-gnu/libc.so.6", "no library");
	assert_begins(&arm, "libc",
		"doubtful: '/lib/aarch64-linux-gnu/libc.so.6' in the image does not tell");
	assert_begins(&x86, "libc", "doubtful: the image has no C library");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_cuda_is_judged_by_the_driver, make, drop),
		cmocka_unit_test_setup_teardown(
			a_cuda_is_judged_by_the_gpu_s_compute_capability, make, drop),
		cmocka_unit_test_setup_teardown(
			a_cuda_has_nothing_to_run_on_where_all_gpus_are_amds, make, drop),
		cmocka_unit_test_setup_teardown(
			the_image_s_own_libcuda_is_doubtful_on_gpus_for_players, make, drop),
		cmocka_unit_test_setup_teardown(
			a_node_that_is_closed_is_told_with_the_reason, make, drop),
		cmocka_unit_test_setup_teardown(
			a_platform_is_judged_by_the_machine_s_processors, make, drop),
		cmocka_unit_test_setup_teardown(
			the_c_library_is_looked_for_where_those_processors_have_it, make, drop),
	};

	return cmocka_run_group_tests_name("doctor_image", tests, NULL, NULL);
}
