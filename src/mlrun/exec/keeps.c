#include "exec/exec.h"

#include "runtime/probe.h"
#include "store/probe.h"

int exec_store_keeps(struct store *st)
{
	struct filesystem_probe p;
	struct filesystem fs;

	if (filesystem_read(store_fd(st), &fs) == 0 && (fs.quirks & FILESYSTEM_LOCAL))
		return 1;
	if (store_probe_get(st, &p) == 0 && p.upper >= 0)
		return p.upper;
	return store_probe_try(st, runtime_probe, &p, NULL) < 0 || p.upper != 0;
}
