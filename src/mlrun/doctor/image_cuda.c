/* Judges an image's CUDA by the driver and by the GPUs. */
#include "doctor/image.h"

#include "doctor/check.h"
#include "gpu/inject/compat.h"

/* From this driver on, later CUDA versions of the same major version work too: before CUDA 11
 * never, and in 11 not before 450.80.02 (CUDA Compatibility, "Minor Version Compatibility"). In WSL
 * the driver is Windows', with other numbers. */
#define FIRST_MAJOR 11
static const struct gpu_version first_minor_compatible = { { 450, 80, 2 } };

/* The first CUDA with machine code for each major compute capability. A later minor one runs the
 * code of its major's first. */
static const struct {
	unsigned arch;
	struct gpu_version cuda;
} beginnings[] = {
	{ 6, { { 8, 0 } } },
	{ 7, { { 9, 0 } } },
	{ 8, { { 11, 0 } } },
	{ 9, { { 11, 8 } } },
	{ 10, { { 12, 8 } } },
	{ 11, { { 13, 0 } } },
	{ 12, { { 12, 8 } } },
};

/* The oldest compute capability that a major version of CUDA and later ones support (its release
 * notes, "Deprecated Architectures"). */
static const struct {
	unsigned cuda;
	struct gpu_version arch;
} endings[] = {
	{ 13, { { 7, 5 } } },
	{ 12, { { 5, 0 } } },
	{ 11, { { 3, 5 } } },
	{ 9, { { 3, 0 } } },
};

/* CUDA_VERSION of NVIDIA's base images, "12.4.1". */
static int version_of_variable(const struct strv *env, struct gpu_version *ret)
{
	for (size_t i = 0; env && i < env->n; i++)
		if (strncmp(env->v[i], "CUDA_VERSION=", 13) == 0)
			return gpu_version_parse(env->v[i] + 13, ret) == 0;
	return 0;
}

/* The first two numbers of "libcudart.so.12.4.127". */
static int version_of_library(const char *name, struct gpu_version *ret)
{
	struct gpu_version v;

	if (strncmp(name, "libcudart.so.", 13) != 0 || !strchr(name + 13, '.') ||
		gpu_version_parse(name + 13, &v) < 0)
		return 0;
	*ret = (struct gpu_version){ { v.part[0], v.part[1] } };
	return 1;
}

static int version_in(const struct gpu_image *image, const char *dir, struct gpu_version *ret)
{
	auto_strv struct strv names = STRV_INIT;

	if (image->list(image->ctx, dir, &names) < 0)
		return 0;
	for (size_t i = 0; i < names.n; i++)
		if (version_of_library(names.v[i], ret))
			return 1;
	return 0;
}

/* Find the image's CUDA version. Returns its source, or NULL if unknown. */
static const char *image_cuda(const struct gpu_request *q, struct gpu_version *ret)
{
	static const char *const dirs[] = { "/usr/local/cuda/lib64",
		"/usr/local/cuda/targets/x86_64-linux/lib",
		"/usr/local/cuda/targets/sbsa-linux/lib", "/usr/lib/x86_64-linux-gnu",
		"/usr/lib/aarch64-linux-gnu", "/usr/lib64" };

	if (version_of_variable(q->image_env, ret))
		return "CUDA_VERSION";
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (version_in(q->image, dirs[i], ret))
			return dirs[i];
	return NULL;
}

/* NVIDIA supports its compat packages only on data centre and some workstation GPUs. */
static int is_for_players(const struct gpu *g)
{
	const char *model = g->model ? g->model : "", *brand = g->brand ? g->brand : "";

	return strstr(model, "GeForce") || strstr(model, "TITAN") ||
		strncmp(brand, "GeForce", strlen("GeForce")) == 0 ||
		strncmp(brand, "Titan", strlen("Titan")) == 0;
}

static int has_for_players(const struct gpu_machine *m, const struct gpu_choice *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (is_for_players(&m->gpus[c->v[i].gpu]))
			return 1;
	return 0;
}

/* The image's CUDA has a later major version, and its own libcuda is not used. */
static void tell_too_new(const struct gpu_compat *compat, const char *has, const char *serves,
	const struct gpu_version *cuda, struct doctor_report *ret)
{
	doctor_add(ret, "cuda", DOCTOR_FAILURE,
		"the image has CUDA %s, the driver serves CUDA up to %s%s%s", has, serves,
		compat->why ? "; " : "", compat->why ? compat->why : "");
	doctor_mend(ret, DOCTOR_YOU,
		"an image with CUDA %s or older, a newer driver, or in the image NVIDIA's package "
		"cuda-compat-%u-%u, on GPUs of data centres",
		serves, cuda->part[0], cuda->part[1]);
}

static void tell_compat(const struct gpu_compat *compat, const char *has, const char *serves,
	int is_for_players, struct doctor_report *ret)
{
	doctor_add(ret, "cuda", is_for_players ? DOCTOR_WARNING : DOCTOR_PASS,
		"the image has CUDA %s, the driver serves CUDA up to %s, and the image's own libcuda %s is "
		"used in place of the driver's",
		has, serves, compat->version ? compat->version : "?");
	if (is_for_players)
		doctor_mend(ret, DOCTOR_YOU,
			"NVIDIA supports GeForce and Titan GPUs only with newer drivers; should cuInit "
			"fail, take an image with an older CUDA or update the driver");
}

/* Does a later CUDA of the same major version run? */
static int serves_minors(const struct gpu_machine *m, const struct gpu_version *cuda)
{
	return cuda->part[0] == m->cuda.part[0] && cuda->part[0] >= FIRST_MAJOR &&
		(m->driver == GPU_DRIVER_WSL ||
			gpu_version_compare(&m->driver_version, &first_minor_compatible) >= 0);
}

static void tell_minor(
	const char *has, const char *serves, unsigned major, struct doctor_report *ret)
{
	doctor_add(ret, "cuda", DOCTOR_WARNING,
		"the image has CUDA %s, the driver serves CUDA up to %s: programs work as both are %u.x, "
		"except programs whose kernels are PTX only",
		has, serves, major);
	doctor_mend(ret, DOCTOR_YOU,
		"where a program says \"the provided PTX was compiled with an unsupported toolchain\": "
		"build it for the GPU's own architecture, or take an image with an older CUDA");
}

/* Compare with the CUDA that the driver serves; how: what names the image's. */
static void check_version(const struct gpu_request *q, const struct gpu_machine *m,
	const struct gpu_choice *c, const struct gpu_version *cuda, const char *how,
	struct doctor_report *ret)
{
	auto_call(gpu_compat_done) struct gpu_compat compat = { 0 };
	char has[GPU_VERSION_TEXT], serves[GPU_VERSION_TEXT];

	gpu_version_print(cuda, has);
	gpu_version_print(&m->cuda, serves);
	gpu_compat_read(q->image, m, &compat);
	if (compat.use)
		tell_compat(&compat, has, serves, has_for_players(m, c), ret);
	else if (gpu_version_compare(cuda, &m->cuda) <= 0 ||
		(cuda->part[0] == m->cuda.part[0] && cuda->part[1] == m->cuda.part[1]))
		doctor_add(ret, "cuda", DOCTOR_PASS,
			"the image has CUDA %s (%s), the driver serves CUDA up to %s", has, how,
			serves);
	else if (serves_minors(m, cuda))
		tell_minor(has, serves, cuda->part[0], ret);
	else
		tell_too_new(&compat, has, serves, cuda, ret);
}

/* The oldest compute capability that this CUDA supports. */
static struct gpu_version first_arch(const struct gpu_version *cuda)
{
	for (size_t i = 0; i < ARRAY_LEN(endings); i++)
		if (cuda->part[0] >= endings[i].cuda)
			return endings[i].arch;
	return (struct gpu_version){ { 0 } };
}

/* The first CUDA that supports this compute capability. */
static struct gpu_version first_cuda(const struct gpu_version *arch)
{
	for (size_t i = 0; i < ARRAY_LEN(beginnings); i++)
		if (arch->part[0] == beginnings[i].arch)
			return beginnings[i].cuda;
	return (struct gpu_version){ { 0 } };
}

/* Returns 1 for a GPU that the image's CUDA does not support. */
static int check_arch(
	const struct gpu *g, const struct gpu_version *cuda, struct doctor_report *ret)
{
	struct gpu_version oldest = first_arch(cuda), begins = first_cuda(&g->arch);
	char has[GPU_VERSION_TEXT], arch[GPU_VERSION_TEXT], wants[GPU_VERSION_TEXT];
	auto_free char *name =
		xasprintf("GPU %d (%s)", g->index, g->model ? g->model : "of unknown model");

	gpu_version_print(cuda, has);
	gpu_version_print(&g->arch, arch);
	if (gpu_version_compare(&g->arch, &oldest) < 0) {
		doctor_add(ret, "cuda", DOCTOR_FAILURE,
			"%s has compute capability %s, and CUDA %s serves those from %s on", name,
			arch, has, gpu_version_print(&oldest, wants));
		doctor_mend(ret, DOCTOR_YOU, "an image with a CUDA older than %u", cuda->part[0]);
		return 1;
	}
	if (gpu_version_compare(cuda, &begins) < 0) {
		doctor_add(ret, "cuda", DOCTOR_WARNING,
			"%s has compute capability %s, which is newer than the image's CUDA %s: only "
			"programs that bring PTX work, and their first start takes long",
			name, arch, has);
		doctor_mend(ret, DOCTOR_YOU,
			"where a program says \"no kernel image is available\": an image with CUDA "
			"%s or later",
			gpu_version_print(&begins, wants));
		return 1;
	}
	return 0;
}

static void check_archs(const struct gpu_machine *m, const struct gpu_choice *c,
	const struct gpu_version *cuda, struct doctor_report *ret)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct gpu *g = &m->gpus[c->v[i].gpu];

		if (g->vendor == GPU_NVIDIA && gpu_version_is_known(&g->arch) &&
			check_arch(g, cuda, ret))
			return;
	}
}

void doctor_image_cuda(const struct gpu_request *q, const struct gpu_machine *m,
	const struct gpu_choice *c, struct doctor_report *ret)
{
	struct gpu_version cuda = { { 0 } };
	const char *how = image_cuda(q, &cuda);
	char has[GPU_VERSION_TEXT];

	gpu_version_print(&cuda, has);
	if (!how && m->driver != GPU_DRIVER_NONE) { /* NVIDIA's drivers do not concern AMD */
		doctor_add(ret, "cuda", DOCTOR_PASS,
			"the image names no CUDA version: neither CUDA_VERSION nor a libcudart of its own in "
			"the usual places");
	} else if (how && m->driver == GPU_DRIVER_NONE) {
		doctor_add(ret, "cuda", DOCTOR_FAILURE,
			"the image has CUDA %s (%s), and the machine no GPU of NVIDIA's", has, how);
		doctor_mend(ret, DOCTOR_YOU, "an image with ROCm in place of CUDA");
	} else if (how && !gpu_version_is_known(&m->cuda)) {
		doctor_add(ret, "cuda", DOCTOR_WARNING,
			"the image has CUDA %s (%s); the newest that the driver supports is unknown",
			has, how);
		doctor_mend(ret, DOCTOR_YOU, "nvidia-smi shows it as \"CUDA Version\"");
	} else if (how) {
		check_version(q, m, c, &cuda, how, ret);
	}
	if (how)
		check_archs(m, c, &cuda, ret);
}
