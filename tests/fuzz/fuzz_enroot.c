/* Enroot's /etc/rc, which is read and written again, and the same text as /etc/environment. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "oci/enroot.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int is_equal(const struct strv *a, const struct strv *b)
{
	for (size_t i = 0; a->n == b->n && i < a->n; i++)
		if (strcmp(a->v[i], b->v[i]) != 0)
			return 0;
	return a->n == b->n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_call(oci_config_done) struct oci_config c = { 0 }, again = { 0 };
	auto_free char *text = xstrndup((const char *)data, size), *rc = NULL;

	(void)oci_enroot_is_rc(text);
	oci_enroot_read_rc(text, &c);
	oci_enroot_read_environment(text, &c);
	rc = oci_enroot_rc(&c, "x");
	if (!oci_enroot_is_rc(rc))
		abort();
	oci_enroot_read_rc(rc, &again);
	if (!is_equal(&c.entrypoint, &again.entrypoint) ||
		(c.cmd.n + c.entrypoint.n > 0 && !is_equal(&c.cmd, &again.cmd)) ||
		(c.working_dir && *c.working_dir && strcmp(c.working_dir, again.working_dir) != 0))
		abort();
	return 0;
}
