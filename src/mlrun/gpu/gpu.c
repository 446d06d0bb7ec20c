#include "gpu/gpu.h"

#include "gpu/choice/choice.h"
#include "gpu/inject/inject.h"
#include "gpu/inject/linker.h"
#include "gpu/nvidia/nvml.h"
#include "gpu/vendor.h"
#include "gpu/choice/requirement.h"

#define TOLD_MAX 3 /* files that a message names */

/* All that decides about the GPUs of a plan. */
struct decision {
	const struct gpu_request *request;
	struct plan *plan;
	struct gpu_machine machine;
	struct gpu_wish wish;
	struct gpu_allocation allocation;
	struct gpu_choice choice;
};

static void decision_done(struct decision *d)
{
	gpu_machine_done(&d->machine);
	gpu_wish_done(&d->wish);
	gpu_allocation_done(&d->allocation);
	gpu_choice_done(&d->choice);
}

static int is_there(const char *root, const char *path)
{
	auto_free char *below = NULL;

	if (strcmp(root, "/") == 0)
		return access(path, F_OK) == 0;
	below = xasprintf("%s%s", root, path);
	return access(below, F_OK) == 0;
}

/* A cheap test at every start: is there anything to look for? */
static int has_driver(const char *root)
{
	for (int v = 0; v < GPU_VENDORS; v++)
		for (const char *const *trace = gpu_vendors[v].traces; *trace; trace++)
			if (is_there(root, *trace))
				return 1;
#ifndef __aarch64__
	if (strcmp(root, "/") == 0) /* only ARM machines can be Tegra */
		return 0;
#endif
	return is_there(root, "/etc/nv_tegra_release");
}

static int no_driver(const struct gpu_wish *w, struct mlr_error *err)
{
	mlr_fail(err, ENODEV, "%s: this machine has no GPU driver", w->who);
	return mlr_hint(err,
		"srun --gres=gpu:1 and its like ask the batch system for a machine with GPUs; "
		"--gpu=none starts without");
}

/* Ask NVML; what it does not know stays unknown. */
static void ask_nvml(struct decision *d)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (gpu_nvml_fill(&d->machine, &err) < 0)
		plan_remark_add(d->plan, PLAN_FROM_GPU,
			"NVIDIA's management library does not answer: %s", err.text);
}

static void tell_machine(const struct decision *d)
{
	const struct gpu_machine *m = &d->machine;
	auto_free char *missing = strv_join(&m->missing, m->missing.n, " ");
	char cuda[GPU_VERSION_TEXT];

	if (m->driver == GPU_DRIVER_NVIDIA)
		plan_remark_add(d->plan, PLAN_FROM_GPU, "NVIDIA driver %s%s, CUDA up to %s",
			m->driver_text ? m->driver_text : "unknown",
			m->is_open ? " (open kernel module)" : "",
			gpu_version_print(&m->cuda, cuda));
	for (size_t i = 0; i < m->warnings.n; i++)
		plan_remark_add(d->plan, PLAN_FROM_GPU, "%s", m->warnings.v[i]);
	if (*missing)
		plan_remark_add(
			d->plan, PLAN_FROM_GPU, "the driver here comes without %s", missing);
}

static int has_libraries(const struct gpu_machine *m)
{
	for (size_t i = 0; i < m->n_files; i++)
		if (m->files[i].kind == GPU_LIBRARY && m->files[i].vendor == GPU_NVIDIA)
			return 1;
	return 0;
}

/* Fail if the driver's libraries are missing, as after an update without a reboot, or when a
 * package is not installed: programs would find devices and no driver. */
static int tell_lack_of_libraries(const struct decision *d, struct mlr_error *err)
{
	const struct gpu_machine *m = &d->machine;
	const char *why = m->warnings.n ? m->warnings.v[0] : "none is found on this machine";

	/* Every driver has libraries for these; for the other capabilities it may have none. */
	if (!(d->wish.caps & (GPU_COMPUTE | GPU_UTILITY)))
		return 0;
	if (!has_libraries(m) && d->wish.must) {
		mlr_fail(err, ENODEV, "%s: the GPUs' driver has no libraries here: %s", d->wish.who,
			why);
		return mlr_hint(err, "MLRUN_GPU=all instead of it brings the GPUs without them");
	}
	if (!has_libraries(m))
		strv_addf(&d->plan->notes,
			"GPUs are brought in without their driver's libraries: %s", why);
	else if ((d->wish.caps & GPU_COMPUTE) && strv_has(&m->missing, "libcuda.so"))
		strv_add(&d->plan->notes,
			"CUDA programs will find no GPU: the driver here comes without libcuda.so");
	return 0;
}

static void tell(const struct decision *d, const struct strv *remarks)
{
	for (size_t i = 0; i < remarks->n; i++)
		plan_remark_add(d->plan, PLAN_FROM_GPU, "%s", remarks->v[i]);
}

static void tell_wish(const struct decision *d)
{
	auto_free char *caps = gpu_capabilities_print(d->wish.caps);

	if (d->wish.kind == GPU_WISH_NOTHING)
		plan_remark_add(d->plan, PLAN_FROM_GPU, "no GPU is asked for%s%s",
			d->wish.who ? ": " : "", d->wish.who ? d->wish.who : "");
	else
		plan_remark_add(d->plan, PLAN_FROM_GPU,
			"GPUs are asked for by %s, capabilities %s by %s", d->wish.who,
			*caps ? caps : "none", d->wish.caps_who ? d->wish.caps_who : "default");
	tell(d, &d->wish.remarks);
}

static void tell_choice(const struct decision *d)
{
	if (d->allocation.from)
		plan_remark_add(
			d->plan, PLAN_FROM_GPU, "the job's GPUs come from %s", d->allocation.from);
	tell(d, &d->allocation.remarks);
	tell(d, &d->choice.remarks);
	strv_add_all(&d->plan->notes, &d->choice.notes);
}

/* Warn of libraries whose users would end with "version `GLIBC_2.38' not found". */
static void check_glibc(const struct decision *d)
{
	auto_call(gpu_image_libc_done) struct gpu_image_libc l = GPU_IMAGE_LIBC_INIT;
	auto_strv struct strv names = STRV_INIT;
	auto_free char *told = NULL;
	char version[GPU_VERSION_TEXT];

	gpu_image_libc_read(d->request->image, &l);
	gpu_glibc_check(&d->machine, &l, d->plan, &names);
	told = strv_join(&names, TOLD_MAX, ", ");
	if (names.n > 0)
		strv_addf(&d->plan->notes,
			"the image's glibc %s is too old for %zu of the GPU driver's files: %s%s; programs that "
			"load them fail; use an image of a newer distribution, or a machine with an older driver",
			gpu_version_print(&l.version, version), names.n, told,
			names.n > TOLD_MAX ? "…" : "");
}

/* Choose GPUs. Returns 1 when there is something to inject. */
static int choose(struct decision *d, struct mlr_error *err)
{
	if (gpu_choice_needs_nvml(&d->wish, d->request->caller, &d->machine))
		ask_nvml(d);
	gpu_allocation_read(d->request->caller, &d->machine, &d->allocation);
	TRY(gpu_choose(&d->wish, &d->machine, &d->allocation, &d->choice, err));
	tell_choice(d);
	if (d->choice.n > 0 && d->machine.driver == GPU_DRIVER_NVIDIA)
		TRY(tell_lack_of_libraries(d, err));
	if (d->choice.n > 0 || d->machine.driver == GPU_DRIVER_WSL ||
		(d->machine.driver == GPU_DRIVER_NVIDIA && d->wish.kind == GPU_WISH_DRIVER))
		return 1;
	plan_remark_add(d->plan, PLAN_FROM_GPU, "no GPU is brought in: this job may use none");
	return 0;
}

/* Refuse an unsupported driver. Returns 1 for a supported one. */
static int check_driver(const struct decision *d, struct mlr_error *err)
{
	const struct gpu_machine *m = &d->machine;

	if (m->driver == GPU_DRIVER_TEGRA) {
		if (d->wish.must)
			return mlr_fail(err, ENOTSUP, "%s: %s", d->wish.who, m->refused);
		strv_addf(&d->plan->notes, "no GPU is brought in: %s", m->refused);
		return 0;
	}
	if (m->driver != GPU_DRIVER_NONE || m->n_gpus > 0)
		return 1;
	if (d->wish.must)
		return no_driver(&d->wish, err);
	plan_remark_add(d->plan, PLAN_FROM_GPU, "%s asks for GPUs, but this machine has no driver",
		d->wish.who);
	return 0;
}

/* Try CDI devices on a plan of its own, which can be discarded. */
static int can_have_cdi(const struct decision *d, struct mlr_error *err)
{
	auto_call(plan_done) struct plan trial;

	plan_init(&trial);
	return d->request->plan_cdi(&d->wish.cdi, d->request->image, &trial, err) == 0;
}

/* Add devices that a CDI file describes. */
static int add_cdi(const struct decision *d, struct mlr_error *err)
{
	struct mlr_error why = MLR_ERROR_INIT;

	if (d->wish.cdi.n == 0)
		return 0;
	if (!d->wish.must && !can_have_cdi(d, &why)) {
		plan_remark_add(d->plan, PLAN_FROM_GPU, "%s: %.*s; ignored", d->wish.who,
			MLR_SENTENCE(&why));
		return 0;
	}
	return d->request->plan_cdi(&d->wish.cdi, d->request->image, d->plan, err) < 0
		? mlr_wrap(err, "%s", d->wish.who)
		: 0;
}

/* Read the wish. Without a driver, an image's invalid variables are no reason to refuse it. */
static int read_wish(struct decision *d, int has_driver, struct mlr_error *err)
{
	struct mlr_error why = MLR_ERROR_INIT;
	int r = gpu_wish_read(d->request, d->plan, &d->wish, &why);

	if (r == 0)
		return 0;
	if (has_driver || gpu_wish_word(d->request, d->plan)) {
		*err = why;
		return r;
	}
	plan_remark_add(d->plan, PLAN_FROM_GPU, "no GPU is brought in: %.*s", MLR_SENTENCE(&why));
	return 0;
}

static int bring(struct decision *d, struct mlr_error *err)
{
	int r;

	tell_machine(d);
	r = choose(d, err);
	if (r <= 0)
		return r;
	r = gpu_requirements_check(&d->wish, &d->machine, &d->choice, gpu_nvml_fill, err);
	if (r == 0)
		r = gpu_inject(&d->machine, &d->wish, &d->choice, d->request->image, d->plan, err);
	if (r == 0)
		check_glibc(d);
	return r;
}

/* Announce the files of the image that are read in most cases. */
static void expect(const struct decision *d)
{
	const struct gpu_image *image = d->request->image;

	if (!image || !image->expect)
		return;
	if (d->wish.caps & (GPU_COMPUTE | GPU_VIDEO))
		gpu_compat_expect(image);
	gpu_link_expect(image);
}

static int decide(struct decision *d, int has_driver, struct mlr_error *err)
{
	int r;

	TRY(read_wish(d, has_driver, err));
	tell_wish(d);
	r = add_cdi(d, err);
	if (r < 0 || d->wish.kind == GPU_WISH_NOTHING ||
		(d->wish.kind == GPU_WISH_LIST && d->wish.devices.n == 0)) /* CDI's only */
		return r;
	if (has_driver)
		expect(d);
	if (has_driver)
		r = gpu_machine_read_for(gpu_root(), d->wish.caps, &d->machine, err);
	if (r == 0)
		r = check_driver(d, err);
	return r <= 0 ? r : bring(d, err);
}

int gpu_plan(const struct gpu_request *q, struct plan *p, struct mlr_error *err)
{
	auto_call(decision_done) struct decision d = {
		.request = q,
		.plan = p,
		.machine = GPU_MACHINE_INIT,
		.wish = GPU_WISH_INIT,
		.allocation = { 0 },
		.choice = { 0 },
	};
	const char *word = gpu_wish_word(q, p);
	int driver;

	if (word && strcmp(word, "none") == 0)
		return gpu_procfs_hide(p, err);
	driver = has_driver(gpu_root());
	if (!driver && !word && !plan_env_get(p, "NVIDIA_VISIBLE_DEVICES"))
		return 0;
	return decide(&d, driver, err);
}
