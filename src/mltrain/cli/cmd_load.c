/* mltrain load: becomes mltrain-load, which links libssl. */
#include "cli/mltrain.h"

int cmd_load(int argc, char **argv)
{
	return main_become("mltrain-load", argv);
}
