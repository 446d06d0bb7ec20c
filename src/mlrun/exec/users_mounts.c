#include "exec/users_mounts.h"

#include "exec/parts.h"

static void keep_first(struct plan *p, size_t first)
{
	for (size_t i = p->n_mounts; i-- > first;)
		for (size_t j = first; j < i; j++)
			if (strcmp(p->mounts[i].target, p->mounts[j].target) == 0) {
				mlr_log(MLR_WARNING, "'%s' is mounted already: '%s' is left out",
					p->mounts[i].target,
					p->mounts[i].source ? p->mounts[i].source : "");
				plan_mount_drop(p, i);
				break;
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
			TRY(kinds[k].plan(kinds[k].texts->v[i], p, err));
		}
	if (o->given)
		plan_mounts_move(o->given, p);
	plan_mounts_sort(p, first);
	if (exec_dialect_of(o)->first_counts)
		keep_first(p, first);
	return 0;
}
