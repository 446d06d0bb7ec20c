#include "exec/exec.h"

#include "base/base.h"
#include "runtime/probe.h"
#include "store/probe.h"
#include "store/scratch.h"

int exec_store_keeps(struct store *st)
{
	auto_free char *path = NULL;
	auto_close int dir = -1;
	struct filesystem_probe p;
	struct filesystem fs;

	if (filesystem_read(store_fd(st), &fs) == 0 && (fs.quirks & FILESYSTEM_LOCAL))
		return 1;
	if (store_probe_get(st, &p) == 0 && p.upper >= 0)
		return p.upper;
	if (store_scratch_make(st, "probe", &path, NULL) < 0)
		return 1;
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || runtime_probe(dir, &p, NULL) < 0)
		p.upper = -1;
	else
		store_probe_put(st, &p);
	store_scratch_remove(st, path);
	return p.upper != 0;
}
