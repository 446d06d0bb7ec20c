/* Separate from config_value.c because the plugin of Slurm needs little else of it. */
#include "base/base.h"
#include "base/config_value.h"

int config_truth(const char *word)
{
	static const char *const yes[] = { "true", "yes", "y", "on", "1" },
				 *const no[] = { "false", "no", "n", "off", "0" };

	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		if (strcasecmp(word, yes[i]) == 0)
			return 1;
		if (strcasecmp(word, no[i]) == 0)
			return 0;
	}
	return -1;
}

int config_is_among(const char *words, const char *word)
{
	size_t len = strlen(word);

	for (; *words; words += strcspn(words, "|,"), words += strspn(words, "|, "))
		if (strcspn(words, "|,") == len && strncmp(words, word, len) == 0)
			return 1;
	return 0;
}
