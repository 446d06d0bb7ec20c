#include "oci/compression.h"

#include "base/base.h"

#define OCI_TAR    "application/vnd.oci.image.layer.v1.tar"
#define DOCKER_TAR "application/vnd.docker.image.rootfs.diff.tar"

static const struct {
	const char *name, *type, *docker_type;
} rows[] = { [OCI_PLAIN] = { "none", OCI_TAR, DOCKER_TAR },
#define ROW(ID, name) [OCI_##ID] = { #name, OCI_TAR "+" #name, DOCKER_TAR "." #name },
	OCI_COMPRESSIONS(ROW)
#undef ROW
};

int oci_compression_parse(const char *name, enum oci_compression *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (strcmp(name, rows[i].name) == 0) {
			*ret = (enum oci_compression)i;
			return 0;
		}
	}
	return -ENOENT;
}

int oci_compression_of_type(const char *media_type, enum oci_compression *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (strcmp(media_type, rows[i].type) == 0 ||
			strcmp(media_type, rows[i].docker_type) == 0) {
			*ret = (enum oci_compression)i;
			return 0;
		}
	}
	return -ENOENT;
}

const char *oci_compression_type(enum oci_compression c)
{
	return rows[c].type;
}
