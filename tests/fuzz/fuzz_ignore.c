/* Ignore files: the first line of input is a path, the rest the patterns. What is in a directory
 * that a single pattern leaves out is left out, too. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "build/ignore.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *path = xstrndup((const char *)data, size), *below = NULL;
	char *patterns = strchr(path, '\n');
	struct ignore g = { 0 };

	if (!patterns || size > 512)
		return 0;
	*patterns++ = '\0';
	ignore_parse(&g, patterns);
	below = xasprintf("%s/x", path);
	if (g.n == 1 && path[strspn(path, "/")] && ignore_match(&g, path) &&
		!ignore_match(&g, below))
		abort();
	if (g.n == 0 && ignore_match(&g, path))
		abort();
	ignore_done(&g);
	return 0;
}
