/*
 * Facts: what exec needs to know of an image, read in one go from one small file that pull wrote.
 */
#ifndef MLR_STORE_FACTS_H
#define MLR_STORE_FACTS_H

#include "base/error.h"
#include "oci/config.h"
#include "store/store.h"

/* How a store can hold an image whole; each shows the same files. */
enum store_format {
	STORE_FORMAT_LAYERS = 1 << 0,   /* layers/<hex>/tree, to be overlaid */
	STORE_FORMAT_DIR = 1 << 1,      /* dir/<hex>/tree */
	STORE_FORMAT_SQUASHFS = 1 << 2, /* squash/<hex>.sqfs */
};

#define STORE_FORMATS 3

struct store_facts {
	struct oci_config config; /* diff_ids: the layers, lowest first */
	unsigned formats;         /* every enum store_format that the store holds it in */
	int covered;              /* cover/<hex>/tree lies above the layers */
	char *squash_digest;      /* "sha256:…" of the squashfs file; NULL without one */
	struct strv open;         /* store/open_dirs.h; trees do not show their modes */
};

/* "layers", "dir", "squashfs", as options and JSON spell them. */
const char *store_format_name(enum store_format f);
/* The names of several at once, a set of bits, with sep between them; to free(). */
char *store_format_names(unsigned formats, const char *sep);
/* The format of a name, or 0. */
unsigned store_format_parse(const char *name);

#define STORE_FACTS_INIT                               \
	{                                              \
		OCI_CONFIG_INIT, 0, 0, NULL, STRV_INIT \
	}

void store_facts_done(struct store_facts *f);

/* manifest is "sha256:…". Returns 0, -ENOENT, -EPROTO for a file that is not one of ours. */
int store_facts_get(
	struct store *st, const char *manifest, struct store_facts *ret, struct mlr_error *err);
int store_facts_put(
	struct store *st, const char *manifest, const struct store_facts *f, struct mlr_error *err);

/* Facts that an older mlrun wrote: find what they lack. The time of the image's last use stays. */
int store_facts_renew(struct store *st, const char *manifest, struct mlr_error *err);

/* Is everything there that the image in one of its formats consists of? 1 or 0; where it is not,
 * *missing (may be NULL) gets what lacks, "layer sha256:…", to free(). */
int store_facts_whole(struct store *st, const char *manifest, const struct store_facts *f,
	enum store_format format, char **missing);

#endif
