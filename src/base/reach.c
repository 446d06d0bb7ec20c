#include "base/reach.h"

const char *const reach_words[REACHES] = {
	[REACH_NOTHING] = "nothing",
	[REACH_CONTEXT] = "files of the context, less those that its ignore file leaves out",
	[REACH_IMAGES] =
		"images by name; in a recipe and in ONBUILD stages and what `--build-context` gives, too",
	[REACH_URLS] =
		"files of the context; URLs and repositories, without the caller's credentials",
	[REACH_NETWORK] = "the network, unless the caller says `--network=none`",
	[REACH_SERVERS] = "the machine's network, servers on its loopback addresses, too",
	[REACH_CACHES] = "directories that the store keeps for builds",
	[REACH_SECRETS] = "what `--secret` and `--ssh` give",
	[REACH_DEVICES] = "CDI devices that `--allow device` gives",
	[REACH_FILES] = "the caller's files and images, by path or name",
	[REACH_VARIABLES] = "the caller's variables, by their names",
};
