/* Judges an image by the decision that a start takes about GPUs: wish, job's share, choice,
 * requirements, forward compatibility. */
#include "doctor/image.h"

#include "base/machine.h"
#include "doctor/check.h"
#include "gpu/choice/requirement.h"
#include "gpu/choice/wish.h"
#include "gpu/inject/inject.h"
#include "gpu/inject/linker.h"
#include "gpu/vendor.h"

/* The input, and the findings so far. */
struct check {
	struct gpu_request q;
	const struct plan *p;
	struct gpu_machine *m;
	int (*fill)(struct gpu_machine *m, struct mlr_error *err);
	struct gpu_wish w;
	struct gpu_choice c;
	struct doctor_report *ret;
};

/* The driver's libraries are built for the machine, so an emulator does not help. A profile may
 * lack its processors. */
static void check_platform(struct check *k)
{
	const char *platform = k->p->platform, *slash = platform ? strchr(platform, '/') : NULL;
	auto_free char *arch = slash ? xstrndup(slash + 1, strcspn(slash + 1, "/")) : NULL;
	const struct machine *m = arch ? machine_of_arch(arch) : NULL;
	const char *processors = k->m->processors;

	if (!m) {
		doctor_add(k->ret, "platform", DOCTOR_PASS, "the image names none");
	} else if (!processors) {
		doctor_add(k->ret, "platform", DOCTOR_WARNING,
			"the image is for %s; the profile does not tell which processors the machine has",
			platform);
	} else if (machine_runs(processors, m)) {
		doctor_add(k->ret, "platform", DOCTOR_PASS,
			"the image is for %s, as the machine is (%s)", platform, processors);
	} else {
		doctor_add(k->ret, "platform", DOCTOR_FAILURE,
			"the image is for %s, the machine and its driver's libraries are for %s",
			platform, processors);
		doctor_mend(k->ret, DOCTOR_YOU,
			"mlrun pull --platform fetches another variant, if there is one");
	}
}

static void tell_driver(struct check *k)
{
	const struct gpu_machine *m = k->m;
	int knows_cuda = gpu_version_is_known(&m->cuda);
	char cuda[GPU_VERSION_TEXT];

	if (m->driver == GPU_DRIVER_NONE)
		doctor_add(k->ret, "driver", DOCTOR_PASS, "%s's, of the kernel",
			gpu_vendors[m->gpus[0].vendor].title);
	else
		doctor_add(k->ret, "driver", DOCTOR_PASS, "NVIDIA's%s%s%s%s%s",
			m->driver_text ? " " : "", m->driver_text ? m->driver_text : "",
			m->driver == GPU_DRIVER_WSL ? " of Windows" : "",
			knows_cuda ? ", which serves CUDA up to " : "",
			knows_cuda ? gpu_version_print(&m->cuda, cuda) : "");
}

/* Does neither an option, nor the environment, nor the image ask for a GPU? */
static int is_unneeded(const struct check *k)
{
	auto_call(gpu_wish_done) struct gpu_wish w = GPU_WISH_INIT;

	return gpu_wish_read(&k->q, k->p, &w, NULL) == 0 && w.kind == GPU_WISH_NOTHING;
}

/* Returns 0 where there is nothing more to look at. */
static int check_driver(struct check *k)
{
	const struct gpu_machine *m = k->m;

	if (m->refused) {
		doctor_add(k->ret, "driver", DOCTOR_FAILURE, "%s", m->refused);
		return 0;
	}
	if (m->driver == GPU_DRIVER_NONE && m->n_gpus == 0 && is_unneeded(k)) {
		doctor_add(k->ret, "driver", DOCTOR_NOT_NEEDED,
			"the machine has no driver of a GPU, and the image asks for no GPU");
		return 0;
	}
	if (m->driver == GPU_DRIVER_NONE && m->n_gpus == 0) {
		doctor_add(k->ret, "driver", DOCTOR_FAILURE, "the machine has no driver of a GPU");
		doctor_mend(k->ret, DOCTOR_YOU,
			"on a machine that has one: mlrun profile >FILE; then here: mlrun gpu check "
			"--profile FILE IMAGE");
		return 0;
	}
	tell_driver(k);
	for (size_t i = 0; i < m->warnings.n; i++)
		doctor_add(k->ret, "driver", DOCTOR_WARNING, "%s", m->warnings.v[i]);
	return 1;
}

/* Returns 0 where there is nothing more to look at. */
static int check_wish(struct check *k)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (gpu_wish_read(&k->q, k->p, &k->w, &err) < 0) {
		doctor_add_error(k->ret, "devices", DOCTOR_FAILURE, &err, NULL);
		return 0;
	}
	if (k->w.kind != GPU_WISH_NOTHING)
		return 1;
	if (gpu_wish_word(&k->q, k->p)) {
		doctor_add(k->ret, "devices", DOCTOR_PASS, "no GPU is asked for: %s", k->w.who);
		return 0;
	}
	doctor_add(k->ret, "devices", DOCTOR_WARNING,
		"the image asks for no GPU and would be given none");
	doctor_mend(k->ret, DOCTOR_YOU, "mlrun exec --gpu=all, which the rest assumes");
	k->q.word = "all";
	k->q.origin = PLAN_FROM_NOBODY;
	gpu_wish_done(&k->w);
	return gpu_wish_read(&k->q, k->p, &k->w, &err) == 0;
}

static char *name_chosen(const struct check *k)
{
	char *text = xasprintf("%zu for %s:", k->c.n, k->w.who ? k->w.who : "the container");

	for (size_t i = 0; i < k->c.n; i++) {
		const struct gpu *g = &k->m->gpus[k->c.v[i].gpu];
		auto_free char *old = text;
		auto_free char *part =
			k->c.v[i].mig < 0 ? xstrdup("") : xasprintf(":%d", k->c.v[i].mig);

		text = xasprintf("%s%s %d%s %s", old, i ? "," : "", g->index, part,
			g->model ? g->model : "of unknown model");
	}
	return text;
}

/* Check the nodes that every program needs; the choice checks those of GPUs. */
static void check_nodes(struct check *k)
{
	for (const struct gpu_control *c = gpu_vendors[GPU_NVIDIA].controls; c->path; c++) {
		auto_free char *why = gpu_control_lack(k->m, k->w.caps, c);

		if (why)
			doctor_add(k->ret, "devices", DOCTOR_FAILURE, "%s", why);
	}
}

static void check_devices(struct check *k)
{
	auto_call(gpu_allocation_done) struct gpu_allocation a = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	if (k->fill && gpu_choice_needs_nvml(&k->w, k->q.caller, k->m))
		k->fill(k->m, NULL);
	gpu_allocation_read(k->q.caller, k->m, &a);
	if (gpu_choose(&k->w, k->m, &a, &k->c, &err) < 0) {
		doctor_add_error(k->ret, "devices", DOCTOR_FAILURE, &err, NULL);
		return;
	}
	if (k->w.kind == GPU_WISH_DRIVER) {
		doctor_add(k->ret, "devices", DOCTOR_PASS,
			"none, as %s says: only the driver's files", k->w.who);
	} else if (k->m->driver == GPU_DRIVER_WSL) {
		doctor_add(k->ret, "devices", DOCTOR_PASS, "all of Windows', by /dev/dxg");
	} else if (k->c.n == 0) {
		doctor_add(k->ret, "devices", DOCTOR_FAILURE,
			"no GPU would be in the container%s%s", k->c.remarks.n ? ": " : "",
			k->c.remarks.n ? k->c.remarks.v[0] : "");
		doctor_mend(
			k->ret, DOCTOR_YOU, "`mlrun gpu list` shows the GPUs and who may use them");
	} else {
		auto_free char *names = name_chosen(k);

		doctor_add(k->ret, "devices", DOCTOR_PASS, "%s", names);
	}
	if (k->c.n > 0)
		check_nodes(k);
}

/* Does the file belong to the capability? Some of compute's come with others too. */
static int is_for(const struct gpu_file *f, unsigned cap)
{
	if (f->kind != GPU_LIBRARY || f->vendor != GPU_NVIDIA)
		return 0;
	if (cap == GPU_COMPAT32)
		return f->bits == 32;
	return f->bits != 32 && (f->caps & cap) && (cap == GPU_COMPUTE || !(f->caps & GPU_COMPUTE));
}

static int has_library(const struct gpu_machine *m, unsigned cap)
{
	for (size_t i = 0; i < m->n_files; i++)
		if (is_for(&m->files[i], cap))
			return 1;
	return 0;
}

/* "all" means what exists; a capability named on its own must exist. */
static void check_capabilities(struct check *k)
{
	auto_free char *asked = gpu_capabilities_print(k->w.caps);
	int is_all = k->w.caps == GPU_CAPABILITIES_ALL, lacks = 0;

	if (k->m->driver != GPU_DRIVER_NVIDIA)
		return;
	for (unsigned cap = 1; cap & GPU_CAPABILITIES_ALL; cap <<= 1) {
		auto_free char *name = gpu_capabilities_print(cap);

		if (!(k->w.caps & cap) || has_library(k->m, cap))
			continue;
		lacks = 1;
		doctor_add(k->ret, "capabilities",
			cap == GPU_COMPUTE ? DOCTOR_FAILURE
				: is_all   ? DOCTOR_PASS
					   : DOCTOR_WARNING,
			"the machine's driver has no libraries for '%s'", name);
		if (!is_all || cap == GPU_COMPUTE)
			doctor_mend(k->ret, DOCTOR_ADMINISTRATOR,
				"the machine's administrator can install the driver's packages for '%s'",
				name);
	}
	if (!lacks)
		doctor_add(
			k->ret, "capabilities", DOCTOR_PASS, "%s, and the driver has them", asked);
}

static void check_requirements(struct check *k)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (k->w.requirements.n == 0)
		return;
	if (gpu_requirements_check(&k->w, k->m, &k->c, k->fill, &err) < 0)
		doctor_add_error(k->ret, "requirements", DOCTOR_FAILURE, &err, NULL);
	else
		doctor_add(k->ret, "requirements", DOCTOR_PASS, "%zu of the image's hold",
			k->w.requirements.n);
}

static int knows_archs(const struct check *k)
{
	for (size_t i = 0; i < k->c.n; i++) {
		const struct gpu *g = &k->m->gpus[k->c.v[i].gpu];

		if (g->vendor == GPU_NVIDIA && !gpu_version_is_known(&g->arch))
			return 0;
	}
	return 1;
}

static void check_cuda(struct check *k)
{
	if (k->fill && k->m->driver != GPU_DRIVER_NONE &&
		(!knows_archs(k) || !gpu_version_is_known(&k->m->cuda)))
		k->fill(k->m, NULL);
	doctor_image_cuda(&k->q, k->m, &k->c, k->ret);
}

/* A CUDA program does not start without these. */
static int is_needed(const char *library)
{
	static const char *const names[] = { "libcuda.so.", "libnvidia-ptxjitcompiler.so.",
		"libnvidia-ml.so." };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strncmp(library, names[i], strlen(names[i])) == 0)
			return 1;
	return 0;
}

/* List the driver's files that a start would bring and that need a newer glibc. Without a GPU that
 * could be chosen, all of the driver's count. */
static void find_newer(const struct check *k, const struct gpu_image_libc *l, struct strv *ret)
{
	auto_call(plan_done) struct plan trial;
	struct gpu_wish w = k->w;

	plan_init(&trial);
	if (k->c.n == 0)
		w.kind = GPU_WISH_DRIVER;
	gpu_inject(k->m, &w, &k->c, k->q.image, &trial, NULL);
	gpu_glibc_check(k->m, l, &trial, ret);
}

static void check_glibc(struct check *k, const struct gpu_image_libc *l)
{
	auto_strv struct strv newer = STRV_INIT;
	char version[GPU_VERSION_TEXT];
	enum doctor_verdict verdict = DOCTOR_WARNING;
	auto_free char *names = NULL;

	if (!gpu_version_is_known(&l->version)) {
		doctor_add(k->ret, "libc", DOCTOR_WARNING,
			"'%s' in the image does not tell which glibc it is of", l->path);
		return;
	}
	gpu_version_print(&l->version, version);
	find_newer(k, l, &newer);
	if (newer.n == 0) {
		doctor_add(k->ret, "libc", DOCTOR_PASS,
			"glibc %s, which is enough for the driver's libraries", version);
		return;
	}
	for (size_t i = 0; i < newer.n; i++)
		if (is_needed(newer.v[i]))
			verdict = DOCTOR_FAILURE;
	names = strv_join(&newer, newer.n, ", ");
	doctor_add(
		k->ret, "libc", verdict, "the image's glibc %s is too old for %s", version, names);
	doctor_mend(k->ret, DOCTOR_YOU, "an image of a newer distribution");
}

static void check_libc(struct check *k)
{
	auto_call(gpu_image_libc_done) struct gpu_image_libc l = GPU_IMAGE_LIBC_INIT;

	if (k->m->driver == GPU_DRIVER_NONE)
		return;
	gpu_image_libc_read(k->q.image, &l);
	switch (l.kind) {
	case GPU_LIBC_GLIBC:
		check_glibc(k, &l);
		break;
	case GPU_LIBC_MUSL:
		doctor_add(k->ret, "libc", DOCTOR_FAILURE,
			"the image's C library is musl, and the driver's libraries need glibc");
		doctor_mend(k->ret, DOCTOR_YOU,
			"an image of a distribution with glibc; some programs do with Alpine's package "
			"gcompat");
		break;
	case GPU_LIBC_NONE:
		doctor_add(k->ret, "libc", DOCTOR_WARNING,
			"the image has no C library, so that only programs that are linked statically and "
			"load no library run in it");
		doctor_mend(k->ret, DOCTOR_YOU, "an image with glibc");
		break;
	case GPU_LIBC_UNKNOWN:
		doctor_add(k->ret, "libc", DOCTOR_WARNING, "this mlrun cannot look into the image");
	}
}

void doctor_image_gpus(const struct gpu_request *q, const struct plan *p, struct gpu_machine *m,
	int (*fill)(struct gpu_machine *m, struct mlr_error *err), struct doctor_report *ret)
{
	struct check k = { .q = *q, .p = p, .m = m, .fill = fill, .w = GPU_WISH_INIT, .ret = ret };

	check_platform(&k);
	if (check_driver(&k) && check_wish(&k)) {
		check_devices(&k);
		check_capabilities(&k);
		check_requirements(&k);
		check_cuda(&k);
		check_libc(&k);
	}
	gpu_choice_done(&k.c);
	gpu_wish_done(&k.w);
}
