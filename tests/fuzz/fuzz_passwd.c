/* The passwd and group files of images, which are looked up and merged with the caller's entry. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "exec/parts.h"
#include "runtime/accounts.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is found is what was looked for. */
static void look_up(const char *text, const char *name, unsigned id)
{
	char *f[7];
	auto_free char *line = user_find_line(text, name, id, f);

	if (line &&
		(!f[0] || !f[2] ||
			(name ? strcmp(f[0], name) != 0 : strtoul(f[2], NULL, 10) != id)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *text = xstrndup((const char *)data, size);
	struct plan_identity id = { .uid = 1000,
		.gid = 100,
		.name = (char *)"jo",
		.group = (char *)"users",
		.home = (char *)"/home/jo",
		.shell = (char *)"/bin/sh" };
	auto_free char *passwd = accounts_passwd(text, &id), *group = accounts_group(text, &id);
	char *f[7];

	look_up(text, "jo", 0);
	look_up(text, NULL, 0);
	look_up(text, NULL, 1000);
	if (!passwd || (group && strncmp(group, "users:x:100:\n", 13) != 0))
		abort();
	/* The caller's own entry is the one that counts. */
	auto_free char *mine = user_find_line(passwd, NULL, 1000, f);

	if (!mine || strcmp(f[0], "jo") != 0 || strcmp(f[5], "/home/jo") != 0)
		abort();
	return 0;
}
