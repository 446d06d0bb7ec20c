#include "store/scratch.h"

#include "base/base.h"
#include "store/hold.h"
#include "store/trash.h"

int store_scratch_make(struct store *st, const char *what, char **ret, struct mlr_error *err)
{
	auto_free char *rel = NULL;
	char random[RANDOM_HEX_SIZE];

	TRY(store_hold(st, err));
	random_hex(random);
	rel = xasprintf("tmp/%s-%s.%s", what, random, store_hold_name(st));
	if (mkdirat(store_fd(st), rel, 0700) < 0)
		return mlr_fail_errno(err, "make '%s/%s'", store_path(st), rel);
	*ret = xasprintf("%s/%s", store_path(st), rel);
	return 0;
}

void store_scratch_remove(struct store *st, const char *path)
{
	if (path)
		store_discard(st, path + strlen(store_path(st)) + 1, NULL);
}
