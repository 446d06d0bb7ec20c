/*
 * mltrain fetch: becomes mltrain-fetch, because libcurl, libarchive and libcrypto take longer to
 * load than mltrain takes for everything else before it trains.
 */
#include "cli/mltrain.h"

#include "base/cleanup.h"
#include "base/program.h"

#include <unistd.h>

int cmd_fetch(int argc, char **argv)
{
	auto_free char *path = program_path("mltrain-fetch");
	struct mlr_error err = MLR_ERROR_INIT;

	(void)argc;
	execv(path, argv);
	mlr_fail_errno(&err, "start '%s'", path);
	return main_fail(&err);
}
