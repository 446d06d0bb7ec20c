/* Facts: what exec needs to know of an image, in one small file that pull writes. */
#pragma once

#include "oci/config.h"
#include "store/store.h"

/* The formats in which a store can hold an image; each shows the same files. */
enum store_format {
	STORE_FORMAT_LAYERS = 1 << 0,   /* layers/<hex>/tree, for an overlay */
	STORE_FORMAT_DIR = 1 << 1,      /* dir/<hex>/tree */
	STORE_FORMAT_SQUASHFS = 1 << 2, /* squash/<hex>.sqfs */
};

#define STORE_FORMATS 3

struct store_facts {
	struct oci_config config; /* diff_ids: the layers, lowest first; labels: "org.mlrun.…" */
	unsigned formats;         /* a set of enum store_format: those that the store has */
	int covered;              /* cover/<hex>/tree belongs above the layers */
	char *squash_digest;      /* "sha256:…" of the squashfs file; NULL without one */
	struct strv open;         /* store/open_dirs.h */
};

/* A format as options and JSON spell it: "layers", "dir", "squashfs". */
const char *store_format_name(enum store_format f);
/* The names of a set of formats, with sep between them; to free(). */
char *store_format_names(unsigned formats, const char *sep);
/* The format of a name, or 0. */
unsigned store_format_parse(const char *name);

void store_facts_done(struct store_facts *f);

/* Read or write the facts of a manifest, "sha256:…". Returns 0, -ENOENT, or -EPROTO for a damaged
 * file. */
int store_facts_get(
	struct store *st, const char *manifest, struct store_facts *ret, struct mlr_error *err);
int store_facts_put(
	struct store *st, const char *manifest, const struct store_facts *f, struct mlr_error *err);

/* Add what an older mlrun's facts lack. The time of the image's last use stays. */
int store_facts_renew(struct store *st, const char *manifest, struct mlr_error *err);

/* Does the store have everything that the image in this format needs? 1 or 0; then *missing (may be
 * NULL) names what is missing, "layer sha256:…", to free(). */
int store_facts_whole(struct store *st, const char *manifest, const struct store_facts *f,
	enum store_format format, char **missing);
