#include "base/program.h"

#include "base/cleanup.h"
#include "base/memory.h"

#include <string.h>

char *program_path(const char *name)
{
	auto_free char *self = realpath("/proc/self/exe", NULL);
	char *slash = self ? strrchr(self, '/') : NULL;

	if (slash) {
		*slash = '\0';
		auto_free char *beside = xasprintf("%s/%s", self, name);
		auto_free char *libexec = xasprintf("%s/../libexec/mlrun/%s", self, name);

		if (access(beside, X_OK) == 0)
			return take_ptr(&beside);
		if (access(libexec, X_OK) == 0)
			return take_ptr(&libexec);
	}
	return xasprintf("%s/%s", PKGLIBEXECDIR, name);
}
