/* What images and callers say of GPUs: requirements, names, lists. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "gpu/choice/choice.h"
#include "gpu/choice/name.h"
#include "gpu/choice/requirement.h"
#include "gpu/choice/wish.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void tell(void *ctx, struct gpu_facts *facts)
{
	facts->brand = ctx;
}

static void check_requirement(const char *text)
{
	struct gpu_facts nothing = { .brand = NULL },
			 facts = { { { 12, 2 } }, { { 535, 104, 5 } }, { { 9 } }, NULL };
	struct mlr_error err = MLR_ERROR_INIT;
	char brand[] = "tesla";
	int unknown = gpu_requirement_holds(text, &nothing, NULL, NULL, NULL);
	int r = gpu_requirement_holds(text, &facts, tell, brand, &err);

	/* What is unknown holds, and what fails says why. */
	if (unknown == 0 || (r != 1 && r != 0 && r != -EINVAL) || (r != 1 && !err.text[0]))
		abort();
}

static void make(struct gpu_machine *m)
{
	for (size_t i = 0; i < 3; i++) {
		struct gpu *g = gpu_machine_add_gpu(m);

		g->index = i < 2 ? (int)i : -1;
		g->minor = (unsigned)i;
		g->bus_id = xasprintf("0000:%zxb:00.0", i + 1);
		g->uuid = xasprintf("GPU-%zx234", i + 1);
		g->node.path = xasprintf("/dev/nvidia%zu", i);
		g->node.error = i < 2 ? 0 : EPERM;
	}
	m->gpus[0].mig = xcalloc(1, sizeof(*m->gpus[0].mig));
	m->gpus[0].n_mig = 1;
	m->gpus[0].mig[0].uuid = xstrdup("MIG-5678");
}

static void check_name(const struct gpu_machine *m, const char *text)
{
	struct gpu_chosen c, again;

	if (gpu_name_find(m, GPU_NVIDIA, text, &c) < 0)
		return;
	if (c.gpu >= m->n_gpus || c.mig >= (int)m->gpus[c.gpu].n_mig)
		abort();
	auto_free char *uuid = gpu_name_uuid(m, c);

	if (gpu_name_find(m, GPU_NVIDIA, uuid, &again) < 0 || again.gpu != c.gpu ||
		again.mig != c.mig)
		abort();
}

/* A list never gives what cannot be opened, and nothing twice. */
static void check_list(const struct gpu_machine *m, const char *key, const char *text)
{
	auto_call(gpu_allocation_done) struct gpu_allocation a = { 0 };
	auto_free char *variable = xasprintf("%s=%s", key, text);
	char *env[] = { variable, NULL };

	gpu_allocation_read(env, m, &a);
	for (size_t i = 0; i < a.n; i++) {
		if (a.v[i].gpu >= m->n_gpus || m->gpus[a.v[i].gpu].index < 0)
			abort();
		for (size_t k = 0; k < i; k++)
			if (a.v[k].gpu == a.v[i].gpu && a.v[k].mig == a.v[i].mig)
				abort();
	}
}

/* A whole choice by the text: nothing that is chosen is another's. */
static void check_wish(const struct gpu_machine *m, const char *text)
{
	auto_call(plan_done) struct plan p;
	auto_strv struct strv image = STRV_INIT;
	auto_call(gpu_wish_done) struct gpu_wish w = GPU_WISH_INIT;
	auto_call(gpu_allocation_done) struct gpu_allocation a = { 0 };
	auto_call(gpu_choice_done) struct gpu_choice c = { 0 };
	char jobs[] = "CUDA_VISIBLE_DEVICES=1";
	char *env[] = { jobs, NULL };
	const struct gpu_request q = { .caller = env, .image_env = &image };

	plan_init(&p);
	plan_env_set(&p, "NVIDIA_VISIBLE_DEVICES", text, PLAN_FROM_IMAGE);
	plan_env_set(&p, "NVIDIA_DRIVER_CAPABILITIES", strchr(text, ',') ? text : "all",
		PLAN_FROM_IMAGE);
	if (gpu_wish_read(&q, &p, &w, NULL) < 0)
		return;
	gpu_allocation_read(env, m, &a);
	if (gpu_choose(&w, m, &a, &c, NULL) < 0 || c.n > 1 || (c.n && c.v[0].gpu != 1))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_call(gpu_machine_done) struct gpu_machine m = { .driver = GPU_DRIVER_NVIDIA };
	auto_free char *text = xstrndup((const char *)data, size);

	make(&m);
	check_requirement(text);
	check_name(&m, text);
	check_list(&m, "CUDA_VISIBLE_DEVICES", text);
	check_list(&m, "SLURM_STEP_GPUS", text);
	check_wish(&m, text);
	return 0;
}
