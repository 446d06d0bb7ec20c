#include "trainer/backend/backend.h"

#include "base/cleanup.h"
#include "config.h"

#include <string.h>

/* Fastest first: "auto" takes the first. */
static const struct backend *const backends[] = {
#if HAVE_ONEDNN
	&backend_onednn,
#endif
	&backend_reference,
};

const struct backend *backend_find(const char *name)
{
	if (strcmp(name, "auto") == 0)
		return backends[0];
	for (size_t i = 0; i < ARRAY_LEN(backends); i++)
		if (strcmp(backends[i]->name, name) == 0)
			return backends[i];
	return NULL;
}

const char *backend_names(void)
{
#if HAVE_ONEDNN
	return "onednn, reference";
#else
	return "reference (this mltrain was built without oneDNN)";
#endif
}
