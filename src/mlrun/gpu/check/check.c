#include "gpu/check/check.h"

#include "base/machine.h"
#include "gpu/choice/requirement.h"
#include "gpu/choice/wish.h"
#include "gpu/inject/linker.h"
#include "gpu/node.h"
#include "gpu/vendor.h"

/* The input, and the findings so far. */
struct check {
	struct gpu_request q;
	const struct plan *p;
	struct gpu_machine *m;
	int (*fill)(struct gpu_machine *m, struct mlr_error *err);
	struct gpu_wish w;
	struct gpu_choice c;
	struct gpu_report *ret;
};

void gpu_report_done(struct gpu_report *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free(r->v[i].text);
		free(r->v[i].mend);
	}
	free(r->v);
	*r = (struct gpu_report){ 0 };
}

enum gpu_verdict gpu_report_verdict(const struct gpu_report *r)
{
	enum gpu_verdict worst = GPU_OK;

	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].verdict > worst)
			worst = r->v[i].verdict;
	return worst;
}

void gpu_report_add(
	struct gpu_report *r, enum gpu_verdict verdict, const char *subject, char *text, char *mend)
{
	r->v = xgrow(r->v, r->n, sizeof(*r->v));
	r->v[r->n++] = (struct gpu_finding){ verdict, subject, text, mend };
}

/* Add a finding. mend, what to do, may be NULL. */
static void __attribute__((format(printf, 5, 6))) tell(struct check *k, enum gpu_verdict verdict,
	const char *subject, const char *mend, const char *fmt, ...)
{
	char *text;
	va_list ap;

	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	gpu_report_add(k->ret, verdict, subject, text, mend ? xstrdup(mend) : NULL);
}

/* Add an error's sentence, with its hint as what to do. */
static void tell_error(struct check *k, const char *subject, const struct mlr_error *err)
{
	const char *end = strchr(err->text, '\n');
	int len = end ? (int)(end - err->text) : (int)strlen(err->text);
	const char *hint = end && strncmp(end + 1, "hint: ", 6) == 0 ? end + 7 : NULL;

	tell(k, GPU_FAILS, subject, hint, "%.*s", len, err->text);
}

/* The driver's libraries are built for the machine, so an emulator does not help. A profile may
 * lack its processors. */
static void check_platform(struct check *k)
{
	const char *platform = k->p->platform, *slash = platform ? strchr(platform, '/') : NULL;
	auto_free char *arch = slash ? xstrndup(slash + 1, strcspn(slash + 1, "/")) : NULL;
	const struct machine *m = arch ? machine_of_arch(arch) : NULL;
	const char *processors = k->m->processors;

	if (!m)
		tell(k, GPU_OK, "platform", NULL, "the image names none");
	else if (!processors)
		tell(k, GPU_DOUBTFUL, "platform", NULL,
			"the image is for %s; the profile does not tell which processors the machine has",
			platform);
	else if (machine_runs(processors, m))
		tell(k, GPU_OK, "platform", NULL, "the image is for %s, as the machine is (%s)",
			platform, processors);
	else
		tell(k, GPU_FAILS, "platform",
			"mlrun pull --platform fetches another variant, if there is one",
			"the image is for %s, the machine and its driver's libraries are for %s",
			platform, processors);
}

/* Describe the driver, to free(). */
static char *name_driver(const struct gpu_machine *m)
{
	int knows_cuda = gpu_version_is_known(&m->cuda);
	char cuda[GPU_VERSION_TEXT];

	return xasprintf("NVIDIA's%s%s%s%s%s", m->driver_text ? " " : "",
		m->driver_text ? m->driver_text : "",
		m->driver == GPU_DRIVER_WSL ? " of Windows" : "",
		knows_cuda ? ", which serves CUDA up to " : "",
		knows_cuda ? gpu_version_print(&m->cuda, cuda) : "");
}

/* Does neither an option, nor the environment, nor the image ask for a GPU? */
static int is_unneeded(struct check *k)
{
	auto_call(gpu_wish_done) struct gpu_wish w = GPU_WISH_INIT;

	return gpu_wish_read(&k->q, k->p, &w, NULL) == 0 && w.kind == GPU_WISH_NOTHING;
}

/* Returns 0 where there is nothing more to look at. */
static int check_driver(struct check *k)
{
	const struct gpu_machine *m = k->m;

	if (m->refused) {
		tell(k, GPU_FAILS, "driver", NULL, "%s", m->refused);
		return 0;
	}
	if (m->driver == GPU_DRIVER_NONE && m->n_gpus == 0 && is_unneeded(k)) {
		tell(k, GPU_NOT_NEEDED, "driver", NULL,
			"the machine has no driver of a GPU, and the image asks for no GPU");
		return 0;
	}
	if (m->driver == GPU_DRIVER_NONE && m->n_gpus == 0) {
		tell(k, GPU_FAILS, "driver",
			"on a machine that has one: mlrun profile >FILE; then here: mlrun gpu check "
			"--profile FILE IMAGE",
			"the machine has no driver of a GPU");
		return 0;
	}
	if (m->driver == GPU_DRIVER_NONE)
		tell(k, GPU_OK, "driver", NULL, "%s's, of the kernel",
			gpu_vendors[m->gpus[0].vendor].title);
	else
		gpu_report_add(k->ret, GPU_OK, "driver", name_driver(m), NULL);
	for (size_t i = 0; i < m->warnings.n; i++)
		tell(k, GPU_DOUBTFUL, "driver", NULL, "%s", m->warnings.v[i]);
	return 1;
}

/* Returns 0 where there is nothing more to look at. */
static int check_wish(struct check *k)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (gpu_wish_read(&k->q, k->p, &k->w, &err) < 0) {
		tell_error(k, "devices", &err);
		return 0;
	}
	if (k->w.kind != GPU_WISH_NOTHING)
		return 1;
	if (gpu_wish_word(&k->q, k->p)) {
		tell(k, GPU_OK, "devices", NULL, "no GPU is asked for: %s", k->w.who);
		return 0;
	}
	tell(k, GPU_DOUBTFUL, "devices", "mlrun exec --gpu=all, which the rest assumes",
		"the image asks for no GPU and would be given none");
	k->q.word = "all";
	k->q.origin = PLAN_FROM_NOBODY;
	gpu_wish_done(&k->w);
	k->w = (struct gpu_wish)GPU_WISH_INIT;
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
	static const struct {
		const char *path;
		unsigned caps; /* 0: always */
	} needed[] = { { "/dev/nvidiactl", 0 }, { "/dev/nvidia-uvm", GPU_CAPS_COMPUTE } };

	for (size_t i = 0; i < ARRAY_LEN(needed) && k->m->driver == GPU_DRIVER_NVIDIA; i++) {
		const struct gpu_node *n = gpu_machine_node(k->m, needed[i].path);

		if ((needed[i].caps && !(k->w.caps & needed[i].caps)) || (n && n->error == 0))
			continue;
		if (n && n->error != ENOENT)
			gpu_report_add(k->ret, GPU_FAILS, "devices", gpu_node_why(n), NULL);
		else
			tell(k, GPU_FAILS, "devices",
				"root makes it: nvidia-modprobe -u -c 0, or nvidia-smi",
				"'%s' is missing", needed[i].path);
	}
}

static void check_devices(struct check *k)
{
	auto_call(gpu_allocation_done) struct gpu_allocation a = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	if (k->fill && gpu_choice_needs_nvml(&k->w, k->q.caller, k->m))
		k->fill(k->m, NULL);
	if (gpu_allocation_read(k->q.caller, k->m, &a, &err) < 0 ||
		gpu_choose(&k->w, k->m, &a, &k->c, &err) < 0) {
		tell_error(k, "devices", &err);
		return;
	}
	if (k->w.kind == GPU_WISH_DRIVER)
		tell(k, GPU_OK, "devices", NULL, "none, as %s says: only the driver's files",
			k->w.who);
	else if (k->m->driver == GPU_DRIVER_WSL)
		tell(k, GPU_OK, "devices", NULL, "all of Windows', by /dev/dxg");
	else if (k->c.n == 0)
		tell(k, GPU_FAILS, "devices",
			"`mlrun gpu list` shows the GPUs and who may use them",
			"no GPU would be in the container%s%s", k->c.remarks.n ? ": " : "",
			k->c.remarks.n ? k->c.remarks.v[0] : "");
	else
		gpu_report_add(k->ret, GPU_OK, "devices", name_chosen(k), NULL);
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
		gpu_report_add(k->ret,
			cap == GPU_COMPUTE ? GPU_FAILS
				: is_all   ? GPU_OK
					   : GPU_DOUBTFUL,
			"capabilities",
			xasprintf("the machine's driver has no libraries for '%s'", name),
			is_all && cap != GPU_COMPUTE
				? NULL
				: xasprintf(
					  "the machine's administrator can install the driver's packages "
					  "for '%s'",
					  name));
	}
	if (!lacks)
		tell(k, GPU_OK, "capabilities", NULL, "%s, and the driver has them", asked);
}

static void check_requirements(struct check *k)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (k->w.requirements.n == 0)
		return;
	if (gpu_requirements_check(&k->w, k->m, &k->c, k->fill, &err) < 0)
		tell_error(k, "requirements", &err);
	else
		tell(k, GPU_OK, "requirements", NULL, "%zu of the image's hold",
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
	struct gpu_finding f;

	if (k->fill && k->m->driver != GPU_DRIVER_NONE &&
		(!knows_archs(k) || !gpu_version_is_known(&k->m->cuda)))
		k->fill(k->m, NULL);
	f = gpu_cuda_check(&k->q, k->m, &k->c);
	if (k->m->driver == GPU_DRIVER_NONE && f.verdict == GPU_OK)
		free(f.text); /* NVIDIA's drivers do not concern AMD */
	else
		gpu_report_add(k->ret, f.verdict, f.subject, f.text, f.mend);
	if (gpu_cuda_check_arch(&k->q, k->m, &k->c, &f))
		gpu_report_add(k->ret, f.verdict, f.subject, f.text, f.mend);
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

static void check_glibc(struct check *k, const struct gpu_image_libc *l)
{
	auto_strv struct strv newer = STRV_INIT;
	char version[GPU_VERSION_TEXT];
	enum gpu_verdict verdict = GPU_DOUBTFUL;
	auto_free char *names = NULL;

	if (!gpu_version_is_known(&l->version)) {
		tell(k, GPU_DOUBTFUL, "libc", NULL,
			"'%s' in the image does not tell which glibc it is of", l->path);
		return;
	}
	gpu_version_print(&l->version, version);
	gpu_glibc_check(k->m, k->w.caps, l, NULL, &newer);
	if (newer.n == 0) {
		tell(k, GPU_OK, "libc", NULL,
			"glibc %s, which is enough for the driver's libraries", version);
		return;
	}
	for (size_t i = 0; i < newer.n; i++)
		if (is_needed(newer.v[i]))
			verdict = GPU_FAILS;
	names = strv_join(&newer, newer.n, ", ");
	tell(k, verdict, "libc", "an image of a newer distribution",
		"the image's glibc %s is too old for %s", version, names);
}

static void check_libc(struct check *k)
{
	auto_call(gpu_image_libc_done) struct gpu_image_libc l = GPU_IMAGE_LIBC_INIT;

	if (k->m->driver == GPU_DRIVER_NONE)
		return;
	if (k->q.image) {
		struct gpu_image image = *k->q.image;

		image.processors = k->m->processors;
		gpu_image_libc_read(&image, &l);
	}
	switch (l.kind) {
	case GPU_LIBC_GLIBC:
		check_glibc(k, &l);
		break;
	case GPU_LIBC_MUSL:
		tell(k, GPU_FAILS, "libc",
			"an image of a distribution with glibc; some programs do with Alpine's "
			"package gcompat",
			"the image's C library is musl, and the driver's libraries need glibc");
		break;
	case GPU_LIBC_NONE:
		tell(k, GPU_DOUBTFUL, "libc", "an image with glibc",
			"the image has no C library, so that only programs that are linked statically and load "
			"no library run in it");
		break;
	case GPU_LIBC_UNKNOWN:
		tell(k, GPU_DOUBTFUL, "libc", NULL, "this mlrun cannot look into the image");
	}
}

void gpu_check(const struct gpu_request *q, const struct plan *p, struct gpu_machine *m,
	int (*fill)(struct gpu_machine *m, struct mlr_error *err), struct gpu_report *ret)
{
	struct check k = {
		.q = *q, .p = p, .m = m, .fill = fill, .w = GPU_WISH_INIT, .c = { 0 }, .ret = ret
	};

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
