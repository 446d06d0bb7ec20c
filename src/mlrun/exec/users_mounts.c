#include "exec/users_mounts.h"

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
			TRY(kinds[k].plan(kinds[k].texts->v[i], p, err));
		}
	if (o->given)
		plan_mounts_move(o->given, p);
	plan_mounts_sort(p, first);
	return 0;
}
