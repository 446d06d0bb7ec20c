/* Image names, digests and platforms as users and scripts write them. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "oci/digest.h"
#include "oci/platform.h"
#include "oci/ref.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was taken for a name must be spelled in one way that is taken for the same name. */
static void check_name(const char *text)
{
	struct oci_ref ref = { 0 }, again = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *name = NULL, *second = NULL;

	if (oci_ref_parse(text, &ref, &err) < 0)
		return;
	name = oci_ref_canonical(&ref);
	if (oci_ref_parse(name, &again, &err) < 0)
		abort();
	second = oci_ref_canonical(&again);
	if (strcmp(name, second) != 0 || (ref.digest && oci_digest_check(ref.digest, NULL) < 0))
		abort();
	if (strstr(ref.repository, "..") || strchr(ref.repository, '%'))
		abort();
	oci_ref_is_loopback(&ref);
	oci_ref_done(&ref);
	oci_ref_done(&again);
}

static void check_platform(const char *text)
{
	struct oci_platform p, again;
	char printed[OCI_PLATFORM_SIZE];

	if (oci_platform_parse(text, &p, NULL) < 0)
		return;
	oci_platform_print(&p, printed);
	if (oci_platform_parse(printed, &again, NULL) < 0 || !oci_platform_match(&p, &again))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *text = xstrndup((const char *)data, size);

	check_name(text);
	check_platform(text);
	if (oci_digest_check(text, NULL) == 0 && strlen(text) != OCI_DIGEST_SIZE - 1)
		abort();
	return 0;
}
