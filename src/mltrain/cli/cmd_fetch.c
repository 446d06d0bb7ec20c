/*
 * mltrain fetch: becomes mltrain-fetch, because libcurl, libarchive and libcrypto take longer to
 * load than mltrain takes for everything else before it trains.
 */
#include "cli/mltrain.h"

int cmd_fetch(int argc, char **argv)
{
	return main_become("mltrain-fetch", argv);
}
