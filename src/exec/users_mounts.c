#include "exec/users_mounts.h"

#include "base/cleanup.h"
#include "exec/device.h"
#include "exec/mount_spec.h"
#include "exec/tmpfs.h"
#include "exec/volume.h"

static size_t depth(const char *target)
{
	size_t n = 0;

	for (; *target; target++)
		n += *target == '/';
	return n;
}

/* A directory is mounted before what lies in it, in whatever order they were asked for, as Docker
 * does; else the order of asking counts. */
static void sort_mounts(struct plan_mount *v, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		struct plan_mount m = v[i];
		size_t at = i;

		for (; at > 0 && depth(v[at - 1].target) > depth(m.target); at--)
			v[at] = v[at - 1];
		v[at] = m;
	}
}

int users_mounts_plan(const struct exec_options *o, struct plan *p, struct mlr_error *err)
{
	const struct {
		const struct strv *texts;
		int (*plan)(const char *text, struct plan *p, struct mlr_error *err);
	} kinds[] = {
		{ &o->tmpfs, tmpfs_plan },
		{ &o->volumes, volume_plan },
		{ &o->mounts, mount_spec_plan },
		{ &o->devices, device_plan },
	};
	size_t first = p->n_mounts;

	for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
		for (size_t i = 0; i < kinds[k].texts->n; i++) {
			int r = kinds[k].plan(kinds[k].texts->v[i], p, err);

			if (r < 0)
				return r;
		}
	if (p->n_mounts > first)
		sort_mounts(p->mounts + first, p->n_mounts - first);
	return 0;
}
