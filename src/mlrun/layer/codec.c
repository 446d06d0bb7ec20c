#include "layer/codec.h"

static const struct layer_codec *const codecs[] = { [OCI_PLAIN] = NULL,
#define ROW(ID, name) [OCI_##ID] = &layer_##name,
	OCI_COMPRESSIONS(ROW)
#undef ROW
};

const struct layer_codec *layer_codec(enum oci_compression c)
{
	return codecs[c];
}

enum oci_compression layer_sniff(const void *magic, size_t n)
{
	for (size_t i = 0; i < ARRAY_LEN(codecs); i++)
		if (codecs[i] && codecs[i]->is_magic(magic, n))
			return (enum oci_compression)i;
	return OCI_PLAIN;
}
