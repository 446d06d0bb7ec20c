/*
 * Facts: what exec needs to know of an image, read in one go from one small file that pull wrote.
 */
#ifndef MLR_STORE_FACTS_H
#define MLR_STORE_FACTS_H

#include "base/error.h"
#include "oci/config.h"
#include "store/store.h"

struct store_facts {
	struct oci_config config; /* diff_ids: the layers, lowest first */
	int one_tree;             /* dir/<hex>/tree holds it; else layers/<hex>/tree, overlaid */
	int covered;              /* cover/<hex>/tree lies above the layers */
};

#define STORE_FACTS_INIT { OCI_CONFIG_INIT, 0, 0 }

void store_facts_done(struct store_facts *f);

/* manifest is "sha256:…". Returns 0, -ENOENT, -EPROTO for a file that is not one of ours. */
int store_facts_get(struct store *st, const char *manifest, struct store_facts *ret,
	struct mlr_error *err);
int store_facts_put(struct store *st, const char *manifest, const struct store_facts *f,
	struct mlr_error *err);

#endif
