/* config.json of an OCI bundle. A plan that comes of it is whole. */
#include "base/cleanup.h"
#include "bundle/bundle.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_hooks(const struct bundle *b)
{
	for (int stage = 0; stage < BUNDLE_STAGES; stage++)
		for (size_t i = 0; i < b->hooks[stage].n; i++)
			if (!b->hooks[stage].v[i].path || b->hooks[stage].v[i].path[0] != '/')
				abort();
	if (b->annotations.n % 2 != 0)
		abort();
}

static void check_plan(const struct plan *p)
{
	if (p->argv.n == 0 || !p->workdir || p->workdir[0] != '/')
		abort();
	for (size_t i = 0; i < p->n_mounts; i++) {
		const struct plan_mount *m = &p->mounts[i];

		if (!m->target || m->target[0] != '/' || !m->target[1] || strstr(m->target, "/../"))
			abort();
		if ((m->kind == PLAN_BIND || m->kind == PLAN_OVERLAY) && m->source[0] != '/')
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_call(bundle_done) struct bundle b = BUNDLE_INIT;
	auto_call(plan_done) struct plan p;
	struct mlr_error err = MLR_ERROR_INIT;

	plan_init(&p);
	if (bundle_parse((const char *)data, size, &b, &err) == 0) {
		check_hooks(&b);
		if (bundle_plan(&b, "/usr", &p, &err) == 0)
			check_plan(&p);
	}
	if (err.code && !*err.text)
		abort();
	return 0;
}
