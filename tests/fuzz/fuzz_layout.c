/* What stands at the top of layouts and docker save's archives, and names of images in files. The
 * first byte chooses which. */
#include "base/memory.h"
#include "oci/digest.h"
#include "oci/layout.h"
#include "oci/name.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_index(const char *json, size_t len)
{
	static const char *const which[] = { NULL, "latest", "@0", "@1", "debian:12" };
	struct oci_document d = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	struct oci_platform host;

	if (oci_document_parse(
		    json, len, "application/vnd.oci.image.index.v1+json", NULL, &d, &err) < 0)
		return;
	oci_platform_host(&host);
	for (size_t i = 0; i < sizeof(which) / sizeof(*which); i++) {
		const struct oci_index_entry *e = NULL;
		int r = oci_layout_choose(&d, which[i], &host, &e, &err);

		if (r == 0 && (e < d.entries || e >= d.entries + d.n_entries))
			abort();
		if (r == 1 && which[i])
			abort();
	}
	oci_document_done(&d);
}

static void check_save(const char *json, size_t len)
{
	static const char *const which[] = { NULL, "@0", "@1", "debian:12" };
	struct oci_save s = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	if (oci_save_parse(json, len, &s, &err) < 0)
		return;
	for (size_t i = 0; i < sizeof(which) / sizeof(*which); i++) {
		const struct oci_save_image *im = NULL;
		const char *tag = NULL;

		if (oci_save_choose(&s, which[i], &im, &tag, &err) == 0 && (!im || !im->config))
			abort();
	}
	oci_save_done(&s);
}

/* Whatever a file is called and says, a name comes out that parses as itself. */
static void check_names(const char *text, enum oci_transport t)
{
	struct oci_ref ref = { 0 }, again = { 0 };
	struct oci_name name = OCI_NAME_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	char *canonical;

	if (oci_name_parse(text, &name, &err) == 0)
		free(oci_name_print(&name));
	oci_name_done(&name);

	oci_name_stored(t, text, NULL, &ref);
	oci_ref_done(&ref);
	oci_name_stored(t, "/some/dir", text, &ref);
	if (!ref.registry || ref.digest)
		abort();
	canonical = oci_ref_canonical(&ref);
	if (oci_ref_parse(canonical, &again, &err) < 0)
		abort();
	free(canonical);
	oci_ref_done(&ref);
	oci_ref_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size == 0)
		return 0;
	text = xstrndup((const char *)data + 1, size - 1);
	switch (data[0] % 4) {
	case 0:
		oci_layout_check((const char *)data + 1, size - 1, NULL);
		break;
	case 1:
		check_index((const char *)data + 1, size - 1);
		break;
	case 2:
		check_save((const char *)data + 1, size - 1);
		break;
	default:
		check_names(text, data[0] & 4 ? OCI_DOCKER_ARCHIVE : OCI_LAYOUT);
	}
	free(text);
	return 0;
}
