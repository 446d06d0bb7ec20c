/*
 * mltrain serve: becomes mltrain-serve, because libmicrohttpd, hiredis and libcrypto take longer to
 * load than mltrain takes for everything else before it trains.
 */
#include "cli/mltrain.h"

#include "base/program.h"

int cmd_serve(int argc, char **argv)
{
	auto_free char *path = program_path("mltrain-serve");
	struct mlr_error err = MLR_ERROR_INIT;

	execv(path, argv);
	mlr_fail_errno(&err, "start '%s'", path);
	if (err.code == ENOENT)
		mlr_hint(&err,
			"this mltrain was built without it: install libmicrohttpd-dev and "
			"libhiredis-dev (Debian's names) and build it with --with-serve");
	return main_fail(&err);
}
