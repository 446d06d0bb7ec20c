/* Finds layers that a registry has already, so that they need not be sent. For push.c. */
#ifndef MLR_PUSH_REUSE_H
#define MLR_PUSH_REUSE_H

#include "base/error.h"
#include "export/documents.h"
#include "oci/compression.h"
#include "oci/ref.h"
#include "registry/registry.h"
#include "store/cache.h"
#include "store/store.h"

#include <pthread.h>

/* Where to look. Shared by threads. */
struct reuse {
	struct store *st;
	struct registry *registry;
	const struct oci_ref *to;
	const struct documents *doc;
	enum oci_compression compression;
	int only;
	pthread_mutex_t lock; /* guards the members below */
	int is_listed;
	struct strv *places; /* for each layer, repositories that may have its original blob */
};

void reuse_done(struct reuse *u);

/* Is layer i's original blob, as the manifest names it, fit for this push? */
int reuse_is_fit(const struct reuse *u, size_t i);

/* Look for layer i's original blob. Returns 1 if the repository had it, 2 if it was mounted, 0 if
 * neither; -errno. */
int reuse_original(struct reuse *u, size_t i, struct mlr_error *err);

/* Look for the blob that layer i became in an earlier push. ret is set also if it returns 0 and the
 * store remembers one. Returns as above. */
int reuse_packed(struct reuse *u, size_t i, struct store_cache_blob *ret, struct mlr_error *err);

/* Remember what layer i became, and that the repository has it. */
void reuse_remember(struct reuse *u, size_t i, struct store_cache_blob *b);

#endif
