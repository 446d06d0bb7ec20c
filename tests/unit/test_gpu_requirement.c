#include "unit.h"
#include "gpu/choice/choice.h"
#include "gpu/choice/requirement.h"
#include "gpu/choice/wish.h"

/* The machine of the tables: a Tesla of compute capability 9.0 under driver 535.104.05, which
 * serves CUDA 12.2. */
static struct gpu_facts facts(void)
{
	return (struct gpu_facts){
		.cuda = { { 12, 2 } },
		.driver = { { 535, 104, 5 } },
		.arch = { { 9, 0 } },
		.brand = "Tesla",
	};
}

struct row {
	const char *text;
	int r;
	const char *says; /* of the error, or NULL */
};

static void check_rows(const struct row *rows, size_t n, const struct gpu_facts *have)
{
	for (size_t i = 0; i < n; i++) {
		struct mlr_error err = MLR_ERROR_INIT;
		struct gpu_facts f = *have;
		int r = gpu_requirement_holds(rows[i].text, &f, NULL, NULL, &err);

		if (r != rows[i].r || (rows[i].says && !strstr(err.text, rows[i].says)))
			fail_msg("'%s': %d, '%s'", rows[i].text, r, err.text);
	}
}

static void each_operator_compares_versions_number_by_number(void **state)
{
	static const struct row rows[] = {
		{ "cuda=12.2", 1, NULL },
		{ "cuda=12.2.0", 1, NULL },
		{ "cuda=12", 0, "'cuda=12'" },
		{ "cuda!=12.2", 0, NULL },
		{ "cuda!=12.1", 1, NULL },
		{ "cuda<12.2", 0, NULL },
		{ "cuda<12.10", 1, NULL },
		{ "cuda<13", 1, NULL },
		{ "cuda<=12.2", 1, NULL },
		{ "cuda<=12.1", 0, NULL },
		{ "cuda>12.2", 0, NULL },
		{ "cuda>12.1", 1, NULL },
		{ "cuda>9", 1, NULL },
		{ "cuda>=12.2", 1, NULL },
		{ "cuda>=12.4", 0, "CUDA 12.2" },
		{ "driver>=535", 1, NULL },
		{ "driver<536", 1, NULL },
		{ "driver=535", 0, NULL },
		{ "driver>=535.104.06", 0, "driver 535.104.5" },
		{ "arch=9", 1, NULL },
		{ "arch>=9.0", 1, NULL },
		{ "arch<7.5", 0, "arch 9.0" },
	};
	struct gpu_facts f = facts();

	check_rows(rows, ARRAY_LEN(rows), &f);
}

static void brands_are_equal_in_any_case_or_not(void **state)
{
	static const struct row rows[] = {
		{ "brand=tesla", 1, NULL },
		{ "brand=TESLA", 1, NULL },
		{ "BRAND=Tesla", 1, NULL },
		{ "brand=geforce", 0, "brand Tesla" },
		{ "brand!=geforce", 1, NULL },
		{ "brand!=tesla", 0, NULL },
		{ "brand=tes", 0, NULL },
		{ "brand>=tesla", -EINVAL, "a brand has only = and !=" },
	};
	struct gpu_facts f = facts();

	check_rows(rows, ARRAY_LEN(rows), &f);
}

static void blanks_part_alternatives_and_commas_conditions(void **state)
{
	static const struct row rows[] = {
		{ "cuda>=12.4 brand=tesla,driver>=535,driver<536", 1, NULL },
		{ "cuda>=12.4 brand=tesla,driver>=525,driver<526", 0, "requires 'cuda>=12.4'" },
		{ "cuda>=12.0,driver>=600", 0, "'cuda>=12.0,driver>=600'" },
		{ "driver>=600,cuda>=12.0 arch=9.0", 1, NULL },
		{ "cuda>=12.0 driver>=600", 1, NULL },
		/* Empty ones do not count. */
		{ "", 1, NULL },
		{ "   ", 1, NULL },
		{ ",", 1, NULL },
		{ " , ", 1, NULL },
		{ "  cuda>=12.4  cuda>=12.1 ", 1, NULL },
		{ ",cuda>=12.1,,", 1, NULL },
		{ ",cuda>=12.4,", 0, NULL },
		{ "cuda>=12.4 ,", 0, "'cuda>=12.4'" },
		{ "cuda>=12.4 ,, driver>=600", 0, "'cuda>=12.4'" },
		{ "cuda>=12.4 , driver>=535", 1, NULL },
	};
	struct gpu_facts f = facts();

	check_rows(rows, ARRAY_LEN(rows), &f);
}

/* NVIDIA_REQUIRE_CUDA of nvidia/cuda:12.4.1 shortened: forward compatibility is for data centres'
 * GPUs. */
static void the_requirement_of_a_cuda_image_holds_for_drivers_that_its_compat_package_serves(
	void **state)
{
	static const char image[] =
		"cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=470,driver<471 "
		"brand=nvidia,driver>=470,driver<471 brand=nvidiartx,driver>=470,driver<471 "
		"brand=geforce,driver>=470,driver<471 brand=geforcertx,driver>=470,driver<471 "
		"brand=tesla,driver>=525,driver<526 brand=unknown,driver>=525,driver<526 "
		"brand=tesla,driver>=535,driver<536 brand=unknown,driver>=535,driver<536";
	static const struct {
		unsigned driver, cuda_minor;
		const char *brand;
		int r;
	} rows[] = {
		{ 535, 2, "Tesla", 1 },
		{ 535, 2, "GeForceRTX", 0 },
		{ 535, 2, "Unknown", 1 },
		{ 530, 1, "Tesla", 0 },
		{ 525, 0, "Tesla", 1 },
		{ 550, 4, "GeForce", 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct gpu_facts f = { .cuda = { { 12, rows[i].cuda_minor } },
			.driver = { { rows[i].driver, 104, 5 } },
			.brand = rows[i].brand };

		if (gpu_requirement_holds(image, &f, NULL, NULL, NULL) != rows[i].r)
			fail_msg("driver %u, brand %s", rows[i].driver, rows[i].brand);
	}
}

static void what_is_no_condition_is_named(void **state)
{
	static const struct row rows[] = {
		{ "cuda", -EINVAL, "invalid condition 'cuda'" },
		{ "cuda>=", -EINVAL, "'cuda>='" },
		{ ">=12", -EINVAL, "'>=12'" },
		{ "=", -EINVAL, NULL },
		{ "cuda==12", -EINVAL, "'cuda==12'" },
		{ "cuda=>12", -EINVAL, NULL },
		{ "cuda<>12", -EINVAL, NULL },
		{ "cuda!12", -EINVAL, NULL },
		{ "cuda>=twelve", -EINVAL, "its value is not a version" },
		{ "cuda>=12.x", -EINVAL, NULL },
		{ "cuda>=1.2.3.4.5", -EINVAL, NULL },
		{ "cuda>=-1", -EINVAL, NULL },
		{ "cuda >= 12.0", -EINVAL, "condition 'cuda': use" },
		/* What stands behind an alternative that holds is not read. */
		{ "cuda>=12.0 nonsense", 1, NULL },
		{ "cuda>=12.4 nonsense", -EINVAL, "'nonsense'" },
		/* A property that is not known is no obstacle. */
		{ "fabric>=3", 1, NULL },
		{ "fabric>=3,cuda>=12.4", 0, NULL },
		{ "cudax>=99", 1, NULL },
	};
	struct gpu_facts f = facts();

	check_rows(rows, ARRAY_LEN(rows), &f);
}

static void what_is_unknown_holds(void **state)
{
	static const struct row rows[] = {
		{ "cuda>=99", 1, NULL },
		{ "driver<1", 1, NULL },
		{ "arch=1.0", 1, NULL },
		{ "brand=tesla", 1, NULL },
		{ "brand!=tesla", 1, NULL },
	};
	struct gpu_facts nothing = { .brand = NULL }, no_brand = facts();

	check_rows(rows, ARRAY_LEN(rows), &nothing);
	/* But not so what else is asked with it. */
	no_brand.brand = NULL;
	check_rows((struct row[]){ { "brand=tesla,driver>=600", 0, NULL } }, 1, &no_brand);
}

static void a_newer_cuda_comes_with_a_way_out_and_others_without(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct gpu_facts f = facts();

	assert_int_equal(
		gpu_requirement_holds("cuda>=12.4 brand=geforce", &f, NULL, NULL, &err), 0);
	assert_int_equal(err.code, ENOTSUP);
	assert_non_null(strstr(err.text, "hint: a newer driver, or an image of an older CUDA"));
	assert_int_equal(gpu_requirement_holds("driver>=600 cuda>=12.4", &f, NULL, NULL, &err), 0);
	assert_null(strstr(err.text, "hint"));
}

static void a_long_requirement_is_cut_in_messages(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct gpu_facts f = facts();
	char text[4000];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(gpu_requirement_holds(text, &f, NULL, NULL, &err), -EINVAL);
	assert_true(strlen(err.text) < 300);
}

struct asked {
	int times;
	const char *brand;
};

static void tell(void *ctx, struct gpu_facts *f)
{
	struct asked *a = ctx;

	a->times++;
	f->brand = a->brand;
}

static void more_is_asked_once_and_only_when_it_decides(void **state)
{
	static const struct {
		const char *text;
		int r, times;
	} rows[] = {
		{ "cuda>=12.0 brand=tesla", 1, 0 },
		{ "cuda>=12.4 brand=tesla,driver>=600", 0, 0 },
		{ "cuda>=12.4 brand=tesla", 1, 1 },
		{ "cuda>=12.4 brand=geforce", 0, 1 },
		{ "brand=geforce brand=quadro brand=tesla", 1, 1 },
		{ "brand=geforce,brand=tesla brand=quadro", 0, 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct asked a = { 0, "tesla" };
		struct gpu_facts f = facts();
		int r;

		f.brand = NULL;
		r = gpu_requirement_holds(rows[i].text, &f, tell, &a, NULL);
		if (r != rows[i].r || a.times != rows[i].times)
			fail_msg("'%s': %d, asked %d times", rows[i].text, r, a.times);
	}
}

/* Of a wish, on a machine with two GPUs whose brands only NVML knows. */
static int fills, fill_fails;

static int fill(struct gpu_machine *m, struct mlr_error *err)
{
	(void)err;
	fills++;
	if (fill_fails)
		return -ENOENT;
	m->gpus[0].brand = xstrdup("Tesla");
	m->gpus[1].brand = xstrdup("GeForce");
	return 0;
}

/* Returns what gpu_requirements_check() does with one requirement. */
static int check(const char *requirement, enum gpu_driver driver, const size_t *chosen, size_t n,
	struct mlr_error *err)
{
	auto_call(gpu_machine_done) struct gpu_machine m = {
		.driver = driver, .cuda = { { 12, 2 } }, .driver_version = { { 535, 104, 5 } }
	};
	auto_call(gpu_wish_done) struct gpu_wish w = GPU_WISH_INIT;
	auto_call(gpu_choice_done) struct gpu_choice c = { 0 };

	fills = 0;
	for (int i = 0; i < 3; i++)
		gpu_machine_add_gpu(&m)->vendor = i < 2 ? GPU_NVIDIA : GPU_AMD;
	strv_add(&w.requirements, requirement);
	for (size_t i = 0; i < n; i++) {
		c.v = xgrow(c.v, c.n, sizeof(*c.v));
		c.v[c.n++] = (struct gpu_chosen){ chosen[i], -1 };
	}
	return gpu_requirements_check(&w, &m, &c, fill, err);
}

static void each_chosen_gpu_has_to_meet_the_requirement(void **state)
{
	static const size_t first[] = { 0 }, both[] = { 0, 1 }, amd[] = { 2 };
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(
		check("NVIDIA_REQUIRE_X=brand=tesla", GPU_DRIVER_NVIDIA, first, 1, NULL), 0);
	assert_int_equal(
		check("NVIDIA_REQUIRE_X=brand=tesla", GPU_DRIVER_NVIDIA, both, 2, &err), -ENOTSUP);
	assert_int_equal(fills, 1);
	assert_non_null(strstr(err.text,
		"NVIDIA_REQUIRE_X does not hold: requires 'brand=tesla', but this machine has CUDA 12.2, driver "
		"535.104.5, brand GeForce\nhint: -e NVIDIA_DISABLE_REQUIRE=1"));
	/* A GPU of AMD's is not spoken of, nor is one that is not there. */
	assert_int_equal(
		check("NVIDIA_REQUIRE_X=brand=quadro", GPU_DRIVER_NVIDIA, amd, 1, NULL), 0);
	assert_int_equal(
		check("NVIDIA_REQUIRE_X=brand=quadro", GPU_DRIVER_NVIDIA, NULL, 0, NULL), 0);
	assert_int_equal(
		check("NVIDIA_REQUIRE_X=cuda>=13", GPU_DRIVER_NVIDIA, NULL, 0, NULL), -ENOTSUP);
}

static void without_nvml_or_without_a_driver_nothing_fails_for_what_is_unknown(void **state)
{
	static const size_t first[] = { 0 };

	fill_fails = 1;
	assert_int_equal(
		check("NVIDIA_REQUIRE_X=brand=quadro", GPU_DRIVER_NVIDIA, first, 1, NULL), 0);
	assert_int_equal(fills, 1);
	fill_fails = 0;
	assert_int_equal(check("NVIDIA_REQUIRE_X=cuda>=13", GPU_DRIVER_NONE, NULL, 0, NULL), 0);
	assert_int_equal(
		check("NVIDIA_REQUIRE_X=nonsense", GPU_DRIVER_NVIDIA, NULL, 0, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_operator_compares_versions_number_by_number),
		cmocka_unit_test(brands_are_equal_in_any_case_or_not),
		cmocka_unit_test(blanks_part_alternatives_and_commas_conditions),
		cmocka_unit_test(
			the_requirement_of_a_cuda_image_holds_for_drivers_that_its_compat_package_serves),
		cmocka_unit_test(what_is_no_condition_is_named),
		cmocka_unit_test(what_is_unknown_holds),
		cmocka_unit_test(a_newer_cuda_comes_with_a_way_out_and_others_without),
		cmocka_unit_test(a_long_requirement_is_cut_in_messages),
		cmocka_unit_test(more_is_asked_once_and_only_when_it_decides),
		cmocka_unit_test(each_chosen_gpu_has_to_meet_the_requirement),
		cmocka_unit_test(
			without_nvml_or_without_a_driver_nothing_fails_for_what_is_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
