#include "cli/probe.h"

#include "runtime/probe.h"

int cli_probe(int dir_fd, struct format_probe *ret, struct mlr_error *err)
{
	struct runtime_probe p;
	int r = runtime_probe(dir_fd, &p, err);

	if (r < 0)
		return r;
	*ret = (struct format_probe){ p.whiteouts, p.xattrs, p.hard_links, p.overlay };
	return 0;
}
