#include "unit.h"
#include "gpu/choice/wish.h"

#define DEFAULT_CAPS (GPU_UTILITY | GPU_COMPUTE)

/* A wish is read from these, each a list "K=V;K=V" or NULL. */
struct given {
	const char *image, *caller, *user; /* user: -e */
	const char *word;                  /* --gpu */
	enum plan_origin origin;           /* its */
	const char *directory;             /* that the image has */
	int clearenv;
};

static void split(const char *text, struct strv *ret)
{
	while (text && *text) {
		size_t len = strcspn(text, ";");

		strv_take(ret, xstrndup(text, len));
		text += len + (text[len] == ';');
	}
}

static void set(struct plan *p, const char *text, enum plan_origin origin)
{
	const char *eq = strchr(text, '=');
	auto_free char *key = xstrndup(text, (size_t)(eq - text));

	plan_env_set(p, key, eq + 1, origin);
}

static int list_one(void *ctx, const char *path, struct strv *ret)
{
	(void)ret;
	return ctx && strcmp(path, ctx) == 0 ? 0 : -ENOENT;
}

/* The environment as exec plans it: the caller's, the image's, the user's. */
static int read_given(const struct given *g, struct gpu_wish *ret, struct mlr_error *err)
{
	auto_strv struct strv image = STRV_INIT, caller = STRV_INIT, user = STRV_INIT;
	struct gpu_image in = { .list = list_one, .ctx = (void *)(uintptr_t)g->directory };
	struct gpu_request q = {
		.word = g->word, .origin = g->origin, .image_env = &image, .image = &in
	};
	auto_call(plan_done) struct plan p;

	plan_init(&p);
	split(g->image, &image);
	split(g->caller, &caller);
	split(g->user, &user);
	for (size_t i = 0; i < caller.n; i++) {
		if (g->clearenv)
			strv_take(&p.dropped, xstrndup(caller.v[i], strcspn(caller.v[i], "=")));
		else
			set(&p, caller.v[i], PLAN_FROM_CALLER);
	}
	for (size_t i = 0; i < image.n; i++)
		set(&p, image.v[i], PLAN_FROM_IMAGE);
	for (size_t i = 0; i < user.n; i++)
		set(&p, user.v[i], PLAN_FROM_USER);
	q.caller = strv_argv(&caller);
	return gpu_wish_read(&q, &p, ret, err);
}

static char *joined(const struct strv *l)
{
	auto_free char *text = xstrdup("");

	for (size_t i = 0; i < l->n; i++) {
		char *longer = xasprintf("%s%s%s", text, i ? " " : "", l->v[i]);

		free(text);
		text = longer;
	}
	return take_ptr(&text);
}

struct row {
	struct given given;
	int r; /* and when it is 0: */
	enum gpu_wish_kind kind;
	const char *devices; /* with blanks; NULL: none */
	const char *says;    /* of who, remarks or the error; NULL */
};

static void check_row(const struct row *row, size_t number)
{
	auto_call(gpu_wish_done) struct gpu_wish w = GPU_WISH_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	int r = read_given(&row->given, &w, &err);
	auto_free char *devices = joined(&w.devices), *remarks = joined(&w.remarks);
	auto_free char *words = xasprintf("%s | %s | %s", w.who ? w.who : "", remarks, err.text);

	if (r != row->r || (r == 0 && w.kind != row->kind) ||
		strcmp(devices, row->devices ? row->devices : "") != 0 ||
		(row->says && !strstr(words, row->says)))
		fail_msg("row %zu: %d, kind %d, devices '%s', %s", number, r, (int)w.kind, devices,
			words);
}

static void check_rows(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check_row(&rows[i], i);
}

#define REQ "NVIDIA_REQUIRE_CUDA=cuda>=9.0"
#define VIS "NVIDIA_VISIBLE_DEVICES="

static void each_form_of_visible_devices_means_what_nvidia_says(void **state)
{
	static const struct row rows[] = {
		{ { .image = VIS }, 0, GPU_WISH_NOTHING, NULL, "--gpu=all brings them" },
		{ { .image = VIS "," }, 0, GPU_WISH_NOTHING, NULL, NULL },
		{ { .image = VIS "void" }, 0, GPU_WISH_NOTHING, NULL, "the image's " VIS "void" },
		{ { .image = VIS "void,0" }, 0, GPU_WISH_NOTHING, NULL, NULL },
		{ { .image = VIS "0,void" }, 0, GPU_WISH_NOTHING, NULL, NULL },
		{ { .image = VIS "all,void" }, 0, GPU_WISH_NOTHING, NULL, NULL },
		{ { .image = VIS "none" }, 0, GPU_WISH_DRIVER, NULL, NULL },
		{ { .image = VIS "all" }, 0, GPU_WISH_ALL, NULL, "the image's " VIS "all" },
		{ { .image = VIS "all,0" }, 0, GPU_WISH_ALL, NULL, NULL },
		{ { .image = VIS "0" }, 0, GPU_WISH_LIST, "0", NULL },
		{ { .image = VIS "0,2" }, 0, GPU_WISH_LIST, "0 2", NULL },
		{ { .image = VIS ",0,,2," }, 0, GPU_WISH_LIST, "0 2", NULL },
		{ { .image = VIS " 0 , 2 " }, 0, GPU_WISH_LIST, "0 2", NULL },
		{ { .image = VIS "0,2,0,2" }, 0, GPU_WISH_LIST, "0 2", NULL },
		{ { .image = VIS "GPU-aB,gpu-Ab" }, 0, GPU_WISH_LIST, "GPU-aB", NULL },
		{ { .image = VIS "0:1,MIG-x,MIG-GPU-x/1/0" }, 0, GPU_WISH_LIST,
			"0:1 MIG-x MIG-GPU-x/1/0", NULL },
		{ { .image = VIS "0000:3b:00.0" }, 0, GPU_WISH_LIST, "0000:3b:00.0", NULL },
		/* CDI's names for the same. */
		{ { .image = VIS "nvidia.com/gpu=0,nvidia.com/gpu=GPU-x" }, 0, GPU_WISH_LIST,
			"0 GPU-x", NULL },
		{ { .image = VIS "nvidia.com/gpu=all" }, 0, GPU_WISH_ALL, NULL, NULL },
		{ { .image = VIS "vendor.com/class=x" }, 0, GPU_WISH_LIST, NULL, NULL },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

static void an_image_that_says_nothing_gets_what_its_kind_and_the_job_tell(void **state)
{
	static const struct row rows[] = {
		{ { .image = "A=1" }, 0, GPU_WISH_NOTHING, NULL, "carries no CUDA" },
		{ { .image = NULL }, 0, GPU_WISH_NOTHING, NULL, NULL },
		/* The first kind of CUDA's images. */
		{ { .image = "CUDA_VERSION=8.0.61" }, 0, GPU_WISH_ALL, NULL,
			"the image's CUDA_VERSION=8.0.61 without NVIDIA_REQUIRE_CUDA" },
		{ { .image = "CUDA_VERSION=8.0.61;" VIS "void" }, 0, GPU_WISH_NOTHING, NULL, NULL },
		{ { .image = "CUDA_VERSION=8.0.61;" VIS }, 0, GPU_WISH_NOTHING, NULL, NULL },
		{ { .image = "CUDA_VERSION=" }, 0, GPU_WISH_NOTHING, NULL, NULL },
		/* A module of the host's that sets the variable does not make an image one. */
		{ { .caller = "CUDA_VERSION=12.4" }, 0, GPU_WISH_NOTHING, NULL, NULL },
		/* In a job: whatever the image is. */
		{ { .caller = "SLURM_JOB_ID=1" }, 0, GPU_WISH_ALL, NULL, "--gpu=auto in a job" },
		{ { .caller = "SLURM_JOB_ID=" }, 0, GPU_WISH_NOTHING, NULL, NULL },
		{ { .caller = "PBS_JOBID=1" }, 0, GPU_WISH_ALL, NULL, NULL },
		{ { .caller = "LSB_JOBID=1" }, 0, GPU_WISH_ALL, NULL, NULL },
		{ { .caller = "FLUX_JOB_ID=1" }, 0, GPU_WISH_ALL, NULL, NULL },
		{ { .caller = "SLURM_JOB_ID=1", .image = VIS "void" }, 0, GPU_WISH_NOTHING, NULL,
			NULL },
		{ { .caller = "SLURM_JOB_ID=1", .image = VIS "none" }, 0, GPU_WISH_DRIVER, NULL,
			NULL },
		/* Outside: when it carries CUDA or ROCm. */
		{ { .image = "CUDA_VERSION=12.4.1;" REQ }, 0, GPU_WISH_ALL, NULL,
			"--gpu=auto and the image's CUDA_VERSION=12.4.1" },
		{ { .directory = "/usr/local/cuda" }, 0, GPU_WISH_ALL, NULL, "/usr/local/cuda" },
		{ { .directory = "/opt/rocm" }, 0, GPU_WISH_ALL, NULL, "/opt/rocm" },
		{ { .image = "ROCM_VERSION=6.1" }, 0, GPU_WISH_ALL, NULL, NULL },
		{ { .directory = "/usr/local" }, 0, GPU_WISH_NOTHING, NULL, NULL },
		{ { .directory = "/usr/local/cuda", .word = "auto" }, 0, GPU_WISH_ALL, NULL, NULL },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

static void the_users_value_wins_over_the_callers_and_that_over_the_images(void **state)
{
	static const struct row rows[] = {
		{ { .image = VIS "all", .caller = VIS "1" }, 0, GPU_WISH_LIST, "1",
			"the caller's " VIS "1" },
		{ { .image = VIS "1", .caller = VIS "void" }, 0, GPU_WISH_NOTHING, NULL, NULL },
		{ { .image = VIS "void", .caller = VIS "all" }, 0, GPU_WISH_ALL, NULL, NULL },
		{ { .image = VIS "all", .caller = VIS }, 0, GPU_WISH_NOTHING, NULL, NULL },
		{ { .caller = VIS "1" }, 0, GPU_WISH_LIST, "1", NULL },
		{ { .image = VIS "all", .caller = VIS "1", .user = VIS "2" }, 0, GPU_WISH_LIST, "2",
			"-e " VIS "2" },
		{ { .image = VIS "all", .user = VIS "none" }, 0, GPU_WISH_DRIVER, NULL, NULL },
		/* --clearenv leaves the caller's out. */
		{ { .image = VIS "all", .caller = VIS "1", .clearenv = 1 }, 0, GPU_WISH_ALL, NULL,
			NULL },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

static void the_gpu_option_wins_over_every_variable(void **state)
{
	static const struct row rows[] = {
		{ { .word = "0" }, 0, GPU_WISH_LIST, "0", "--gpu=0" },
		{ { .word = "all" }, 0, GPU_WISH_ALL, NULL, "--gpu=all" },
		{ { .word = "none" }, 0, GPU_WISH_NOTHING, NULL, NULL },
		{ { .word = "0,0000:3b:00.0" }, 0, GPU_WISH_LIST, "0 0000:3b:00.0", NULL },
		{ { .word = "0", .image = VIS "void" }, 0, GPU_WISH_LIST, "0",
			"--gpu=0 wins over the image's " VIS "void" },
		{ { .word = "0", .image = VIS "none" }, 0, GPU_WISH_LIST, "0", "wins over" },
		{ { .word = "none", .user = VIS "all" }, 0, GPU_WISH_NOTHING, NULL,
			"--gpu=none wins over -e " VIS "all" },
		{ { .word = "none", .caller = "SLURM_JOB_ID=1" }, 0, GPU_WISH_NOTHING, NULL, NULL },
		{ { .word = "auto", .image = VIS "1" }, 0, GPU_WISH_LIST, "1", NULL },
		{ { .word = "all", .origin = PLAN_FROM_SITE }, 0, GPU_WISH_ALL, NULL,
			"the site's gpu = all" },
		{ { .word = "none", .origin = PLAN_FROM_CONFIG }, 0, GPU_WISH_NOTHING, NULL,
			"the configuration's gpu = none" },
		{ { .word = "1", .origin = PLAN_FROM_CALLER }, 0, GPU_WISH_LIST, "1",
			"MLRUN_GPU=1" },
		{ { .word = "nvidia.com/gpu=1" }, 0, GPU_WISH_LIST, "1", NULL },
		{ { .word = "" }, -EINVAL, 0, NULL, "expected auto, all, none or a list of GPUs" },
		{ { .word = "," }, -EINVAL, 0, NULL, NULL },
		{ { .word = "all,0" }, -EINVAL, 0, NULL, "'all' cannot be combined with others" },
		{ { .word = "0,none" }, -EINVAL, 0, NULL, "'none'" },
		{ { .word = "auto,0" }, -EINVAL, 0, NULL, "'auto'" },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

static void a_setting_is_below_what_the_user_says_for_this_container(void **state)
{
	static const struct row rows[] = {
		{ { .word = "all", .origin = PLAN_FROM_SITE, .user = VIS "1" }, 0, GPU_WISH_LIST,
			"1", "-e " VIS "1 wins over the site's gpu = all" },
		{ { .word = "none", .origin = PLAN_FROM_CONFIG, .user = VIS "all" }, 0,
			GPU_WISH_ALL, NULL, NULL },
		{ { .word = "2", .origin = PLAN_FROM_CALLER, .user = VIS "void" }, 0,
			GPU_WISH_NOTHING, NULL, "wins over MLRUN_GPU=2" },
		{ { .word = "all", .origin = PLAN_FROM_SITE, .caller = VIS "1" }, 0, GPU_WISH_ALL,
			NULL, "wins over the caller's" },
		{ { .word = "2", .origin = PLAN_FROM_USER, .user = VIS "1" }, 0, GPU_WISH_LIST, "2",
			NULL },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

static void only_what_the_user_named_must_be_had(void **state)
{
	static const struct {
		struct given given;
		int must;
	} rows[] = {
		{ { .word = "0" }, 1 },
		{ { .word = "all" }, 1 },
		{ { .word = "0", .origin = PLAN_FROM_USER }, 1 },
		{ { .word = "all", .origin = PLAN_FROM_SITE }, 0 },
		{ { .word = "0", .origin = PLAN_FROM_CONFIG }, 0 },
		{ { .word = "0", .origin = PLAN_FROM_CALLER }, 0 },
		{ { .user = VIS "0" }, 1 },
		{ { .caller = VIS "0" }, 0 },
		{ { .image = VIS "0" }, 0 },
		{ { .word = "auto" }, 0 },
		{ { .caller = "SLURM_JOB_ID=1" }, 0 },
		{ { .word = "auto", .user = VIS "all" }, 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_call(gpu_wish_done) struct gpu_wish w = GPU_WISH_INIT;

		assert_int_equal(read_given(&rows[i].given, &w, NULL), 0);
		if (w.must != rows[i].must)
			fail_msg("row %zu", i);
	}
}

/* Each of its items may have a message, which names it: a value of 128 KiB would take gigabytes. */
static void messages_repeat_the_beginning_of_a_long_value(void **state)
{
	auto_call(gpu_wish_done) struct gpu_wish w = GPU_WISH_INIT;
	auto_free char *value = xcalloc(1, 100001), *image = NULL;
	struct given given = { .image = NULL };

	for (size_t i = 0; i < 100000; i++)
		value[i] = i % 5 == 4 ? ',' : (char)('0' + i * 7919 / 5 % 10);
	given.image = image = xasprintf(VIS "%s", value);
	assert_int_equal(read_given(&given, &w, NULL), 0);
	assert_int_equal(w.kind, GPU_WISH_LIST);
	assert_true(strlen(w.who) < 300);
	assert_non_null(strstr(w.who, "the image's " VIS));
	assert_non_null(strstr(w.who, "…"));
}

#define CAPS "NVIDIA_DRIVER_CAPABILITIES="

static void capabilities_are_the_default_all_or_those_that_are_named(void **state)
{
	static const struct {
		struct given
			given; /* with NVIDIA_VISIBLE_DEVICES=all of the image's unless it says */
		int r;
		unsigned caps;
		const char *says;
	} rows[] = {
		{ { .image = VIS "all" }, 0, DEFAULT_CAPS, "the default" },
		{ { .image = VIS "all;" CAPS }, 0, DEFAULT_CAPS, "the default" },
		{ { .image = VIS "all;" CAPS "," }, 0, DEFAULT_CAPS, NULL },
		{ { .image = VIS "all;" CAPS "all" }, 0, GPU_CAPABILITIES_ALL, NULL },
		{ { .image = VIS "all;" CAPS "compute,all" }, 0, GPU_CAPABILITIES_ALL, NULL },
		{ { .image = VIS "all;" CAPS "compute" }, 0, GPU_COMPUTE,
			"the image's " CAPS "compute" },
		{ { .image = VIS "all;" CAPS "compat32" }, 0, GPU_COMPAT32, NULL },
		{ { .image = VIS "all;" CAPS "graphics" }, 0, GPU_GRAPHICS, NULL },
		{ { .image = VIS "all;" CAPS "utility" }, 0, GPU_UTILITY, NULL },
		/* What they bring along is the files' to say. */
		{ { .image = VIS "all;" CAPS "video" }, 0, GPU_VIDEO, NULL },
		{ { .image = VIS "all;" CAPS "display" }, 0, GPU_DISPLAY, NULL },
		{ { .image = VIS "all;" CAPS "ngx" }, 0, GPU_NGX, NULL },
		{ { .image = VIS "all;" CAPS " compute , ,video,compute" }, 0,
			GPU_COMPUTE | GPU_VIDEO, NULL },
		{ { .image = VIS "all;" CAPS "all", .caller = CAPS "utility" }, 0, GPU_UTILITY,
			"the caller's" },
		{ { .image = VIS "all;" CAPS "all", .user = CAPS "ngx" }, 0, GPU_NGX, "-e " },
		{ { .image = VIS "none;" CAPS "ngx" }, 0, GPU_NGX, NULL },
		/* The first kind of CUDA's images. */
		{ { .image = "CUDA_VERSION=8.0.61" }, 0, GPU_CAPABILITIES_ALL, "first kind" },
		{ { .image = "CUDA_VERSION=8.0.61;" VIS "0" }, 0, GPU_CAPABILITIES_ALL, NULL },
		{ { .image = "CUDA_VERSION=8.0.61;" CAPS }, 0, DEFAULT_CAPS, NULL },
		{ { .image = "CUDA_VERSION=8.0.61;" CAPS "compute" }, 0, GPU_COMPUTE, NULL },
		{ { .image = "CUDA_VERSION=9.0;" REQ }, 0, DEFAULT_CAPS, NULL },
		{ { .image = VIS "all;" CAPS "compute,cuda" }, -EINVAL, 0,
			"the image's " CAPS
			"compute,cuda: unknown driver capability 'cuda': use all, "
			"compute,compat32,graphics,utility,video,display,ngx" },
		{ { .image = VIS "all;" CAPS "Compute" }, -EINVAL, 0, "hint" },
		/* Nobody who wants no GPU is bothered. */
		{ { .image = VIS "void;" CAPS "cuda" }, 0, 0, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_call(gpu_wish_done) struct gpu_wish w = GPU_WISH_INIT;
		struct mlr_error err = MLR_ERROR_INIT;
		int r = read_given(&rows[i].given, &w, &err);
		const char *words = r < 0 ? err.text : w.caps_who ? w.caps_who : "";

		if (r != rows[i].r || w.caps != rows[i].caps ||
			(rows[i].says && !strstr(words, rows[i].says)))
			fail_msg("row %zu: %d, caps %x, '%s'", i, r, w.caps, words);
	}
}

static void requirements_are_gathered_unless_they_are_disabled(void **state)
{
	static const struct {
		struct given given;
		const char *requirements, *says;
	} rows[] = {
		{ { .image = VIS "all" }, "", NULL },
		{ { .image = VIS "all;" REQ }, REQ, NULL },
		{ { .image = VIS "none;" REQ }, REQ, NULL },
		{ { .image = VIS "all;NVIDIA_REQUIRE_Z=arch>=8;" REQ },
			REQ " NVIDIA_REQUIRE_Z=arch>=8", NULL },
		{ { .image = VIS "all;NVIDIA_REQUIRE_JETPACK=csv-mounts=all" }, "", NULL },
		{ { .image = VIS "all;NVIDIA_REQUIRE_JETPACK_HOST_MOUNTS=x" }, "", NULL },
		{ { .image = VIS "all;NVIDIA_REQUIREMENT=x" }, "", NULL },
		{ { .image = VIS "all;" REQ, .caller = "NVIDIA_REQUIRE_CUDA=cuda>=8" },
			"NVIDIA_REQUIRE_CUDA=cuda>=8", NULL },
		{ { .image = VIS "all;" REQ, .user = "NVIDIA_REQUIRE_CUDA=" },
			"NVIDIA_REQUIRE_CUDA=", NULL },
		/* The first kind of CUDA's images requires what it was made of. */
		{ { .image = "CUDA_VERSION=8.0.61" }, "CUDA_VERSION=cuda>=8.0", NULL },
		{ { .image = "CUDA_VERSION=10.1" }, "CUDA_VERSION=cuda>=10.1", NULL },
		{ { .image = "CUDA_VERSION=8.0.61;NVIDIA_REQUIRE_Z=arch>=3" },
			"CUDA_VERSION=cuda>=8.0 NVIDIA_REQUIRE_Z=arch>=3", NULL },
		{ { .image = "CUDA_VERSION=8" }, "", "CUDA_VERSION=8 is not a version" },
		{ { .image = "CUDA_VERSION=new" }, "", "requires nothing" },
		{ { .image = VIS "all;CUDA_VERSION=9.0;" REQ }, REQ, NULL },
		/* Go's words for true, and no others. */
		{ { .image = VIS "all;NVIDIA_DISABLE_REQUIRE=1;" REQ }, "", "did not check" },
		{ { .image = VIS "all;NVIDIA_DISABLE_REQUIRE=t;" REQ }, "", NULL },
		{ { .image = VIS "all;NVIDIA_DISABLE_REQUIRE=T;" REQ }, "", NULL },
		{ { .image = VIS "all;NVIDIA_DISABLE_REQUIRE=TRUE;" REQ }, "", NULL },
		{ { .image = VIS "all;NVIDIA_DISABLE_REQUIRE=true;" REQ }, "", NULL },
		{ { .image = VIS "all;NVIDIA_DISABLE_REQUIRE=True;" REQ }, "", NULL },
		{ { .image = VIS "all;NVIDIA_DISABLE_REQUIRE=tRUE;" REQ }, REQ, "is not true" },
		{ { .image = VIS "all;NVIDIA_DISABLE_REQUIRE=yes;" REQ }, REQ, "is not true" },
		{ { .image = VIS "all;NVIDIA_DISABLE_REQUIRE=0;" REQ }, REQ, NULL },
		{ { .image = VIS "all;NVIDIA_DISABLE_REQUIRE=;" REQ }, REQ, NULL },
		{ { .image = VIS "all;" REQ, .caller = "NVIDIA_DISABLE_REQUIRE=true" }, "",
			"the caller's" },
		{ { .image = VIS "all;NVIDIA_DISABLE_REQUIRE=1;" REQ,
			  .user = "NVIDIA_DISABLE_REQUIRE=0" },
			REQ, NULL },
		{ { .image = "CUDA_VERSION=8.0.61", .user = "NVIDIA_DISABLE_REQUIRE=1" }, "",
			NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_call(gpu_wish_done) struct gpu_wish w = GPU_WISH_INIT;
		auto_free char *got = NULL, *remarks = NULL;

		assert_int_equal(read_given(&rows[i].given, &w, NULL), 0);
		got = joined(&w.requirements);
		remarks = joined(&w.remarks);
		if (strcmp(got, rows[i].requirements) != 0 ||
			(rows[i].says && !strstr(remarks, rows[i].says)))
			fail_msg("row %zu: '%s', '%s'", i, got, remarks);
	}
}

static void imex_channels_are_numbers_and_all_is_left_out(void **state)
{
	static const struct {
		const char *value;
		int r;
		const char *imex, *says;
	} rows[] = {
		{ "", 0, "", NULL },
		{ "0", 0, "0", NULL },
		{ "0,7", 0, "0 7", NULL },
		{ "channel3", 0, "3", NULL },
		{ "channel3,3,03", 0, "3", NULL },
		{ "1048575", 0, "1048575", NULL },
		{ "all", 0, "", "ignored 'all'" },
		{ "all,5", 0, "5", "ignored 'all'" },
		{ "1048576", -EINVAL, "", "a number up to 1048575" },
		{ "99999999999999999999", -EINVAL, "", NULL },
		{ "channel", -EINVAL, "", NULL },
		{ "-1", -EINVAL, "", "invalid channel '-1'" },
		{ "channel-1", -EINVAL, "", NULL },
		{ "3x", -EINVAL, "", NULL },
		{ "/../x", -EINVAL, "", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_call(gpu_wish_done) struct gpu_wish w = GPU_WISH_INIT;
		auto_free char *image = xasprintf(VIS "all;NVIDIA_IMEX_CHANNELS=%s", rows[i].value);
		auto_free char *got = NULL, *remarks = NULL;
		struct mlr_error err = MLR_ERROR_INIT;
		int r = read_given(&(struct given){ .image = image }, &w, &err);

		got = joined(&w.imex);
		remarks = joined(&w.remarks);
		if (r != rows[i].r || strcmp(got, rows[i].imex) != 0 ||
			(rows[i].says && !strstr(remarks, rows[i].says) &&
				!strstr(err.text, rows[i].says)))
			fail_msg("'%s': %d, '%s', '%s', '%s'", rows[i].value, r, got, remarks,
				err.text);
	}
}

static void fabrics_are_enabled_by_that_word_alone_and_with_devices(void **state)
{
	static const struct {
		const char *image;
		unsigned extras;
	} rows[] = {
		{ VIS "all;NVIDIA_GDS=enabled", GPU_EXTRA_GDS },
		{ VIS "0;NVIDIA_MOFED=enabled", GPU_EXTRA_MOFED },
		{ VIS "all;NVIDIA_NVSWITCH=enabled", GPU_EXTRA_NVSWITCH },
		{ VIS "all;NVIDIA_GDRCOPY=enabled", GPU_EXTRA_GDRCOPY },
		{ VIS "all;NVIDIA_GDS=enabled;NVIDIA_GDRCOPY=enabled",
			GPU_EXTRA_GDS | GPU_EXTRA_GDRCOPY },
		{ VIS "all;NVIDIA_GDS=disabled", 0 },
		{ VIS "all;NVIDIA_GDS=1", 0 },
		{ VIS "all;NVIDIA_GDS=Enabled", 0 },
		{ VIS "all;NVIDIA_GDS=", 0 },
		{ VIS "none;NVIDIA_GDS=enabled", 0 },
		{ VIS "void;NVIDIA_GDS=enabled", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_call(gpu_wish_done) struct gpu_wish w = GPU_WISH_INIT;

		assert_int_equal(
			read_given(&(struct given){ .image = rows[i].image }, &w, NULL), 0);
		if (w.extras != rows[i].extras)
			fail_msg("'%s': %x", rows[i].image, w.extras);
	}
}

static void rights_over_all_mig_parts_are_refused_to_the_user_and_told_of_an_image(void **state)
{
	static const struct row rows[] = {
		{ { .image = VIS "all;NVIDIA_MIG_CONFIG_DEVICES=all" }, 0, GPU_WISH_ALL, NULL,
			"the image's NVIDIA_MIG_CONFIG_DEVICES=all is not obeyed: only root" },
		{ { .image = VIS "all;NVIDIA_MIG_MONITOR_DEVICES=all" }, 0, GPU_WISH_ALL, NULL,
			"NVIDIA_MIG_MONITOR_DEVICES=all is not obeyed" },
		{ { .image = VIS "all;NVIDIA_MIG_CONFIG_DEVICES=" }, 0, GPU_WISH_ALL, NULL, NULL },
		{ { .image = VIS "all", .user = "NVIDIA_MIG_CONFIG_DEVICES=all" }, -ENOTSUP, 0,
			NULL, "hint: an administrator" },
		{ { .image = VIS "all", .user = "NVIDIA_MIG_MONITOR_DEVICES=all" }, -ENOTSUP, 0,
			NULL, "-e NVIDIA_MIG_MONITOR_DEVICES=all: only root" },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

static void names_of_cdi_are_kept_apart(void **state)
{
	auto_call(gpu_wish_done) struct gpu_wish w = GPU_WISH_INIT;
	auto_free char *cdi = NULL, *devices = NULL;

	assert_int_equal(
		read_given(&(struct given){ .word = "a.com/net=x,1,MIG-GPU-y/1/0,a.com/net=x" }, &w,
			NULL),
		0);
	cdi = joined(&w.cdi);
	devices = joined(&w.devices);
	assert_string_equal(cdi, "a.com/net=x");
	assert_string_equal(devices, "1 MIG-GPU-y/1/0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_form_of_visible_devices_means_what_nvidia_says),
		cmocka_unit_test(an_image_that_says_nothing_gets_what_its_kind_and_the_job_tell),
		cmocka_unit_test(the_users_value_wins_over_the_callers_and_that_over_the_images),
		cmocka_unit_test(the_gpu_option_wins_over_every_variable),
		cmocka_unit_test(a_setting_is_below_what_the_user_says_for_this_container),
		cmocka_unit_test(only_what_the_user_named_must_be_had),
		cmocka_unit_test(messages_repeat_the_beginning_of_a_long_value),
		cmocka_unit_test(capabilities_are_the_default_all_or_those_that_are_named),
		cmocka_unit_test(requirements_are_gathered_unless_they_are_disabled),
		cmocka_unit_test(imex_channels_are_numbers_and_all_is_left_out),
		cmocka_unit_test(fabrics_are_enabled_by_that_word_alone_and_with_devices),
		cmocka_unit_test(
			rights_over_all_mig_parts_are_refused_to_the_user_and_told_of_an_image),
		cmocka_unit_test(names_of_cdi_are_kept_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
